/* SPDX-License-Identifier: BSD-3-Clause */
/* The policies without a model of the learning: fixed, manual, growth, budget. */
#include "hd_elastic_policy.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define NUMBER .least = 1, .most = HD_WORKERS_MAX, .whole = true

/* --- fixed: the present number, or a given one; no worker is sent away --- */

static const struct hd_elastic_key fixed_keys[] = {
	{"n", "number of workers (0: those present)", .most = HD_WORKERS_MAX, .whole = true},
	{0},
};

static int fixed_init(struct hd_elastic *e, char *error, size_t bytes) {
	if (e->value[0] < 1)
		e->value[0] = e->workers;
	/* A setting from now on: the words are the same for the next process. */
	e->given |= 1;
	if (e->value[0] >= 1)
		return 0;
	(void)snprintf(error, bytes, "n: policy fixed needs it while the job has no workers");
	return -EINVAL;
}

static void fixed_decide(const struct hd_elastic *e, double now, struct hd_elastic_decision *out) {
	(void)now;
	hd_elastic_explain(out, (uint32_t)e->value[0], "fixed at %.0f", e->value[0]);
}

const struct hd_elastic_policy hd_elastic_fixed = {
	.name = "fixed",
	.help = "n workers; present workers stay",
	.keys = fixed_keys,
	.init = fixed_init,
	.decide = fixed_decide,
};

/* --- manual: the operator's number, at once --- */

static const struct hd_elastic_key manual_keys[] = {
	{"n", "workers", NUMBER, .required = true},
	{0},
};

static void manual_decide(const struct hd_elastic *e, double now, struct hd_elastic_decision *out) {
	(void)now;
	hd_elastic_explain(out, (uint32_t)e->value[0], "the operator said %.0f", e->value[0]);
}

const struct hd_elastic_policy hd_elastic_manual = {
	.name = "manual",
	.help = "n workers, as the operator says; surplus workers leave",
	.keys = manual_keys,
	.releases = true,
	.decide = manual_decide,
};

/* --- growth: n_j = n_1 eta^(j-1), rounded up (Zhang et al., Theorem 2) --- */

enum {
	GROWTH_N,
	GROWTH_ETA
};

static const struct hd_elastic_key growth_keys[] = {
	[GROWTH_N] = {"n", "workers at the first step, n_1", NUMBER, .required = true},
	[GROWTH_ETA] = {"eta", "growth for each step", .least = 1, .most = 2, .required = true},
	{0},
};

static int growth_init(struct hd_elastic *e, char *error, size_t bytes) {
	if (e->value[GROWTH_ETA] > 1)
		return 0;
	(void
	)snprintf(error, bytes, "eta: %.10g (above 1: it would not grow)", e->value[GROWTH_ETA]);
	return -EINVAL;
}

static void growth_decide(const struct hd_elastic *e, double now, struct hd_elastic_decision *out) {
	uint64_t step = e->account.step;
	/* The next step is the one after the newest. */
	double n = e->value[GROWTH_N] * pow(e->value[GROWTH_ETA], (double)step);
	double most = e->common.n_max;

	(void)now;
	hd_elastic_explain(
		out,
		(uint32_t)ceil(fmin(n, most) - 1e-9),
		"step %llu: %.10g x %.10g^%llu = %.4g%s",
		(unsigned long long)step + 1,
		e->value[GROWTH_N],
		e->value[GROWTH_ETA],
		(unsigned long long)step,
		n,
		n > most ? ", capped by n_max" : ""
	);
}

const struct hd_elastic_policy hd_elastic_growth = {
	.name = "growth",
	.help = "n x eta^(step - 1) workers, up to n_max",
	.keys = growth_keys,
	.releases = true,
	.init = growth_init,
	.decide = growth_decide,
};

/* --- budget: the remaining budget decides --- */

enum {
	BUDGET_N,
	BUDGET_WORKER_S,
	BUDGET_MONEY,
	BUDGET_DEADLINE
};

static const struct hd_elastic_key budget_keys[] = {
	[BUDGET_N] = {"n", "workers, as long as the budget allows", NUMBER, .required = true},
	[BUDGET_WORKER_S]
	= {"worker_s", "worker-seconds that may be used", .least = 1, .most = 1e12},
	[BUDGET_MONEY]
	= {"money", "that may be spent, in the price's unit", .least = 1e-6, .most = 1e12},
	[BUDGET_DEADLINE]
	= {"deadline", "seconds that the budget has to last", .least = 1, .most = 1e9},
	{0},
};

static int budget_init(struct hd_elastic *e, char *error, size_t bytes) {
	bool worker_s = hd_elastic_given(e, "worker_s"), money = hd_elastic_given(e, "money");

	if (worker_s != money)
		return 0;
	(void)snprintf(
		error,
		bytes,
		"%s: policy budget needs one of worker_s and money",
		money ? "worker_s, money" : "worker_s"
	);
	return -EINVAL;
}

/* Remaining worker-seconds: for money at the present price. INFINITY: the price is unknown, or 0. */
static double budget_left(const struct hd_elastic *e) {
	double left;

	if (hd_elastic_given(e, "worker_s"))
		return e->value[BUDGET_WORKER_S] - e->account.worker_s;
	left = e->value[BUDGET_MONEY] - e->account.money;
	if (left <= 0)
		return 0;
	return e->price > 0 ? left / e->price * 3600 : INFINITY;
}

static void budget_decide(const struct hd_elastic *e, double now, struct hd_elastic_decision *out) {
	double n = e->value[BUDGET_N], left = budget_left(e);
	double ahead = e->value[BUDGET_DEADLINE] - e->account.ran_s;
	double pays = INFINITY;

	(void)now;
	if (left <= 0) {
		hd_elastic_explain(
			out, 1, "the budget is spent: one worker, until the job is ended"
		);
		return;
	}
	if (hd_elastic_given(e, "deadline") && ahead > 0)
		pays = floor(left / ahead + 1e-9);
	if (pays < n)
		hd_elastic_explain(
			out,
			(uint32_t)fmax(pays, 1),
			"%.4g worker-seconds are left for %.4g s",
			left,
			ahead
		);
	else
		hd_elastic_explain(
			out,
			(uint32_t)n,
			"the budget pays for %.0f: %.4g worker-seconds left",
			n,
			left
		);
}

const struct hd_elastic_policy hd_elastic_budget = {
	.name = "budget",
	.help = "n workers or fewer, as a cap on worker-seconds or money allows",
	.keys = budget_keys,
	.releases = true,
	.init = budget_init,
	.decide = budget_decide,
};
