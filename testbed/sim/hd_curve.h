/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accuracy over time, and when a target counts as reached: at the first evaluation at which the mean of the last three
 * reaches it (the rule of testbed/lab/measure.py; one lucky evaluation is not enough).
 */
#ifndef HD_CURVE_H
#define HD_CURVE_H

#include "hd_types.h"

#define HD_CURVE_MEAN 3 /* evaluations */
#define HD_CURVE_EVERY_MS 250 /* between two of them */
#define HD_CURVE_POINTS_MAX 1000000
#define HD_CURVE_UPDATES_MIN 200 /* a target that is reached earlier allows no comparison */

struct hd_evaluation {
	double at_s;
	uint64_t updates; /* committed so far */
	double accuracy, loss; /* on the test set */
};

struct hd_curve {
	struct hd_evaluation *points;
	uint32_t count, capacity;
};

/* 0, -ENOMEM, -ENOSPC (HD_CURVE_POINTS_MAX). */
int hd_curve_add(struct hd_curve *curve, const struct hd_evaluation *evaluation);
void hd_curve_fini(struct hd_curve *curve);
/* NULL: not reached. Valid until the next hd_curve_add(). */
const struct hd_evaluation *hd_curve_reached(const struct hd_curve *curve, double target);
/* The mean of the last three evaluations (of fewer, when there are fewer); < 0: there is none. */
double hd_curve_final(const struct hd_curve *curve);

#endif
