/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The look-ahead test of one job. With i the next position, the slack of a deadline D is
 *     slack(D) = (D - i + 1) - |{pending g : dl(g) <= D}|
 * and all bounds can be kept if and only if every slack is >= 0. When one is 0, only updates with deadlines up to that
 * D may go next. A tournament tree over the distinct deadlines keeps sums and least prefix sums of the differences of
 * neighbouring slacks, so that "one less for all D < d" changes two leaves: O(log n) for each step.
 */
#ifndef HD_PLAN_DUE_H
#define HD_PLAN_DUE_H

#include "hd_types.h"

struct hd_due_node {
	int64_t sum; /* of the differences below */
	int64_t least; /* least prefix sum of the pending ones below; HD_DUE_NONE */
};

#define HD_DUE_NONE (INT64_MAX / 4)

struct hd_due {
	struct hd_due_node *nodes; /* [2 * width] */
	int64_t *deadlines; /* [count], ascending */
	uint32_t *waiting; /* [count]: pending updates of each */
	uint32_t count, width, room;
};

/* 0, -ENOMEM. Storage is kept for the next call; hd_due_fini frees it. */
int hd_due_reserve(struct hd_due *due, uint32_t count);
void hd_due_fini(struct hd_due *due);
void hd_due_clear(struct hd_due *due);
/* Adds one update; deadlines ascend, positions start at 1. Returns the leaf. */
uint32_t hd_due_add(struct hd_due *due, int64_t deadline);
void hd_due_build(struct hd_due *due);
/* The update at the leaf took the next position. */
void hd_due_take(struct hd_due *due, uint32_t leaf);
/* It was dropped. */
void hd_due_drop(struct hd_due *due, uint32_t leaf);
/* The least deadline without slack, INT64_MAX when there is none. */
int64_t hd_due_tight(const struct hd_due *due);

#endif
