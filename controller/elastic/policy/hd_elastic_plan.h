/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a job should do to reach an error epsilon before a deadline for the least money: how many workers,
 * how many steps, what bids. Pure; hd_elastic_scan.c looks over n and J, hd_elastic_stage.c over plans
 * that change while they run.
 *
 * After Zhang, Wang, Li, Joshi, Joe-Wong, "Machine Learning on Volatile Instances" (arXiv 2003.05649),
 * sections 4 to 6. With F the prices' distribution, R(n) the mean seconds of a step, n workers with bid
 * b_l of which n_h bid b_h >= b_l, and gamma = F(b_l) / F(b_h):
 *
 *     E[1/y] = gamma / n + (1 - gamma) / n_h
 *     E[time] = J (gamma R(n) + (1 - gamma) R(n_h)) / F(b_h)
 *     E[cost] = J / F(b_h) (n R(n) int_low^b_l p dF + n_h R(n_h) int_b_l^b_h p dF)
 *
 * One bid is n_h = n. Where F is a staircase (a trace) one bid is rounded up, which is the best that can be done;
 * two are chosen among its prices (hd_elastic_stairs.c). Each plan is evaluated with the bids that came out, and meets
 * its bounds with those.
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
	/* Measured: rising n, straight lines between; level before the first, the last line goes on (but
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
	/* Instances that cannot be bid for, but are taken away: how many of n are there, and their price
	 * for one second; < 0: the mean of `price`. */
	struct hd_active active;
	double preempt_price;
	uint32_t n_max; /* 1..HD_WORKERS_MAX */
	uint32_t iterations_max; /* 1..HD_ELASTIC_ITERATIONS_MAX */
};
/* -EINVAL with "FIELD: value (limit)" in error. */
int hd_elastic_task_check(const struct hd_elastic_task *task, char *error, size_t error_bytes);

enum hd_elastic_way {
	HD_ELASTIC_WAY_FIXED, /* n workers that nobody takes away: the bid is the highest price */
	HD_ELASTIC_WAY_ONE_BID,
	HD_ELASTIC_WAY_TWO_BID,
	HD_ELASTIC_WAY_PREEMPTIBLE, /* n workers of the task's `active` */
	HD_ELASTIC_WAY_GROWTH, /* the same, their number growing with the steps */
	HD_ELASTIC_WAY_DYNAMIC, /* few workers first; then a new bid with the time and error that are left */
	HD_ELASTIC_WAYS,
};
extern const char *const hd_elastic_way_names[HD_ELASTIC_WAYS];

enum hd_elastic_fails {
	HD_ELASTIC_FAILS_NONE,
	HD_ELASTIC_FAILS_ERROR, /* reached: the least error; allowed: epsilon */
	HD_ELASTIC_FAILS_ITERATIONS, /* steps; iterations_max */
	HD_ELASTIC_FAILS_DEADLINE, /* seconds; deadline_s */
	HD_ELASTIC_FAILS_WAY, /* does not go with the task (two bids with N-sync) */
};

struct hd_elastic_plan {
	enum hd_elastic_way way;
	enum hd_elastic_fails fails; /* NONE: it meets error and deadline */
	double reached, allowed; /* by that bound */
	uint32_t n; /* workers; of GROWTH: at the end */
	uint32_t n_high; /* of them with the high bid; of GROWTH: at the beginning; else n */
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

/* What depends on n alone, once a task. About 128 KiB. */
struct hd_elastic_desk {
	const struct hd_elastic_task *task;
	double
		inverse[HD_WORKERS_MAX
			+ 1]; /* E[1/y] when n are bid for, and all or none are there */
	double step_s[HD_WORKERS_MAX + 1];
	double active_inverse[HD_WORKERS_MAX + 1]; /* of the task's `active` */
	double preempt_price;
};
void hd_elastic_desk_init(struct hd_elastic_desk *desk, const struct hd_elastic_task *task);

/* A plan with given numbers: fills in what is expected of it, and which bound fails, error first. n_high = n
 * and bid_low = bid: one bid. The arguments are those in *plan: way, n, n_high, iterations, bid, bid_low. */
void hd_elastic_evaluate(const struct hd_elastic_desk *desk, struct hd_elastic_plan *plan);
/* The best bids for given workers and steps (Theorems on one and two bids). *plan is complete either way;
 * 0, or -ERANGE when a bound fails. A bid of one worker more or less is another plan: see the scans. */
int hd_elastic_one_bid(
	const struct hd_elastic_desk *desk,
	uint32_t n,
	uint32_t iterations,
	struct hd_elastic_plan *plan
);
int hd_elastic_two_bid(
	const struct hd_elastic_desk *desk,
	uint32_t n,
	uint32_t n_high,
	uint32_t iterations,
	struct hd_elastic_plan *plan
);
/* n of the task's `active` for J steps. */
int hd_elastic_preemptible(
	const struct hd_elastic_desk *desk,
	uint32_t n,
	uint32_t iterations,
	struct hd_elastic_plan *plan
);

/* The closed form for J n -> min with n workers that stay (the paper's Theorem 7), J <= most. */
struct hd_elastic_closed {
	double stationary; /* J~, real */
	uint32_t iterations; /* J*: of floor and ceil of J~ the cheaper, or `most` */
	double n; /* n*: workers for J*, rounded up; beyond any limit when `most` is near infeasible */
};
/* -ERANGE: even without any noise `most` steps leave more than epsilon. */
int hd_elastic_closed(
	const struct hd_elastic_model *model,
	double epsilon,
	uint32_t most,
	struct hd_elastic_closed *closed
);
/* The same for a task: `most` is what its deadline has room for, each step at the pace of the workers that come out
 * (R(n) must not fall with n: else J may be less than there is time for), and no more than iterations_max. -ERANGE:
 * no number of workers is in time. */
int hd_elastic_closed_in_time(const struct hd_elastic_task *task, struct hd_elastic_closed *closed);

/* --- hd_elastic_scan.c --- */
/* Keeps the cheaper of two plans, or of two that fail the one that comes closer. */
void hd_elastic_keep(struct hd_elastic_plan *best, const struct hd_elastic_plan *other);
/* The best plan of one way. FIXED, ONE_BID and PREEMPTIBLE look at every n, with the fewest steps that
 * meet the error: time and cost rise with the steps, so this is the optimum over all (n, J). TWO_BID looks at
 * a grid of (n, n_high), refined where it is best. 0 or -ERANGE; *plan is complete either way. */
int hd_elastic_scan(
	const struct hd_elastic_desk *desk,
	enum hd_elastic_way way,
	struct hd_elastic_plan *plan
);
/* All ways; plans[HD_ELASTIC_WAYS]. Returns the cheapest that meets its bounds, or -ERANGE. */
int hd_elastic_scan_all(const struct hd_elastic_desk *desk, struct hd_elastic_plan *plans);
/* The next number of workers of the grid: each up to 32, then an eighth more. */
uint32_t hd_elastic_next_n(uint32_t n);

/* --- hd_elastic_stage.c --- */
void hd_elastic_scan_growth(const struct hd_elastic_desk *desk, struct hd_elastic_plan *plan);
void hd_elastic_scan_dynamic(const struct hd_elastic_desk *desk, struct hd_elastic_plan *plan);
/* n_j = ceil(first eta^(j-1)) up to n_max, stopped at the first step that meets epsilon. */
int hd_elastic_grow(
	const struct hd_elastic_desk *desk,
	uint32_t first,
	double eta,
	double cost_most, /* gives up beyond it: INFINITY, never */
	struct hd_elastic_plan *plan
);
/* One bid for what is left: the error is `error_now`, and `left_s` seconds remain. Looks at the grid of n: some
 * tens of microseconds. */
int hd_elastic_replan(
	const struct hd_elastic_task *task,
	double error_now,
	double left_s,
	struct hd_elastic_plan *plan
);

/* --- hd_elastic_stairs.c --- */
/* Of more than 64 prices the search stops after so many looks at sets of pairs, and the best found by then counts. */
#define HD_ELASTIC_LOOKS_MAX 8192
/* Of a trace: keeps in *best the cheapest plan of two bids for these workers, over all pairs of its prices, when that
 * is cheaper and meets the bounds. iterations: exactly so many steps; 0: the fewest that the bids allow. Returns how
 * many looks it took, at most HD_ELASTIC_LOOKS_MAX. */
uint32_t hd_elastic_stairs(
	const struct hd_elastic_desk *desk,
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
