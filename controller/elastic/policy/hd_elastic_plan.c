/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_elastic_plan.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

/* Bounds are met within this share: sums of doubles are not exact. */
#define SLACK 1e-9
#define RAISES_MAX 64 /* of a bid on a staircase */
#define CLOSED_ROUNDS_MAX                                                                          \
	100000 /* far more than needed: near the limit of feasibility J decreases one by one */

double hd_elastic_pace_s(const struct hd_elastic_pace *pace, uint32_t n) {
	const uint32_t last = pace->count - 1;
	uint32_t i = 1;
	double slope;

	if (pace->count == 0)
		return pace->fixed_s + hd_elastic_step_s(pace->sync, n, pace->needed, pace->rate);
	if (pace->count == 1 || n <= pace->n[0])
		return pace->step_s[0];
	while (i < last && n > pace->n[i])
		i++;
	slope = (pace->step_s[i] - pace->step_s[i - 1]) / (pace->n[i] - pace->n[i - 1]);
	if (n > pace->n[last] && slope < 0)
		return pace->step_s[last];
	return pace->step_s[i - 1] + slope * (n - pace->n[i - 1]);
}

/* --- the task --- */

static int refuse(char *error, size_t bytes, const char *field, double value, const char *limit) {
	(void)snprintf(error, bytes, "%s: %g (%s)", field, value, limit);
	return -EINVAL;
}

static int check_pace(const struct hd_elastic_pace *pace, char *error, size_t bytes) {
	if (pace->count > HD_ELASTIC_PACE_POINTS_MAX)
		return refuse(error, bytes, "step_s", pace->count, "at most 64 points");
	if (pace->count == 0 && !(pace->rate > 0 && pace->rate <= 1e12))
		return refuse(error, bytes, "rate", pace->rate, "above 0, up to 1e+12 a second");
	if (!(pace->fixed_s >= 0 && pace->fixed_s <= HD_ELASTIC_SECONDS_MAX))
		return refuse(error, bytes, "fixed_s", pace->fixed_s, "from 0 to 1e+12 s");
	for (uint32_t i = 0; i < pace->count; i++) {
		if (pace->n[i] < 1 || (i > 0 && pace->n[i] <= pace->n[i - 1]))
			return refuse(error, bytes, "step_s", pace->n[i], "workers from 1, rising");
		if (!(pace->step_s[i] > 0 && pace->step_s[i] <= HD_ELASTIC_SECONDS_MAX))
			return refuse(
				error, bytes, "step_s", pace->step_s[i], "above 0, up to 1e+12 s"
			);
	}
	if (pace->sync != HD_ELASTIC_SYNC_FULL
	    && (pace->needed < 1 || pace->needed > HD_WORKERS_MAX))
		return refuse(error, bytes, "sync", pace->needed, "N from 1 to HD_WORKERS_MAX");
	return 0;
}

int hd_elastic_task_check(const struct hd_elastic_task *task, char *error, size_t bytes) {
	const struct hd_elastic_model *m = &task->model;

	if (!(m->a > 0 && m->a <= HD_ELASTIC_ERROR_MAX))
		return refuse(error, bytes, "a", m->a, "above 0, up to 1e+30");
	if (!(m->b >= 0 && m->b <= HD_ELASTIC_ERROR_MAX))
		return refuse(error, bytes, "b", m->b, "from 0 to 1e+30");
	if (!(m->beta > 0 && m->beta <= 1 - 1e-12))
		return refuse(error, bytes, "beta", m->beta, "above 0, below 1");
	if (!(task->epsilon > 0 && task->epsilon < m->a))
		return refuse(error, bytes, "epsilon", task->epsilon, "above 0, below a");
	if (!(task->deadline_s > 0 && task->deadline_s <= HD_ELASTIC_SECONDS_MAX))
		return refuse(error, bytes, "deadline", task->deadline_s, "above 0, up to 1e+12 s");
	if (task->n_max < 1 || task->n_max > HD_WORKERS_MAX)
		return refuse(error, bytes, "n_max", task->n_max, "from 1 to HD_WORKERS_MAX");
	if (task->iterations_max < 1 || task->iterations_max > HD_ELASTIC_ITERATIONS_MAX)
		return refuse(error, bytes, "iterations_max", task->iterations_max, "1 to 1e+09");
	if (task->active.kind == HD_ACTIVE_BINOMIAL
	    && !(task->active.q > 1e-6 && task->active.q <= 1))
		return refuse(error, bytes, "availability", task->active.q, "above 1e-06, up to 1");
	if (task->active.kind == HD_ACTIVE_CHI && !(task->active.chi > 0 && task->active.chi <= 1))
		return refuse(error, bytes, "chi", task->active.chi, "above 0, up to 1");
	if (!(task->preempt_price <= HD_ELASTIC_PRICE_MAX))
		return refuse(error, bytes, "preempt_price", task->preempt_price, "up to 1e+09");
	return check_pace(&task->pace, error, bytes);
}

void hd_elastic_context_init(
	struct hd_elastic_context *context,
	const struct hd_elastic_task *task
) {
	const struct hd_elastic_pace *pace = &task->pace;

	context->task = task;
	context->preempt_price = task->preempt_price >= 0 ?
		task->preempt_price :
		hd_elastic_price_mean(task->price, task->price->high);
	hd_active_inverses(&task->active, task->n_max, context->active_inverse);
	for (uint32_t n = 1; n <= task->n_max; n++) {
		context->step_s[n] = hd_elastic_pace_s(pace, n);
		context->inverse[n] = 1.0 / n;
		if (pace->sync == HD_ELASTIC_SYNC_FULL)
			continue;
		/* N updates a step, however many workers compute; fewer than N never complete one. */
		context->inverse[n] = context->active_inverse[n] = 1.0 / pace->needed;
		if (n < pace->needed)
			context->step_s[n] = INFINITY;
	}
}

/* --- plans with given numbers --- */

static void fail(struct hd_elastic_plan *plan, enum hd_elastic_fails why, double is, double most) {
	plan->fails = why;
	plan->reached = is;
	plan->allowed = most;
}

/* Finds the bound that fails. */
static void judge(const struct hd_elastic_task *task, struct hd_elastic_plan *plan) {
	fail(plan, HD_ELASTIC_FAILS_NONE, 0, 0);
	if (!(plan->error <= task->epsilon * (1 + SLACK)))
		fail(plan, HD_ELASTIC_FAILS_ERROR, plan->error, task->epsilon);
	else if (plan->iterations > task->iterations_max)
		fail(plan, HD_ELASTIC_FAILS_ITERATIONS, plan->iterations, task->iterations_max);
	else if (!(plan->seconds <= task->deadline_s * (1 + SLACK)))
		fail(plan, HD_ELASTIC_FAILS_DEADLINE, plan->seconds, task->deadline_s);
}

void hd_elastic_evaluate(const struct hd_elastic_context *context, struct hd_elastic_plan *plan) {
	const struct hd_elastic_task *task = context->task;
	const struct hd_elastic_price *price = task->price;
	const uint32_t n = plan->n, high = plan->n_high;
	const double some = hd_elastic_price_share(price, plan->bid);
	const double all
		= plan->bid_low >= plan->bid ? some : hd_elastic_price_share(price, plan->bid_low);
	const double steps = plan->iterations;
	double step_s, work, pay;

	plan->gamma = some > 0 ? all / some : 1;
	plan->inverse
		= plan->gamma * context->inverse[n] + (1 - plan->gamma) * context->inverse[high];
	plan->error = hd_elastic_error(&task->model, plan->inverse, plan->iterations);
	step_s = plan->gamma * context->step_s[n];
	work = n * step_s;
	pay = n * context->step_s[n] * hd_elastic_price_paid(price, fmin(plan->bid_low, plan->bid));
	/* With one bid there is no second part (and n_high may be too few for N-sync: 0 x infinity). */
	if (plan->gamma < 1) {
		const double part_s = (1 - plan->gamma) * context->step_s[high];

		step_s += part_s;
		work += high * part_s;
		pay += high * context->step_s[high]
			* (hd_elastic_price_paid(price, plan->bid)
			   - hd_elastic_price_paid(price, fmin(plan->bid_low, plan->bid)));
	}
	plan->seconds = some > 0 ? steps * step_s / some : INFINITY;
	plan->worker_s = steps * work;
	plan->cost = some > 0 ? steps * pay / some : 0;
	judge(task, plan);
}

/* Even the highest bid is too low: the plan with that one. */
static int over_time(const struct hd_elastic_context *context, struct hd_elastic_plan *plan) {
	plan->bid = plan->bid_low = context->task->price->high;
	hd_elastic_evaluate(context, plan);
	if (plan->fails == HD_ELASTIC_FAILS_NONE)
		return 0;
	return -ERANGE;
}

/* Bids for a share of the time; on a staircase they are raised until the deadline is met. */
static int place_bids(
	const struct hd_elastic_context *context,
	double share,
	double gamma,
	struct hd_elastic_plan *plan
) {
	const struct hd_elastic_price *price = context->task->price;

	for (int i = 0; i < RAISES_MAX && share <= 1 + SLACK; i++) {
		plan->bid = hd_elastic_price_bid(price, share);
		plan->bid_low = plan->bid;
		if (plan->n_high < plan->n)
			plan->bid_low = hd_elastic_price_bid(
				price, gamma * hd_elastic_price_share(price, plan->bid)
			);
		hd_elastic_evaluate(context, plan);
		if (plan->fails != HD_ELASTIC_FAILS_DEADLINE)
			return plan->fails == HD_ELASTIC_FAILS_NONE ? 0 : -ERANGE;
		share = fmax(share, hd_elastic_price_share(price, plan->bid))
			* (plan->seconds / context->task->deadline_s) * (1 + SLACK);
	}
	return over_time(context, plan);
}

int hd_elastic_one_bid(
	const struct hd_elastic_context *context,
	uint32_t n,
	uint32_t iterations,
	struct hd_elastic_plan *plan
) {
	const double share = iterations * context->step_s[n] / context->task->deadline_s;

	*plan = (struct hd_elastic_plan
	){.kind = HD_ELASTIC_KIND_ONE_BID, .n = n, .n_high = n, .iterations = iterations};
	return place_bids(context, share, 1, plan);
}

int hd_elastic_two_bid(
	const struct hd_elastic_context *context,
	uint32_t n,
	uint32_t n_high,
	uint32_t iterations,
	struct hd_elastic_plan *plan
) {
	const struct hd_elastic_task *task = context->task;
	const double needed = hd_elastic_needed(&task->model, task->epsilon, iterations);
	const double few = context->inverse[n_high], many = context->inverse[n];
	double gamma, step_s;

	*plan = (struct hd_elastic_plan){
		.kind = HD_ELASTIC_KIND_TWO_BID,
		.n = n,
		.n_high = n_high,
		.iterations = iterations,
	};
	if (task->pace.sync != HD_ELASTIC_SYNC_FULL) {
		plan->bid = plan->bid_low = task->price->high;
		hd_elastic_evaluate(context, plan);
		fail(plan, HD_ELASTIC_FAILS_KIND, 0, 0);
		return -ERANGE;
	}
	/* gamma*: both bounds tight. Below 0: n_high workers alone are enough; above 1: n are too few. */
	gamma = n_high < n ? (few - needed) / (few - many) : 1;
	gamma = gamma < 0 ? 0 : gamma > 1 ? 1 : gamma;
	step_s = gamma * context->step_s[n] + (1 - gamma) * context->step_s[n_high];
	(void)place_bids(context, iterations * step_s / task->deadline_s, gamma, plan);
	if (task->price->kind == HD_ELASTIC_PRICE_TRACE)
		(void)hd_elastic_stairs(context, n, n_high, iterations, plan);
	return plan->fails == HD_ELASTIC_FAILS_NONE ? 0 : -ERANGE;
}

int hd_elastic_preemptible(
	const struct hd_elastic_context *context,
	uint32_t n,
	uint32_t iterations,
	struct hd_elastic_plan *plan
) {
	const struct hd_elastic_task *task = context->task;
	const double any = hd_active_any(&task->active, n), steps = iterations;

	*plan = (struct hd_elastic_plan){
		.kind = HD_ELASTIC_KIND_PREEMPTIBLE,
		.n = n,
		.n_high = n,
		.iterations = iterations,
		.bid = -1,
		.bid_low = -1,
		.gamma = 1,
		.inverse = context->active_inverse[n],
	};
	plan->error = hd_elastic_error(&task->model, plan->inverse, iterations);
	/* Times without any worker are waited for, but not paid. */
	plan->seconds = steps * context->step_s[n] / any;
	plan->worker_s = steps * context->step_s[n] * hd_active_mean(&task->active, n);
	plan->cost = plan->worker_s * context->preempt_price;
	judge(task, plan);
	return plan->fails == HD_ELASTIC_FAILS_NONE ? 0 : -ERANGE;
}

/* --- the closed form --- */

/* The epsilon of the stationary point J; decreases with J. */
static double stationary_error(const struct hd_elastic_model *m, double steps) {
	const double rate = -log(m->beta), left = exp(-rate * steps);

	return m->a * left * (steps * rate + 1 - left) / (1 + left * (steps * rate - 1));
}

/* n(J): workers that J steps need, real; INFINITY when no number is enough. */
static double workers_for(const struct hd_elastic_model *m, double epsilon, double steps) {
	const double left = exp(steps * log(m->beta)), room = epsilon - m->a * left;

	return room > 0 ? m->b * (1 - left) / ((1 - m->beta) * room) : INFINITY;
}

int hd_elastic_closed(
	const struct hd_elastic_model *model,
	double epsilon,
	uint32_t most,
	struct hd_elastic_closed *closed
) {
	const double least = log(model->a / epsilon) / -log(model->beta);
	double low = least, high = least + 1, best;

	if (!isfinite(workers_for(model, epsilon, most)))
		return -ERANGE;
	while (stationary_error(model, high) > epsilon && high < 1e15)
		high *= 2;
	for (int i = 0; i < 200 && high - low > 1e-9 * high; i++) {
		const double middle = (low + high) / 2;

		if (stationary_error(model, middle) > epsilon)
			low = middle;
		else
			high = middle;
	}
	closed->stationary = (low + high) / 2;
	best = floor(closed->stationary);
	if (!(best * workers_for(model, epsilon, best)
	      <= (best + 1) * workers_for(model, epsilon, best + 1)))
		best++;
	best = best < most ? best : most;
	closed->iterations = (uint32_t)best;
	closed->n = fmax(1, ceil(workers_for(model, epsilon, best) * (1 - 1e-12)));
	return 0;
}

/* Fewer steps need more workers, whose steps are slower: from above, J decreases to the largest that meets the
 * deadline. */
int hd_elastic_closed_in_time(
	const struct hd_elastic_task *task,
	struct hd_elastic_closed *closed
) {
	uint32_t most = task->iterations_max;

	for (int i = 0; i < CLOSED_ROUNDS_MAX; i++) {
		struct hd_elastic_closed found;
		double room;

		if (hd_elastic_closed(&task->model, task->epsilon, most, &found))
			return -ERANGE;
		room = task->deadline_s * (1 + SLACK)
			/ hd_elastic_pace_s(&task->pace, (uint32_t)fmin(found.n, UINT32_MAX));
		if (found.iterations <= room) {
			*closed = found;
			return 0;
		}
		if (room < 1)
			return -ERANGE;
		most = (uint32_t)room;
	}
	return -ERANGE;
}
