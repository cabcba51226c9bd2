/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cheapest plan of a job that reaches an error epsilon before a deadline: number of workers, number of steps, bids.
 * Pure; hd_elastic_scan.c searches n and J, hd_elastic_stage.c plans that change while they run.
 *
 * After Zhang, Wang, Li, Joshi, Joe-Wong, "Machine Learning on Volatile Instances" (arXiv 2003.05649), sections 4 to 6.
 * With F the prices' distribution, R(n) the mean seconds of a step, n workers with bid b_l of which n_h bid b_h >= b_l,
 * and gamma = F(b_l) / F(b_h):
 *
 *     E[1/y] = gamma / n + (1 - gamma) / n_h
 *     E[time] = J (gamma R(n) + (1 - gamma) R(n_h)) / F(b_h)
 *     E[cost] = J / F(b_h) (n R(n) int_low^b_l p dF + n_h R(n_h) int_b_l^b_h p dF)
 *
 * One bid is n_h = n. When F is a staircase (a trace), one bid is rounded up, which is optimal; two are chosen among
 * its prices (hd_elastic_stairs.c). Each plan is evaluated with its final bids, and meets its bounds with those.
 */
#ifndef HD_ELASTIC_PLAN_H
#define HD_ELASTIC_PLAN_H

#include "hd_elastic_bound.h"
#include "hd_elastic_price.h"

#define HD_ELASTIC_PACE_POINTS_MAX 64u
#define HD_ELASTIC_SECONDS_MAX 1e12
#define HD_ELASTIC_ERROR_MAX 1e30 /* of A, B and epsilon */

/* R(n): mean seconds of one step with n workers. */
struct hd_elastic_pace {
	/* Measured: ascending n, interpolated linearly; constant before the first, the last line is extrapolated (but
	 * never falls). count = 0: by the formulas of hd_elastic_step_s(). */
	uint32_t count;
	uint32_t n[HD_ELASTIC_PACE_POINTS_MAX];
	double step_s[HD_ELASTIC_PACE_POINTS_MAX];
	double rate; /* mini-batches a second of one worker */
	double fixed_s; /* added to each step: the network */
	/* With N-sync only `needed` updates count a step: more workers save time, not variance. */
	enum hd_elastic_sync sync;
	uint32_t needed; /* N, unless FULL */
};
double hd_elastic_pace_s(const struct hd_elastic_pace *pace, uint32_t n);

struct hd_elastic_task {
	struct hd_elastic_model model;
	double epsilon; /* wanted error, in (0, A) */
	double deadline_s;
	struct hd_elastic_pace pace;
	const struct hd_elastic_price *price; /* of one worker for one second */
	/* Instances without bids that are preempted: how many of n are active, and their price for one second; < 0: the
	 * mean of `price`. */
	struct hd_active active;
	double preempt_price;
	uint32_t n_max; /* 1..HD_WORKERS_MAX */
	uint32_t iterations_max; /* 1..HD_ELASTIC_ITERATIONS_MAX */
};
/* -EINVAL with "FIELD: value (limit)" in error. */
int hd_elastic_task_check(const struct hd_elastic_task *task, char *error, size_t error_bytes);

enum hd_elastic_kind {
	HD_ELASTIC_KIND_FIXED, /* n workers that are never preempted: the bid is the highest price */
	HD_ELASTIC_KIND_ONE_BID,
	HD_ELASTIC_KIND_TWO_BID,
	HD_ELASTIC_KIND_PREEMPTIBLE, /* n workers of the task's `active` */
	HD_ELASTIC_KIND_GROWTH, /* the same, with a number that grows with the steps */
	HD_ELASTIC_KIND_DYNAMIC, /* few workers first; then a new bid for the rest */
	HD_ELASTIC_KINDS,
};
extern const char *const hd_elastic_kind_names[HD_ELASTIC_KINDS];

enum hd_elastic_fails {
	HD_ELASTIC_FAILS_NONE,
	HD_ELASTIC_FAILS_ERROR, /* reached: the least error; allowed: epsilon */
	HD_ELASTIC_FAILS_ITERATIONS, /* steps; iterations_max */
	HD_ELASTIC_FAILS_DEADLINE, /* seconds; deadline_s */
	HD_ELASTIC_FAILS_KIND, /* does not fit the task (two bids with N-sync) */
};

struct hd_elastic_plan {
	enum hd_elastic_kind kind;
	enum hd_elastic_fails fails; /* NONE: it meets error and deadline */
	double reached, allowed; /* by that bound */
	uint32_t n; /* workers; of GROWTH: at the end */
	uint32_t n_high; /* of these with the high bid; of GROWTH: at the beginning; else n */
	uint32_t iterations; /* J, all stages together */
	double bid, bid_low; /* < 0: no bids */
	double gamma; /* P(all n | some) */
	double inverse; /* E[1/y]; of GROWTH and DYNAMIC: of the last stage */
	double error; /* bound at the end */
	double seconds, cost,
		worker_s; /* expected: until the end, paid, workers' seconds that are paid for */
	double eta; /* of GROWTH */
	/* Of DYNAMIC, the first stage. */
	uint32_t first_n, first_iterations;
	double first_bid, first_s, first_error;
};

/* Values that depend on n alone, computed once for a task. About 128 KiB. */
struct hd_elastic_context {
	const struct hd_elastic_task *task;
	double inverse[HD_WORKERS_MAX + 1]; /* E[1/y] when all of n are active or none */
	double step_s[HD_WORKERS_MAX + 1];
	double active_inverse[HD_WORKERS_MAX + 1]; /* of the task's `active` */
	double preempt_price;
};
void hd_elastic_context_init(
	struct hd_elastic_context *context,
	const struct hd_elastic_task *task
);

/* A plan with given numbers: computes its expected values, and the first bound that fails, error first. n_high = n and
 * bid_low = bid: one bid. The arguments are those in *plan: way, n, n_high, iterations, bid, bid_low. */
void hd_elastic_evaluate(const struct hd_elastic_context *context, struct hd_elastic_plan *plan);
/* The best bids for given workers and steps (Theorems on one and two bids). *plan is complete either way; 0, or -ERANGE
 * when a bound fails. Plans with other numbers of workers: see the scans. */
int hd_elastic_one_bid(
	const struct hd_elastic_context *context,
	uint32_t n,
	uint32_t iterations,
	struct hd_elastic_plan *plan
);
int hd_elastic_two_bid(
	const struct hd_elastic_context *context,
	uint32_t n,
	uint32_t n_high,
	uint32_t iterations,
	struct hd_elastic_plan *plan
);
/* n workers of the task's `active` for J steps. */
int hd_elastic_preemptible(
	const struct hd_elastic_context *context,
	uint32_t n,
	uint32_t iterations,
	struct hd_elastic_plan *plan
);

/* The closed form for J n -> min with n workers that are never preempted (the paper's Theorem 7), J <= most. */
struct hd_elastic_closed {
	double stationary; /* J~, real */
	uint32_t iterations; /* J*: the cheaper of floor and ceil of J~, or `most` */
	double n; /* n*: workers for J*, rounded up; very large when `most` is near infeasible */
};
/* -ERANGE: even without any noise `most` steps leave more than epsilon. */
int hd_elastic_closed(
	const struct hd_elastic_model *model,
	double epsilon,
	uint32_t most,
	struct hd_elastic_closed *closed
);
/* The same for a task: `most` is the number of steps before its deadline, each at the pace of the resulting workers
 * (R(n) must not fall with n: else J may be less than possible), and at most iterations_max. -ERANGE: no number of
 * workers meets the deadline. */
int hd_elastic_closed_in_time(const struct hd_elastic_task *task, struct hd_elastic_closed *closed);

/* --- hd_elastic_scan.c --- */
/* Keeps the cheaper of two plans, or of two that fail the one that is closer. */
void hd_elastic_keep(struct hd_elastic_plan *best, const struct hd_elastic_plan *other);
/* The best plan of one kind. FIXED, ONE_BID and PREEMPTIBLE try every n, with the fewest steps that meet the error:
 * time and cost rise with the steps, so this is the optimum over all (n, J). TWO_BID tries a grid of (n, n_high),
 * refined around the best. 0 or -ERANGE; *plan is complete either way. */
int hd_elastic_scan(
	const struct hd_elastic_context *context,
	enum hd_elastic_kind kind,
	struct hd_elastic_plan *plan
);
/* All kinds; plans[HD_ELASTIC_KINDS]. Returns the cheapest that meets its bounds, or -ERANGE. */
int hd_elastic_scan_all(const struct hd_elastic_context *context, struct hd_elastic_plan *plans);
/* The next number of workers of the grid: each up to 32, then an eighth more. */
uint32_t hd_elastic_next_n(uint32_t n);

/* --- hd_elastic_stage.c --- */
void hd_elastic_scan_growth(const struct hd_elastic_context *context, struct hd_elastic_plan *plan);
void hd_elastic_scan_dynamic(
	const struct hd_elastic_context *context,
	struct hd_elastic_plan *plan
);
/* n_j = ceil(first eta^(j-1)) up to n_max, stopped at the first step that meets epsilon. */
int hd_elastic_grow(
	const struct hd_elastic_context *context,
	uint32_t first,
	double eta,
	double cost_most, /* gives up beyond this cost: INFINITY, never */
	struct hd_elastic_plan *plan
);
/* One bid for the rest: the error is `error_now`, and `left_s` seconds remain. Tries the grid of n: some tens of
 * microseconds. */
int hd_elastic_replan(
	const struct hd_elastic_task *task,
	double error_now,
	double left_s,
	struct hd_elastic_plan *plan
);

/* --- hd_elastic_stairs.c --- */
/* With more than 64 prices the search stops after this many sets of pairs, and the best plan so far is used. */
#define HD_ELASTIC_LOOKS_MAX 8192
/* For a trace: keeps in *best the cheapest plan of two bids for these workers, over all pairs of its prices, when that
 * is cheaper and meets the bounds. iterations: exactly this many steps; 0: the fewest that the bids allow. Returns the
 * number of sets tried, at most HD_ELASTIC_LOOKS_MAX. */
uint32_t hd_elastic_stairs(
	const struct hd_elastic_context *context,
	uint32_t n,
	uint32_t n_high,
	uint32_t iterations,
	struct hd_elastic_plan *best
);

/* --- hd_elastic_words.c --- */
/* Why this plan was taken, or lost against `best` (NULL: none meets the bounds). Plain English, one line. */
void hd_elastic_why(
	const struct hd_elastic_plan *plan,
	const struct hd_elastic_plan *best,
	char *text,
	size_t bytes
);

#endif
