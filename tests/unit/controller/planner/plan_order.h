/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of two items goes first by docs/schedule.md: part of the reference planner. */
#ifndef PLAN_ORDER_H
#define PLAN_ORDER_H

#include "hd_plan.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* An item and when it would be done. */
struct order {
	double finish;
	const struct hd_plan_item *item;
};

/* Nearest double with 36 significant bits: what differs by rounding only is equal. */
static inline double rounded(double value) {
	int exponent;
	const double mantissa = frexp(value, &exponent);

	return isfinite(value) ? ldexp(rint(ldexp(mantissa, 36)), exponent - 36) : value;
}

/* Inside a job the older version first, between jobs the one that waited longer; then the id. */
static inline bool tie(const struct hd_plan_item *x, const struct hd_plan_item *y) {
	if (x->job != y->job && x->waited != y->waited)
		return x->waited > y->waited;
	if (x->job == y->job && x->version != y->version)
		return x->version < y->version;
	return x->id < y->id;
}

static inline bool before(struct order a, struct order b) {
	if (rounded(a.finish) != rounded(b.finish))
		return rounded(a.finish) < rounded(b.finish);
	return tie(a.item, b.item);
}

#endif
