/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The significance filter of one worker (ISP: MLLess, arXiv 2206.05786, 4.1; the rule is Gaia's, NSDI'17):
 *
 *   update u --> x += factor u     the worker's own model gets it at once
 *            --> a += u            and so do the held values
 *                |factor a_i| > v_t |x_i|:  a_i is sent, and 0 from then on;  v_t = v / sqrt(t)
 *
 * With blocks the L2 norms of a block are compared, and the whole block is sent. Every value is either held or sent:
 * the sum of both is the sum of the updates, up to rounding. One thread for each object; no I/O, no allocation after
 * hd_filter_init().
 */
#ifndef HD_FILTER_H
#define HD_FILTER_H

#include "hd_runs.h"
#include "hd_types.h"

#define HD_FILTER_BLOCK_MAX 65536
#define HD_FILTER_V_MAX 1e6F

struct hd_filter_settings {
	float v; /* 0: nothing is held, x is not changed */
	float factor; /* change of the model for 1 of an update; not 0 */
	uint32_t block; /* values that are sent or held together; 1: each for itself */
	uint32_t bridge; /* gaps of up to this many values between sent ones are sent, too */
	bool constant; /* the threshold is v at every step */
	bool always; /* the first block is sent when nothing else is */
};

struct hd_significance {
	struct hd_filter_settings settings;
	uint64_t values;
	float *held;
	uint8_t *mask; /* bit i: value i is sent */
	struct hd_run *runs; /* the runs of the last step or flush */
	float *data;
	size_t run_count, run_limit;
	/* Results of the last step. */
	float threshold;
	double sent2, held2; /* squared norms */
	uint64_t sent; /* values */
};

enum hd_filter_result {
	HD_FILTER_SPARSE = 0, /* runs and data have the sent values, and so has the update */
	HD_FILTER_NOTHING = 1, /* no value is significant */
	HD_FILTER_DENSE = 2 /* the update has the sent values; they would take too many runs */
};

/* 0, -EINVAL (values 0, a setting), -ENOMEM. */
int hd_filter_init(
	struct hd_significance *filter,
	uint64_t values,
	const struct hd_filter_settings *settings
);
void hd_filter_fini(struct hd_significance *filter);
/* v_t; step from 1. */
float hd_filter_threshold(const struct hd_significance *filter, uint64_t step);
/* x and update: `values` of each. The update becomes the sent values, with zeros between. everything: all values but
 * zeros are significant, and only those are sent. */
enum hd_filter_result hd_filter_step(
	struct hd_significance *filter,
	float *x,
	float *update,
	uint64_t step,
	bool everything
);
/* All held values, into runs and data (SPARSE), or nowhere (DENSE: `held` has them). They stay held until
 * hd_filter_clear(). */
enum hd_filter_result hd_filter_flush(struct hd_significance *filter);
void hd_filter_clear(struct hd_significance *filter);
/* Changes the factor: scales the held values so that they move the model by as much as before, up to rounding. False,
 * with nothing changed: they would not be finite. */
bool hd_filter_refactor(struct hd_significance *filter, float factor);
/* Only this part of the held values is still to be sent. */
void hd_filter_keep(struct hd_significance *filter, float part);
/* The update of a step was lost: its values are held again, except NaN and Inf. */
void hd_filter_put_back(struct hd_significance *filter, const float *update);
/* x += factor held: turns a model from the server into the worker's own. */
void hd_filter_reapply(const struct hd_significance *filter, float *x);

#endif
