/* SPDX-License-Identifier: BSD-3-Clause */
/* Members' ends against the native executor of the switch: the same worlds as against the tests' own. */
#include "slots_net.h"
#include "switch_frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 150
#define LEASE 9
#define ERROR_BYTES 128

static const struct hd_switch_self self
	= {.mac = {2, 0, 0, 0, 0, 1}, .ipv4 = 0x0a000001, .udp_port = 4773};

static void native_chunk(void *user, struct net *net, uint8_t *data, uint32_t bytes) {
	static uint8_t frame[FRAME_BYTES_MAX];
	const struct frame_ends ends = {
		.to = {2, 0, 0, 0, 0, 9},
		.from = {2, 0, 0, 0, 0, 8},
		.source = 0x0a000002,
		.destination = self.ipv4,
		.destination_port = 4773,
	};
	struct hd_switch_packet packet = {.data = frame};
	const struct hd_switch_copy *copies;
	size_t count;

	memcpy(frame + FRAME_CHUNK, data, bytes);
	packet.bytes = frame_put_udp(frame, &ends, bytes);
	hd_switch_core_burst(user, &packet, 1);
	assert_true(packet.verdict == HD_SWITCH_DROP || packet.verdict == HD_SWITCH_COPY);
	if (packet.verdict == HD_SWITCH_DROP)
		return;
	count = hd_switch_core_copies(user, &packet, &copies);
	for (size_t i = 0; i < count; i++) {
		hd_switch_address(&self, &copies[i], frame);
		net_result(net, copies[i].port, frame + FRAME_CHUNK, packet.bytes - FRAME_CHUNK);
	}
}

static void native_waits(void *user, uint64_t members) {
	char error[ERROR_BYTES] = "";

	if (hd_switch_core_lease_waits(user, LEASE, members, error, sizeof(error)) < 0)
		fail_msg("waits: %s", error);
}

static void native_destroy(void *user) {
	hd_switch_core_destroy(user);
}

static void native_make(struct net *net) {
	struct hd_switch_core_config config = {.self = self, .memory_bytes = 1 << 26};
	struct hd_switch_member members[NET_MEMBERS_MAX];
	struct hd_switch_lease lease = {
		.id = LEASE,
		.job = NET_JOB,
		.epoch = NET_EPOCH,
		.attempt = NET_ATTEMPT,
		.shard = NET_SHARD,
		.dtype = net->config.dtype,
		.count = net->config.count,
		.slot_count = net->config.slots,
		.waits = (UINT64_C(1) << net->config.members) - 1,
		.member_count = net->config.members,
		.members = members,
	};
	struct hd_switch_core *core;
	char error[ERROR_BYTES] = "";

	for (uint32_t m = 0; m < net->config.members; m++)
		members[m] = (struct hd_switch_member){
			.token = net_token(m),
			.worker = (uint16_t)(100 + m),
			.copy = {
				.port = (uint16_t)m,
				.mac = {2, 0, 0, 0, 1, (uint8_t)m},
				.ipv4 = 0x0a000100 + m,
				.udp_port = 4773,
				.token = net_result_token(m),
			},
		};
	if (hd_switch_core_create(&config, &core, error, sizeof(error)) < 0
	    || hd_switch_core_lease_set(core, &lease, error, sizeof(error)) < 0)
		fail_msg("switch: %s", error);
	net->way = (struct net_switch){native_chunk, native_waits, native_destroy, core};
}

static void counters(const struct net *net, uint64_t values[HD_SWITCH_COUNTER_COUNT]) {
	hd_switch_core_counters(net->way.self, values);
}

static void test_faults(void **state) {
	uint64_t total[HD_SWITCH_COUNTER_COUNT] = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t values[HD_SWITCH_COUNTER_COUNT], all = 0, chunks;
		struct net_config config;
		struct net *net;

		net_draw(seed, &config);
		config.make = native_make;
		net = net_once(&config, 2, 60 * HD_SECOND);
		if (!net_ended(net))
			fail_msg("seed %llu: no end", (unsigned long long)seed);
		net_check(net, (UINT64_C(1) << config.members) - 1);
		net_check_same(net);
		counters(net, values);
		chunks = (config.values - 1) / config.count + 1;
		assert_int_equal(values[HD_SWITCH_COUNTER_completed], chunks);
		assert_int_equal(values[HD_SWITCH_COUNTER_absorbed], chunks * (config.members - 1));
		for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
			total[i] += values[i];
		for (int i = HD_SWITCH_COUNTER_drop_malformed; i <= HD_SWITCH_COUNTER_drop_exponent;
		     i++)
			all += values[i];
		assert_int_equal(all, 0); /* nobody sends what the lease does not know */
		net_free(net);
	}
	assert_true(total[HD_SWITCH_COUNTER_repeated] > 100);
	assert_true(total[HD_SWITCH_COUNTER_drop_duplicate] > 100);
	assert_int_equal(total[HD_SWITCH_COUNTER_overtaken], 0);
}

/* One that dies at any time and is taken out: all others take the round, or none. */
static void test_dies(void **state) {
	uint32_t taken = 0, given_up = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct net_config config = net_usual;
		struct hd_random random;
		struct net net;
		uint32_t done = 0;

		hd_random_init(&random, seed);
		config.seed = seed;
		config.loss = 0.02;
		config.values = 6400;
		config.make = native_make;
		net_open(&net, &config);
		net_fill(&net, 1);
		net_start(&net);
		net_run(&net, hd_random_below(&random, 3 * HD_MS));
		net.members[1].dead = true;
		net_run(&net, net.now + hd_random_below(&random, 5 * HD_MS));
		net.way.waits(net.way.self, 13);
		net_run(&net, net.now + 20 * HD_SECOND);
		assert_true(net_ended(&net));
		for (uint32_t m = 0; m < 4; m++)
			done += m != 1 && net_stats(&net, m)->state == HD_SLOTS_DONE;
		assert_true(done == 3 || done == 0);
		if (done == 3)
			net_check(&net, net_stats(&net, 0)->members);
		taken += done == 3;
		given_up += done == 0;
		net_close(&net);
	}
	assert_true(taken > 0 && given_up > 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_dies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
