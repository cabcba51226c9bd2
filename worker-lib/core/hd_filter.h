/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The significance filter of one worker (ISP: MLLess, arXiv 2206.05786, 4.1; the rule is Gaia's, NSDI'17):
 *
 *   update u --> x += factor u     the worker's own model has it at once
 *            --> a += u            and so has what is held back
 *                |factor a_i| > v_t |x_i|:  a_i is sent, and 0 from then on;  v_t = v / sqrt(t)
 *
 * With blocks it is the L2 norms of a block that are compared, and the whole block is sent. Everything is either held
 * or sent: sums of both are what was handed over, to rounding. One thread an object; no I/O, and nothing is allocated
 * after hd_filter_init().
 */
#ifndef HD_FILTER_H
#define HD_FILTER_H

#include "hd_runs.h"
#include "hd_types.h"

#define HD_FILTER_BLOCK_MAX 65536
#define HD_FILTER_V_MAX 1e6F

struct hd_filter_settings {
	float v; /* 0: nothing is held, x is left alone */
	float factor; /* how far 1 of an update moves the model; not 0 */
	uint32_t block; /* values that are sent or held together; 1: each for itself */
	uint32_t bridge; /* gaps of so many values between what is sent are sent too */
	bool constant; /* the threshold is v at every step */
	bool always; /* the first block is sent when there is nothing else */
};

struct hd_significance {
	struct hd_filter_settings settings;
	uint64_t values;
	float *held;
	uint8_t *mask; /* bit i: value i is sent */
	struct hd_run *runs; /* what the last step or flush sends */
	float *data;
	size_t run_count, run_limit;
	/* Of the last step. */
	float threshold;
	double sent2, held2; /* squared norms */
	uint64_t sent; /* values */
};

enum hd_filter_result {
	HD_FILTER_SPARSE = 0, /* runs and data have what is sent, and so has the update */
	HD_FILTER_NOTHING = 1, /* is significant */
	HD_FILTER_DENSE = 2 /* the update has what is sent; it takes too many runs */
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
/* x and update: `values` of them. The update becomes what is sent, with zeros between. everything: whatever is not 0
 * is significant, and nothing but that is sent. */
enum hd_filter_result hd_filter_step(
	struct hd_significance *filter,
	float *x,
	float *update,
	uint64_t step,
	bool everything
);
/* Everything that is held, into runs and data (SPARSE), or nowhere (DENSE: it is `held`). It stays held until
 * hd_filter_clear(). */
enum hd_filter_result hd_filter_flush(struct hd_significance *filter);
void hd_filter_clear(struct hd_significance *filter);
/* Another factor: what is held is scaled, so that it moves the model by as much as before, to rounding. False, and
 * nothing is changed: it would not be finite. */
bool hd_filter_refactor(struct hd_significance *filter, float factor);
/* Only this part of what is held is still to be sent. */
void hd_filter_keep(struct hd_significance *filter, float part);
/* What a step had sent did not arrive: it is held again, but for NaN and Inf. */
void hd_filter_put_back(struct hd_significance *filter, const float *update);
/* x += factor held: a model that came from the server becomes the worker's own. */
void hd_filter_reapply(const struct hd_significance *filter, float *x);

#endif
