/* SPDX-License-Identifier: BSD-3-Clause */
/* The error bound, its floors and steps, growth, paces and step sizes, at values that were worked out by hand. */
#include "hd_elastic_bound.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct hd_elastic_model model = {2.3, 0.02, 0.995};
static const struct hd_active half = {HD_ACTIVE_BINOMIAL, .q = 0.5};

static void near(double value, double wanted, double within) {
	if (!(fabs(value - wanted) <= within))
		fail_msg("%.12g, wanted %.12g", value, wanted);
}

static void test_inverse(void **state) {
	static const struct {
		struct hd_active active;
		uint32_t n;
		double wanted;
	} cases[] = {
		{{HD_ACTIVE_BINOMIAL, .q = 0.5}, 4, 0.5722222222},
		{{HD_ACTIVE_BINOMIAL, .q = 0.5}, 8, 0.2952987862},
		{{HD_ACTIVE_BINOMIAL, .q = 0.9}, 8, 0.1411812885},
		{{HD_ACTIVE_BINOMIAL, .q = 1}, 8, 0.125},
		{{.kind = HD_ACTIVE_UNIFORM}, 8, 0.3397321429},
		{{.kind = HD_ACTIVE_FIXED}, 8, 0.125},
		{{HD_ACTIVE_CHI, .chi = 0.5}, 16, 0.25},
		{{HD_ACTIVE_CHI, .chi = 1}, 16, 0.0625},
	};
	double all[HD_WORKERS_MAX + 1];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		near(hd_active_inverse(&cases[i].active, cases[i].n), cases[i].wanted, 5e-11);
		hd_active_inverses(&cases[i].active, cases[i].n, all);
		near(all[cases[i].n], cases[i].wanted, 5e-11);
	}
	/* Against the sum itself, where its binomials are still numbers. */
	for (uint32_t n = 1; n <= 300; n += 13) {
		double sum = 0;

		for (uint32_t k = 1; k <= n; k++)
			sum += exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
				   - n * M_LN2)
				/ k;
		near(hd_active_inverse(&half, n), sum / (1 - exp2(-(double)n)), 1e-11);
	}
	/* The most workers there can be: about 1 / (n q). */
	near(hd_active_inverse(&half, HD_WORKERS_MAX), 2.0 / HD_WORKERS_MAX, 2e-7);
	hd_active_inverses(&half, HD_WORKERS_MAX, all);
	for (uint32_t n = 1; n < HD_WORKERS_MAX; n++)
		assert_true(all[n + 1] < all[n] && all[n] >= 1.0 / n);
}

static void test_any(void **state) {
	near(hd_active_any(&half, 3), 0.875, 1e-15);
	near(hd_active_mean(&half, 3), 1.5 / 0.875, 1e-15);
	const struct hd_active rare = {HD_ACTIVE_BINOMIAL, .q = 1e-6};

	near(hd_active_any(&rare, 1), 1e-6, 1e-18);
	near(hd_active_mean(&(struct hd_active){.kind = HD_ACTIVE_UNIFORM}, 9), 5, 0);
}

static void test_bound(void **state) {
	near(hd_elastic_error(&model, 1.0 / 8, 500), 0.6468293506, 5e-11);
	near(hd_elastic_error(&model, 1.0 / 8, 1000), 0.5119771434, 5e-11);
	near(hd_elastic_error(&model, hd_active_inverse(&half, 8), 1000), 1.1886396371, 5e-11);
	near(hd_elastic_error(&model, 1.0 / 4, 1000), 1.0086501592, 5e-11);
	near(hd_elastic_error(&model, 1, 0), 2.3, 0);
	near(hd_elastic_floor(&model, 0.25), 1.0, 1e-12);
}

static void test_recursion(void **state) {
	/* The bound in one piece is the recursion step by step. */
	double error = model.a;

	for (uint32_t j = 1; j <= 2000; j++) {
		error = model.beta * error + model.b * 0.3;
		near(hd_elastic_error(&model, 0.3, j), error, 1e-11);
	}
}

static void test_iterations(void **state) {
	uint32_t j = 7;

	assert_int_equal(hd_elastic_iterations(&model, 1.0 / 8, 0.6, &j), 0);
	assert_int_equal(j, 577);
	assert_int_equal(hd_elastic_iterations(&model, 1.0 / 4, 1.1, &j), 0);
	assert_int_equal(j, 512);
	assert_int_equal(hd_elastic_iterations(&model, 1.0 / 8, 0.8, &j), 0);
	assert_int_equal(j, 358);
	assert_int_equal(hd_elastic_iterations(&model, 1.0 / 4, 0.6, &j), -ERANGE);
	assert_int_equal(j, 358);
	assert_int_equal(hd_elastic_iterations(&model, 1.0 / 4, 1.0, &j), -ERANGE);
	assert_int_equal(hd_elastic_iterations(&model, 1.0 / 4, 2.4, &j), 0);
	assert_int_equal(j, 0);
	/* The fewest: one less is not enough. */
	for (uint32_t n = 7; n < 200; n += 3) {
		assert_int_equal(hd_elastic_iterations(&model, 1.0 / n, 0.6, &j), 0);
		assert_true(hd_elastic_error(&model, 1.0 / n, j) <= 0.6);
		assert_true(hd_elastic_error(&model, 1.0 / n, j - 1) > 0.6);
		near(hd_elastic_error(&model, hd_elastic_needed(&model, 0.6, j), j), 0.6, 1e-12);
	}
	/* Without noise one worker is enough; a step that leaves nearly all takes nearly for ever. */
	const struct hd_elastic_model slow = {1, 0, 1 - 1e-12};

	assert_int_equal(hd_elastic_iterations(&slow, 1, 0.5, &j), -ERANGE);
	const struct hd_elastic_model quiet = {1, 0, 0.5};

	assert_int_equal(hd_elastic_iterations(&quiet, 1, 0.25, &j), 0);
	assert_int_equal(j, 2);
}

/* By the recursion, with real n_j. */
static double grown(const struct hd_elastic_growth *g, uint32_t iterations) {
	double error = model.a, n = g->first;

	for (uint32_t j = 1; j <= iterations; j++) {
		const double now = g->most > 0 && n > g->most ? g->most : n;

		error = model.beta * error + model.b * pow(now, -g->chi);
		n *= g->eta;
	}
	return error;
}

static void test_growth(void **state) {
	struct hd_elastic_growth g = {.first = 2, .eta = 1.002, .chi = 1};

	near(hd_elastic_growth_error(&model, &g, 1000), 0.4445725623, 5e-11);
	g.most = 8;
	near(hd_elastic_growth_error(&model, &g, 1000), 0.5647595661, 5e-11);
	/* The printed bound of the capped growth is below it: the larger of two partial sums. */
	assert_true(hd_elastic_growth_error(&model, &g, 1000) > 0.511977);
	assert_int_equal(hd_elastic_growth_workers(&g, 1), 2);
	assert_int_equal(hd_elastic_growth_workers(&g, 2), 3);
	assert_int_equal(hd_elastic_growth_workers(&g, 100000), 8);
	for (int i = 0; i < 300; i++) {
		g.eta = 1 + 1e-4 * pow(1.02, i);
		g.chi = 0.5 + 0.25 * (i % 3);
		g.most = 4 * (i / 3 % 3);
		near(hd_elastic_growth_error(&model, &g, 300), grown(&g, 300), 1e-9);
	}
	/* x = 1: each step's noise weighs the same. */
	g = (struct hd_elastic_growth){.first = 2, .eta = 1 / 0.995, .chi = 1};
	near(hd_elastic_growth_error(&model, &g, 300), grown(&g, 300), 1e-9);
	/* beta eta far above 1 and many steps: nothing overflows. */
	g = (struct hd_elastic_growth){.first = 1, .eta = 1.5, .chi = 1, .most = 4};
	near(hd_elastic_growth_error(&model, &g, 1000000), hd_elastic_floor(&model, 0.25), 1e-9);
}

static void test_growth_iterations(void **state) {
	const struct hd_elastic_growth dynamic = {.first = 1, .eta = 1.0004, .chi = 1};
	double work = 0;

	assert_int_equal(hd_elastic_growth_iterations(1.0004, 1, 10000), 4025);
	assert_int_equal(hd_elastic_growth_iterations(1.01, 1, 1000), 241);
	assert_int_equal(hd_elastic_growth_iterations(1.0004, 0.5, 10000), 5494);
	assert_int_equal(hd_elastic_growth_iterations(1, 1, 77), 77);
	near(hd_elastic_error(&model, 1, 10000), 4.0, 5e-5);
	near(hd_elastic_growth_error(&model, &dynamic, 4025), 0.869326, 5e-7);
	for (int j = 0; j < 4025; j++)
		work += pow(1.0004, j);
	near(work, 10003.0, 0.05);
}

static void test_paces(void **state) {
	near(hd_elastic_step_s(HD_ELASTIC_SYNC_FULL, 8, 0, 1), 2.7178571429, 5e-11);
	near(hd_elastic_step_s(HD_ELASTIC_SYNC_FIRST, 8, 4, 1), 0.6345238095, 5e-11);
	near(hd_elastic_step_s(HD_ELASTIC_SYNC_BATCH, 8, 4, 1), 0.5, 1e-15);
	near(hd_elastic_step_s(HD_ELASTIC_SYNC_FULL, 8, 0, 2), 2.7178571429 / 2, 5e-11);
	assert_true(isinf(hd_elastic_step_s(HD_ELASTIC_SYNC_FIRST, 3, 4, 1)));
	/* The series takes over where the sum ends. */
	near(hd_elastic_harmonic(65) - hd_elastic_harmonic(64), 1.0 / 65, 1e-13);
	near(hd_elastic_harmonic(1000), 7.485470860550345, 1e-12);
}

static void test_rates(void **state) {
	static const struct hd_elastic_rate rates[] = {
		{HD_ELASTIC_RATE_FIXED, .first = 0.1, .every = 1000},
		{HD_ELASTIC_RATE_GROWING,
		 .first = 0.03,
		 .factor = 1.2,
		 .last = 0.18,
		 .every = 1000},
		{HD_ELASTIC_RATE_TO, .first = 0.15, .last = 0.03, .every = 1000},
		{HD_ELASTIC_RATE_FALLING, .first = 0.18, .every = 1000},
	};
	static const double at_1000[] = {0.1, 0.036, 0.105, 0.09};
	static const double at_5000[] = {0.1, 0.0746496, 0.055, 0.03};
	const struct hd_elastic_rate linear = {HD_ELASTIC_RATE_LINEAR, .first = 0.03, .every = 1};

	for (size_t i = 0; i < 4; i++) {
		near(hd_elastic_rate_at(&rates[i], 1000, 4), at_1000[i], 1e-12);
		near(hd_elastic_rate_at(&rates[i], 5000, 4), at_5000[i], 1e-12);
	}
	near(hd_elastic_rate_at(&rates[1], 1000000, 4), 0.18, 0);
	near(hd_elastic_rate_at(&linear, 5, 8), 0.24, 1e-15);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inverse),
		cmocka_unit_test(test_any),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_recursion),
		cmocka_unit_test(test_iterations),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_growth_iterations),
		cmocka_unit_test(test_paces),
		cmocka_unit_test(test_rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
