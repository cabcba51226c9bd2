/* SPDX-License-Identifier: BSD-3-Clause */
/* Scale-in: knee, curves, speed, decision and cost, by MLLess' formulas (arXiv 2206.05786, 4.2) and our own numbers. */
#include "hd_random.h"
#include "hd_scalein.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static double falls(double t) {
	return 0.7 + 2 * exp(-t / 20);
}

static double hyperbola(double t) {
	return 1 / (0.05 * t + 0.5) + 0.6;
}

static double constant(double t) {
	return 1;
}

static void observe(struct hd_scalein *s, double (*loss)(double), uint64_t from, uint64_t to) {
	for (uint64_t step = from; step < to; step++)
		assert_int_equal(hd_scalein_update(s, step, loss((double)step), 8, 0.1), 0);
}

/* Each as the reference says it: a step at which the knee is declared, and where it is. */
static void check_knee(double (*loss)(double), double slope, uint64_t declared, uint32_t where) {
	struct hd_scalein_options options = hd_scalein_defaults();
	struct hd_scalein s;

	options.knee_slope = slope;
	hd_scalein_init(&s, &options, 0);
	observe(&s, loss, 0, declared);
	assert_int_equal(s.phase, HD_SCALEIN_STEEP);
	observe(&s, loss, declared, declared + 1);
	assert_int_equal(s.phase, HD_SCALEIN_FLAT);
	assert_int_equal(s.candidate, where);
	assert_int_equal(s.knee_step, where);
}

static void test_knee(void **state) {
	struct hd_scalein_options options = hd_scalein_defaults();
	struct hd_scalein s;

	check_knee(falls, -1e-3, 110, 103);
	check_knee(falls, -7.5e-5, 162, 156);
	check_knee(hyperbola, -1e-3, 136, 130);
	options.knee_slope = -1e-3;
	hd_scalein_init(&s, &options, 0);
	observe(&s, constant, 0, 600);
	assert_int_equal(s.phase, HD_SCALEIN_STEEP);
}

/* A long history is thinned out: each point stands for more steps, and the knee is found where it was. */
static void test_long(void **state) {
	struct hd_scalein_options options = hd_scalein_defaults();
	struct hd_scalein s;

	options.knee_slope = -1e-7;
	hd_scalein_init(&s, &options, 0);
	observe(&s, falls, 0, 5000);
	assert_int_equal(s.phase, HD_SCALEIN_FLAT);
	/* 2 / 20 e^(-t / 20) = 1e-7 at t = 276; both averages see ten more points of each side */
	assert_in_range(s.knee_step, 276, 350);
	hd_scalein_init(&s, &options, 0);
	for (uint64_t step = 0; step < 20000; step++) { /* never flat */
		double loss = 30000 - (double)step;

		assert_int_equal(hd_scalein_update(&s, step, loss, 8, 0.1), 0);
	}
	assert_int_equal(s.phase, HD_SCALEIN_STEEP);
	assert_int_equal(s.now.stride, 32);
	for (uint32_t i = 0; i + 1 < s.now.count; i++) {
		assert_int_equal(s.now.points[i + 1].step - s.now.points[i].step, 32);
		assert_float_equal(
			s.now.points[i].loss, 30000 - (s.now.points[i].step - 15.5), 1e-2
		);
	}
}

/* A curve's own points give it back: its values, and what comes after them. */
static void check_fit(const struct hd_curve *truth, uint32_t count, bool weights) {
	struct hd_curve_point points[HD_CURVE_POINTS_MAX];
	struct hd_curve fitted;

	for (uint32_t i = 0; i < count; i++)
		points[i] = (struct hd_curve_point){i + 1, (float)hd_curve_at(truth, i + 1.0)};
	assert_int_equal(hd_curve_fit(truth->kind, points, count, weights, &fitted), 0);
	for (uint32_t i = count / 4; i < 2 * count; i++)
		assert_float_equal(hd_curve_at(&fitted, i), hd_curve_at(truth, i), 2e-3);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(fitted.theta[i] >= 0);
}

static void test_fit(void **state) {
	const struct hd_curve references[] = {
		{HD_CURVE_REFERENCE, {0.02, 0.5, 1.1, 0.6}, 1, 0},
		{HD_CURVE_REFERENCE, {0.3, 0.4, 0.7, 0}, 1, 0},
		{HD_CURVE_REFERENCE, {0.0004, 0.3, 2, 0.3}, 1, 0},
	};
	const struct hd_curve currents[] = {
		{HD_CURVE_CURRENT, {0.0001, 0.02, 0.5, 0.6}, 1, 0},
		{HD_CURVE_CURRENT, {0, 0.05, 0.5, 0}, 1, 0},
		{HD_CURVE_CURRENT, {0.002, 0, 0.4, 0.1}, 1, 0},
	};

	for (uint32_t i = 0; i < 3; i++) {
		check_fit(&references[i], 100, true);
		check_fit(&references[i], 700, true);
		check_fit(&currents[i], 100, false);
		check_fit(&currents[i], 12, false);
	}
}

/* Fewer than five points are fitted by nothing, and the curve is as it was. Constant, rising and negative ones are. */
static void test_fit_odd(void **state) {
	struct hd_curve_point points[64];
	struct hd_curve curve = {.unit = 7}, before = curve;

	for (uint32_t i = 0; i < 64; i++)
		points[i] = (struct hd_curve_point){i, 1};
	assert_int_equal(hd_curve_fit(HD_CURVE_CURRENT, points, 4, false, &curve), -EINVAL);
	assert_memory_equal(&curve, &before, sizeof curve);
	assert_int_equal(hd_curve_fit(HD_CURVE_CURRENT, points, 64, false, &curve), 0);
	assert_float_equal(hd_curve_at(&curve, 100), 1, 1e-3);
	for (uint32_t i = 0; i < 64; i++)
		points[i].loss = 1 + (float)i / 64;
	assert_int_equal(hd_curve_fit(HD_CURVE_REFERENCE, points, 64, true, &curve), 0);
	assert_true(hd_curve_at(&curve, 70) > 1 && hd_curve_at(&curve, 70) < 2);
	for (uint32_t i = 0; i < 64; i++)
		points[i].loss = -1;
	assert_int_equal(hd_curve_fit(HD_CURVE_REFERENCE, points, 64, true, &curve), -EINVAL);
}

static void test_speed(void **state) {
	struct hd_scalein_options options = hd_scalein_defaults();
	struct hd_scalein s;
	uint64_t step = 0;
	double a, b;

	hd_scalein_init(&s, &options, 0);
	assert_false(hd_scalein_tau(&s.speed, &a, &b));
	for (uint32_t workers = 8; workers >= 4; workers -= 2) {
		double tau = 0.05 + 0.01 * workers;

		for (uint32_t i = 0; i < 30; i++) {
			bool odd = workers < 8 && i < 4; /* a change settles */
			bool late = i == 20; /* an outlier */

			step++;
			assert_int_equal(
				hd_scalein_update(
					&s,
					step,
					1,
					workers,
					tau
						* (odd          ? 9 :
							   late ? 1.5 :
								  1)
				),
				0
			);
		}
		assert_true(hd_scalein_tau(&s.speed, &a, &b));
		assert_float_equal(a + b * workers, tau, 1e-9);
	}
	assert_float_equal(a, 0.05, 1e-9);
	assert_float_equal(b, 0.01, 1e-9);
	assert_float_equal(s.speed.n, 29 + 25 + 25, 0);
}

/* Fewer workers that take longer have no b below 0. */
static void test_speed_bounds(void **state) {
	struct hd_scalein_speed faster = {.n = 2, .w = 6, .ww = 20, .y = 3, .wy = 8};
	struct hd_scalein_speed steep = {.n = 2, .w = 6, .ww = 20, .y = 4, .wy = 14};
	double a, b;

	assert_true(hd_scalein_tau(&faster, &a, &b)); /* tau(2) = 2, tau(4) = 1 */
	assert_float_equal(a, 1.5, 1e-12);
	assert_float_equal(b, 0, 0);
	assert_true(hd_scalein_tau(&steep, &a, &b)); /* tau(2) = 1, tau(4) = 3 */
	assert_float_equal(a, 0, 0);
	assert_float_equal(b, 0.7, 1e-12);
}

/* At t = 200 a pool of 7 that was 8, with the reference of MLLess' shape; `s` is how the present curve differs. */
static enum hd_scalein_why decided(double s_pct, double tolerance) {
	struct hd_scalein_options options = hd_scalein_defaults();
	struct hd_curve reference = {HD_CURVE_REFERENCE, {0.02, 0.5, 1.1, 0.6}, 1, 0};
	struct hd_curve truth = {HD_CURVE_CURRENT, {0, 0.05, 0.5, 0}, 1, 0};
	struct hd_scalein_decision d;
	struct hd_scalein s;
	double by;

	options.tolerance_pct = tolerance;
	hd_scalein_init(&s, &options, 0);
	s.phase = HD_SCALEIN_FLAT;
	for (uint64_t step = 50; step < 150; step++) {
		double loss = hd_curve_at(&reference, (double)step);

		assert_int_equal(hd_scalein_update(&s, step, loss, 8, 0.1), 0);
	}
	by = (1 - s_pct / 100) * hd_curve_at(&reference, 300) / hd_curve_at(&truth, 300);
	for (uint64_t step = 150; step <= 200; step++) {
		double loss = by * hd_curve_at(&truth, (double)step);

		assert_int_equal(hd_scalein_update(&s, step, loss, 7, 0.1), 0);
	}
	assert_int_equal(hd_scalein_decide(&s, 19.9).why, HD_SCALEIN_INTERVAL);
	d = hd_scalein_decide(&s, 20);
	assert_float_equal(d.p_ref, hd_curve_at(&reference, 300), 1e-3);
	assert_float_equal(d.s_pct, s_pct, 0.15);
	assert_int_equal(d.remove, d.why == HD_SCALEIN_REMOVE);
	assert_int_equal(hd_scalein_decide(&s, 39.9).why, HD_SCALEIN_INTERVAL);
	assert_int_equal(hd_scalein_decide(&s, 40).why, d.why);
	return d.why;
}

static void test_decision(void **state) {
	assert_int_equal(decided(-0.8784, 1), HD_SCALEIN_REMOVE);
	assert_int_equal(decided(-10.765, 1), HD_SCALEIN_KEEP);
	assert_int_equal(decided(-10.765, 15), HD_SCALEIN_REMOVE);
	assert_int_equal(decided(5.28, 1), HD_SCALEIN_REMOVE);
}

/* The horizon is one of seconds: a pool with faster steps is further on then. */
static void test_horizon(void **state) {
	struct hd_scalein_options options = hd_scalein_defaults();
	struct hd_curve curve = {HD_CURVE_CURRENT, {0, 0.02, 0.5, 0.6}, 1, 0};
	struct hd_scalein_decision d;
	struct hd_scalein s;

	hd_scalein_init(&s, &options, 0);
	s.phase = HD_SCALEIN_FLAT;
	for (uint64_t step = 20; step < 100; step++) {
		double loss = hd_curve_at(&curve, (double)step);

		assert_int_equal(hd_scalein_update(&s, step, loss, 8, 0.1), 0);
	}
	for (uint64_t step = 100; step <= 200; step++) {
		double loss = hd_curve_at(&curve, (double)step);

		assert_int_equal(hd_scalein_update(&s, step, loss, 4, 0.05), 0);
	}
	d = hd_scalein_decide(&s, 20);
	assert_float_equal(d.p_ref, 1 / 6.5 + 0.6, 1e-3); /* 200 + 10 / 0.1 */
	assert_float_equal(d.p_now, 1 / 8.5 + 0.6, 1e-3); /* 200 + 10 / 0.05 */
	assert_float_equal(d.s_pct, 100 * (1 / 6.5 - 1 / 8.5) / (1 / 6.5 + 0.6), 0.1);
}

/* The first worker goes iff a progress in proportion to the workers would be enough. */
static void test_first(void **state) {
	struct hd_scalein_options options = hd_scalein_defaults();
	struct hd_curve curve;
	struct hd_scalein s, flat;

	hd_scalein_init(&s, &options, 0);
	assert_int_equal(hd_scalein_decide(&s, 100).why, HD_SCALEIN_BEFORE_KNEE);
	options.knee_slope = -0.05; /* a knee where the loss still falls fast */
	hd_scalein_init(&s, &options, 0);
	for (uint64_t step = 0; s.phase == HD_SCALEIN_STEEP; step++)
		assert_int_equal(hd_scalein_update(&s, step, falls((double)step), 4, 0.5), 0);
	struct hd_scalein_decision d = hd_scalein_decide(&s, 100);
	double t = (double)s.step;

	assert_int_equal(d.why, HD_SCALEIN_KEEP);
	assert_int_equal(
		hd_curve_fit(HD_CURVE_REFERENCE, s.now.points, s.now.count, true, &curve), 0
	);
	assert_float_equal(d.p_ref, hd_curve_at(&curve, t + 20), 1e-12);
	assert_float_equal(d.p_now, hd_curve_at(&curve, t + 15), 1e-12);
	assert_true(d.s_pct < -1);
	options = hd_scalein_defaults();
	hd_scalein_init(&flat, &options, 0);
	observe(&flat, falls, 0, 400);
	assert_int_equal(hd_scalein_decide(&flat, 19).why, HD_SCALEIN_INTERVAL);
	assert_int_equal(hd_scalein_decide(&flat, 20).why, HD_SCALEIN_REMOVE);
}

static void test_limits(void **state) {
	struct hd_scalein_options options = hd_scalein_defaults();
	struct hd_scalein s;

	options.interval_s = 0;
	options.min_workers = 7;
	hd_scalein_init(&s, &options, 0);
	observe(&s, falls, 0, 400);
	assert_int_equal(hd_scalein_decide(&s, 0).remove, 1);
	for (uint64_t step = 400; step < 404; step++) {
		assert_int_equal(hd_scalein_update(&s, step, 0.6, 7, 0.1), 0);
		assert_int_equal(hd_scalein_decide(&s, 1).why, HD_SCALEIN_AT_LEAST);
	}
	s.options.min_workers = 1; /* four points, and no times of their own */
	assert_int_equal(hd_scalein_decide(&s, 2).why, HD_SCALEIN_FEW_POINTS);
	assert_int_equal(hd_scalein_update(&s, 404, 0.6, 7, 0.1), 0);
	assert_int_equal(hd_scalein_decide(&s, 3).remove, 1);
}

static void test_refusals(void **state) {
	struct hd_scalein_options options = hd_scalein_defaults();
	struct hd_scalein s, before;

	hd_scalein_init(&s, &options, 0);
	observe(&s, falls, 0, 10);
	before = s;
	assert_int_equal(hd_scalein_update(&s, 10, NAN, 8, 0.1), -EINVAL);
	assert_int_equal(hd_scalein_update(&s, 10, INFINITY, 8, 0.1), -EINVAL);
	assert_int_equal(hd_scalein_update(&s, 10, 1, 8, NAN), -EINVAL);
	assert_int_equal(hd_scalein_update(&s, 10, 1, 0, 0.1), -EINVAL);
	assert_int_equal(hd_scalein_update(&s, 9, 1, 8, 0.1), -EINVAL);
	assert_memory_equal(&s, &before, sizeof s);
	assert_null(hd_scalein_check(&options));
	options.min_workers = 0;
	assert_non_null(strstr(hd_scalein_check(&options), "min_workers"));
	options = hd_scalein_defaults();
	options.knee_slope = 0;
	assert_non_null(strstr(hd_scalein_check(&options), "knee_slope"));
	options = hd_scalein_defaults();
	options.horizon_s = NAN;
	assert_non_null(strstr(hd_scalein_check(&options), "horizon_s"));
	options = hd_scalein_defaults();
	options.tolerance_pct = -1;
	assert_non_null(strstr(hd_scalein_check(&options), "tolerance_pct"));
	for (uint32_t why = 0; why < HD_SCALEIN_WHY_COUNT; why++)
		assert_non_null(hd_scalein_why_text((enum hd_scalein_why)why));
}

/* Functions of 2 GB at $1.7e-5 for a GB and second, a Redis at $0.17 and a RabbitMQ at $0.15 an hour. */
static void test_cost(void **state) {
	struct hd_scalein_prices prices = {1.7e-5, 2, 0.17 + 0.15};

	assert_float_equal(hd_scalein_cost(&prices, 25 * 100, 100), 0.093889, 5e-7);
	assert_float_equal(hd_scalein_cost(&prices, 25 * 50 + 13 * 50, 100), 0.073489, 5e-7);
}

/* The longest history that there is, noisy: a millisecond, but for a machine that is busy with something else. */
static void test_time(void **state) {
	struct hd_scalein_options options = hd_scalein_defaults();
	uint64_t best = UINT64_MAX;
	static struct hd_scalein s;

	options.knee_slope = -1e-9;
	options.interval_s = 0;
	hd_scalein_init(&s, &options, 0);
	for (uint64_t step = 1; step <= HD_CURVE_POINTS_MAX - 1; step++) {
		double noise = (double)(step * 2654435761U % 1000) / 1e4;

		assert_int_equal(
			hd_scalein_update(&s, step, hyperbola((double)step) + noise, 1000, 0.1), 0
		);
	}
	s.phase = HD_SCALEIN_FLAT;
	s.larger = s.now;
	s.larger_workers = 1001;
	for (uint32_t i = 0; i < 20; i++) {
		struct timespec begun, ended;

		clock_gettime(CLOCK_MONOTONIC, &begun);
		hd_scalein_decide(&s, i);
		clock_gettime(CLOCK_MONOTONIC, &ended);
		int64_t took = (ended.tv_sec - begun.tv_sec) * 1000000000 + ended.tv_nsec
			- begun.tv_nsec;

		best = (uint64_t)took < best ? (uint64_t)took : best;
	}
	print_message("a decision on %u points: %.3f ms\n", s.now.count, (double)best / 1e6);
	assert_true(best < 10000000); /* instrumented builds are slow */
}

/* --- worlds in which it is known what is right --------------------------------------------------- */

/*
 * A job's loss is `floor` + 1 / (bend u + 0.5) after u steps' worth of progress, and noise. A step of w of 8 workers
 * is worth (w / 8)^worth and takes fixed + each w seconds: worth 0, each > 0, a worker less costs nothing, makes steps
 * shorter; worth 1 and each 0, it takes its share along.
 */
struct world {
	double bend, worth, fixed, each,
		noise; /* the last: standard deviation, a part of the loss */
	double floor;
	struct hd_random random;
	uint64_t step;
	double u, seconds;
};

static double loss_after(const struct world *w, double u) {
	return w->floor + 1 / (w->bend * u + 0.5);
}

static double took(const struct world *w, uint32_t workers) {
	return w->fixed + w->each * workers;
}

static double worth(const struct world *w, uint32_t workers) {
	return pow(workers / 8.0, w->worth);
}

/* Twelve uniform ones: as good as normal. */
static double noise(struct world *w) {
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += hd_random_unit(&w->random);
	return sum * w->noise;
}

static void run_for(struct world *w, struct hd_scalein *s, uint32_t workers, double seconds) {
	double until = w->seconds + seconds;

	while (w->seconds < until) {
		double tau = took(w, workers);

		w->u += worth(w, workers);
		w->seconds += tau;
		w->step++;
		assert_int_equal(
			hd_scalein_update(
				s,
				w->step,
				loss_after(w, w->u) * (1 + noise(w)),
				workers,
				tau * (1 + 0.01 * hd_random_unit(&w->random))
			),
			0
		);
	}
}

/* 8 workers until 50 s after the knee, then 6: the answer about one more, asked four times at most, and the true effect
 * of those that went. */
static enum hd_scalein_why asked(const struct world *like, uint64_t seed, double *truth) {
	struct hd_scalein_options options = hd_scalein_defaults();
	enum hd_scalein_why why = HD_SCALEIN_KEEP;
	struct world w = *like;
	struct hd_scalein s;

	options.knee_slope = -4e-3;
	hd_random_init(&w.random, seed);
	hd_scalein_init(&s, &options, 0);
	for (int i = 0; i < 100 && s.phase == HD_SCALEIN_STEEP; i++)
		run_for(&w, &s, 8, 10);
	assert_int_equal(s.phase, HD_SCALEIN_FLAT);
	run_for(&w, &s, 8, 50);
	run_for(&w, &s, 6, options.interval_s);
	for (int i = 0; i < 4 && why != HD_SCALEIN_REMOVE; i++) {
		run_for(&w, &s, 6, options.interval_s);
		why = hd_scalein_decide(&s, w.seconds).why;
	}
	/* A step of the reference is worth one. */
	*truth = hd_scalein_s(
		loss_after(&w, (double)w.step + options.horizon_s / took(&w, 8)),
		loss_after(&w, w.u + worth(&w, 6) * options.horizon_s / took(&w, 6))
	);
	return why;
}

#define WORLD_SEEDS 200

static uint32_t removals(const struct world *like, const char *name) {
	uint32_t count[HD_SCALEIN_WHY_COUNT] = {0};
	double truth = 0;

	for (uint64_t seed = 1; seed <= WORLD_SEEDS; seed++)
		count[asked(like, seed, &truth)]++;
	print_message(
		"%s, noise %2.0f %%: s is %+.2f %%; of %d seeds %u remove, %u keep, %u are unsure\n",
		name,
		100 * like->noise,
		truth,
		WORLD_SEEDS,
		count[HD_SCALEIN_REMOVE],
		count[HD_SCALEIN_KEEP],
		count[HD_SCALEIN_UNKNOWN]
	);
	return count[HD_SCALEIN_REMOVE];
}

/* Those that went are missed: no more goes, but for what noise makes of it (5 % at most, by the margin). */
static void test_hurts(void **state) {
	static const double noises[] = {0.001, 0.02, 0.05};

	for (size_t i = 0; i < sizeof noises / sizeof noises[0]; i++) {
		struct world w = {.bend = 0.004, .worth = 1, .fixed = 0.1, .floor = 0.05};

		w.noise = noises[i];
		assert_true(removals(&w, "hurts") <= WORLD_SEEDS / 20);
	}
}

/* The loss does not suffer: another one goes, if noise permits a statement about the losses. */
static void test_does_not_hurt(void **state) {
	static const struct {
		double noise;
		uint32_t least;
	} rows[] = {{0.001, WORLD_SEEDS * 95 / 100}, {0.02, WORLD_SEEDS / 2}};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct world w = {.bend = 0.004, .each = 0.0125, .floor = 0.05};

		w.noise = rows[i].noise;
		assert_true(removals(&w, "does not hurt") >= rows[i].least);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_knee),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_fit),
		cmocka_unit_test(test_fit_odd),
		cmocka_unit_test(test_speed),
		cmocka_unit_test(test_speed_bounds),
		cmocka_unit_test(test_decision),
		cmocka_unit_test(test_horizon),
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_hurts),
		cmocka_unit_test(test_does_not_hurt),
		cmocka_unit_test(test_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
