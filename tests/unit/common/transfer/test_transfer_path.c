/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion control of a path: windows, weights, what counts as congestion. */
#include "hd_cc.h"
#include "hd_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PACKET ((size_t)1506)
#define T0 (100 * HD_SECOND)

/* --- path ------------------------------------------------------------------------------- */

static void test_path_grant(void **state) {
	struct hd_path path;
	struct hd_ack_info info = {.acked_bytes = PACKET, .rtt = HD_MS};

	(void)state;
	hd_path_init(&path, PACKET);
	assert_int_equal(hd_path_rto(&path), HD_RTO_INITIAL_US * HD_US);
	hd_path_on_ack(&path, T0, &info);
	assert_in_range(hd_path_rto(&path), HD_RTO_MIN_US * HD_US, 4 * HD_MS);
	/* a window of rate x RTT at once, and at most 1.25 of the grant */
	hd_path_start(&path, T0, 1, 1000000000);
	assert_in_range(hd_path_window(&path), 125000, 200000);
	assert_in_range(hd_path_pacing_bps(&path, T0, 1000000000), 1000000000, 1250000000);
	/* without a grant the path's window paces */
	assert_true(hd_path_pacing_bps(&path, T0, 0) < 2000000000);
	hd_path_stop(&path);
}

static void test_path_weight(void **state) {
	double decrease[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct hd_path path;
		struct hd_ack_info info = {.acked_bytes = 10 * PACKET, .rtt = HD_MS};
		double before;

		hd_path_init(&path, PACKET);
		hd_path_start(&path, T0, (float)(1 << i), 0);
		path.window_bytes = 100.0 * PACKET;
		path.full_at = T0;
		for (hd_ns t = T0; t < T0 + 20 * HD_MS; t += HD_MS)
			hd_path_on_ack(&path, t, &info);
		for (hd_ns t = T0 + 20 * HD_MS; t < T0 + 24 * HD_MS; t += HD_MS) {
			info.rtt = 3 * HD_MS;
			hd_path_on_ack(&path, t, &info);
		}
		before = path.window_bytes;
		info.lost_bytes = PACKET;
		info.lost_bursts = 1;
		info.lost_sent_at = T0 + 20 * HD_MS;
		hd_path_on_ack(&path, T0 + 24 * HD_MS, &info);
		decrease[i] = 1 - path.window_bytes / before;
	}
	/* one loss takes 30 % of one of w flows' windows */
	assert_true(decrease[0] > 0.29 && decrease[0] < 0.31);
	assert_true(decrease[1] > 0.14 && decrease[1] < 0.16);
	assert_true(decrease[2] > 0.07 && decrease[2] < 0.08);
}

static void test_path_ignores_random_loss(void **state) {
	struct hd_path path;
	struct hd_ack_info info = {
		.acked_bytes = 99 * PACKET, .lost_bytes = PACKET, .lost_bursts = 1, .rtt = HD_MS};
	double before;

	(void)state;
	hd_path_init(&path, PACKET);
	hd_path_start(&path, T0, 1, 1000000000);
	before = path.window_bytes;
	for (hd_ns t = T0; t < T0 + 100 * HD_MS; t += HD_MS) {
		info.lost_sent_at = t;
		hd_path_on_ack(&path, t, &info);
	}
	assert_true(path.window_bytes >= before);
	/* 5 % is congestion whatever the delay says */
	info.acked_bytes = 19 * PACKET;
	for (hd_ns t = T0 + 100 * HD_MS; t < T0 + 200 * HD_MS; t += HD_MS) {
		info.lost_sent_at = t;
		hd_path_on_ack(&path, t, &info);
	}
	assert_true(path.window_bytes < before / 2);
	hd_path_stop(&path);
	/* The next grant is held back by it while it is fresh, and not much longer. */
	before = path.window_bytes;
	hd_path_start(&path, T0 + 220 * HD_MS, 1, 1000000000);
	assert_true(path.window_bytes == before);
	hd_path_stop(&path);
	hd_path_start(&path, T0 + 300 * HD_MS, 1, 1000000000);
	assert_true(path.window_bytes >= 1e9 / 8e3);
	hd_path_stop(&path);
}

static void test_path_idle(void **state) {
	struct hd_path path;
	double before;

	(void)state;
	hd_path_init(&path, PACKET);
	path.window_bytes = 1000.0 * PACKET;
	path.slow_start_bytes = path.window_bytes;
	path.active_at = T0;
	hd_path_start(&path, T0 + HD_SECOND / 2, 1, 0);
	before = path.window_bytes;
	hd_path_stop(&path);
	assert_true(before > 999.0 * PACKET); /* remembered */
	hd_path_start(&path, T0 + 3 * HD_SECOND, 1, 0);
	assert_true(path.window_bytes < before / 7 && path.window_bytes > before / 9);
	assert_true(path.slow_start_bytes > before / 2);
	hd_path_stop(&path);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_path_grant),
		cmocka_unit_test(test_path_weight),
		cmocka_unit_test(test_path_ignores_random_loss),
		cmocka_unit_test(test_path_idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
