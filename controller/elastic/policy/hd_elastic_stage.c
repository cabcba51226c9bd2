/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans that change while they run: a growing number of workers, and a second bid after a first stage. */
#include "hd_elastic_plan.h"

#include <errno.h>
#include <math.h>

#define STAGES 8 /* shares of the steps and of the time that a first stage may take: 1/9 .. 8/9 */

/* --- growth --- */

/* The last n stays for the rest: all its steps at once. */
static void
grow_on(const struct hd_elastic_context *context,
	uint32_t n,
	double error,
	struct hd_elastic_plan *plan) {
	const struct hd_elastic_task *task = context->task;
	struct hd_elastic_task rest = *task;
	const double inverse = context->active_inverse[n];
	const double any = hd_active_any(&task->active, n);
	const double work = context->step_s[n] * hd_active_mean(&task->active, n);
	uint32_t left;

	rest.model.a = error;
	plan->inverse = inverse;
	if (hd_elastic_iterations(&rest.model, inverse, task->epsilon, &left)) {
		plan->fails = HD_ELASTIC_FAILS_ERROR;
		plan->reached = hd_elastic_floor(&task->model, inverse);
		plan->allowed = task->epsilon;
		return;
	}
	plan->error = hd_elastic_error(&rest.model, inverse, left);
	plan->iterations += left;
	plan->seconds += left * context->step_s[n] / any;
	plan->worker_s += left * work;
}

static void judge_growth(const struct hd_elastic_task *task, struct hd_elastic_plan *plan) {
	if (plan->fails != HD_ELASTIC_FAILS_NONE)
		return;
	if (plan->iterations > task->iterations_max) {
		plan->fails = HD_ELASTIC_FAILS_ITERATIONS;
		plan->reached = plan->iterations;
		plan->allowed = task->iterations_max;
	} else if (plan->seconds > task->deadline_s) {
		plan->fails = HD_ELASTIC_FAILS_DEADLINE;
		plan->reached = plan->seconds;
		plan->allowed = task->deadline_s;
	}
}

/* The last step that has as many workers as step j: by the logarithm, which may be off by one. */
static uint32_t last_like(const struct hd_elastic_growth *g, uint32_t j, uint32_t n) {
	const double steps = 1 + log(n / g->first) / log(g->eta);
	uint32_t last = steps < HD_ELASTIC_ITERATIONS_MAX ? (uint32_t)fmax(steps, j) :
							    HD_ELASTIC_ITERATIONS_MAX;

	while (last > j && hd_elastic_growth_workers(g, last) > n)
		last--;
	while (last < HD_ELASTIC_ITERATIONS_MAX && hd_elastic_growth_workers(g, last + 1) <= n)
		last++;
	return last;
}

int hd_elastic_grow(
	const struct hd_elastic_context *context,
	uint32_t first,
	double eta,
	double cost_most,
	struct hd_elastic_plan *plan
) {
	const struct hd_elastic_task *task = context->task;
	const struct hd_elastic_growth growth = {first, eta, 1, task->n_max};
	struct hd_elastic_model rest = task->model;
	uint32_t n = first;

	*plan = (struct hd_elastic_plan){
		.kind = HD_ELASTIC_KIND_GROWTH,
		.n_high = first,
		.bid = -1,
		.bid_low = -1,
		.gamma = 1,
		.eta = eta,
	};
	/* From one number of workers to the next, all steps of each at once. */
	while (eta > 1 && n < task->n_max && rest.a > task->epsilon
	       && plan->iterations < task->iterations_max
	       && plan->worker_s * context->preempt_price <= cost_most) {
		uint32_t steps = last_like(&growth, plan->iterations + 1, n) - plan->iterations;
		uint32_t enough;

		plan->inverse = context->active_inverse[n];
		if (!hd_elastic_iterations(&rest, plan->inverse, task->epsilon, &enough)
		    && enough < steps)
			steps = enough;
		rest.a = hd_elastic_error(&rest, plan->inverse, steps);
		plan->seconds += steps * context->step_s[n] / hd_active_any(&task->active, n);
		plan->worker_s += steps * context->step_s[n] * hd_active_mean(&task->active, n);
		plan->iterations += steps;
		plan->n = n;
		n = hd_elastic_growth_workers(&growth, plan->iterations + 1);
	}
	plan->error = rest.a;
	if (rest.a > task->epsilon) {
		plan->n = n;
		grow_on(context, n, rest.a, plan);
	}
	plan->cost = plan->worker_s * context->preempt_price;
	judge_growth(task, plan);
	return plan->fails == HD_ELASTIC_FAILS_NONE ? 0 : -ERANGE;
}

void hd_elastic_scan_growth(
	const struct hd_elastic_context *context,
	struct hd_elastic_plan *best
) {
	const uint32_t most = context->task->n_max;
	struct hd_elastic_plan still, plan;

	(void)hd_elastic_scan(context, HD_ELASTIC_KIND_PREEMPTIBLE, &still);
	*best = still;
	best->kind = HD_ELASTIC_KIND_GROWTH;
	best->eta = 1; /* no growth is the smallest of them */
	if (still.fails == HD_ELASTIC_FAILS_ERROR)
		return;
	/* From n_1 to n_max within a quarter to eight times the steps of the plan without growth. */
	for (uint32_t first = 1; first < most; first *= 2)
		for (int part = 0; part <= 5; part++) {
			const double steps = ldexp(still.iterations, part - 2);
			const double eta = exp(log((double)most / first) / fmax(steps, 1));
			const bool met = best->fails == HD_ELASTIC_FAILS_NONE;

			(void
			)hd_elastic_grow(context, first, eta, met ? best->cost : INFINITY, &plan);
			hd_elastic_keep(best, &plan);
		}
}

/* --- stages --- */

/* The fewest steps with n workers from here, and the bid for the remaining time. False: the floor is too high. */
static bool plan_rest(
	const struct hd_elastic_task *task,
	const struct hd_elastic_model *model,
	double left_s,
	struct hd_elastic_plan *plan
) {
	const bool full = task->pace.sync == HD_ELASTIC_SYNC_FULL;
	const double step_s = hd_elastic_pace_s(&task->pace, plan->n);
	double share;

	plan->inverse = 1.0 / (full ? plan->n : task->pace.needed);
	if (hd_elastic_iterations(model, plan->inverse, task->epsilon, &plan->iterations))
		return false;
	share = plan->iterations * step_s / left_s;
	plan->bid = plan->bid_low = hd_elastic_price_bid(task->price, share);
	plan->error = hd_elastic_error(model, plan->inverse, plan->iterations);
	plan->worker_s = plan->iterations * plan->n * step_s;
	plan->seconds = plan->iterations * step_s / hd_elastic_price_share(task->price, plan->bid);
	plan->cost = plan->worker_s * hd_elastic_price_mean(task->price, plan->bid);
	if (share > 1) {
		plan->fails = HD_ELASTIC_FAILS_DEADLINE;
		plan->reached = plan->seconds;
		plan->allowed = left_s;
	}
	return true;
}

int hd_elastic_replan(
	const struct hd_elastic_task *task,
	double error_now,
	double left_s,
	struct hd_elastic_plan *best
) {
	const bool full = task->pace.sync == HD_ELASTIC_SYNC_FULL;
	struct hd_elastic_model model = task->model;

	model.a = error_now;
	*best = (struct hd_elastic_plan){
		.kind = HD_ELASTIC_KIND_DYNAMIC,
		.fails = HD_ELASTIC_FAILS_ERROR,
		.reached = hd_elastic_floor(&model, 1.0 / (full ? task->n_max : task->pace.needed)),
		.allowed = task->epsilon,
		.n = task->n_max,
		.n_high = task->n_max,
		.error = error_now,
	};
	for (uint32_t n = full ? 1 : task->pace.needed; n <= task->n_max;) {
		struct hd_elastic_plan plan
			= {.kind = HD_ELASTIC_KIND_DYNAMIC, .n = n, .n_high = n, .gamma = 1};
		const uint32_t next = hd_elastic_next_n(n);

		if (plan_rest(task, &model, left_s, &plan))
			hd_elastic_keep(best, &plan);
		/* The maximum belongs to the grid. */
		n = n < task->n_max && next > task->n_max ? task->n_max : next;
	}
	return best->fails == HD_ELASTIC_FAILS_NONE ? 0 : -ERANGE;
}

/* A first stage of these steps with n workers in this share of the time; then the rest is planned again. */
static void try_stage(
	const struct hd_elastic_context *context,
	const struct hd_elastic_plan *first,
	double share_s,
	struct hd_elastic_plan *best
) {
	const struct hd_elastic_task *task = context->task;
	const double stage_s = task->deadline_s * share_s;
	const double share = first->iterations * context->step_s[first->n] / stage_s;
	const double bid = hd_elastic_price_bid(task->price, share);
	struct hd_elastic_plan plan;
	double spent_s, work, error;

	if (share > 1)
		return;
	error = hd_elastic_error(&task->model, context->inverse[first->n], first->iterations);
	spent_s = first->iterations * context->step_s[first->n]
		/ hd_elastic_price_share(task->price, bid);
	if (error <= task->epsilon
	    || hd_elastic_replan(task, error, task->deadline_s - spent_s, &plan))
		return;
	work = first->iterations * first->n * context->step_s[first->n];
	plan.first_n = first->n;
	plan.first_iterations = first->iterations;
	plan.first_bid = bid;
	plan.first_s = spent_s;
	plan.first_error = error;
	plan.iterations += first->iterations;
	plan.seconds += spent_s;
	plan.worker_s += work;
	plan.cost += work * hd_elastic_price_mean(task->price, bid);
	if (plan.iterations <= task->iterations_max)
		hd_elastic_keep(best, &plan);
}

void hd_elastic_scan_dynamic(
	const struct hd_elastic_context *context,
	struct hd_elastic_plan *best
) {
	struct hd_elastic_plan one;

	(void)hd_elastic_scan(context, HD_ELASTIC_KIND_ONE_BID, &one);
	*best = one;
	best->kind = HD_ELASTIC_KIND_DYNAMIC;
	if (one.fails != HD_ELASTIC_FAILS_NONE)
		return;
	for (uint32_t n = 1; n <= one.n; n = hd_elastic_next_n(n))
		for (uint32_t steps = 1; steps <= STAGES; steps++)
			for (uint32_t part = 1; part <= STAGES; part++) {
				const uint64_t j = (uint64_t)one.iterations * steps / (STAGES + 1);
				const struct hd_elastic_plan first
					= {.n = n, .n_high = n, .iterations = (uint32_t)j};

				if (j > 0)
					try_stage(context, &first, part / (STAGES + 1.0), best);
			}
}
