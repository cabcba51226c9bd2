/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Learning curves of the scale-in tuner: fits to a job's losses, and the knee of the curve. Pure.
 *
 *     knee       EWMA (span 20, of all points) forward and backward, their mean; differences; the same mean of
 *                these: the first index whose slope is above a tolerance
 *     reference  l(t) = 1 / (theta0 t^theta2 + theta1) + theta3
 *     current    l(t) = 1 / (theta0 t^2 + theta1 t + theta2) + theta3        every theta >= 0
 *
 * Source: MLLess (Sanchez-Artigas, Sarroca; arXiv 2206.05786, section 4.2). The fits are our own: a few deterministic
 * starts by linear least squares, then Levenberg-Marquardt steps that stay inside the bounds.
 */
#ifndef HD_SCALEIN_CURVE_H
#define HD_SCALEIN_CURVE_H

#include "hd_types.h"

#define HD_CURVE_POINTS_MAX 768 /* of a history */
#define HD_CURVE_FIT_MIN 5 /* points; fewer give no fit */

enum hd_curve_kind {
	HD_CURVE_REFERENCE = 0,
	HD_CURVE_CURRENT = 1
};

struct hd_curve {
	enum hd_curve_kind kind;
	double theta[4]; /* of t / unit */
	double unit; /* steps; > 0 */
	double error; /* weighted root mean square of the residuals, in units of the loss */
};

/* A loss at a step; a point may be the mean of `stride` steps. */
struct hd_curve_point {
	uint32_t step;
	float loss;
};

/* The curve at a step, which is >= 0. */
double hd_curve_at(const struct hd_curve *curve, double step);

/*
 * Fits a curve of this kind to count points, whose steps ascend. `weights`: later points count more (the k-th has the
 * standard deviation 1/k); otherwise all count the same. Uses at most 128 groups of neighbours. Returns 0; -EINVAL
 * (fewer than HD_CURVE_FIT_MIN points, or none of the starts is finite) with *curve as it was.
 */
int hd_curve_fit(
	enum hd_curve_kind kind,
	const struct hd_curve_point *points,
	uint32_t count,
	bool weights,
	struct hd_curve *curve
);

/*
 * The first index whose smoothed slope, of each step, is above `tolerance` (< 0); 0: there is none, or it is the first.
 * Points are `stride` steps apart; count <= HD_CURVE_POINTS_MAX.
 */
uint32_t hd_curve_knee(
	const struct hd_curve_point *points,
	uint32_t count,
	uint32_t stride,
	double tolerance
);

#endif
