/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans: bids, workers and steps at values that were worked out by hand, against every whole number, and against
 * markets that are played. */
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

static void test_bids(void **state) {
	static const struct {
		bool bell;
		double deadline_s, bid, cost, high, low, two_cost;
	} rows[] = {
		{false, 1500, 0.7333333333, 3733.3333333, 0.7024050998, 0.4110581826, 2189.075487},
		{false, 2000, 0.6, 3200, 0.5768038249, 0.3582936369, 1914.227652},
		{true, 2000, 0.6, 3741.340959, 0.5875537395, 0.4555695382, 2339.135983},
	};
	struct hd_elastic_plan plan;

	for (size_t i = 0; i < 3; i++) {
		policy_set(rows[i].bell ? &policy_bell : &policy_even, rows[i].deadline_s, 0.8);
		plan = (struct hd_elastic_plan
		){.n = 8, .n_high = 8, .iterations = 1000, .bid = 1, .bid_low = 1};
		hd_elastic_evaluate(policy_context, &plan);
		policy_near(plan.cost, 4800, 1e-6);
		policy_near(plan.seconds, 1000, 1e-9);
		assert_int_equal(hd_elastic_one_bid(policy_context, 8, 1000, &plan), 0);
		policy_near(plan.bid, rows[i].bid, 5e-11);
		policy_near(plan.cost, rows[i].cost, 5e-7);
		policy_near(plan.seconds, rows[i].deadline_s, 1e-6);
		assert_int_equal(hd_elastic_two_bid(policy_context, 8, 4, 1000, &plan), 0);
		policy_near(plan.gamma, 0.4200956214, 5e-11);
		policy_near(plan.inverse, 0.1974880473, 5e-11);
		policy_near(plan.bid, rows[i].high, 5e-11);
		policy_near(plan.bid_low, rows[i].low, 5e-11);
		policy_near(plan.cost, rows[i].two_cost, 5e-7);
		policy_near(plan.seconds, rows[i].deadline_s, 1e-6);
		policy_near(plan.error, 0.8, 1e-12);
	}
	policy_near(rows[0].cost / 4800, 0.7777778, 5e-8);
}

/* Row 2 played: a price a moment, workers run that bid as much. */
static void test_market_played(void **state) {
	const uint32_t steps = 200000;
	double seconds = 0, cost = 0, inverse = 0, step_s;
	struct hd_elastic_plan plan;
	struct hd_random random;
	uint32_t done = 0;

	policy_set(&policy_even, 2000, 0.8);
	assert_int_equal(hd_elastic_two_bid(policy_context, 8, 4, 1000, &plan), 0);
	step_s = plan.gamma * 1 + (1 - plan.gamma) * 0.9;
	hd_random_init(&random, 7);
	while (done < steps) {
		const double p = 0.2 + 0.8 * hd_random_unit(&random);
		const uint32_t y = p <= plan.bid_low ? 8 : p <= plan.bid ? 4 : 0;
		const double took = y == 8 ? 1 : y == 4 ? 0.9 : step_s;

		seconds += took;
		cost += y * took * p;
		inverse += y ? 1.0 / y : 0;
		done += y > 0;
	}
	policy_near(seconds * 1000 / steps, plan.seconds, 0.005 * plan.seconds);
	policy_near(cost * 1000 / steps, plan.cost, 0.005 * plan.cost);
	policy_near(inverse / steps, plan.inverse, 0.005 * plan.inverse);
}

static void test_clamps(void **state) {
	struct hd_elastic_plan plan;

	policy_set(&policy_even, 1e6, 0.8);
	/* Four are enough with this many steps at 1.2: gamma = 0, no worker bids low. */
	policy_task.epsilon = 1.2;
	assert_int_equal(hd_elastic_two_bid(policy_context, 8, 4, 1000, &plan), 0);
	policy_near(plan.gamma, 0, 0);
	policy_near(plan.bid_low, 0.2, 0);
	/* With too few steps even eight at all times are not: the error fails, by so much. */
	policy_task.epsilon = 0.8;
	assert_int_equal(hd_elastic_two_bid(policy_context, 8, 4, 300, &plan), -ERANGE);
	assert_int_equal(plan.fails, HD_ELASTIC_FAILS_ERROR);
	policy_near(plan.reached, hd_elastic_error(&policy_task.model, 1.0 / 8, 300), 1e-12);
	policy_near(plan.allowed, 0.8, 0);
	/* And without time: the deadline, with the highest bids. */
	policy_set(&policy_even, 900, 0.8);
	assert_int_equal(hd_elastic_one_bid(policy_context, 8, 1000, &plan), -ERANGE);
	assert_int_equal(plan.fails, HD_ELASTIC_FAILS_DEADLINE);
	policy_near(plan.reached - plan.allowed, 100, 1e-9);
	assert_int_equal(hd_elastic_two_bid(policy_context, 8, 4, 1000, &plan), -ERANGE);
	assert_int_equal(plan.fails, HD_ELASTIC_FAILS_DEADLINE);
	/* n equal: two bids are one. */
	policy_set(&policy_even, 2000, 0.8);
	assert_int_equal(hd_elastic_two_bid(policy_context, 8, 8, 1000, &plan), 0);
	policy_near(plan.bid, 0.6, 1e-12);
	policy_near(plan.cost, 3200, 1e-9);
	/* A bid below every price: no step is ever made, and the plan says so. */
	plan = (struct hd_elastic_plan
	){.n = 8, .n_high = 8, .iterations = 1000, .bid = 0.1, .bid_low = 0.1};
	hd_elastic_evaluate(policy_context, &plan);
	assert_int_equal(plan.fails, HD_ELASTIC_FAILS_DEADLINE);
	assert_true(isinf(plan.seconds) && plan.cost == 0);
}

static void test_closed(void **state) {
	struct hd_elastic_closed closed;

	policy_set(&policy_even, 1e9, 0.6);
	assert_int_equal(hd_elastic_closed(&policy_task.model, 0.6, 1000000, &closed), 0);
	policy_near(closed.stationary, 485.3184169, 5e-7);
	assert_int_equal(closed.iterations, 485);
	policy_near(closed.n, 10, 0);
	assert_int_equal(hd_elastic_closed(&policy_task.model, 0.3, 1000000, &closed), 0);
	policy_near(closed.stationary, 687.6467, 5e-5);
	assert_int_equal(closed.iterations, 688);
	policy_near(closed.n, 18, 0);
	assert_int_equal(hd_elastic_closed(&policy_task.model, 0.6, 400, &closed), 0);
	assert_int_equal(closed.iterations, 400);
	policy_near(closed.n, 12, 0);
	assert_int_equal(hd_elastic_closed(&policy_task.model, 0.6, 280, &closed), 0);
	assert_int_equal(closed.iterations, 280);
	policy_near(closed.n, 87, 0);
	assert_int_equal(hd_elastic_closed(&policy_task.model, 0.6, 200, &closed), -ERANGE);
}

static void test_scan(void **state) {
	static const struct {
		double epsilon, deadline_s;
		uint32_t n, iterations;
	} cases[] = {{0.6, 1e6, 9, 495}, {0.3, 1e6, 17, 691}, {0.6, 280, 87, 280}};
	struct hd_elastic_plan plan;

	for (size_t i = 0; i < 3; i++) {
		policy_set_plain(cases[i].epsilon, cases[i].deadline_s);
		assert_int_equal(
			hd_elastic_scan(policy_context, HD_ELASTIC_KIND_PREEMPTIBLE, &plan), 0
		);
		assert_int_equal(plan.n, cases[i].n);
		assert_int_equal(plan.iterations, cases[i].iterations);
		policy_near(plan.cost, cases[i].n * cases[i].iterations, 1e-9);
	}
	policy_set_plain(0.6, 200);
	assert_int_equal(
		hd_elastic_scan(policy_context, HD_ELASTIC_KIND_PREEMPTIBLE, &plan), -ERANGE
	);
	assert_int_equal(plan.fails, HD_ELASTIC_FAILS_DEADLINE);
	assert_true(plan.reached > 200);
	/* No number of workers is enough: the floor of the most, beside what is wanted. */
	policy_set_plain(0.003, 1e6);
	assert_int_equal(
		hd_elastic_scan(policy_context, HD_ELASTIC_KIND_PREEMPTIBLE, &plan), -ERANGE
	);
	assert_int_equal(plan.fails, HD_ELASTIC_FAILS_ERROR);
	policy_near(plan.reached, 4.0 / 1024, 1e-12);
	policy_near(plan.allowed, 0.003, 0);
	policy_set_plain(0.6, 1e6);
	policy_task.iterations_max = 100;
	assert_int_equal(
		hd_elastic_scan(policy_context, HD_ELASTIC_KIND_PREEMPTIBLE, &plan), -ERANGE
	);
	assert_int_equal(plan.fails, HD_ELASTIC_FAILS_ITERATIONS);
}

/* The scan against every (n, J), with workers of which each is there seven times in ten. */
static void test_scan_is_exhaustive(void **state) {
	struct hd_elastic_plan plan, one, best;

	for (int i = 0; i < 5; i++) {
		const double deadline_s = 300 * pow(1.6, i);

		policy_set(&policy_even, deadline_s, 0.7);
		policy_task.active = (struct hd_active){HD_ACTIVE_BINOMIAL, .q = 0.7};
		hd_elastic_context_init(policy_context, &policy_task);
		best = (struct hd_elastic_plan
		){.fails = HD_ELASTIC_FAILS_ERROR, .reached = INFINITY, .allowed = 1};
		for (uint32_t n = 1; n <= 16; n++)
			for (uint32_t j = 1; j <= 3000; j++) {
				(void)hd_elastic_preemptible(policy_context, n, j, &one);
				if (one.fails == HD_ELASTIC_FAILS_NONE)
					hd_elastic_keep(&best, &one);
			}
		if (hd_elastic_scan(policy_context, HD_ELASTIC_KIND_PREEMPTIBLE, &plan)) {
			assert_int_not_equal(best.fails, HD_ELASTIC_FAILS_NONE);
			continue;
		}
		assert_int_equal(plan.n, best.n);
		assert_int_equal(plan.iterations, best.iterations);
		policy_near(plan.cost, best.cost, 1e-9);
	}
}

static void two_bid_exhaustive(const struct hd_elastic_price *price, double deadline_s) {
	struct hd_elastic_plan plan, one, best = {.fails = HD_ELASTIC_FAILS_ERROR, .allowed = 1};

	policy_set(price, deadline_s, 0.8);
	policy_task.n_max = 10;
	hd_elastic_context_init(policy_context, &policy_task);
	for (uint32_t n = 1; n <= 10; n++)
		for (uint32_t high = 1; high <= n; high++)
			for (uint32_t j = 1; j <= 1500; j++) {
				(void)hd_elastic_two_bid(policy_context, n, high, j, &one);
				if (one.fails == HD_ELASTIC_FAILS_NONE)
					hd_elastic_keep(&best, &one);
			}
	if (hd_elastic_scan(policy_context, HD_ELASTIC_KIND_TWO_BID, &plan)) {
		assert_int_not_equal(best.fails, HD_ELASTIC_FAILS_NONE);
		return;
	}
	assert_true(plan.cost <= best.cost * (1 + 1e-6));
}

static void test_two_bids_search(void **state) {
	two_bid_exhaustive(&policy_even, 500);
	two_bid_exhaustive(&policy_even, 900);
	two_bid_exhaustive(&policy_bell, 900);
}

/* On a staircase bids are rounded up; the plan holds its bounds nevertheless. */
static void test_stairs(void **state) {
	static const char trace[] = "0,0.2\n100,0.5\n150,0.3\n300,0.9\n310,0.25\n500,0.4\n";
	char error[128] = "";
	const struct hd_elastic_text in = {"t", trace, sizeof trace - 1, error, sizeof error};
	struct hd_elastic_price stairs;
	struct hd_elastic_plan plan;

	assert_int_equal(hd_elastic_price_trace(&in, 1, &stairs), 0);
	for (int i = 0; i < 19; i++) {
		const double deadline_s = 300 * pow(1.15, i);

		policy_set(&stairs, deadline_s, 0.8);
		for (int kind = 0; kind < HD_ELASTIC_KINDS; kind++) {
			if (hd_elastic_scan(policy_context, (enum hd_elastic_kind)kind, &plan))
				continue;
			assert_true(plan.error <= 0.8 * (1 + 1e-9));
			assert_true(plan.seconds <= deadline_s * (1 + 1e-9));
			assert_true(plan.cost > 0 && plan.n >= 1 && plan.n <= 16);
		}
	}
	hd_elastic_price_fini(&stairs);
}

static void test_all_kinds(void **state) {
	struct hd_elastic_plan plans[HD_ELASTIC_KINDS];
	char text[200];
	int best;

	policy_set(&policy_even, 2000, 0.8);
	best = hd_elastic_scan_all(policy_context, plans);
	assert_true(best >= 0);
	for (int kind = 0; kind < HD_ELASTIC_KINDS; kind++) {
		assert_int_equal(plans[kind].kind, kind);
		assert_int_equal(plans[kind].fails, HD_ELASTIC_FAILS_NONE);
		assert_true(plans[kind].cost >= plans[best].cost * (1 - 1e-9));
		assert_true(plans[kind].error <= 0.8 * (1 + 1e-9));
		assert_true(plans[kind].seconds <= 2000 * (1 + 1e-9));
		hd_elastic_why(&plans[kind], &plans[best], text, sizeof text);
		assert_non_null(strstr(text, kind == best ? "least money" : "costs"));
	}
	/* More freedom never costs more. */
	assert_true(plans[HD_ELASTIC_KIND_ONE_BID].cost <= plans[HD_ELASTIC_KIND_FIXED].cost);
	assert_true(plans[HD_ELASTIC_KIND_TWO_BID].cost <= plans[HD_ELASTIC_KIND_ONE_BID].cost);
	assert_true(plans[HD_ELASTIC_KIND_DYNAMIC].cost <= plans[HD_ELASTIC_KIND_ONE_BID].cost);
	assert_true(plans[HD_ELASTIC_KIND_GROWTH].cost <= plans[HD_ELASTIC_KIND_PREEMPTIBLE].cost);
	/* Nothing meets it: each says which bound, and by how much. */
	policy_set(&policy_even, 100, 0.8);
	assert_int_equal(hd_elastic_scan_all(policy_context, plans), -ERANGE);
	for (int kind = 0; kind < HD_ELASTIC_KINDS; kind++) {
		assert_int_equal(plans[kind].fails, HD_ELASTIC_FAILS_DEADLINE);
		hd_elastic_why(&plans[kind], NULL, text, sizeof text);
		assert_non_null(strstr(text, "s too many"));
	}
}

static void test_dynamic(void **state) {
	struct hd_elastic_plan plan, rest;

	policy_set(&policy_even, 2000, 0.8);
	assert_int_equal(hd_elastic_scan(policy_context, HD_ELASTIC_KIND_DYNAMIC, &plan), 0);
	if (plan.first_iterations > 0) {
		assert_int_equal(
			hd_elastic_replan(
				&policy_task, plan.first_error, 2000 - plan.first_s, &rest
			),
			0
		);
		assert_int_equal(rest.n, plan.n);
		assert_int_equal(rest.iterations + plan.first_iterations, plan.iterations);
		policy_near(rest.bid, plan.bid, 1e-12);
	}
	/* On time: the rest of the same plan. Late: a higher bid. Out of time or hope: it says so. */
	assert_int_equal(hd_elastic_replan(&policy_task, 1.5, 1500, &plan), 0);
	assert_int_equal(hd_elastic_replan(&policy_task, 1.5, 700, &rest), 0);
	assert_true(rest.bid > plan.bid && rest.cost > plan.cost);
	assert_int_equal(hd_elastic_replan(&policy_task, 1.5, 20, &rest), -ERANGE);
	assert_int_equal(rest.fails, HD_ELASTIC_FAILS_DEADLINE);
	policy_task.epsilon = 0.2;
	assert_int_equal(hd_elastic_replan(&policy_task, 1.5, 2000, &rest), -ERANGE);
	assert_int_equal(rest.fails, HD_ELASTIC_FAILS_ERROR);
	policy_near(rest.reached, 0.25, 1e-12);
}

static void test_growing(void **state) {
	double error = 2.3, seconds = 0;
	struct hd_elastic_plan plan;

	policy_set_plain(0.6, 1e6);
	policy_task.n_max = 20;
	hd_elastic_context_init(policy_context, &policy_task);
	assert_int_equal(hd_elastic_grow(policy_context, 2, 1.005, INFINITY, &plan), 0);
	const struct hd_elastic_growth g = {.first = 2, .eta = 1.005, .chi = 1, .most = 20};

	for (uint32_t j = 1; error > 0.6; j++) {
		error = 0.995 * error + 0.02 / hd_elastic_growth_workers(&g, j);
		seconds++;
	}
	policy_near(plan.seconds, seconds, 0);
	policy_near(plan.error, error, 1e-12);
	/* Two workers at first, and never enough at the end. */
	policy_task.epsilon = 0.15;
	assert_int_equal(hd_elastic_grow(policy_context, 2, 1.005, INFINITY, &plan), -ERANGE);
	assert_int_equal(plan.fails, HD_ELASTIC_FAILS_ERROR);
	policy_near(plan.reached, 0.2, 1e-12);
}

static void test_n_sync(void **state) {
	struct hd_elastic_plan plans[HD_ELASTIC_KINDS];

	policy_set(&policy_even, 1e5, 1.2);
	policy_task.pace
		= (struct hd_elastic_pace){.rate = 1, .sync = HD_ELASTIC_SYNC_FIRST, .needed = 4};
	hd_elastic_context_init(policy_context, &policy_task);
	assert_true(hd_elastic_scan_all(policy_context, plans) >= 0);
	assert_int_equal(plans[HD_ELASTIC_KIND_TWO_BID].fails, HD_ELASTIC_FAILS_KIND);
	for (int kind = 0; kind < HD_ELASTIC_KINDS; kind++)
		if (plans[kind].fails == HD_ELASTIC_FAILS_NONE) {
			assert_true(plans[kind].n >= 4 && isfinite(plans[kind].cost));
			policy_near(plans[kind].inverse, 0.25, 1e-12);
		}
}

static void test_task_check(void **state) {
	char error[128];

	policy_set(&policy_even, 2000, 0.8);
	assert_int_equal(hd_elastic_task_check(&policy_task, error, sizeof error), 0);
#define REFUSES(change, words)                                                                     \
	do {                                                                                       \
		policy_set(&policy_even, 2000, 0.8);                                               \
		change;                                                                            \
		assert_int_equal(                                                                  \
			hd_elastic_task_check(&policy_task, error, sizeof error), -EINVAL          \
		);                                                                                 \
		assert_string_equal(error, words);                                                 \
	} while (0)
	REFUSES(policy_task.model.a = NAN, "a: nan (above 0, up to 1e+30)");
	REFUSES(policy_task.model.b = -1, "b: -1 (from 0 to 1e+30)");
	REFUSES(policy_task.model.beta = 1, "beta: 1 (above 0, below 1)");
	REFUSES(policy_task.epsilon = 2.3, "epsilon: 2.3 (above 0, below a)");
	REFUSES(policy_task.deadline_s = 0, "deadline: 0 (above 0, up to 1e+12 s)");
	REFUSES(policy_task.n_max = 0, "n_max: 0 (from 1 to HD_WORKERS_MAX)");
	REFUSES(policy_task.iterations_max = 0, "iterations_max: 0 (1 to 1e+09)");
	REFUSES(policy_task.pace.n[1] = 4, "step_s: 4 (workers from 1, rising)");
	REFUSES(policy_task.pace.step_s[1] = 0, "step_s: 0 (above 0, up to 1e+12 s)");
	REFUSES(policy_task.active = ((struct hd_active){HD_ACTIVE_BINOMIAL, .q = 0}),
		"availability: 0 (above 1e-06, up to 1)");
	REFUSES(policy_task.pace = (struct hd_elastic_pace){0},
		"rate: 0 (above 0, up to 1e+12 a second)");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bids),
		cmocka_unit_test(test_market_played),
		cmocka_unit_test(test_clamps),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_scan),
		cmocka_unit_test(test_scan_is_exhaustive),
		cmocka_unit_test(test_two_bids_search),
		cmocka_unit_test(test_stairs),
		cmocka_unit_test(test_all_kinds),
		cmocka_unit_test(test_dynamic),
		cmocka_unit_test(test_growing),
		cmocka_unit_test(test_n_sync),
		cmocka_unit_test(test_task_check),
	};

	return cmocka_run_group_tests(tests, policy_begin, policy_end);
}
