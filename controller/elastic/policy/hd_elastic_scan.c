/* SPDX-License-Identifier: BSD-3-Clause */
/* The best plan of each kind, over the numbers of workers and of steps. */
#include "hd_elastic_plan.h"

#include <errno.h>
#include <math.h>
#include <string.h>

uint32_t hd_elastic_next_n(uint32_t n) {
	return n < 32 ? n + 1 : n + n / 8;
}

/* The bound that fails shows how near a plan came: the error is checked first, the deadline last. */
void hd_elastic_keep(struct hd_elastic_plan *best, const struct hd_elastic_plan *other) {
	bool better;

	if (other->fails == HD_ELASTIC_FAILS_NONE)
		better = best->fails != HD_ELASTIC_FAILS_NONE || other->cost < best->cost;
	else if (best->fails == HD_ELASTIC_FAILS_NONE)
		better = false;
	else if (best->fails != other->fails)
		better = other->fails > best->fails;
	else
		better = other->reached < best->reached;
	if (better)
		*best = *other;
}

/* One plan for n workers with the fewest steps for the error. If the error cannot be reached: the plan of the most
 * steps, with the limit of the error. */
static void plan_for(
	const struct hd_elastic_context *context,
	enum hd_elastic_kind kind,
	uint32_t n,
	struct hd_elastic_plan *plan
) {
	const struct hd_elastic_task *task = context->task;
	const bool preempted = kind == HD_ELASTIC_KIND_PREEMPTIBLE;
	const double inverse = preempted ? context->active_inverse[n] : context->inverse[n];
	uint32_t iterations;
	const int status = hd_elastic_iterations(&task->model, inverse, task->epsilon, &iterations);

	if (status)
		iterations = task->iterations_max;
	if (preempted) {
		(void)hd_elastic_preemptible(context, n, iterations, plan);
	} else if (kind == HD_ELASTIC_KIND_FIXED) {
		*plan = (struct hd_elastic_plan
		){.n = n, .n_high = n, .iterations = iterations, .bid = task->price->high};
		plan->bid_low = plan->bid;
		hd_elastic_evaluate(context, plan);
	} else {
		(void)hd_elastic_one_bid(context, n, iterations, plan);
	}
	plan->kind = kind;
	if (status) {
		plan->fails = HD_ELASTIC_FAILS_ERROR;
		plan->reached = hd_elastic_floor(&task->model, inverse);
		plan->allowed = task->epsilon;
	}
}

static void
scan_n(const struct hd_elastic_context *context,
       enum hd_elastic_kind kind,
       struct hd_elastic_plan *best) {
	plan_for(context, kind, 1, best);
	for (uint32_t n = 2; n <= context->task->n_max; n++) {
		struct hd_elastic_plan plan;

		plan_for(context, kind, n, &plan);
		hd_elastic_keep(best, &plan);
	}
}

/* --- two bids --- */

/* The search over J minimises this: the cost, and above all costs the excess over the bound. */
static double height(const struct hd_elastic_plan *plan) {
	if (plan->fails == HD_ELASTIC_FAILS_NONE)
		return plan->cost;
	return 1e100 * (1 + plan->reached / plan->allowed);
}

/* The best J for n and n_high. On a trace, that of the best bids; else from the fewest steps of n to those of n_high,
 * between which the cost has one minimum (tests compare with every J). Golden section over whole numbers. */
static void two_bid_for(
	const struct hd_elastic_context *context,
	uint32_t n,
	uint32_t n_high,
	struct hd_elastic_plan *best
) {
	const struct hd_elastic_task *task = context->task;
	struct hd_elastic_plan one, two;
	uint32_t low, high;

	if (task->price->kind == HD_ELASTIC_PRICE_TRACE) {
		(void)hd_elastic_stairs(context, n, n_high, 0, best);
		return;
	}
	if (hd_elastic_iterations(&task->model, context->inverse[n], task->epsilon, &low)
	    || low > task->iterations_max)
		return;
	if (hd_elastic_iterations(&task->model, context->inverse[n_high], task->epsilon, &high)
	    || high > task->iterations_max)
		high = task->iterations_max;
	/* More steps than fit into the deadline, at the faster pace, are never a plan. */
	one.seconds = task->deadline_s / fmin(context->step_s[n], context->step_s[n_high]);
	if (one.seconds < high)
		high = one.seconds > low ? (uint32_t)one.seconds : low;
	while (high - low > 2) {
		const uint32_t part = (uint32_t)((high - low) * 0.381966) + 1;

		(void)hd_elastic_two_bid(context, n, n_high, low + part, &one);
		(void)hd_elastic_two_bid(context, n, n_high, high - part, &two);
		if (low + part >= high - part)
			break;
		if (height(&one) <= height(&two))
			high -= part;
		else
			low += part;
	}
	for (uint32_t j = low; j <= high; j++) {
		(void)hd_elastic_two_bid(context, n, n_high, j, &one);
		hd_elastic_keep(best, &one);
	}
}

/* From the best of the grid downhill, in decreasing steps of workers. */
static void refine(const struct hd_elastic_context *context, struct hd_elastic_plan *best) {
	static const int moves[][2]
		= {{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
	const int most = (int)context->task->n_max;

	for (int step = best->n > 32 ? (int)best->n / 16 : 1; step > 0;) {
		const struct hd_elastic_plan from = *best;

		for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
			const int n = (int)from.n + step * moves[i][0];
			const int n_high = (int)from.n_high + step * moves[i][1];

			if (n_high >= 1 && n_high <= n && n <= most)
				two_bid_for(context, (uint32_t)n, (uint32_t)n_high, best);
		}
		if (best->n == from.n && best->n_high == from.n_high)
			step /= 2;
	}
}

static void scan_two(const struct hd_elastic_context *context, struct hd_elastic_plan *best) {
	const uint32_t most = context->task->n_max;

	/* One bid is two equal ones. */
	scan_n(context, HD_ELASTIC_KIND_ONE_BID, best);
	best->kind = HD_ELASTIC_KIND_TWO_BID;
	if (context->task->pace.sync != HD_ELASTIC_SYNC_FULL) {
		(void)hd_elastic_two_bid(context, best->n, best->n, best->iterations, best);
		return;
	}
	for (uint32_t n = 2; n <= most;
	     n = n < most && hd_elastic_next_n(n) > most ? most : hd_elastic_next_n(n))
		for (uint32_t n_high = 1; n_high < n; n_high = hd_elastic_next_n(n_high))
			two_bid_for(context, n, n_high, best);
	if (best->fails == HD_ELASTIC_FAILS_NONE)
		refine(context, best);
}

int hd_elastic_scan(
	const struct hd_elastic_context *context,
	enum hd_elastic_kind kind,
	struct hd_elastic_plan *plan
) {
	memset(plan, 0, sizeof *plan);
	switch (kind) {
	case HD_ELASTIC_KIND_TWO_BID:
		scan_two(context, plan);
		break;
	case HD_ELASTIC_KIND_GROWTH:
		hd_elastic_scan_growth(context, plan);
		break;
	case HD_ELASTIC_KIND_DYNAMIC:
		hd_elastic_scan_dynamic(context, plan);
		break;
	case HD_ELASTIC_KIND_FIXED:
	case HD_ELASTIC_KIND_ONE_BID:
	case HD_ELASTIC_KIND_PREEMPTIBLE:
	case HD_ELASTIC_KINDS:
		scan_n(context, kind, plan);
		break;
	}
	return plan->fails == HD_ELASTIC_FAILS_NONE ? 0 : -ERANGE;
}

int hd_elastic_scan_all(const struct hd_elastic_context *context, struct hd_elastic_plan *plans) {
	int best = -ERANGE;

	for (int kind = 0; kind < HD_ELASTIC_KINDS; kind++)
		if (hd_elastic_scan(context, (enum hd_elastic_kind)kind, &plans[kind]) == 0
		    && (best < 0 || plans[kind].cost < plans[best].cost * (1 - 1e-12)))
			best = kind;
	return best;
}
