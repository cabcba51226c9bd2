/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The distance of a job's loss from the best one after a number of steps with a number of workers, the number of steps
 * that it needs, and the time of a step.
 *
 * Zhang, Wang, Li, Joshi, Joe-Wong, "Machine Learning on Volatile Instances" (arXiv 2003.05649), Theorems 1 and 2. With
 * e_j the expected error G(w_j) - G* before step j and y_j its workers:
 *
 *     e_1 = A,   e_{j+1} = beta e_j + B / y_j
 *
 * Three numbers describe model, data and step size: A, B and beta. hd_elastic_fit.h estimates them. All functions are
 * pure; costs are O(1) unless noted.
 */
#ifndef HD_ELASTIC_BOUND_H
#define HD_ELASTIC_BOUND_H

#include "hd_limits.h"
#include "hd_types.h"

#define HD_ELASTIC_ITERATIONS_MAX 1000000000u /* steps of one job */

struct hd_elastic_model {
	double a; /* A: error before the first step, in units of the loss; > 0 */
	double b; /* B: noise of one worker's gradient in each step, same unit; >= 0 */
	double beta; /* share of the error that a step leaves; in (0, 1) */
};

/* The distribution of the number of active workers when n are wanted. */
enum hd_active_kind {
	HD_ACTIVE_FIXED, /* y = n */
	HD_ACTIVE_BINOMIAL, /* each is active with probability q, independently */
	HD_ACTIVE_UNIFORM, /* y is any of 1..n, equally likely */
	HD_ACTIVE_CHI, /* only E[1/y] = n^-chi is known */
};
struct hd_active {
	enum hd_active_kind kind;
	double q; /* of BINOMIAL, in (0, 1] */
	double chi; /* of CHI, in (0, 1] */
};

/* E[1/y | y >= 1]; n >= 1. BINOMIAL costs O(n). Section 3. */
double hd_active_inverse(const struct hd_active *active, uint32_t n);
/* The same for 1..n at once, inverse[1..n]; O(n). */
void hd_active_inverses(const struct hd_active *active, uint32_t n, double *inverse);
/* E[y | y >= 1]; of CHI, which does not define it: n. */
double hd_active_mean(const struct hd_active *active, uint32_t n);
/* P(y >= 1): the share of the time in which a step is possible. */
double hd_active_any(const struct hd_active *active, uint32_t n);

/* Error bound after J steps with E[1/y] = inverse in each (Theorem 1). */
double hd_elastic_error(const struct hd_elastic_model *model, double inverse, uint32_t iterations);
/* The limit of the bound: B E[1/y] / (1 - beta). */
double hd_elastic_floor(const struct hd_elastic_model *model, double inverse);
/* The fewest steps with which the bound is at most epsilon. -ERANGE: epsilon is at or below the floor, or
 * more than HD_ELASTIC_ITERATIONS_MAX steps are needed. */
int hd_elastic_iterations(
	const struct hd_elastic_model *model,
	double inverse,
	double epsilon,
	uint32_t *iterations
);
/* The mean inverse Q that exactly J steps need for epsilon; < 0 when no number of workers has it. */
double hd_elastic_needed(const struct hd_elastic_model *model, double epsilon, uint32_t iterations);

/* A growing number of workers: n_j = n_1 eta^(j-1), up to n_max. Theorem 2. */
struct hd_elastic_growth {
	double first; /* n_1 >= 1 */
	double eta; /* > 1 */
	double chi; /* E[1/y_j] = n_j^-chi */
	double most; /* n_max; 0: none */
};
/* Workers of step j >= 1, rounded up. */
uint32_t hd_elastic_growth_workers(const struct hd_elastic_growth *growth, uint32_t step);
/* Error bound after J steps, with real n_j. The paper prints the larger of an uncapped and a capped sum, which is too
 * low; this splits at the first capped step and is exact. */
double hd_elastic_growth_error(
	const struct hd_elastic_model *model,
	const struct hd_elastic_growth *growth,
	uint32_t iterations
);
/* The steps that use as many worker-steps as J steps of one worker: ceil(log(1 + (eta^chi - 1) J) / log(eta^chi)). */
uint32_t hd_elastic_growth_iterations(double eta, double chi, uint32_t iterations);

/* How the server waits (Dutta et al., "Slow and Stale Gradients Can Win the Race", AISTATS 2018). */
enum hd_elastic_sync {
	HD_ELASTIC_SYNC_FULL, /* for all */
	HD_ELASTIC_SYNC_FIRST, /* N-sync: for the first N, the others' work is lost */
	HD_ELASTIC_SYNC_BATCH, /* N-batch-sync: for N mini-batches of any workers */
};
/* Mean seconds of a step when each worker computes a mini-batch in a time that is exponential with
 * `rate` a second; n workers, of which N = needed are waited for. INFINITY when n < N. */
double hd_elastic_step_s(enum hd_elastic_sync sync, uint32_t n, uint32_t needed, double rate);
/* H_n = 1 + 1/2 + ... + 1/n. */
double hd_elastic_harmonic(uint32_t n);

/* Step sizes over the steps (the four of the paper's Figures 9 and 10, and linear scaling). */
enum hd_elastic_rate_rule {
	HD_ELASTIC_RATE_FIXED, /* first */
	HD_ELASTIC_RATE_GROWING, /* min(first factor^k, last) */
	HD_ELASTIC_RATE_TO, /* last + first / (k + 1) */
	HD_ELASTIC_RATE_FALLING, /* first / (k + 1) */
	HD_ELASTIC_RATE_LINEAR, /* first n */
};
struct hd_elastic_rate {
	enum hd_elastic_rate_rule rule;
	double first, factor, last;
	uint32_t every; /* k = floor(step / every); >= 1 */
};
double hd_elastic_rate_at(const struct hd_elastic_rate *rate, uint32_t step, uint32_t workers);

#endif
