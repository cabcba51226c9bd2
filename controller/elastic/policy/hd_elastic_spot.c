/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policies for instances that come and go with their price: one-bid, two-bid, preemptible and dynamic. The first
 * three apply a plan of `heddlectl elastic plan`; dynamic plans by itself, again and again, with the remaining time and
 * error (Zhang et al., arXiv 2003.05649, sections 4 to 6; hd_elastic_plan.h has the formulas).
 *
 * Prices are for a worker and an hour, as in the observations. Bids also work without an auction: the policy compares
 * the price itself. While the price is unknown, all workers are wanted.
 */
#include "hd_elastic_plan.h"
#include "hd_elastic_policy.h"
#include "hd_elastic_text.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>

#define HOUR 3600.0
#define NUMBER .least = 1, .most = HD_WORKERS_MAX, .whole = true
#define PRICE .least = 0, .most = HD_ELASTIC_PRICE_MAX
#define STEPS .most = HD_ELASTIC_ITERATIONS_MAX, .whole = true

/* The steps of the plan are done: more have no use. */
static bool done(const struct hd_elastic *e, double steps, struct hd_elastic_decision *out) {
	if (!(steps > 0) || (double)e->account.step < steps)
		return false;
	hd_elastic_explain(out, 1, "all %.0f steps of the plan are done", steps);
	return true;
}

static int above(const char *low, double x, const char *high, double y, char *error, size_t bytes) {
	(void)snprintf(error, bytes, "%s: %.10g, above %s, %.10g", low, x, high, y);
	return -EINVAL;
}

/* --- one-bid --- */

enum {
	ONE_N,
	ONE_BID,
	ONE_ITERATIONS
};

static const struct hd_elastic_key one_keys[] = {
	[ONE_N] = {"n", "workers while the price is at most the bid", NUMBER, .required = true},
	[ONE_BID] = {"bid", "greatest price of a worker per hour", PRICE, .required = true},
	[ONE_ITERATIONS] = {"iterations", "steps of the plan (0: no end)", STEPS},
	{0},
};

static void one_decide(const struct hd_elastic *e, double now, struct hd_elastic_decision *out) {
	const double n = e->value[ONE_N], bid = e->value[ONE_BID];

	(void)now;
	if (done(e, e->value[ONE_ITERATIONS], out))
		return;
	if (e->price < 0)
		hd_elastic_explain(
			out, (uint32_t)n, "bid %.6g for %.0f; the price is not known", bid, n
		);
	else if (e->price <= bid)
		hd_elastic_explain(
			out, (uint32_t)n, "price %.6g, at most the bid %.6g: %.0f", e->price, bid, n
		);
	else
		hd_elastic_explain(
			out, 1, "price %.6g, above the bid %.6g: the fewest", e->price, bid
		);
}

const struct hd_elastic_policy hd_elastic_one_bid_policy = {
	.name = "one-bid",
	.help = "n workers while the price is at most the bid, otherwise the minimum",
	.keys = one_keys,
	.releases = true,
	.decide = one_decide,
};

/* --- two-bid --- */

enum {
	TWO_N,
	TWO_HIGH,
	TWO_BID,
	TWO_LOW,
	TWO_ITERATIONS
};

static const struct hd_elastic_key two_keys[] = {
	[TWO_N] = {"n", "workers while the price is at most bid_low", NUMBER, .required = true},
	[TWO_HIGH] = {"n_high", "of them, up to bid", NUMBER, .required = true},
	[TWO_BID] = {"bid", "greatest price of a worker per hour", PRICE, .required = true},
	[TWO_LOW] = {"bid_low", "the other workers' bid", PRICE, .required = true},
	[TWO_ITERATIONS] = {"iterations", "steps of the plan (0: no end)", STEPS},
	{0},
};

static int two_init(struct hd_elastic *e, char *error, size_t bytes) {
	const double *v = e->value;

	if (v[TWO_HIGH] > v[TWO_N])
		return above("n_high", v[TWO_HIGH], "n", v[TWO_N], error, bytes);
	if (v[TWO_LOW] > v[TWO_BID])
		return above("bid_low", v[TWO_LOW], "bid", v[TWO_BID], error, bytes);
	return 0;
}

static void two_decide(const struct hd_elastic *e, double now, struct hd_elastic_decision *out) {
	const double *v = e->value, price = e->price;

	(void)now;
	if (done(e, v[TWO_ITERATIONS], out))
		return;
	if (price < 0)
		hd_elastic_explain(
			out,
			(uint32_t)v[TWO_N],
			"bids %.6g and %.6g for %.0f; the price is not known",
			v[TWO_BID],
			v[TWO_LOW],
			v[TWO_N]
		);
	else if (price <= v[TWO_LOW])
		hd_elastic_explain(
			out,
			(uint32_t)v[TWO_N],
			"price %.6g, at most the low bid %.6g: all %.0f",
			price,
			v[TWO_LOW],
			v[TWO_N]
		);
	else if (price <= v[TWO_BID])
		hd_elastic_explain(
			out,
			(uint32_t)v[TWO_HIGH],
			"price %.6g, between the bids %.6g and %.6g: %.0f",
			price,
			v[TWO_LOW],
			v[TWO_BID],
			v[TWO_HIGH]
		);
	else
		hd_elastic_explain(
			out, 1, "price %.6g, above the high bid %.6g: the fewest", price, v[TWO_BID]
		);
}

const struct hd_elastic_policy hd_elastic_two_bid_policy = {
	.name = "two-bid",
	.help = "n workers up to bid_low, n_high of them up to bid, otherwise the minimum",
	.keys = two_keys,
	.releases = true,
	.init = two_init,
	.decide = two_decide,
};

/* --- preemptible --- */

enum {
	PRE_N,
	PRE_ITERATIONS
};

static const struct hd_elastic_key pre_keys[] = {
	[PRE_N] = {"n", "workers; preempted workers are requested again", NUMBER, .required = true},
	[PRE_ITERATIONS] = {"iterations", "steps of the plan (0: no end)", STEPS},
	{0},
};

static void pre_decide(const struct hd_elastic *e, double now, struct hd_elastic_decision *out) {
	const double n = e->value[PRE_N];

	(void)now;
	if (done(e, e->value[PRE_ITERATIONS], out))
		return;
	if (e->workers < n)
		hd_elastic_explain(
			out,
			(uint32_t)n,
			"%.0f planned, %u present: %.0f requested again",
			n,
			e->workers,
			n - e->workers
		);
	else
		hd_elastic_explain(out, (uint32_t)n, "%.0f planned, all present", n);
}

const struct hd_elastic_policy hd_elastic_preemptible_policy = {
	.name = "preemptible",
	.help = "n workers for a number of steps, on instances that may be preempted",
	.keys = pre_keys,
	.releases = true,
	.decide = pre_decide,
};

/* --- dynamic --- */

enum {
	DYN_A,
	DYN_B,
	DYN_BETA,
	DYN_EPSILON,
	DYN_DEADLINE,
	DYN_STEP_S,
	DYN_PRICE,
	DYN_BEST,
	DYN_EVERY
};

static const char *check_pace(const char *text) {
	struct hd_elastic_pace pace = {0};
	char error[160];

	return hd_elastic_text_pace(text, &pace, error, sizeof error) ?
		"workers:seconds,... with each number of workers once" :
		NULL;
}

static const char *check_price(const char *text) {
	struct hd_elastic_price price;
	char error[160];

	return hd_elastic_text_price(text, 1, &price, error, sizeof error) ?
		"a number, uniform:LOW:HIGH or gauss:MEAN:DEVIATION:LOW:HIGH, from 0" :
		NULL;
}

static const struct hd_elastic_key dyn_keys[] = {
	[DYN_A]
	= {"a",
	   "error before the first step",
	   .least = 1e-30,
	   .most = HD_ELASTIC_ERROR_MAX,
	   .required = true},
	[DYN_B]
	= {"b", "noise of one worker's update", .most = HD_ELASTIC_ERROR_MAX, .required = true},
	[DYN_BETA]
	= {"beta",
	   "factor by which a step multiplies the error",
	   .least = 1e-9,
	   .most = 1 - 1e-12,
	   .required = true},
	[DYN_EPSILON]
	= {"epsilon",
	   "target error",
	   .least = 1e-30,
	   .most = HD_ELASTIC_ERROR_MAX,
	   .required = true},
	[DYN_DEADLINE]
	= {"deadline",
	   "deadline, in seconds from the start of the job",
	   .least = 1,
	   .most = 1e9,
	   .required = true},
	[DYN_STEP_S]
	= {"step_s",
	   "R(n): workers:seconds,...",
	   .text = true,
	   .check = check_pace,
	   .required = true},
	[DYN_PRICE]
	= {"price",
	   "price of a worker per hour: uniform:LOW:HIGH, gauss:..., or a number",
	   .text = true,
	   .check = check_price,
	   .required = true},
	[DYN_BEST]
	= {"best",
	   "best loss, if known: the error is then measured",
	   .least = -HD_ELASTIC_ERROR_MAX,
	   .most = HD_ELASTIC_ERROR_MAX},
	[DYN_EVERY]
	= {"every", "seconds between two plans", .least = 0.1, .most = 86400, .fallback = 10},
	{0},
};

struct dynamic {
	struct hd_elastic_task task;
	struct hd_elastic_price price;
	double error; /* now: the bound with the workers so far, or measured */
	double slower; /* measured seconds of a step divided by R(n): smoothed */
	double loss; /* smoothed */
	bool reached; /* epsilon: once is enough, even if the bound rises again */
	uint64_t step; /* the newest that is included */
	double planned_at; /* seconds of the job at the observation before the last plan */
	double planned_error, planned_slower; /* the values of that plan */
};
static_assert(sizeof(struct dynamic) <= HD_ELASTIC_STATE_BYTES, "state of dynamic");

#define SMOOTH 0.1 /* weight of the newest step */

static struct dynamic *state_of(struct hd_elastic *e) {
	return (struct dynamic *)(void *)e->state;
}

static int dyn_init(struct hd_elastic *e, char *error, size_t bytes) {
	struct dynamic *d = state_of(e);

	d->task = (struct hd_elastic_task){
		.model = {e->value[DYN_A], e->value[DYN_B], e->value[DYN_BETA]},
		.epsilon = e->value[DYN_EPSILON],
		.deadline_s = e->value[DYN_DEADLINE],
		.n_max = e->common.n_max,
		.iterations_max = HD_ELASTIC_ITERATIONS_MAX,
	};
	if (hd_elastic_text_pace(e->text[DYN_STEP_S], &d->task.pace, error, bytes)
	    || hd_elastic_text_price(e->text[DYN_PRICE], 1 / HOUR, &d->price, error, bytes)
	    || hd_elastic_task_check(&d->task, error, bytes))
		return -EINVAL;
	d->error = d->planned_error = d->task.model.a;
	d->slower = d->planned_slower = 1;
	return 0;
}

/* The bound follows the completed steps with their workers. If the best loss is known, a measured loss is more
 * exact. */
static void dyn_observe(struct hd_elastic *e, const struct hd_elastic_observation *o) {
	struct dynamic *d = state_of(e);
	const uint32_t y = o->workers > 0 ? o->workers : 1;
	const uint64_t steps = o->step > d->step ? o->step - d->step : 0;
	struct hd_elastic_model model = d->task.model;

	model.a = d->error;
	if (steps > 0 && steps <= HD_ELASTIC_ITERATIONS_MAX)
		d->error = hd_elastic_error(&model, 1.0 / y, (uint32_t)steps);
	if (hd_elastic_given(e, "best")) {
		d->loss = d->step == 0 ? o->loss : d->loss + SMOOTH * (o->loss - d->loss);
		d->error = fmax(d->loss - e->value[DYN_BEST], 0);
	}
	d->reached |= d->error <= d->task.epsilon;
	if (o->step_s > 0 && isfinite(o->step_s)) {
		const double ratio = o->step_s / hd_elastic_pace_s(&d->task.pace, y);

		d->slower += SMOOTH * (fmin(fmax(ratio, 1e-3), 1e3) - d->slower);
	}
	d->step = o->step;
	if (e->account.ran_s < d->planned_at + e->value[DYN_EVERY] && d->planned_at > 0)
		return;
	d->planned_at = e->account.ran_s;
	d->planned_error = d->error;
	d->planned_slower = d->slower;
}

/* Seconds of the job now, in multiples of `every`, so that one plan is valid for that time, even without steps. */
static double ran_s(const struct hd_elastic *e, double now) {
	const double ran = e->account.ran_s + (e->last >= 0 && now > e->last ? now - e->last : 0);

	return floor(ran / e->value[DYN_EVERY]) * e->value[DYN_EVERY];
}

static void dyn_decide(const struct hd_elastic *e, double now, struct hd_elastic_decision *out) {
	const struct dynamic *d = (const struct dynamic *)(const void *)e->state;
	const double left_s = d->task.deadline_s - ran_s(e, now);
	struct hd_elastic_task task = d->task;
	struct hd_elastic_plan plan;
	int status;

	if (d->reached) {
		hd_elastic_explain(out, 1, "the target error, %.4g, is reached", task.epsilon);
		return;
	}
	if (left_s <= 0) {
		hd_elastic_explain(
			out, 1, "deadline: over, at error %.4g of %.4g", d->error, task.epsilon
		);
		return;
	}
	task.price = &d->price;
	/* Slower steps are the same as less time. */
	status = hd_elastic_replan(&task, d->planned_error, left_s / d->planned_slower, &plan);
	if (status && plan.fails == HD_ELASTIC_FAILS_ERROR)
		hd_elastic_explain(
			out,
			plan.n,
			"error: %.4g at best with %u workers, %.4g is wanted",
			plan.reached,
			plan.n,
			task.epsilon
		);
	else if (status)
		hd_elastic_explain(
			out,
			plan.n,
			"deadline: %u need %.4g s, %.4g are left: at any price",
			plan.n,
			plan.reached * d->planned_slower,
			left_s
		);
	else if (e->price >= 0 && e->price > plan.bid * HOUR * (1 + 1e-9))
		hd_elastic_explain(
			out,
			1,
			"price %.6g, above the bid %.6g (%u workers, %u steps left): the fewest",
			e->price,
			plan.bid * HOUR,
			plan.n,
			plan.iterations
		);
	else
		hd_elastic_explain(
			out,
			plan.n,
			"error %.4g, %.4g s left: %u for %u steps, bid %.6g",
			d->planned_error,
			left_s,
			plan.n,
			plan.iterations,
			plan.bid * HOUR
		);
}

const struct hd_elastic_policy hd_elastic_dynamic_policy = {
	.name = "dynamic",
	.help = "workers and bid, planned again with the remaining time and error",
	.keys = dyn_keys,
	.releases = true,
	.init = dyn_init,
	.observe = dyn_observe,
	.decide = dyn_decide,
};
