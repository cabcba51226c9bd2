/* SPDX-License-Identifier: BSD-3-Clause */
/* Prices: distributions at values worked out by hand, traces of markets, and files that are none. */
#include "hd_elastic_price.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void near(double value, double wanted, double within) {
	if (!(fabs(value - wanted) <= within))
		fail_msg("%.12g, wanted %.12g", value, wanted);
}

static int read_trace(const char *text, double scale, struct hd_elastic_price *p, char error[200]) {
	const struct hd_elastic_text in = {"spot.csv", text, strlen(text), error, 200};

	return hd_elastic_price_trace(&in, scale, p);
}

static void test_uniform(void **state) {
	struct hd_elastic_price p;
	char error[200];

	assert_int_equal(hd_elastic_price_uniform(0.2, 1, &p, error, sizeof error), 0);
	near(hd_elastic_price_share(&p, 0.6), 0.5, 1e-15);
	near(hd_elastic_price_mean(&p, 0.6), 0.4, 1e-15);
	near(hd_elastic_price_bid(&p, 0.5), 0.6, 1e-15);
	near(hd_elastic_price_share(&p, 0.1), 0, 0);
	near(hd_elastic_price_share(&p, 7), 1, 0);
	near(hd_elastic_price_mean(&p, 7), 0.6, 1e-15);
	near(hd_elastic_price_bid(&p, -1), 0.2, 0);
	near(hd_elastic_price_bid(&p, 2), 1, 0);
	assert_int_equal(hd_elastic_price_uniform(3, 3, &p, error, sizeof error), 0);
	near(hd_elastic_price_mean(&p, 3), 3, 0);
	near(hd_elastic_price_share(&p, 2.9), 0, 0);
}

static void test_gaussian(void **state) {
	static const double shape[] = {0.6, 0.175, 0.2, 1}, far[] = {0.6, 0.01, 0.9, 1};
	struct hd_elastic_price p;
	char error[200];

	assert_int_equal(hd_elastic_price_gaussian(shape, &p, error, sizeof error), 0);
	near(hd_elastic_price_share(&p, 0.5), 0.2789311637, 5e-11);
	near(hd_elastic_price_mean(&p, 0.6), 0.4676676198, 5e-11);
	near(hd_elastic_price_mean(&p, 1), 0.6, 1e-14);
	for (int i = 1; i < 77; i++)
		near(hd_elastic_price_share(&p, hd_elastic_price_bid(&p, i / 77.0)), i / 77.0, 1e-12
		);
	assert_int_equal(hd_elastic_price_gaussian(far, &p, error, sizeof error), -EINVAL);
	assert_non_null(strstr(error, "price: share of it from low to high"));
	/* In the tail, where differences of the distribution itself would be all rounding. */
	const double tail[] = {0, 1, 4, 9};

	assert_int_equal(hd_elastic_price_gaussian(tail, &p, error, sizeof error), 0);
	for (int i = 1; i < 17; i++)
		near(hd_elastic_price_share(&p, hd_elastic_price_bid(&p, i / 17.0)), i / 17.0, 1e-10
		);
}

static void test_refusals(void **state) {
	static const double flat[] = {0.6, 0, 0.2, 1}, lost[] = {NAN, 1, 0.2, 1};
	struct hd_elastic_price p = {.low = 77};
	char error[200];

	assert_int_equal(hd_elastic_price_uniform(-1, 1, &p, error, sizeof error), -EINVAL);
	assert_string_equal(error, "price: low: -1 (a number from 0 to 1e+09)");
	assert_int_equal(hd_elastic_price_uniform(2, 1, &p, error, sizeof error), -EINVAL);
	assert_string_equal(error, "price: high: 1 (a number from low to 1e+09)");
	assert_int_equal(hd_elastic_price_uniform(0, NAN, &p, error, sizeof error), -EINVAL);
	assert_int_equal(hd_elastic_price_gaussian(flat, &p, error, sizeof error), -EINVAL);
	assert_string_equal(error, "price: deviation: 0 (above 0, up to 1e+09)");
	assert_int_equal(hd_elastic_price_gaussian(lost, &p, error, sizeof error), -EINVAL);
	near(p.low, 77, 0);
}

static void test_trace(void **state) {
	struct hd_elastic_price p;
	char error[200];

	/* 0.3 for 10 s, 0.5 for 20 s, 0.3 for 30 s, and the last one for the mean of those: 20 s. */
	assert_int_equal(
		read_trace(
			"# a market\nseconds,price\n5,0.3\n15,0.5\n\n35,0.3\n65,0.1\n", 1, &p, error
		),
		0
	);
	assert_int_equal(p.count, 4);
	assert_int_equal(p.levels, 3);
	near(p.low, 0.1, 0);
	near(p.high, 0.5, 0);
	near(hd_elastic_price_share(&p, 0.1), 0.25, 1e-15);
	near(hd_elastic_price_share(&p, 0.2), 0.25, 1e-15);
	near(hd_elastic_price_share(&p, 0.3), 0.75, 1e-15);
	near(hd_elastic_price_share(&p, 0.09), 0, 0);
	near(hd_elastic_price_bid(&p, 0.25), 0.1, 0);
	near(hd_elastic_price_bid(&p, 0.26), 0.3, 0);
	near(hd_elastic_price_bid(&p, 0.76), 0.5, 0);
	near(hd_elastic_price_mean(&p, 0.3), (0.1 * 20 + 0.3 * 40) / 60, 1e-15);
	near(hd_elastic_price_mean(&p, 9), (0.1 * 20 + 0.3 * 40 + 0.5 * 20) / 80, 1e-15);
	near(hd_elastic_price_at(&p, 0), 0.3, 0);
	near(hd_elastic_price_at(&p, 9.9), 0.3, 0);
	near(hd_elastic_price_at(&p, 10), 0.5, 0);
	near(hd_elastic_price_at(&p, 79), 0.1, 0);
	near(hd_elastic_price_at(&p, 80), 0.3, 0);
	hd_elastic_price_fini(&p);
}

static void test_real_formats(void **state) {
	struct hd_elastic_price p;
	char error[200];

	/* As clouds write it: other columns, quotes, moments, carriage returns, prices by the hour. */
	assert_int_equal(
		read_trace(
			"InstanceType;SpotPrice;\"Timestamp\"\r\n"
			"m4;\"0.36\";2026-02-28T23:00:00Z\r\n"
			"m4;\"0.72\";2026-03-01T02:00:00+02:00\r\n"
			"m4;\"1.08\";2026-03-01 01:30:00.5\r\n",
			1.0 / 3600,
			&p,
			error
		),
		0
	);
	near(p.seconds[1], 3600, 1e-6);
	near(p.seconds[2], 9000.5, 1e-6);
	near(p.low, 1e-4, 1e-15);
	near(p.high, 3e-4, 1e-15);
	hd_elastic_price_fini(&p);
	assert_int_equal(
		read_trace("2024-02-29T00:00:00Z\t5\n2024-03-01T00:00:00Z\t6", 1, &p, error), 0
	);
	near(p.seconds[1], 86400, 0);
	hd_elastic_price_fini(&p);
}

static void test_bad_traces(void **state) {
	static const struct {
		const char *text, *words;
	} cases[] = {
		{"", "spot.csv:1: empty: no row of numbers (at least 1)"},
		{"seconds,price\n", "spot.csv:1: empty"},
		{"# nothing\n\n", "spot.csv:2: empty"},
		{"0,1\n5,2\n4,3\n", "spot.csv:3: seconds: 4: not after the line before (5)"},
		{"0,1\n0,2\n", "spot.csv:2: seconds: 0: not after"},
		{"0,1\n1,nan\n", "spot.csv:2: price: 'nan' (a number from 0 to 1e+09)"},
		{"0,1\n1,-0.5\n", "spot.csv:2: price: '-0.5' (a number from 0 to 1e+09)"},
		{"0,1\n1,inf\n", "spot.csv:2: price: 'inf'"},
		{"0,1\n1,x\n", "spot.csv:2: price: 'x'"},
		{"0,1\n1\n", "spot.csv:2: price: missing (column 2 of 1)"},
		{"0,1\nnan,1\n", "spot.csv:2: seconds: 'nan'"},
		{"0,1\n,1\n", "spot.csv:2: seconds: ''"},
		{"0,1\n2026-13-01T00:00:00Z,1\n", "spot.csv:2: seconds: '2026-13-01T00:00:00Z'"},
		{"when,cost\n0,1\n", "spot.csv:1: seconds: no such column in the header"},
		{"seconds,cost\n0,1\n", "spot.csv:1: price: no such column in the header"},
		{"0,1 2\n", "spot.csv:1: price: '1 2'"},
		{"1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3\n",
		 "spot.csv:1: more than 32 columns"},
	};
	struct hd_elastic_price p = {.low = 77};
	char error[200];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		error[0] = 0;
		assert_int_equal(read_trace(cases[i].text, 1, &p, error), -EINVAL);
		if (strncmp(error, cases[i].words, strlen(cases[i].words)) != 0)
			fail_msg("'%s', wanted '%s'", error, cases[i].words);
	}
	assert_int_equal(read_trace("0,1\n", 0, &p, error), -EINVAL);
	near(p.low, 77, 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uniform),
		cmocka_unit_test(test_gaussian),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_trace),
		cmocka_unit_test(test_real_formats),
		cmocka_unit_test(test_bad_traces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
