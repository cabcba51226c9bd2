/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libheddle for federated clients: they train on rows of their own and send how far that took them. See docs/fedprox.md.
 */
#ifndef HEDDLE_FEDERATED_H
#define HEDDLE_FEDERATED_H

#include "heddle.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One local step of FedProx (Li et al., arXiv 1812.06127, section 3.2), in place, for each of `count` values:
 *   w <- w - rate (grad + mu (w - w_t)),
 * the gradient step of F(w) + mu/2 |w - w_t|^2, where w_t is the model with which the round began and grad the gradient
 * of the client's own loss at w. mu = 0: plain SGD. Arrays do not overlap. The result has the same bits on every
 * machine: each operation is rounded on its own. 0; -EINVAL (a pointer is NULL with count > 0; rate or mu is NaN, Inf or
 * negative: nothing was touched).
 */
int heddle_prox_apply(
	float *w,
	const float *w_t,
	const float *grad,
	size_t count,
	float rate,
	float mu
);

#ifdef __cplusplus
}
#endif

#endif
