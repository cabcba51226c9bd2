/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker's part of consensus ADMM (Boyd, Parikh, Chu, Peleato, Eckstein: "Distributed Optimization and Statistical
 * Learning via the Alternating Direction Method of Multipliers", 2011, section 7.1, scaled form): minimize the sum of
 * f_k(x_k) where every x_k is z. With penalty rho, n workers and u_k beginning at 0:
 *
 *   x_k <- argmin f_k(x) + rho/2 |x - z + u_k|^2     here: some steps of SGD, from the last x_k (4.3.4, inexact)
 *   z   <- mean of x_k + u_k                         the server's step
 *   u_k <- u_k + x_k - z
 *
 * The server's synchronous step is z <- z - rate x (mean of the updates), without momentum and decay, so the update
 * that makes z that mean is (z - u_k - x_k) / rate.
 *
 *   hd_admm_begin(z) -> a gradient at x, hd_admm_step() -> ... -> hd_admm_update() -> push, pull, and again
 *
 * After a step the u_k of its workers add up to 0, whatever they were before: a worker that missed steps, was lost, or
 * joins with u = 0 unbalances the sum only until the next step that it takes part in.
 *
 * Pure; the same arguments give the same bits. One thread for each object.
 */
#ifndef HD_ADMM_H
#define HD_ADMM_H

#include <stdbool.h>
#include <stdint.h>

struct hd_admm {
	uint64_t values;
	float rate, rho;
	float *x, *u; /* values of each */
	float *centre; /* z - u: the centre of the quadratic term */
	bool begun;
};

/* rate: of the server's step and of the local ones. -EINVAL: no values or more than an object can have, rate or rho not
 * finite or not above 0, or rate x rho above 1, when a step from any x would lead beyond the centre. -ENOMEM. */
int hd_admm_init(struct hd_admm *admm, uint64_t values, float rate, float rho);
void hd_admm_fini(struct hd_admm *admm);

/* z: the pulled model, `values` of them. applied: whether it includes this worker's last update; one that was dropped,
 * or never pushed, leaves u unchanged. The first time x becomes z. */
void hd_admm_begin(struct hd_admm *admm, const float *z, bool applied);
/* x <- x - rate (grad + rho (x - z + u)), with the gradient of f_k at x. */
void hd_admm_step(struct hd_admm *admm, const float *grad);
/* The update to push: (z - u - x) / rate. */
void hd_admm_update(const struct hd_admm *admm, float *update);

#endif
