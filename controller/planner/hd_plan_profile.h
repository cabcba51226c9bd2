/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The residual capacity of one link over time: piecewise constant, the last piece has no end.
 *
 *   free |        ____      capacity
 *        |   ____|          a saturated prefix is one piece, so that a walk starts where the
 *        |__|_______ time   link first has a residual
 *
 * At most HD_PLAN_BREAKPOINTS_MAX pieces: beyond, neighbours are joined at the lower rate, so a profile never shows
 * more than is free.
 */
#ifndef HD_PLAN_PROFILE_H
#define HD_PLAN_PROFILE_H

#include "hd_plan.h"

/* Residuals below this share of a link are not worth a segment, and count as 0. */
#define HD_PROFILE_SLIVER (1.0 / 128)
/* Residuals that differ by less, and amounts this near to the end of a piece, are equal. */
#define HD_PROFILE_EQUAL 1e-12

#define HD_PROFILE_BUSY UINT32_C(0x80000000) /* flag in `by`: index of a busy, not of an entry */

struct hd_profile_piece {
	double at; /* begin, s */
	double free; /* residual until the next piece begins */
	double floor; /* least residual from here on */
	uint32_t by; /* the transfer that ends at `at` (the last one reserved); HD_PLAN_NONE */
};

struct hd_profile {
	struct hd_profile_piece *pieces;
	uint32_t count, room;
	uint32_t changes; /* counts reservations: an unchanged path has unchanged finishes */
	double capacity;
	double load; /* seconds of all present items alone: a measure of sharing */
	double nothing; /* lower residuals are of no use to any item: they count as 0 */
	uint32_t tidy; /* from this number of pieces on, unusable ones are merged */
};

/* 36 significant bits: finishes that differ by rounding only become equal, so that ties are ties.
 * For x >= 0 or INFINITY. */
static inline double hd_plan_key(double x) {
	union {
		double value;
		uint64_t bits;
	} word = {.value = x};

	word.bits = (word.bits + (UINT64_C(1) << 16)) & ~((UINT64_C(1) << 17) - 1);
	return word.value;
}

/* An empty profile. 0, -ENOMEM. Storage is kept from call to call, freed by hd_profile_fini. */
int hd_profile_reset(struct hd_profile *profile, double capacity);
void hd_profile_fini(struct hd_profile *profile);
/* Appends a piece after the last; `at` must not be before it. 0, -ENOMEM. */
int hd_profile_append(struct hd_profile *profile, double at, double free, uint32_t by);
/* After the last append. */
void hd_profile_seal(struct hd_profile *profile);
/* Reserves `rate` on [start, end). by: see above. 0, -ENOMEM. */
int hd_profile_take(struct hd_profile *profile, const struct hd_plan_segment *segment, uint32_t by);
/* Residuals before `at` will not be asked for again: all pieces but the few next to it become one, without a
 * residual. */
void hd_profile_forget(struct hd_profile *profile, double at);
/* The first time at which the link has a residual. */
double hd_profile_first_free(const struct hd_profile *profile);
/* The piece that contains `at`. */
uint32_t hd_profile_find(const struct hd_profile *profile, double at);

struct hd_profile_path {
	const struct hd_profile *profiles; /* of all links */
	const uint32_t *links;
	uint8_t count;
	double least; /* lower rates count as 0; 0: none */
	double most; /* limit of the rate; 0: none. Only hd_profile_segments() applies it */
	double from; /* no earlier start is possible: walks begin here */
};

/* When `amount` has been sent at r(t) = min over links of residual(t), from 0 on. path->from moves to the first time
 * with a rate; reservations never make that earlier. */
double hd_profile_finish(struct hd_profile_path *path, double amount);
/* path->from moves as in hd_profile_finish. */
void hd_profile_start(struct hd_profile_path *path);
/* hd_profile_finish as at most HD_SEGMENTS_MAX constant rates: beyond, the rest is one rate on one interval, the one
 * that ends first. Returns their count (0: nothing to send). */
uint8_t hd_profile_segments(
	const struct hd_profile_path *path,
	double amount,
	struct hd_plan_segment *segments
);

#endif
