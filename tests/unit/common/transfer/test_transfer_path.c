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

/* An acknowledgement each millisecond, of `arrived` packets that arrived and `lost` packets that were lost. */
static hd_ns hear_after(
	struct hd_path *path,
	hd_ns now,
	hd_ns span,
	hd_ns rtt,
	uint32_t arrived,
	uint32_t lost
) {
	struct hd_ack_info info = {
		.acked_bytes = arrived * PACKET,
		.lost_bytes = lost * PACKET,
		.lost_bursts = lost,
		.rtt = rtt,
	};
	const hd_ns until = now + span;

	for (; now < until; now += HD_MS) {
		info.lost_sent_at = lost > 0 ? now - rtt : 0;
		hd_path_on_ack(path, now, &info);
	}
	return now;
}

static hd_ns hear(struct hd_path *path, hd_ns now, hd_ns span, uint32_t arrived, uint32_t lost) {
	return hear_after(path, now, span, HD_MS, arrived, lost);
}

static void test_path_ignores_little_loss(void **state) {
	struct hd_path path;
	double before;

	(void)state;
	hd_path_init(&path, PACKET);
	hd_path_start(&path, T0, 1, 1000000000);
	before = path.window_bytes;
	hear(&path, T0, 100 * HD_MS, 99, 1);
	assert_true(path.window_bytes >= before);
	assert_true(path.loss_random == 0 && path.trial.began == 0);
	hd_path_stop(&path);
}

/* 10 %, and as much while less is sent: that is no congestion, and grants are of what arrives. */
static void test_path_finds_random_loss(void **state) {
	const uint64_t granted = 400000000;
	struct hd_path path;
	hd_ns now = T0;
	double before;

	(void)state;
	hd_path_init(&path, PACKET);
	hd_path_start(&path, now, 1, granted);
	now = hear(&path, now, 20 * HD_MS, 30, 0);
	before = path.window_bytes;
	while (path.trial.began == 0 && now < T0 + HD_SECOND)
		now = hear(&path, now, HD_MS, 27, 3);
	/* 27 packets a millisecond arrive: 325 Mbit/s */
	assert_in_range(hd_path_pacing_bps(&path, now, granted), 200000000, 260000000);
	while (path.trial.began != 0 && now < T0 + HD_SECOND)
		now = hear(&path, now, HD_MS, 18, 2);
	assert_true(now < T0 + 100 * HD_MS);
	assert_true(path.loss_random > 0.08 && path.loss_random < 0.12);
	now = hear(&path, now, 200 * HD_MS, 27, 3);
	assert_true(path.window_bytes >= before && path.trial.began == 0);
	assert_in_range(hd_path_pacing_bps(&path, now, granted), 1.35 * granted, 1.45 * granted);
	/* It is gone: nothing is made up for any more. */
	now = hear(&path, now, 500 * HD_MS, 30, 0);
	assert_true(path.loss_random < 0.001);
	assert_true(hd_path_pacing_bps(&path, now, granted) <= 1.26 * granted);
	hd_path_stop(&path);
}

/* Loss that ends when less is sent is congestion, also where no delay shows the queue. */
static void test_path_finds_its_own_loss(void **state) {
	struct hd_path path;
	hd_ns now = T0;
	double before;

	(void)state;
	hd_path_init(&path, PACKET);
	hd_path_start(&path, now, 1, 400000000);
	now = hear(&path, now, 20 * HD_MS, 30, 0);
	before = path.window_bytes;
	while (path.trial.began == 0 && now < T0 + HD_SECOND)
		now = hear(&path, now, HD_MS, 27, 3);
	assert_true(path.window_bytes >= before);
	while (path.trial.began != 0 && now < T0 + HD_SECOND)
		now = hear(&path, now, HD_MS, 20, 0);
	assert_true(now < T0 + 100 * HD_MS);
	assert_true(path.window_bytes < 0.75 * before);
	assert_true(path.loss_random == 0);
	hd_path_stop(&path);
}

/* A trial in which hardly anything is sent is inconclusive and ends; until the next one loss is congestion. */
static void test_path_trial_ends(void **state) {
	struct hd_path path;
	hd_ns now = T0, began;
	double before;

	(void)state;
	hd_path_init(&path, PACKET);
	hd_path_start(&path, now, 1, 400000000);
	while (path.trial.began == 0 && now < T0 + HD_SECOND)
		now = hear(&path, now, HD_MS, 27, 3);
	began = path.trial.began;
	assert_true(began > 0);
	hear(&path, now + 300 * HD_MS, HD_MS, 1, 0);
	assert_true(path.trial.began == began);
	now = hear(&path, now + 600 * HD_MS, HD_MS, 1, 0);
	assert_true(path.trial.began == 0 && path.loss_random == 0);
	before = path.window_bytes;
	hear(&path, now, 50 * HD_MS, 27, 3);
	assert_true(path.trial.began == 0 && path.window_bytes < before / 2);
	hd_path_stop(&path);
}

/*
 * Other transfers fill the queue from our first packet on, so that the round trip never grows: the session's messages
 * know a shorter one. Loss is congestion then, and a trial that has begun before is given up.
 */
static void test_path_standing_queue(void **state) {
	struct hd_path path;
	hd_ns now = T0;
	double before;

	(void)state;
	hd_path_init(&path, PACKET);
	hd_path_hear_rtt(&path, 0); /* not measured */
	hd_path_start(&path, now, 1, 400000000);
	while (path.trial.began == 0 && now < T0 + HD_SECOND)
		now = hear(&path, now, HD_MS, 27, 3);
	assert_true(path.trial.began > 0);
	before = path.window_bytes;
	hd_path_hear_rtt(&path, 300 * HD_US);
	now = hear(&path, now, 4 * HD_MS, 27, 3);
	assert_true(path.trial.began == 0 && path.window_bytes < 0.75 * before);
	hear(&path, now, 50 * HD_MS, 27, 3);
	assert_true(path.trial.began == 0 && path.window_bytes < before / 2);
	hd_path_stop(&path);
	/* A queue as short as our own bursts' is none. */
	now = T0;
	hd_path_init(&path, PACKET);
	hd_path_hear_rtt(&path, 700 * HD_US);
	hd_path_start(&path, now, 1, 400000000);
	while (path.trial.began == 0 && now < T0 + HD_SECOND)
		now = hear(&path, now, HD_MS, 27, 3);
	assert_true(path.trial.began > 0);
	hd_path_stop(&path);
}

/* Beside a TCP flow that keeps a queue of 20 ms full: of transfers that follow one another, none takes more of the
 * queue than congestion control has left to the one before. After a pause of 50 ms the grant counts. */
static void test_path_grant_in_a_queue(void **state) {
	const uint64_t granted = 50000000;
	const double full = (double)granted / 8e3 * 20;
	struct hd_ack_info marked = {.acked_bytes = PACKET, .rtt = 20 * HD_MS, .marked = 1};
	struct hd_path path;
	hd_ns now = T0;

	(void)state;
	hd_path_init(&path, PACKET);
	hd_path_hear_rtt(&path, 300 * HD_US);
	hd_path_start(&path, now, 1, granted);
	now = hear_after(&path, now, 300 * HD_MS, 20 * HD_MS, 2, 0);
	hd_path_on_ack(&path, now, &marked);
	now = hear_after(&path, now, 100 * HD_MS, 20 * HD_MS, 2, 0);
	hd_path_stop(&path);
	path.window_bytes = 30.0 * PACKET;
	for (int i = 0; i < 5; i++) {
		hd_path_start(&path, now + HD_MS, 1, granted);
		now = hear_after(&path, now + HD_MS, 100 * HD_MS, 20 * HD_MS, 2, 0);
		hd_path_set_rate(&path, now, granted);
		hd_path_stop(&path);
		assert_true(path.window_bytes == 30.0 * PACKET);
	}
	hd_path_start(&path, now + 60 * HD_MS, 1, granted);
	assert_true(path.window_bytes > full);
	hd_path_stop(&path);
	/* also after a longer one, that halves the window */
	path.window_bytes = 30.0 * PACKET;
	hd_path_start(&path, now + 2 * HD_SECOND, 1, granted);
	assert_true(path.window_bytes > full);
	hd_path_stop(&path);
}

/* A machine that stood still for 300 ms is no queue: with it for the range of the delay, a full queue of 20 ms would be
 * little, and loss in it no congestion. */
static void test_path_after_a_pause(void **state) {
	struct hd_path path;
	struct hd_ack_info late = {.acked_bytes = PACKET, .rtt = 300 * HD_MS};
	hd_ns now = T0;
	double before;

	(void)state;
	hd_path_init(&path, PACKET);
	hd_path_start(&path, now, 1, 50000000);
	now = hear(&path, now, 100 * HD_MS, 4, 0);
	now += 300 * HD_MS;
	for (int i = 0; i < 4; i++)
		hd_path_on_ack(&path, now, &late);
	now = hear(&path, now, 200 * HD_MS, 4, 0);
	now = hear_after(&path, now, 200 * HD_MS, 20 * HD_MS, 4, 0);
	before = path.window_bytes;
	hear_after(&path, now, HD_MS, 20 * HD_MS, 4, 1);
	assert_true(path.loss_average < 0.02);
	assert_true(path.window_bytes < 0.75 * before);
	hd_path_stop(&path);
}

/* A chunk for a switch's slots is acknowledged when all members have sent it: a trial would slow down all of them. */
static void test_path_into_slots(void **state) {
	struct hd_path path;
	double before;

	(void)state;
	hd_path_init(&path, PACKET);
	path.slots = true;
	hd_path_start(&path, T0, 1, 400000000);
	before = path.window_bytes;
	hear(&path, T0, 50 * HD_MS, 27, 3);
	assert_true(path.trial.began == 0 && path.window_bytes < before / 2);
	hd_path_stop(&path);
}

/* Where packets leave so fast that the delay of a short queue is noise, loss above 2 % is congestion. */
static void test_path_fast_loss(void **state) {
	struct hd_path path;
	double before;

	(void)state;
	hd_path_init(&path, PACKET);
	hd_path_start(&path, T0, 1, 10000000000);
	hear(&path, T0, 20 * HD_MS, 800, 0);
	before = path.window_bytes;
	hear(&path, T0 + 20 * HD_MS, 180 * HD_MS, 760, 40);
	assert_true(path.window_bytes < before / 2);
	hd_path_stop(&path);
	/* The next grant is held back by it while it is fresh, and not much longer. */
	before = path.window_bytes;
	hd_path_start(&path, T0 + 220 * HD_MS, 1, 10000000000);
	assert_true(path.window_bytes == before);
	hd_path_stop(&path);
	hd_path_start(&path, T0 + 300 * HD_MS, 1, 10000000000);
	assert_true(path.window_bytes >= 1e10 / 8e3);
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
		cmocka_unit_test(test_path_ignores_little_loss),
		cmocka_unit_test(test_path_finds_random_loss),
		cmocka_unit_test(test_path_finds_its_own_loss),
		cmocka_unit_test(test_path_trial_ends),
		cmocka_unit_test(test_path_standing_queue),
		cmocka_unit_test(test_path_grant_in_a_queue),
		cmocka_unit_test(test_path_after_a_pause),
		cmocka_unit_test(test_path_into_slots),
		cmocka_unit_test(test_path_fast_loss),
		cmocka_unit_test(test_path_idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
