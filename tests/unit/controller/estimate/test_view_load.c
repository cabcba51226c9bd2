/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of monitors in the view: shares worked by hand, totals, reports that are not believed. */
#include "hd_limits.h"
#include "hd_view.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MBIT 1e6
#define TENTH (100 * HD_MS)

static struct hd_view *view_of(double bps) {
	struct hd_view *view = NULL;

	assert_int_equal(hd_view_create(bps, &view), 0);
	return view;
}

static void assert_near(double value, double wanted) {
	if (!(fabs(value - wanted) <= 1e-6 * wanted))
		fail_msg("%g instead of %g", value, wanted);
}

/* An interval in which ours rests; each of `flows` elastic flows has `each`. */
static struct hd_view_load others(hd_ns at, double steady, uint32_t flows, double each) {
	return (struct hd_view_load){
		.at = at,
		.span = TENTH,
		.others_bps = steady + flows * each,
		.beside_ours_bps = -1,
		.steady_bps = steady,
		.elastic_bps = flows * each,
		.flows = flows,
	};
}

static void shares(void **state) {
	struct hd_view *view = view_of(200 * MBIT);
	struct hd_view_load load = others(HD_SECOND, 0, 4, 50 * MBIT);

	(void)state;
	assert_near(hd_view_share(view, 3, HD_SECOND, 1), 200 * MBIT);
	/* Four flows fill it: a fifth gets a fifth, and one of weight 4 a half. */
	hd_view_load(view, 3, &load);
	assert_near(hd_view_share(view, 3, HD_SECOND, 1), 40 * MBIT);
	assert_near(hd_view_share(view, 3, HD_SECOND, 4), 100 * MBIT);
	/* Four that are content with 10 each leave the rest. */
	load = others(2 * HD_SECOND, 0, 4, 10 * MBIT);
	hd_view_load(view, 3, &load);
	assert_near(hd_view_share(view, 3, 2 * HD_SECOND, 1), 160 * MBIT);
	/* 20 that never give way, and two flows that fill the rest. */
	load = others(3 * HD_SECOND, 20 * MBIT, 2, 90 * MBIT);
	hd_view_load(view, 3, &load);
	assert_near(hd_view_share(view, 3, 3 * HD_SECOND, 1), 60 * MBIT);
	/* Nothing left at all is still something. */
	load = others(4 * HD_SECOND, 400 * MBIT, 0, 0);
	hd_view_load(view, 3, &load);
	assert_true(hd_view_share(view, 3, 4 * HD_SECOND, 1) > 0);
	assert_near(hd_view_share(view, 2, 4 * HD_SECOND, 1), 200 * MBIT); /* another link */
	hd_view_destroy(view);
}

/* Two flows are held down to 25 each by our four on a full link: they would give way to one of ours no more than
 * a flow does. Without that knowledge our own greed would confirm itself. */
static void our_own_weight(void **state) {
	struct hd_view *view = view_of(200 * MBIT);
	struct hd_view_load load = others(HD_SECOND, 0, 2, 30 * MBIT);

	(void)state;
	load.ours_bps = load.pressing_bps = 140 * MBIT;
	load.beside_ours_bps = 60 * MBIT;
	load.weight = 4;
	hd_view_load(view, 0, &load);
	assert_near(hd_view_share(view, 0, HD_SECOND, 1), 200 * MBIT / 3);
	assert_near(hd_view_share(view, 0, HD_SECOND, 4), 400 * MBIT / 3);
	/* Of one of ours with 170 two that have 15 each are no rivals: they have what they want. */
	load = others(2 * HD_SECOND, 0, 2, 15 * MBIT);
	load.ours_bps = load.pressing_bps = 170 * MBIT;
	load.beside_ours_bps = 30 * MBIT;
	load.weight = 1;
	hd_view_load(view, 0, &load);
	assert_near(hd_view_share(view, 0, 2 * HD_SECOND, 1), 170 * MBIT);
	hd_view_destroy(view);
}

/* A monitor that fell silent is forgotten; its late words too. */
static void silence(void **state) {
	struct hd_view *view = view_of(200 * MBIT);
	struct hd_view_load load = others(10 * HD_SECOND, 0, 1, 200 * MBIT);

	(void)state;
	hd_view_load(view, 0, &load);
	assert_near(hd_view_share(view, 0, 10 * HD_SECOND, 1), 100 * MBIT);
	load = others(9 * HD_SECOND, 0, 0, 0);
	hd_view_load(view, 0, &load);
	assert_near(hd_view_share(view, 0, 11 * HD_SECOND, 1), 100 * MBIT);
	assert_near(hd_view_share(view, 0, 12 * HD_SECOND, 1), 200 * MBIT);
	assert_true(hd_view_covers(view, 0, 12 * HD_SECOND, 12 * HD_SECOND));
	hd_view_destroy(view);
}

/* The bytes that passed beside a transfer, from reports that it overlapped. */
static void beside(void **state) {
	struct hd_view *view = view_of(200 * MBIT);
	struct hd_view_load load = others(HD_SECOND, 0, 1, 80 * MBIT);

	(void)state;
	hd_view_load(view, 0, &load);
	load = others(HD_SECOND + TENTH, 0, 1, 40 * MBIT);
	load.beside_ours_bps = 20 * MBIT; /* it had more while ours was silent */
	hd_view_load(view, 0, &load);
	assert_near(hd_view_others_bps(view, 0, HD_SECOND - TENTH, HD_SECOND), 80 * MBIT);
	assert_near(
		hd_view_others_bps(view, 0, HD_SECOND - TENTH / 2, HD_SECOND + TENTH / 2), 50 * MBIT
	);
	assert_true(hd_view_others_bps(view, 0, 2 * HD_SECOND, 3 * HD_SECOND) == 0);
	assert_true(hd_view_others_bps(view, 9, 0, 3 * HD_SECOND) == 0);
	assert_true(hd_view_covers(view, 0, HD_SECOND + TENTH, HD_SECOND + TENTH));
	assert_false(hd_view_covers(view, 0, HD_SECOND + TENTH + 1, HD_SECOND + 2 * TENTH));
	hd_view_destroy(view);
}

/* A link that carries more than it is believed to, of whomever, is believed to carry that. */
static void totals_raise(void **state) {
	const uint32_t path[1] = {0};
	const double none[1] = {0};
	struct hd_view *view = view_of(100 * MBIT);
	struct hd_view_load load;

	(void)state;
	hd_view_sample(
		view,
		&(struct hd_view_sample){
			.at = HD_SECOND,
			.started = HD_SECOND / 2,
			.bytes = 1000000,
			.rate_bps = 50 * MBIT,
			.path_count = 1,
			.path = path,
			.beside_bps = none,
		}
	);
	assert_near(hd_view_estimate(view, 0).capacity_bps, 50 * MBIT);
	for (hd_ns at = 2 * HD_SECOND; at < 2 * HD_SECOND + 3 * TENTH; at += TENTH) {
		load = others(at, 0, 2, 90 * MBIT);
		hd_view_load(view, 0, &load);
	}
	/* Over a short time it may have gone into a queue. */
	assert_near(hd_view_estimate(view, 0).capacity_bps, 50 * MBIT);
	for (hd_ns at = 3 * HD_SECOND; at < 3 * HD_SECOND + 6 * TENTH; at += TENTH) {
		load = others(at, 0, 2, 90 * MBIT);
		hd_view_load(view, 0, &load);
	}
	assert_near(hd_view_estimate(view, 0).capacity_bps, 180 * MBIT);
	hd_view_destroy(view);
}

/* The load of concurrent transfers is computed; where a monitor counted, a link has not carried more than that. */
static void counted_beats_estimated(void **state) {
	const uint32_t path[1] = {0};
	const double estimated[1] = {150 * MBIT};
	struct hd_view_load load = others(HD_SECOND, 0, 0, 0);
	struct hd_view *view = view_of(100 * MBIT);
	const struct hd_view_sample sample = {
		.at = HD_SECOND,
		.started = HD_SECOND - TENTH,
		.bytes = 1000000,
		.rate_bps = 100 * MBIT,
		.limited = 1,
		.path_count = 1,
		.path = path,
		.beside_bps = estimated,
	};

	(void)state;
	load.ours_bps = load.total_bps = 190 * MBIT;
	hd_view_load(view, 0, &load);
	hd_view_sample(view, &sample);
	assert_near(hd_view_estimate(view, 0).capacity_bps, 190 * MBIT);
	hd_view_destroy(view);
}

static void nonsense(void **state) {
	struct hd_view *view = view_of(200 * MBIT);
	struct hd_view_load bad[6];

	(void)state;
	for (int i = 0; i < 6; i++)
		bad[i] = others(HD_SECOND, 0, 1, 50 * MBIT);
	bad[0].span = 0;
	bad[1].others_bps = NAN;
	bad[2].elastic_bps = INFINITY;
	bad[3].steady_bps = -1;
	bad[4].pressing_bps = NAN;
	bad[5].total_bps = -INFINITY;
	for (int i = 0; i < 6; i++)
		hd_view_load(view, 0, &bad[i]);
	bad[0] = others(HD_SECOND, 0, 1, 50 * MBIT);
	hd_view_load(view, HD_LINKS_MAX, &bad[0]);
	assert_near(hd_view_share(view, 0, HD_SECOND, 1), 200 * MBIT);
	assert_near(hd_view_share(view, HD_LINKS_MAX, HD_SECOND, 1), 200 * MBIT);
	hd_view_destroy(view);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares),
		cmocka_unit_test(our_own_weight),
		cmocka_unit_test(silence),
		cmocka_unit_test(beside),
		cmocka_unit_test(totals_raise),
		cmocka_unit_test(counted_beats_estimated),
		cmocka_unit_test(nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
