/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two bids on a trace. Its prices are levels, F is a staircase, and the closed form's bids fall between levels: rounded
 * up, they pay for more time than needed, and their number of steps is no longer optimal. So here the bids are chosen
 * first, then the fewest steps that the two levels allow. Over pairs of levels the cost has many local minima; a branch
 * and bound finds the smallest.
 *
 *   low |    . ' box: high in [high.first, high.last], low in the same way. No plan of it has fewer steps than with
 *       |  .[__]  the greatest share of all n, nor pays less for a step than at the least levels, nor has
 *       |.'____ high   more time than at the highest: a box that cannot be better is skipped.
 */
#include "hd_elastic_plan.h"

#include <assert.h>
#include <math.h>

#define BOXES_MAX                                                                                  \
	128 /* on the stack: each halving leaves one, and 2 x 32 halvings end at a pair of levels */
#define EQUAL 1e-12 /* bounds are sums of doubles */

struct levels {
	size_t first, last;
};

struct box {
	struct levels high, low;
};

struct search {
	const struct hd_elastic_context *context;
	uint32_t n, n_high;
	uint32_t iterations; /* 0: the fewest */
	struct hd_elastic_plan *best;
};

/* The steps at this share of all n. False: the permitted number of steps does not reach the error. */
static bool steps_at(const struct search *s, double gamma, uint32_t *steps) {
	const struct hd_elastic_task *task = s->context->task;
	const double *inverse = s->context->inverse;
	const double mean = gamma * inverse[s->n] + (1 - gamma) * inverse[s->n_high];

	*steps = s->iterations;
	if (s->iterations == 0)
		return !hd_elastic_iterations(&task->model, mean, task->epsilon, steps)
			&& *steps <= task->iterations_max;
	return hd_elastic_error(&task->model, mean, s->iterations) <= task->epsilon * (1 + 1e-9);
}

/* Whether no plan of the box meets the deadline, reaches the error and costs less than the best. */
static bool hopeless(const struct search *s, const struct box *box) {
	const struct hd_elastic_task *task = s->context->task;
	const struct hd_elastic_price *p = task->price;
	const double least = p->share[box->high.first], most = p->share[box->high.last];
	const double all_s = s->context->step_s[s->n], few_s = s->context->step_s[s->n_high];
	/* The price of a step with all workers minus that of one with few. */
	const double more = s->n * all_s - s->n_high * few_s;
	const double all_most = fmin(p->share[box->low.last] / least, 1);
	const double all_least = fmin(p->share[box->low.first] / most, 1);
	const double step_s = few_s + (all_s - few_s) * (all_s > few_s ? all_least : all_most);
	double pay;
	uint32_t steps;

	if (!steps_at(s, all_most, &steps) || steps * step_s / most > task->deadline_s * (1 + 1e-9))
		return true;
	if (s->best->fails != HD_ELASTIC_FAILS_NONE)
		return false;
	pay = s->n_high * few_s * p->paid[box->high.first] / least;
	pay += more >= 0 ? more * p->paid[box->low.first] / most :
			   more * p->paid[box->low.last] / least;
	return steps * pay >= s->best->cost * (1 - EQUAL);
}

static void try_levels(const struct search *s, size_t high, size_t low) {
	const struct hd_elastic_price *p = s->context->task->price;
	struct hd_elastic_plan plan = {
		.kind = HD_ELASTIC_KIND_TWO_BID,
		.n = s->n,
		.n_high = s->n_high,
		.bid = p->level[high],
		.bid_low = p->level[low],
	};

	if (!steps_at(s, p->share[low] / p->share[high], &plan.iterations))
		return;
	hd_elastic_evaluate(s->context, &plan);
	if (plan.fails == HD_ELASTIC_FAILS_NONE)
		hd_elastic_keep(s->best, &plan);
}

/* 64 prices give 4,096 pairs, and one halving fewer separates all of them. */
static_assert(HD_ELASTIC_LOOKS_MAX >= 2 * 64 * 64 - 1, "docs/elastic.md");

/* Both halves of the longer side; the lower one is tried first. */
static uint32_t halve(const struct box *box, struct box *halves) {
	const size_t wide = box->high.last - box->high.first, tall = box->low.last - box->low.first;

	halves[0] = halves[1] = *box;
	if (wide >= tall) {
		halves[1].high.last = box->high.first + wide / 2;
		halves[0].high.first = halves[1].high.last + 1;
	} else {
		halves[1].low.last = box->low.first + tall / 2;
		halves[0].low.first = halves[1].low.last + 1;
	}
	return 2;
}

uint32_t hd_elastic_stairs(
	const struct hd_elastic_context *context,
	uint32_t n,
	uint32_t n_high,
	uint32_t iterations,
	struct hd_elastic_plan *best
) {
	const struct search s = {context, n, n_high, iterations, best};
	const size_t top = context->task->price->levels - 1;
	struct box boxes[BOXES_MAX] = {{{0, top}, {0, top}}};
	uint32_t looks = 0;

	for (uint32_t count = 1; count > 0 && looks < HD_ELASTIC_LOOKS_MAX; looks++) {
		struct box box = boxes[--count];

		/* The low bid is not above the high one. */
		if (box.low.first > box.high.last)
			continue;
		box.low.last = box.low.last < box.high.last ? box.low.last : box.high.last;
		if (hopeless(&s, &box))
			continue;
		if (box.high.first == box.high.last && box.low.first == box.low.last) {
			try_levels(&s, box.high.first, box.low.first);
			continue;
		}
		assert(count + 2 <= BOXES_MAX);
		count += halve(&box, &boxes[count]);
	}
	return looks;
}
