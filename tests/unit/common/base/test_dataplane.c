/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of a node's dataplane: summed from its groups, and on the wire. */
#include "hd_dataplane.h"
#include "hd_random.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct own {
	uint64_t drop_token, drop_mac, unknown;
};

static const struct hd_stat own_stats[] = {
	{"drop_token",
	 "packets",
	 "",
	 HD_STAT_COUNTER,
	 HD_STAT_U64,
	 offsetof(struct own, drop_token)},
	{"drop_mac", "packets", "", HD_STAT_COUNTER, HD_STAT_U64, offsetof(struct own, drop_mac)},
	{"tx_packets", "packets", "", HD_STAT_COUNTER, HD_STAT_U64, offsetof(struct own, unknown)},
};
static const struct hd_stat_group own_group = {.name = "server", .stats = own_stats, .count = 3};

static void test_sums(void **state) {
	const char *const ports[2][2] = {{"0", "udp"}, {"1", "dpdk"}}, *const core[] = {"main"};
	const struct hd_port_stats port[2]
		= {{.rx_packets = 5, .tx_bytes = 7, .rx_missed = 1},
		   {.rx_packets = 6, .tx_errors = 2}};
	const struct hd_core_stats cores
		= {.user_seconds = 1.25, .system_seconds = 0.5, .wakeups = 9};
	const struct own own = {.drop_token = 3, .drop_mac = UINT64_MAX, .unknown = 4};
	struct hd_stats *stats = hd_stats_create();
	struct hd_dataplane d = {.rx_packets = 1};

	(void)state;
	assert_non_null(stats);
	hd_stats_add(stats, &hd_port_group, ports[0], &port[0]);
	hd_stats_add(stats, &hd_port_group, ports[1], &port[1]);
	hd_stats_add(stats, &hd_core_group, core, &cores);
	hd_stats_add(stats, &own_group, NULL, &own);
	hd_dataplane_sum(&d, stats);
	hd_stats_destroy(stats);
	assert_int_equal(d.rx_packets, 1 + 5 + 6);
	assert_int_equal(d.tx_bytes, 7);
	assert_int_equal(d.drop_missed, 1);
	assert_int_equal(d.drop_unsent, 2);
	assert_int_equal(d.processor_us, 1750000);
	assert_int_equal(d.wakeups, 9);
	assert_int_equal(d.drop_token, 3); /* of any group */
	assert_true(d.drop_mac == HD_DATAPLANE_VALUE_MAX); /* it stops there */
	assert_int_equal(d.tx_packets, 0); /* of ports only */
}

static void test_reasons(void **state) {
	unsigned reasons = 0;

	(void)state;
	for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++) {
		const char *reason = hd_dataplane_reason(i);
		bool drop = strncmp(hd_dataplane_group.stats[i].name, "drop_", 5) == 0;

		assert_int_equal(reason != NULL, drop);
		reasons += drop;
		if (reason)
			assert_string_equal(reason, hd_dataplane_group.stats[i].name + 5);
	}
	assert_true(reasons > 20);
}

static void test_round_trips(void **state) {
	uint8_t data[HD_DATAPLANE_BYTES_MAX];
	struct hd_random r;

	(void)state;
	hd_random_init(&r, 7);
	for (int round = 0; round < 2000; round++) {
		struct hd_dataplane d = {0}, read;
		size_t bytes;

		for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++) {
			uint64_t shift = hd_random_below(&r, 62);

			if (hd_random_below(&r, 3))
				*hd_dataplane_at(&d, i)
					= hd_random_below(&r, (UINT64_C(2) << shift));
		}
		bytes = hd_dataplane_encode(&d, data);
		assert_true(bytes <= sizeof data);
		assert_int_equal(hd_dataplane_decode(&read, data, bytes), 0);
		assert_memory_equal(&read, &d, sizeof d);
	}
	assert_int_equal(hd_dataplane_encode(&(struct hd_dataplane){0}, data), 0);
}

/* Wrong forms, each refused; and what a newer node may say. */
static void test_forms(void **state) {
	static const struct {
		uint8_t bytes, data[16];
	} wrong[] = {
		{1, {0}}, /* no value */
		{2, {0, 0}}, /* a value of 0 */
		{3, {0, 0x81, 0}}, /* longer than it need be */
		{2, {0, 0x80}}, /* cut off */
		{4, {1, 1, 1, 1}}, /* twice */
		{4, {2, 1, 1, 1}}, /* not ascending */
		{11, {0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}}, /* too long */
		{10, {0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}}, /* too great */
	};
	static const uint8_t newer[] = {0, 5, 250, 0x80, 1, 255, 9};
	static const uint8_t most[] = {0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40};
	struct hd_dataplane d;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		assert_int_equal(hd_dataplane_decode(&d, wrong[i].data, wrong[i].bytes), -EBADMSG);
	assert_int_equal(hd_dataplane_decode(&d, newer, sizeof newer), 0);
	assert_int_equal(d.rx_packets, 5);
	assert_int_equal(hd_dataplane_decode(&d, most, sizeof most), 0);
	assert_true(d.rx_packets == HD_DATAPLANE_VALUE_MAX);
	assert_int_equal(hd_dataplane_decode(&d, NULL, 0), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_round_trips),
		cmocka_unit_test(test_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
