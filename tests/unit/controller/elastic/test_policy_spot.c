/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows one-bid, two-bid, preemptible and dynamic of the table of policies: what they say as prices, steps and time
 * come in, and what they refuse. */
#include "hd_elastic.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct hd_elastic owner;
static char error[512];

static int set(const char *words) {
	error[0] = '\0';
	hd_elastic_init(&owner);
	return hd_elastic_set(&owner, words, 0, 4, error, sizeof error);
}

static uint32_t at_price(double now, double price) {
	bool changed;

	assert_int_equal(hd_elastic_price(&owner, now, price), 0);
	return hd_elastic_decide(&owner, now, &changed);
}

static void observe(double now, uint64_t step, uint32_t workers, double loss, double step_s) {
	const struct hd_elastic_observation o = {
		.step = step,
		.loss = loss,
		.samples = 32,
		.workers = workers,
		.price = -1,
		.step_s = step_s,
		.comm_share = -1,
	};

	assert_int_equal(hd_elastic_observe(&owner, now, &o), 0);
}

static uint32_t decide(double now) {
	bool changed;

	return hd_elastic_decide(&owner, now, &changed);
}

static void refuses(const char *words, const char *why) {
	assert_int_equal(set(words), -EINVAL);
	if (!strstr(error, why))
		fail_msg("'%s', wanted '%s'", error, why);
	assert_null(owner.policy);
}

static void test_one_bid(void **state) {
	assert_int_equal(set("policy=one-bid n=8 bid=0.4 iterations=100"), 0);
	assert_int_equal(decide(0), 8); /* the price is not known */
	assert_int_equal(at_price(1, 0.3), 8);
	assert_int_equal(at_price(2, 0.4), 8);
	assert_int_equal(at_price(3, 0.41), 1);
	assert_non_null(strstr(owner.reason, "price 0.41, above the bid 0.4"));
	assert_int_equal(at_price(4, 0.1), 8);
	observe(5, 100, 8, 1, 1);
	assert_int_equal(decide(5), 1);
	assert_non_null(strstr(owner.reason, "all 100 steps"));
	/* Never below what the operator says, nor below one. */
	assert_int_equal(set("policy=one-bid n=8 bid=0.4 n_min=3"), 0);
	assert_int_equal(at_price(1, 9), 3);
	refuses("policy=one-bid n=8", "bid: policy one-bid needs it");
	refuses("policy=one-bid n=0 bid=1", "n: '0' (a whole number from 1 to 4096)");
	refuses("policy=one-bid n=8 bid=-1", "bid: '-1' (a number from 0 to");
	refuses("policy=one-bid n=8 bid=nan", "bid: 'nan'");
}

static void test_two_bid(void **state) {
	assert_int_equal(set("policy=two-bid n=8 n_high=3 bid=0.5 bid_low=0.2"), 0);
	assert_int_equal(decide(0), 8);
	assert_int_equal(at_price(1, 0.2), 8);
	assert_int_equal(at_price(2, 0.3), 3);
	assert_int_equal(at_price(3, 0.5), 3);
	assert_int_equal(at_price(4, 0.6), 1);
	refuses("policy=two-bid n=8 n_high=9 bid=0.5 bid_low=0.2", "n_high: 9, above n, 8");
	refuses("policy=two-bid n=8 n_high=4 bid=0.1 bid_low=0.2", "bid_low: 0.2, above bid, 0.1");
}

static void test_preemptible(void **state) {
	assert_int_equal(set("policy=preemptible n=9 iterations=495"), 0);
	assert_int_equal(decide(0), 9);
	hd_elastic_count(&owner, 1, 6);
	assert_int_equal(decide(1), 9);
	assert_non_null(strstr(owner.reason, "9 planned, 6 present: 3"));
	observe(2, 495, 9, 1, 1);
	assert_int_equal(decide(2), 1);
	refuses("policy=preemptible", "n: policy preemptible needs it");
}

#define DYNAMIC                                                                                    \
	"policy=dynamic a=2.3 b=0.02 beta=0.995 epsilon=0.8 deadline=2000 step_s=8:1,4:0.9 "       \
	"price=uniform:0.2:1 n_max=64"

/* The bid is in the reason. */
static double bid_said(void) {
	const char *at = strstr(owner.reason, "bid ");
	double bid = -1;

	assert_non_null(at);
	assert_int_equal(sscanf(at, "bid %lf", &bid), 1);
	return bid;
}

static void test_dynamic(void **state) {
	double bid;
	uint32_t n;

	assert_int_equal(set(DYNAMIC), 0);
	n = decide(0);
	/* With all the time it is the one-bid plan: 7 workers for 404 steps at 0.35756. */
	assert_int_equal(n, 7);
	bid = bid_said();
	assert_true(fabs(bid - 0.35756) < 1e-5);
	assert_int_equal(at_price(1, 0.9), 1);
	assert_int_equal(at_price(2, 0.3), 7);
	/* 200 steps on time, at 1 s: less is left of the error than of the time, and the bid falls. */
	for (uint32_t j = 1; j <= 200; j++)
		observe(2 + j, j, 7, 1, 1);
	(void)decide(205);
	assert_true(bid_said() < bid);
	/* Nothing happens for long: the bid rises with the time that passes, step by step. */
	bid = bid_said();
	(void)decide(1400);
	assert_true(bid_said() > bid);
	(void)decide(1990);
	assert_non_null(strstr(owner.reason, "deadline: "));
	assert_true(owner.target >= 7);
	(void)decide(2001);
	assert_int_equal(owner.target, 1);
	assert_non_null(strstr(owner.reason, "deadline: over"));
}

static void test_dynamic_reaches(void **state) {
	uint32_t j = 0;

	assert_int_equal(set(DYNAMIC), 0);
	while (decide(j) > 1 && j < 1000) {
		j++;
		observe(j, j, 7, 1, 1);
	}
	assert_int_equal(j, 404);
	assert_non_null(strstr(owner.reason, "is reached"));
	/* One worker's noise would take the bound above it again: reached is reached. */
	for (; j < 600; j++)
		observe(j, j, 1, 1, 0.9);
	assert_int_equal(decide(600), 1);
	/* Most steps are not reported; the workers of those that are did the others. */
	assert_int_equal(set(DYNAMIC), 0);
	observe(300, 403, 7, 1, 1);
	assert_true(decide(300) > 1);
	observe(301, 404, 7, 1, 1);
	assert_int_equal(decide(301), 1);
}

static void test_dynamic_measures(void **state) {
	double bid;

	/* With the best loss known the losses count, not the bound. */
	assert_int_equal(set(DYNAMIC " best=0.5"), 0);
	observe(1, 1, 7, 2.8, 1);
	assert_true(decide(1) > 1);
	for (uint32_t j = 2; j < 100; j++)
		observe(j, j, 7, 1.2, 1);
	assert_int_equal(decide(100), 1);
	/* Steps that take twice as long leave half the time. */
	assert_int_equal(set(DYNAMIC), 0);
	for (uint32_t j = 1; j <= 100; j++)
		observe(j, j, 7, 1, 0.975);
	(void)decide(100);
	bid = bid_said();
	assert_int_equal(set(DYNAMIC), 0);
	for (uint32_t j = 1; j <= 100; j++)
		observe(j, j, 7, 1, 1.95);
	(void)decide(100);
	assert_true(bid_said() > bid * 1.1);
}

static void test_dynamic_refusals(void **state) {
	char words[HD_ELASTIC_WORDS_BYTES], again[HD_ELASTIC_WORDS_BYTES];

	refuses("policy=dynamic a=1", "b: policy dynamic needs it");
	refuses("policy=dynamic a=2 b=1 beta=0.9 epsilon=3 deadline=9 step_s=1 price=1",
		"epsilon: 3 (above 0, below a)");
	refuses("policy=dynamic a=2 b=1 beta=0.9 epsilon=1 deadline=9 step_s=4:1,4:2 price=1",
		"step_s: '4:1,4:2'");
	refuses("policy=dynamic a=2 b=1 beta=0.9 epsilon=1 deadline=9 step_s=1 price=uniform:3",
		"price: 'uniform:3'");
	refuses("policy=dynamic a=2 b=1 beta=0.9 epsilon=1 deadline=9 step_s=1 price=gauss:1:0:0:2",
		"price: 'gauss:1:0:0:2'");
	/* Its words lead to the same again. */
	assert_int_equal(set(DYNAMIC " every=5"), 0);
	(void)decide(0);
	assert_true(hd_elastic_words(&owner, words, sizeof words) > 0);
	assert_int_equal(set(words), 0);
	assert_int_equal(decide(0), 7);
	assert_true(hd_elastic_words(&owner, again, sizeof again) > 0);
	assert_string_equal(again, words);
	/* An error that no number of workers reaches: as many as come nearest, and the reason says so. */
	assert_int_equal(
		set("policy=dynamic a=2.3 b=0.02 beta=0.995 epsilon=0.1 deadline=2000 step_s=1 price=1 n_max=8"
		),
		0
	);
	assert_int_equal(decide(0), 8);
	assert_non_null(strstr(owner.reason, "error: 0.5 at best with 8 workers, 0.1 is wanted"));
}

/* Whatever is seen, the target stays within its limits. */
static void test_limits(void **state) {
	assert_int_equal(set(DYNAMIC " n_min=2"), 0);
	for (uint32_t j = 1; j < 3000; j++) {
		observe(j, j * UINT64_C(7), j % 70, 1e30 * (j % 3 == 0), j % 5 * 1e9);
		assert_int_equal(hd_elastic_price(&owner, j, j % 11 * 0.2), 0);
		assert_true(decide(j) >= 2 && owner.target <= 64);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_bid),
		cmocka_unit_test(test_two_bid),
		cmocka_unit_test(test_preemptible),
		cmocka_unit_test(test_dynamic),
		cmocka_unit_test(test_dynamic_reaches),
		cmocka_unit_test(test_dynamic_measures),
		cmocka_unit_test(test_dynamic_refusals),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
