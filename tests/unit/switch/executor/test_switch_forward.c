/* SPDX-License-Identifier: BSD-3-Clause */
/* Ordinary frames through the native switch: by Ethernet address, learned or set, by route, and lost on purpose. */
#include "hd_bytes.h"
#include "hd_limits.h"
#include "hd_random.h"
#include "switch_frames.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SERVICE 0x0a000001
#define COUNT(list) (sizeof(list) / sizeof(*(list)))
#define COUNTER(name) HD_SWITCH_COUNTER_##name

static const struct hd_switch_core_config settings = {
	.self = {
		.mac = {2, 0, 0, 0, 0, 0xfe},
		.router_mac = {2, 0, 0, 0, 0, 0xff},
		.ipv4 = SERVICE,
		.udp_port = HD_SWITCH_UDP_PORT,
	},
	.hash_key = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9},
};
static const uint8_t router[6] = {2, 0, 0, 0, 0, 0xff};

static struct hd_switch_core *core;
static char words[HD_TEXT_BYTES_MAX];
static uint8_t frame[FRAME_BYTES_MAX];

static int begin(void **state) {
	return hd_switch_core_create(&settings, &core, words, sizeof words);
}

static int end(void **state) {
	hd_switch_core_destroy(core);
	return 0;
}

static struct hd_switch_packet pass(uint32_t bytes, uint16_t port, enum hd_switch_counter counter) {
	struct hd_switch_packet packet = {.data = frame, .bytes = bytes, .port = port};
	uint64_t before[HD_SWITCH_COUNTER_COUNT], after[HD_SWITCH_COUNTER_COUNT];

	hd_switch_core_counters(core, before);
	hd_switch_core_burst(core, &packet, 1);
	hd_switch_core_counters(core, after);
	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
		assert_int_equal(after[i] - before[i], i == (int)counter);
	assert_int_equal(packet.bytes, bytes);
	return packet;
}

static void set_mac(uint8_t *mac, uint32_t number) {
	mac[0] = 2;
	mac[1] = 1;
	hd_put32(mac + 2, number);
}

/* A datagram from station `from` to `to`, by their Ethernet addresses. */
static uint32_t datagram(uint32_t to, uint32_t from) {
	struct frame_ends ends
		= {.source = 0x0a000200, .destination = 0x0b000001, .destination_port = 9};

	set_mac(ends.to, to);
	set_mac(ends.from, from);
	memset(frame + FRAME_CHUNK, 0x77, 60);
	return frame_put_udp(frame, &ends, 60);
}

static int set_station(uint32_t number, uint16_t port) {
	uint8_t mac[6];

	set_mac(mac, number);
	return hd_switch_core_mac_set(core, mac, port, words, sizeof words);
}

static void test_by_ethernet(void **state) {
	uint8_t untouched[200];
	uint32_t bytes = datagram(1, 2);
	struct hd_switch_packet packet;

	memcpy(untouched, frame, sizeof untouched);
	assert_int_equal(pass(bytes, 3, COUNTER(flooded)).verdict, HD_SWITCH_FLOOD);
	assert_int_equal(set_station(1, 7), 0);
	packet = pass(bytes, 3, COUNTER(forwarded));
	assert_int_equal(packet.verdict, HD_SWITCH_FORWARD);
	assert_int_equal(packet.port, 7);
	assert_int_equal(pass(bytes, 7, COUNTER(drop_no_route)).verdict, HD_SWITCH_DROP);
	assert_int_equal(set_station(1, 8), 0);
	assert_int_equal(pass(bytes, 3, COUNTER(forwarded)).port, 8);
	assert_memory_equal(frame, untouched, sizeof untouched);
	assert_int_equal(hd_switch_core_mac_clear(core, frame), 0);
	assert_int_equal(hd_switch_core_mac_clear(core, frame), -ENOENT);
	pass(bytes, 3, COUNTER(flooded));
	frame[0] |= 1; /* multicast */
	pass(bytes, 3, COUNTER(flooded));
	for (uint32_t cut = 0; cut < 14; cut++)
		pass(cut, 3, COUNTER(drop_no_route));
	pass(14, 3, COUNTER(flooded));
	assert_int_equal(hd_switch_core_mac_set(core, frame, 1, words, sizeof words), -EINVAL);
	assert_string_equal(words, "mac: 030100000001 (one station's)");
	assert_int_equal(set_station(1, HD_SWITCH_PORTS_MAX), -EINVAL);
	assert_string_equal(words, "port: 64 (0 to 63)");
}

static void test_learning(void **state) {
	struct hd_switch_mac macs[4];
	uint8_t mac[6];

	pass(datagram(1, 2), 3, COUNTER(flooded));
	pass(datagram(2, 1), 4, COUNTER(flooded)); /* not on */
	hd_switch_core_time(core, 100 * HD_SECOND);
	hd_switch_core_learn(core, 10 * HD_SECOND);
	pass(datagram(1, 2), 3, COUNTER(flooded));
	assert_int_equal(pass(datagram(2, 1), 4, COUNTER(forwarded)).port, 3);
	assert_int_equal(pass(datagram(1, 2), 3, COUNTER(forwarded)).port, 4);
	hd_switch_core_time(core, 109 * HD_SECOND);
	assert_int_equal(pass(datagram(1, 2), 5, COUNTER(forwarded)).port, 4); /* 2 has moved */
	assert_int_equal(pass(datagram(2, 9), 6, COUNTER(forwarded)).port, 5);
	assert_int_equal(hd_switch_core_macs(core, macs, 4), 3);
	assert_true(macs[0].learned && macs[1].learned && macs[2].learned);
	hd_switch_core_time(core, 111 * HD_SECOND);
	pass(datagram(1, 2), 5, COUNTER(flooded)); /* 1 is silent since 100 */
	assert_int_equal(hd_switch_core_macs(core, NULL, 0), 2);
	/* A configured station stays, whichever port claims it and however long. */
	assert_int_equal(set_station(2, 6), 0);
	pass(datagram(1, 2), 9, COUNTER(flooded));
	assert_int_equal(pass(datagram(2, 1), 4, COUNTER(forwarded)).port, 6);
	hd_switch_core_time(core, 1000 * HD_SECOND);
	assert_int_equal(hd_switch_core_macs(core, macs, 4), 1);
	assert_false(macs[0].learned);
	set_mac(mac, 2);
	assert_memory_equal(macs[0].mac, mac, 6);
	assert_int_equal(macs[0].port, 6);
	/* The zero address and group addresses are not learned. */
	pass(datagram(2, 1), 4, COUNTER(forwarded));
	(void)datagram(2, 1);
	frame[6] |= 1;
	pass(102, 4, COUNTER(forwarded));
	memset(frame + 6, 0, 6);
	pass(102, 4, COUNTER(forwarded));
	assert_int_equal(hd_switch_core_macs(core, NULL, 0), 2);
	hd_switch_core_learn(core, 0);
	assert_int_equal(hd_switch_core_macs(core, NULL, 0), 1);
}

/* A station that moves within a burst is found at its new port: a lookup for one frame is not reused for the next. */
static void test_moves_within_a_burst(void **state) {
	static const struct {
		uint32_t to, from;
		uint16_t in, out; /* HD_SWITCH_PORTS_MAX: flooded; in: dropped */
	} steps[] = {
		{1, 2, 3, HD_SWITCH_PORTS_MAX},
		{1, 2, 3, HD_SWITCH_PORTS_MAX},
		{2, 1, 4, 3},
		{2, 1, 4, 3},
		{9, 2, 5, HD_SWITCH_PORTS_MAX},
		{2, 1, 4, 5},
		{2, 1, 6, 5},
		{1, 2, 5, 6},
		{1, 2, 6, 6},
		{2, 1, 6, 6},
		{2, 1, 4, 6},
	};
	uint8_t frames[COUNT(steps)][FRAME_BYTES_MAX];
	struct hd_switch_packet packets[COUNT(steps)];
	uint64_t counters[HD_SWITCH_COUNTER_COUNT];

	hd_switch_core_time(core, 100 * HD_SECOND);
	hd_switch_core_learn(core, 10 * HD_SECOND);
	for (size_t i = 0; i < COUNT(steps); i++) {
		uint32_t bytes = datagram(steps[i].to, steps[i].from);

		memcpy(frames[i], frame, bytes);
		packets[i] = (struct hd_switch_packet
		){.data = frames[i], .bytes = bytes, .port = steps[i].in};
	}
	hd_switch_core_burst(core, packets, COUNT(steps));
	for (size_t i = 0; i < COUNT(steps); i++) {
		if (steps[i].out == HD_SWITCH_PORTS_MAX) {
			assert_int_equal(packets[i].verdict, HD_SWITCH_FLOOD);
			continue;
		}
		assert_int_equal(
			packets[i].verdict,
			steps[i].out == steps[i].in ? HD_SWITCH_DROP : HD_SWITCH_FORWARD
		);
		assert_int_equal(packets[i].port, steps[i].out);
	}
	hd_switch_core_counters(core, counters);
	assert_int_equal(counters[COUNTER(flooded)], 3);
	assert_int_equal(counters[COUNTER(forwarded)], 6);
	assert_int_equal(counters[COUNTER(drop_no_route)], 2);
}

/* A flood of source addresses fills the table, and evicts no station. */
static void test_learning_has_a_limit(void **state) {
	hd_switch_core_learn(core, 10 * HD_SECOND);
	/* A station that is learned and then configured does not count as learned any more. */
	for (uint32_t i = 0; i < 100; i++) {
		pass(datagram(0xffffff, 0x3000000 + i), 1, COUNTER(flooded));
		assert_int_equal(set_station(0x3000000 + i, 1), 0);
	}
	for (uint32_t i = 0; i < HD_SWITCH_MACS_MAX + 1000; i++)
		pass(datagram(0xffffff, i), (uint16_t)(i % 8), COUNTER(flooded));
	assert_int_equal(hd_switch_core_macs(core, NULL, 0), HD_SWITCH_MACS_MAX + 100);
	for (uint32_t i = 0; i < 100; i++) {
		(void)datagram(0x3000000 + i, 1);
		assert_int_equal(hd_switch_core_mac_clear(core, frame), 0);
	}
	for (uint32_t i = 0; i < HD_SWITCH_MACS_MAX; i++)
		assert_int_equal(set_station(0x1000000 + i, 1), 0);
	assert_int_equal(set_station(0x1000000, 2), 0);
	assert_int_equal(set_station(0x2000000, 2), -ENOSPC);
	assert_string_equal(words, "mac: one more than HD_SWITCH_MACS_MAX (16384)");
	hd_switch_core_time(core, 20 * HD_SECOND);
	assert_int_equal(hd_switch_core_macs(core, NULL, 0), HD_SWITCH_MACS_MAX);
	for (uint32_t i = 0; i < HD_SWITCH_MACS_MAX; i++)
		assert_int_equal(
			pass(datagram(0x1000000 + i, 1), 5, COUNTER(forwarded)).port, i == 0 ? 2 : 1
		);
}

/* --- routes ----------------------------------------------------------------------------------- */

static int set_route(uint32_t prefix, uint8_t bits, uint16_t port) {
	struct hd_switch_route route = {.prefix = prefix, .bits = bits, .port = port};

	set_mac(route.mac, prefix ^ bits);
	return hd_switch_core_route_set(core, &route, words, sizeof words);
}

static uint32_t to_router(uint32_t destination, uint8_t ttl) {
	uint32_t bytes = datagram(1, 2);

	memcpy(frame, router, 6);
	hd_put32(frame + 30, destination);
	frame[22] = ttl;
	hd_put16(frame + 24, frame_ip_checksum(frame));
	return bytes;
}

static void test_routes(void **state) {
	struct hd_switch_packet packet;
	uint8_t mac[6];
	uint32_t bytes = to_router(0x0b010203, 9);

	pass(bytes, 1, COUNTER(drop_no_route));
	assert_int_equal(set_route(0x0b000000, 8, 2), 0);
	packet = pass(bytes, 1, COUNTER(routed));
	assert_int_equal(packet.verdict, HD_SWITCH_FORWARD);
	assert_int_equal(packet.port, 2);
	set_mac(mac, 0x0b000000 ^ 8);
	assert_memory_equal(frame, mac, 6);
	assert_memory_equal(frame + 6, router, 6);
	assert_int_equal(frame[22], 8);
	assert_int_equal(hd_get16(frame + 24), frame_ip_checksum(frame));
	assert_int_equal(set_route(0x0b010000, 16, 3), 0);
	assert_int_equal(set_route(0x0b010203, 32, 4), 0);
	assert_int_equal(set_route(0, 0, 5), 0);
	assert_int_equal(pass(to_router(0x0b010203, 9), 4, COUNTER(routed)).port, 4);
	assert_int_equal(pass(to_router(0x0b010202, 9), 1, COUNTER(routed)).port, 3);
	assert_int_equal(pass(to_router(0x0bff0203, 9), 1, COUNTER(routed)).port, 2);
	assert_int_equal(pass(to_router(0x0c010203, 9), 1, COUNTER(routed)).port, 5);
	assert_int_equal(hd_switch_core_route_clear(core, 0x0b010000, 16), 0);
	assert_int_equal(hd_switch_core_route_clear(core, 0x0b010000, 16), -ENOENT);
	assert_int_equal(hd_switch_core_route_clear(core, 0x0b010000, 200), -ENOENT);
	assert_int_equal(pass(to_router(0x0b010202, 9), 1, COUNTER(routed)).port, 2);
	pass(to_router(0x0b010203, 1), 1, COUNTER(drop_ttl));
	pass(to_router(0x0b010203, 0), 1, COUNTER(drop_ttl));
	bytes = to_router(0x0b010203, 9);
	frame[14] = 0x65; /* not IPv4: an Ethernet frame to another host */
	pass(bytes, 1, COUNTER(flooded));
	pass(33, 1, COUNTER(flooded));
	assert_int_equal(set_route(0x0b010203, 31, 1), -EINVAL);
	assert_string_equal(words, "prefix: 0b010203/31 (0 to 32 bits, the others 0)");
	assert_int_equal(set_route(0, 33, 1), -EINVAL);
	assert_int_equal(set_route(0, 0, 64), -EINVAL);
}

static void test_route_limit(void **state) {
	for (uint32_t i = 0; i < HD_SWITCH_ROUTES_MAX; i++)
		assert_int_equal(set_route(i << 8, 24, (uint16_t)(i % 64)), 0);
	assert_int_equal(set_route(0, 24, 1), 0); /* replaced */
	assert_int_equal(set_route(0, 0, 1), -ENOSPC);
	assert_string_equal(words, "prefix: one more than HD_SWITCH_ROUTES_MAX (1024)");
	for (uint32_t i = 1; i < HD_SWITCH_ROUTES_MAX; i++)
		assert_int_equal(pass(to_router(i << 8 | 7, 9), 1, COUNTER(routed)).port, i % 64);
	for (uint32_t i = 0; i < HD_SWITCH_ROUTES_MAX; i++)
		assert_int_equal(hd_switch_core_route_clear(core, i << 8, 24), 0);
	pass(to_router(0x100, 9), 1, COUNTER(drop_no_route));
}

/* The checksum that is updated with the time to live equals the recomputed one, for every header. */
static void test_checksum_of_routed(void **state) {
	struct hd_random random;

	hd_random_init(&random, 5);
	assert_int_equal(set_route(0, 0, 5), 0);
	for (int i = 0; i < 100000; i++) {
		uint32_t bytes = to_router((uint32_t)hd_random_u64(&random), 0);

		frame[22] = (uint8_t)(2 + hd_random_below(&random, 254));
		hd_put16(frame + 18, (uint16_t)hd_random_u64(&random));
		hd_put32(frame + 26, (uint32_t)hd_random_u64(&random));
		hd_put16(frame + 24, frame_ip_checksum(frame));
		pass(bytes, 1, COUNTER(routed));
		assert_int_equal(hd_get16(frame + 24), frame_ip_checksum(frame));
	}
}

/* A frame that looks like a chunk for us but for one field is forwarded unchanged. */
static void test_not_for_us(void **state) {
	static const struct {
		size_t at;
		uint8_t flip;
	} cases[] = {
		{12, 1}, /* ethertype */
		{14, 3}, /* options */
		{20, 0x20}, /* more fragments */
		{21, 1}, /* a later fragment */
		{23, 1}, /* protocol */
		{33, 1}, /* address */
		{37, 1}, /* port */
		{42, 1}, /* magic */
		{44, 2}, /* control */
		{44, 5}, /* hello */
		{44, 1} /* type 0 */
	};
	struct frame_ends ends = {.destination = SERVICE, .destination_port = 4773};
	struct hd_chunk_header header = {.count = 32, .dtype = 3, .round = 1, .token = 1};
	uint32_t values[32] = {0};

	set_mac(ends.to, 1);
	set_mac(ends.from, 2);
	assert_int_equal(set_station(1, 7), 0);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint32_t bytes = frame_put_chunk(frame, &ends, &header, values);

		frame[cases[i].at] ^= cases[i].flip;
		pass(bytes, 1, COUNTER(forwarded));
	}
	pass(frame_put_chunk(frame, &ends, &header, values), 1, COUNTER(drop_token));
	(void)frame_put_chunk(frame, &ends, &header, values);
	pass(45, 1, COUNTER(forwarded));
}

/* --- losses ----------------------------------------------------------------------------------- */

static void test_simulator(void **state) {
	uint32_t bytes = datagram(1, 2), state_of = 12345, lost = 0;
	const uint32_t threshold = (1 << 24) / 10;

	assert_int_equal(hd_switch_core_simulate(core, 0, 1, words, sizeof words), -EINVAL);
	assert_int_equal(
		hd_switch_core_simulate(core, 1, (1 << 24) + 1, words, sizeof words), -EINVAL
	);
	assert_string_equal(words, "threshold: 16777217 (0 to 16777216)");
	assert_int_equal(hd_switch_core_simulate(core, 12345, threshold, words, sizeof words), 0);
	for (int i = 0; i < 10000; i++) {
		bool drop;

		state_of ^= state_of << 13;
		state_of ^= state_of >> 17;
		state_of ^= state_of << 5;
		drop = state_of >> 8 < threshold;
		lost += drop;
		pass(bytes, 1, drop ? COUNTER(drop_simulated) : COUNTER(flooded));
	}
	assert_in_range(lost, 900, 1100);
	assert_int_equal(hd_switch_core_simulate(core, 1, 1 << 24, words, sizeof words), 0);
	for (int i = 0; i < 100; i++)
		pass(bytes, 1, COUNTER(drop_simulated));
	assert_int_equal(hd_switch_core_simulate(core, 0, 0, words, sizeof words), 0);
	pass(bytes, 1, COUNTER(flooded));
}

/* --- bursts ----------------------------------------------------------------------------------- */

/* Frames that are often like the one before, and else differ in one thing that matters, or should not. */
static uint32_t
vary(struct hd_random *random, struct hd_switch_packet *packet, uint8_t data[FRAME_BYTES_MAX]) {
	struct frame_ends ends = {.source = 0x0a000200, .destination = 0x0b000001};
	struct hd_chunk_header header = {.count = 32, .dtype = 3, .round = 1, .token = 1};
	uint32_t values[32] = {0}, bytes;
	static uint64_t flow[3];

	if (hd_random_chance(random, 0.2))
		flow[hd_random_below(random, 3)] = hd_random_below(random, 4);
	set_mac(ends.to, (uint32_t)flow[0]);
	set_mac(ends.from, (uint32_t)flow[1]);
	packet->port = (uint16_t)flow[2];
	ends.destination_port = HD_SWITCH_UDP_PORT;
	ends.tos = hd_random_chance(random, 0.2) ? 3 : 0;
	if (flow[0] == 3)
		memcpy(ends.to, router, sizeof router);
	if (hd_random_chance(random, 0.2))
		ends.destination = SERVICE;
	bytes = frame_put_chunk(data, &ends, &header, values);
	if (hd_random_chance(random, 0.2))
		data[12 + hd_random_below(random, 34)] ^= 1;
	if (hd_random_chance(random, 0.1))
		bytes = 10 + (uint32_t)hd_random_below(random, 40);
	return bytes;
}

static void expect_the_same(struct hd_switch_core *other) {
	uint64_t ours[HD_SWITCH_COUNTER_COUNT], theirs[HD_SWITCH_COUNTER_COUNT];

	hd_switch_core_counters(core, ours);
	hd_switch_core_counters(other, theirs);
	assert_memory_equal(ours, theirs, sizeof ours);
}

/* A lookup for one frame of a burst is never wrong for another: one at a time they get the same results. */
static void burst_and_alone(struct hd_random *random, struct hd_switch_core *alone) {
	static uint8_t data[HD_SWITCH_BURST_MAX][FRAME_BYTES_MAX];
	struct hd_switch_packet burst[HD_SWITCH_BURST_MAX] = {0};
	const size_t count = 1 + hd_random_below(random, HD_SWITCH_BURST_MAX);
	struct hd_switch_packet single[HD_SWITCH_BURST_MAX];
	static uint8_t copy[HD_SWITCH_BURST_MAX][FRAME_BYTES_MAX];

	for (size_t i = 0; i < count; i++) {
		burst[i].data = data[i];
		burst[i].bytes = vary(random, &burst[i], data[i]);
		memcpy(copy[i], data[i], sizeof copy[i]);
		single[i] = burst[i];
		single[i].data = copy[i];
	}
	hd_switch_core_burst(core, burst, count);
	for (size_t i = 0; i < count; i++) {
		hd_switch_core_burst(alone, &single[i], 1);
		assert_int_equal(burst[i].verdict, single[i].verdict);
		assert_int_equal(burst[i].bytes, single[i].bytes);
		if (burst[i].verdict == HD_SWITCH_FORWARD)
			assert_int_equal(burst[i].port, single[i].port);
		assert_memory_equal(data[i], copy[i], burst[i].bytes);
	}
	expect_the_same(alone);
}

static void test_burst_is_one_after_the_other(void **state) {
	const struct hd_switch_route route
		= {.prefix = 0x0b000000, .bits = 8, .mac = {2, 1}, .port = 5};
	struct hd_random random;
	struct hd_switch_core *alone;

	hd_random_init(&random, 20);
	assert_int_equal(hd_switch_core_create(&settings, &alone, words, sizeof words), 0);
	for (int round = 0; round < 3000; round++) {
		struct hd_switch_core *both[2] = {core, alone};
		uint32_t station = (uint32_t)hd_random_below(&random, 4);
		uint64_t what = hd_random_below(&random, 100);
		uint8_t mac[6];

		set_mac(mac, station);
		for (int i = 0; i < 2; i++) {
			if (what < 10)
				(void)hd_switch_core_mac_set(both[i], mac, 6, words, sizeof words);
			else if (what < 20)
				(void)hd_switch_core_mac_clear(both[i], mac);
			else if (what < 30)
				hd_switch_core_learn(both[i], station * HD_SECOND);
			else if (what < 32)
				(void
				)hd_switch_core_route_set(both[i], &route, words, sizeof words);
			else if (what < 34)
				(void)hd_switch_core_simulate(
					both[i], 1, station << 22, words, sizeof words
				);
			else if (what < 36)
				(void
				)hd_switch_core_mac_set(both[i], router, 4, words, sizeof words);
			hd_switch_core_time(both[i], (hd_ns)round * HD_MS);
		}
		burst_and_alone(&random, alone);
	}
	hd_switch_core_destroy(alone);
}

static void test_settings_that_are_refused(void **state) {
	struct hd_switch_core_config bad = settings;
	struct hd_switch_core *none = NULL;

	bad.self.ipv4 = 0;
	assert_int_equal(hd_switch_core_create(&bad, &none, words, sizeof words), -EINVAL);
	bad = settings;
	bad.self.udp_port = 0;
	assert_int_equal(hd_switch_core_create(&bad, &none, words, sizeof words), -EINVAL);
	bad = settings;
	bad.self.router_mac[0] = 1;
	assert_int_equal(hd_switch_core_create(&bad, &none, words, sizeof words), -EINVAL);
	assert_null(none);
	hd_switch_core_destroy(NULL);
	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++) {
		assert_true(strlen(hd_switch_counter_name((enum hd_switch_counter)i)) > 3);
		assert_true(strlen(hd_switch_counter_help((enum hd_switch_counter)i)) > 10);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_by_ethernet, begin, end),
		cmocka_unit_test_setup_teardown(test_learning, begin, end),
		cmocka_unit_test_setup_teardown(test_moves_within_a_burst, begin, end),
		cmocka_unit_test_setup_teardown(test_learning_has_a_limit, begin, end),
		cmocka_unit_test_setup_teardown(test_routes, begin, end),
		cmocka_unit_test_setup_teardown(test_route_limit, begin, end),
		cmocka_unit_test_setup_teardown(test_checksum_of_routed, begin, end),
		cmocka_unit_test_setup_teardown(test_not_for_us, begin, end),
		cmocka_unit_test_setup_teardown(test_simulator, begin, end),
		cmocka_unit_test_setup_teardown(test_burst_is_one_after_the_other, begin, end),
		cmocka_unit_test(test_settings_that_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
