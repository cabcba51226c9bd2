/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_limits.h"
#include "hd_switch_numbers.h"
#include "slots_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct net_config net_usual = {
	.seed = 1,
	.members = 4,
	.slots = 32,
	.count = 64,
	.dtype = HD_DTYPE_FIXED32,
	.exponent = -24,
	.values = 20011,
	.rate_bps = 200000000,
	.link_bps = 220000000,
	.latency = 200 * HD_US,
	.reorder_ns = 500 * HD_US,
};

const struct hd_slots_stats *net_stats(const struct net *net, uint32_t member) {
	return hd_slots_stats(net->members[member].slots);
}

void net_check(const struct net *net, uint64_t members) {
	const struct net_config *config = &net->config;
	float *want = calloc(config->values, sizeof *want);
	int16_t *exponents = calloc(config->values / config->count + 1, sizeof *exponents);

	net_reference(net, members, want, exponents);
	for (uint32_t m = 0; m < config->members; m++) {
		const struct net_member *member = &net->members[m];

		if (member->dead)
			continue;
		assert_int_equal(net_stats(net, m)->state, HD_SLOTS_DONE);
		assert_int_equal(net_stats(net, m)->members, members);
		if (config->dtype == HD_DTYPE_FIXED32)
			assert_memory_equal(member->out, want, config->values * sizeof *want);
	}
	for (uint64_t i = 0; i < config->values; i++) {
		int e = exponents[i / config->count];
		double sum = 0, size = 0, off;

		for (uint32_t m = 0; m < config->members; m++) {
			double x = (double)net->members[m].in[i];

			sum += members >> m & 1 ? x : 0;
			size += fabs(x);
		}
		if (config->average)
			sum /= __builtin_popcountll(members);
		if (!isfinite(sum)) {
			float out = net->members[0].out[i];

			assert_true(isnan(sum) ? isnan(out) : (double)out == sum);
			continue;
		}
		off = fabs((double)net->members[0].out[i] - sum);
		/* A half of a lane each, and the result's rounding to fp32. */
		if (config->dtype == HD_DTYPE_FIXED32)
			assert_true(off <= config->members * ldexp(0.5, e) + 0x1p-22 * fabs(sum));
		else
			assert_true(off <= config->members * 0x1p-23 * size);
	}
	free(exponents);
	free(want);
}

void net_check_same(const struct net *net) {
	const struct net_member *first = NULL;

	for (uint32_t m = 0; m < net->config.members; m++) {
		if (net->members[m].dead || net_stats(net, m)->state != HD_SLOTS_DONE)
			continue;
		if (first)
			assert_memory_equal(
				first->out, net->members[m].out, net->config.values * sizeof(float)
			);
		first = &net->members[m];
	}
}

bool net_dies(struct net *net, hd_ns within) {
	struct hd_random random;
	uint32_t done = 0;

	hd_random_init(&random, net->config.seed);
	net_run(net, hd_random_below(&random, within));
	net->members[1].dead = true;
	net_run(net, net->now + hd_random_below(&random, 5 * HD_MS));
	net->sw.waits(net->sw.self, 13);
	net_run(net, net->now + 20 * HD_SECOND);
	assert_true(net_ended(net));
	for (uint32_t m = 0; m < 4; m++) {
		if (m == 1)
			continue;
		done += net_stats(net, m)->state == HD_SLOTS_DONE;
		if (net_stats(net, m)->state == HD_SLOTS_FAILED)
			assert_int_equal(net_stats(net, m)->reason, HD_REASON_VOID);
	}
	assert_true(done == 3 || done == 0);
	return done == 3;
}

void net_take_out(struct net *net) {
	net_run(net, 3 * HD_MS);
	net->sw.waits(net->sw.self, 7);
	net_run(net, net->now + HD_SECOND);
	assert_true(net_ended(net));
	assert_int_equal(net_stats(net, 3)->state, HD_SLOTS_FAILED);
	assert_int_equal(net_stats(net, 3)->reason, HD_REASON_LEASE);
}

struct hd_chunk_header net_result_header(const struct net *net, uint32_t chunk) {
	const uint16_t slots = net->config.slots;

	return (struct hd_chunk_header){
		.attempt = NET_ATTEMPT,
		.dtype = net->config.dtype,
		.job = NET_JOB,
		.epoch = NET_EPOCH,
		.worker = UINT16_MAX,
		.round = 1,
		.exponent = net->config.exponent,
		.shard = NET_SHARD,
		.slot
		= (uint16_t)(chunk % slots | (chunk / slots % 2 ? HD_SWITCH_SLOT_VERSION : 0)),
		.chunk = chunk,
		.version = 15,
		.count = net->config.count,
		.next = 100,
		.token = net_result_token(0),
	};
}

void net_forge(struct net *net, const struct hd_chunk_header *header, size_t bytes) {
	static const uint8_t payload[HD_CHUNK_BYTES_MAX] = {1};
	struct hd_slots_stats before = *net_stats(net, 0);
	enum hd_slots_result result
		= hd_slots_take(net->members[0].slots, net->now, header, payload, bytes);

	assert_int_equal(result, HD_SLOTS_MISMATCH);
	before.mismatches++;
	assert_memory_equal(&before, net_stats(net, 0), sizeof before);
}

void net_begin(struct net *net, const struct net_config *config, float scale) {
	net_open(net, config);
	net_fill(net, scale);
	net_start(net);
}

struct net *net_once(const struct net_config *config, float scale, hd_ns until) {
	struct net *net = malloc(sizeof *net);

	assert_non_null(net);
	net_begin(net, config, scale);
	net_run(net, until);
	return net;
}

void net_free(struct net *net) {
	net_close(net);
	free(net);
}

void net_draw(uint64_t seed, struct net_config *config) {
	struct hd_random random;

	hd_random_init(&random, seed);
	*config = net_usual;
	config->seed = seed;
	config->members = 1 + (uint32_t)hd_random_below(&random, 9);
	config->slots = (uint16_t)(1 + hd_random_below(&random, 100));
	config->count = (uint16_t)(1 + hd_random_below(&random, 100));
	config->values = 1 + hd_random_below(&random, 20000);
	config->dtype = hd_random_chance(&random, 0.3) ? HD_DTYPE_FP32 : HD_DTYPE_FIXED32;
	if (config->dtype == HD_DTYPE_FP32)
		config->exponent = 0;
	config->first = hd_random_below(&random, 1000);
	if (hd_random_chance(&random, 0.2))
		config->rate_bps = 0;
	config->average = hd_random_chance(&random, 0.3);
	config->loss = 0.1 * hd_random_unit(&random);
	config->duplicate = 0.1 * hd_random_unit(&random);
	config->reorder = 0.2 * hd_random_unit(&random);
	config->start_spread = hd_random_below(&random, 20 * HD_MS);
	config->poll_late
		= hd_random_chance(&random, 0.5) ? hd_random_below(&random, 2 * HD_MS) : 0;
	if (hd_random_chance(&random, 0.3))
		config->link_bps = 0;
	if (hd_random_chance(&random, 0.3))
		config->strange = hd_random_chance(&random, 0.3) ? 0.05 : 0.0005;
}
