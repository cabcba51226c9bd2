/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far a replica can be from its server (MLfabric, SoCC '20, section 6): an upper bound of ||w_server -
 * w_replica||_2 while the replica lags by n updates that the server has applied.
 *
 *   replica ---- u_1 ---- u_2 ---- ... ---- u_n ---- server
 *   (w_0, h_0)
 *
 * A step is h <- gamma h + u, w <- w + h. h_0 and each u_j contribute to all later steps, which gives, with x_j =
 * ||u_j||, oldest first,
 *
 *   ||w_n - w_0|| <= ||h_0|| sum_{m=1..n} gamma^m + sum_{j=1..n} x_j (1 - gamma^(n-j+1)) / (1 - gamma)
 *
 * It is computed step by step: H_0 = ||h_0||, E_0 = 0,
 *
 *   H_j = gamma H_(j-1) + x_j,   E_j = E_(j-1) + H_j,   bound = E_n
 *
 * Weight decay makes u = -lr (g + decay w): part of the step follows the weights, at most lambda (||w_0|| + E_(j-1))
 * with lambda = lr decay. So H_j = gamma H_(j-1) + lambda (||w_0|| + E_(j-1)) + x_j, where x_j = lr ||g_j|| as without
 * decay. Sparse updates touch only the values that they name, and move those no more than a dense update of the same
 * norm would: the bound holds for them too.
 *
 * A sum of k updates is k steps, each of its mean: k times x = lr ||sum|| / k.
 *
 * The arithmetic is exact up to double's rounding. The models are fp32; their own rounding is not included (less than n
 * 2^-23 (||w|| + ||h||)).
 */
#ifndef HD_DIVERGENCE_H
#define HD_DIVERGENCE_H

#include "hd_limits.h"
#include "hd_types.h"

/* One update, or sum, that the server has applied and the replica has not. */
struct hd_divergence_step {
	double update; /* x_j: lr times the norm of the update; of a sum, of its mean */
	uint32_t more; /* further steps of the same norm */
	double momentum, weights; /* ||h||, ||w|| after it */
};

struct hd_divergence {
	double gamma, lambda;
	double momentum, weights; /* ||h_0||, ||w_0||: at the replica's version */
	double speed, distance; /* H_n, E_n */
	uint32_t first, count;
	struct hd_divergence_step steps[HD_REPLICA_LAG_MAX]; /* a ring */
};

/* The replica is at the server's version, with these norms. */
void hd_divergence_reset(struct hd_divergence *d, double momentum, double weights);
/* gamma in [0, 1), lambda >= 0; then as reset. */
void hd_divergence_init(
	struct hd_divergence *d,
	double gamma,
	double lambda,
	double momentum,
	double weights
);
/* The server applied one more. -ENOBUFS: the replica lags by HD_REPLICA_LAG_MAX updates and sums already. */
int hd_divergence_add(struct hd_divergence *d, const struct hd_divergence_step *step);
/* The replica applied `count` more updates and sums, at most as many as it lags by. O(steps that remain). */
void hd_divergence_confirm(struct hd_divergence *d, uint32_t count);
/* The current bound, and what it would be after this many more steps of this norm. */
double hd_divergence_bound(const struct hd_divergence *d);
double hd_divergence_after(const struct hd_divergence *d, double update, uint32_t steps);

#endif
