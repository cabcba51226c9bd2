/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans against every one that there is: steps and workers within a deadline, and two bids on a trace's prices. */
#include "hd_random.h"
#include "policy_scene.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The fewest workers that J steps need, one by one; 0: more than 10,000. */
static uint32_t workers_for(uint32_t steps) {
	uint32_t n = 1;

	while (n <= 10000
	       && hd_elastic_error(&policy_task.model, 1.0 / n, steps) > policy_task.epsilon)
		n++;
	return n <= 10000 ? n : 0;
}

static bool in_time(uint32_t steps) {
	const uint32_t n = workers_for(steps);

	return n > 0 && steps * hd_elastic_pace_s(&policy_task.pace, n) <= policy_task.deadline_s;
}

/* With a deadline: the most steps up to J* that are in time at the pace of the workers that they need. */
static void test_closed_in_time(void **state) {
	struct hd_elastic_closed closed;

	policy_set_plain(0.6, 400);
	assert_int_equal(hd_elastic_closed_in_time(&policy_task, &closed), 0);
	assert_int_equal(closed.iterations, 400);
	policy_near(closed.n, 12, 0);
	policy_near(closed.stationary, 485.3184169, 5e-7);
	policy_set_plain(0.6, 485);
	assert_int_equal(hd_elastic_closed_in_time(&policy_task, &closed), 0);
	assert_int_equal(closed.iterations, 485);
	policy_near(closed.n, 10, 0);
	policy_set_plain(0.6, 200);
	assert_int_equal(hd_elastic_closed_in_time(&policy_task, &closed), -ERANGE);
	policy_task.deadline_s = 0.5;
	assert_int_equal(hd_elastic_closed_in_time(&policy_task, &closed), -ERANGE);
	/* Steps that get slower with the workers, or are half as long. */
	for (int i = 0; i < 40; i++) {
		uint32_t j = 485;

		policy_set_plain(0.6, 140 + 15 * i);
		policy_task.pace = (struct hd_elastic_pace
		){.count = 2, .n = {1, 21}, .step_s = {0.5 + i % 3 * 0.25, 1 + i % 3 * 0.25}};
		while (j > 0 && !in_time(j))
			j--;
		if (hd_elastic_closed_in_time(&policy_task, &closed)) {
			assert_int_equal(j, 0);
			continue;
		}
		assert_int_equal(closed.iterations, j);
		policy_near(closed.n, workers_for(j), 0);
	}
}

/* Every pair of bids that the trace has prices for, with every pair of counts, and the fewest steps that reach the
 * error one by one from its definition: e' = beta e + B / y. */
static double cheapest_by_hand(const struct hd_elastic_price *p) {
	double least = INFINITY;

	for (uint32_t n = 1; n <= policy_task.n_max; n++)
		for (uint32_t high = 1; high <= n; high++)
			for (size_t a = 0; a < p->levels; a++)
				for (size_t b = 0; b <= a; b++) {
					const double all = p->share[b] / p->share[a];
					const double y = all / n + (1 - all) / high;
					const double all_s
						= hd_elastic_pace_s(&policy_task.pace, n);
					const double few_s
						= hd_elastic_pace_s(&policy_task.pace, high);
					double error = policy_task.model.a;
					uint32_t steps = 0;

					for (; error > policy_task.epsilon && steps < 3000; steps++)
						error = policy_task.model.beta * error
							+ policy_task.model.b * y;
					if (error > policy_task.epsilon
					    || steps * (all * all_s + (1 - all) * few_s)
						    > policy_task.deadline_s * p->share[a])
						continue;
					least = fmin(
						least,
						steps
							* (n * all_s * p->paid[b]
							   + high * few_s
								   * (p->paid[a] - p->paid[b]))
							/ p->share[a]
					);
				}
	return least;
}

/* Even prices, or a market that is either cheap or dear, and hardly ever the same price again. */
static double price_of(double place, bool jumps) {
	const double part = place < 0.5 ? 0.001 * place : 0.9 + 0.1 * place;

	return 0.1 + 0.75 * (jumps ? part : place);
}

/* `count` prices of `levels` levels at most, from 0.1 to 0.85, each for some time, again and again. */
static void random_trace(
	uint32_t seed,
	int count,
	uint32_t levels,
	bool jumps,
	struct hd_elastic_price *price
) {
	static char trace[65536];
	char error[128] = "";
	const double step = 1.0 / (levels - 1);
	struct hd_random random;
	double at = 0;
	int used = 0;

	hd_random_init(&random, seed);
	for (int i = 0; i < count; i++) {
		used += snprintf(
			trace + used,
			sizeof trace - (size_t)used,
			"%.3f,%.8f\n",
			at,
			price_of(step * (double)hd_random_below(&random, levels), jumps)
		);
		at += 1 + 99 * hd_random_unit(&random);
	}
	const struct hd_elastic_text in = {"t", trace, (size_t)used, error, sizeof error};
	assert_int_equal(hd_elastic_price_trace(&in, 1, price), 0);
}

/* On a staircase two bids are the cheapest that there are, not those of a smooth F rounded up. */
static void test_stairs_exhaustive(void **state) {
	struct hd_elastic_price stairs;
	struct hd_elastic_plan plan, one;
	int second = 0, none = 0;

	for (uint32_t seed = 1; seed <= 20; seed++) {
		random_trace(seed, 12, 6, false, &stairs);
		policy_set(&stairs, 280 * pow(1.1, seed), 0.8);
		policy_task.n_max = 8;
		hd_elastic_context_init(policy_context, &policy_task);
		const double least = cheapest_by_hand(&stairs);

		if (hd_elastic_scan(policy_context, HD_ELASTIC_KIND_TWO_BID, &plan)) {
			assert_true(isinf(least));
			hd_elastic_price_fini(&stairs);
			none++;
			continue;
		}
		policy_near(plan.cost, least, 1e-9 * least);
		second += plan.bid_low < plan.bid;
		/* With given steps, too: no dearer than what the scan found with as many. */
		assert_int_equal(
			hd_elastic_two_bid(
				policy_context, plan.n, plan.n_high, plan.iterations, &one
			),
			0
		);
		policy_near(one.cost, plan.cost, 1e-9 * least);
		hd_elastic_price_fini(&stairs);
	}
	assert_true(second > 5);
	assert_true(none > 0);
}

/* Of hundreds of prices it does not look at all pairs: what it has by then meets the bounds, and costs no more than one
 * bid does. */
static void test_stairs_of_many(void **state) {
	struct hd_elastic_price stairs;
	struct hd_elastic_plan one;
	int stopped = 0, cheaper = 0;

	for (uint32_t seed = 1; seed <= 4; seed++) {
		random_trace(seed, 2400, 300, true, &stairs);
		assert_true(stairs.levels >= 290);
		policy_set(&stairs, 600 + 200 * seed, 1.5);
		for (uint32_t n = 3; n <= 9; n++)
			for (uint32_t high = 1; high < n; high++) {
				struct hd_elastic_plan two = {.fails = HD_ELASTIC_FAILS_KIND};
				uint32_t looks;

				looks = hd_elastic_stairs(policy_context, n, high, 0, &two);
				assert_in_range(looks, 1, HD_ELASTIC_LOOKS_MAX);
				stopped += looks == HD_ELASTIC_LOOKS_MAX;
				if (two.fails != HD_ELASTIC_FAILS_NONE)
					continue;
				assert_true(two.error <= policy_task.epsilon * (1 + 1e-9));
				assert_true(two.seconds <= policy_task.deadline_s * (1 + 1e-9));
			}
		if (hd_elastic_scan(policy_context, HD_ELASTIC_KIND_ONE_BID, &one) == 0) {
			struct hd_elastic_plan two;

			assert_int_equal(
				hd_elastic_scan(policy_context, HD_ELASTIC_KIND_TWO_BID, &two), 0
			);
			assert_true(two.cost <= one.cost * (1 + 1e-9));
			cheaper += two.cost < one.cost;
		}
		hd_elastic_price_fini(&stairs);
	}
	assert_true(stopped > 0 && cheaper > 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_closed_in_time),
		cmocka_unit_test(test_stairs_exhaustive),
		cmocka_unit_test(test_stairs_of_many),
	};

	return cmocka_run_group_tests(tests, policy_begin, policy_end);
}
