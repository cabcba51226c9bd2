/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_filter.h"
#include "hd_kernels.h"

#include <endian.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MASK_BITS 64
/* A run's header is as long as two values: with more runs than this a dense update is smaller. */
#define RUN_VALUES_MIN 3

int hd_filter_init(
	struct hd_significance *filter,
	uint64_t values,
	const struct hd_filter_settings *settings
) {
	if (values == 0 || values > SIZE_MAX / 16 || settings->block == 0
	    || settings->block > HD_FILTER_BLOCK_MAX || !(settings->v >= 0.0f)
	    || settings->v > HD_FILTER_V_MAX || !isfinite(settings->factor)
	    || fpclassify(settings->factor) == FP_ZERO)
		return -EINVAL;
	*filter = (struct hd_significance){
		.settings = *settings,
		.values = values,
		.run_limit = (size_t)values / RUN_VALUES_MIN + 1,
	};
	filter->held = calloc(values, sizeof *filter->held);
	filter->mask = calloc(values / MASK_BITS + 1, MASK_BITS / 8);
	filter->runs = malloc(filter->run_limit * sizeof *filter->runs);
	filter->data = malloc(values * sizeof *filter->data);
	if (filter->held && filter->mask && filter->runs && filter->data)
		return 0;
	hd_filter_fini(filter);
	return -ENOMEM;
}

void hd_filter_fini(struct hd_significance *filter) {
	free(filter->held);
	free(filter->mask);
	free(filter->runs);
	free(filter->data);
	*filter = (struct hd_significance){0};
}

float hd_filter_threshold(const struct hd_significance *filter, uint64_t step) {
	double v = (double)filter->settings.v;

	return filter->settings.constant ? filter->settings.v :
					   (float)(v / sqrt((double)(step > 0 ? step : 1)));
}

/* --- which values are sent ------------------------------------------------------------------ */

static void set_bits(struct hd_significance *filter, uint64_t first, uint64_t count) {
	for (uint64_t i = first; i < first + count; i++) {
		if (i % 8 == 0 && first + count - i >= 8) {
			filter->mask[i / 8] = 0xff;
			i += 7;
			continue;
		}
		filter->mask[i / 8] = (uint8_t)(filter->mask[i / 8] | 1U << i % 8);
	}
}

static void clear_mask(struct hd_significance *filter) {
	memset(filter->mask, 0, (size_t)(filter->values / MASK_BITS + 1) * (MASK_BITS / 8));
}

/* Marks the values of x that are not 0, a NaN included. */
static void mask_of(struct hd_significance *filter, const float *x) {
	clear_mask(filter);
	for (uint64_t i = 0; i < filter->values; i++) {
		bool some = !(x[i] == 0.0f);

		filter->mask[i / 8] = (uint8_t)(filter->mask[i / 8] | (unsigned)some << i % 8);
	}
}

/* The first index from `at` on whose bit is `value`, or `values`. */
static uint64_t find(const struct hd_significance *filter, uint64_t at, bool value) {
	uint64_t values = filter->values;

	while (at < values) {
		uint64_t info;

		memcpy(&info, filter->mask + at / MASK_BITS * sizeof info, sizeof info);
		info = le64toh(info);
		info = (value ? info : ~info) >> at % MASK_BITS;
		if (info != 0) {
			at += (uint64_t)__builtin_ctzll(info);
			break;
		}
		at += MASK_BITS - at % MASK_BITS;
	}
	return at < values ? at : values;
}

/* --- packing -------------------------------------------------------------------------------- */

/* Held values of a gap are sent, too, if they cost no more than another run's header. */
static void fill_gap(struct hd_significance *filter, float *update, uint64_t first, uint64_t end) {
	for (uint64_t i = first; i < end; i++) {
		double square = (double)filter->held[i] * (double)filter->held[i];

		update[i] = filter->held[i];
		filter->held[i] = 0.0f;
		filter->sent2 += square;
		filter->held2 = fmax(filter->held2 - square, 0.0);
		filter->sent++;
	}
}

/* Runs of the mask's bits, with x's values. update: x, when gaps may be filled; else NULL. */
static enum hd_filter_result pack(struct hd_significance *filter, const float *x, float *update) {
	uint64_t bridge = update ? filter->settings.bridge : 0;
	uint64_t at = find(filter, 0, true);
	size_t packed = 0;

	filter->run_count = 0;
	if (at == filter->values)
		return HD_FILTER_NOTHING;
	while (at < filter->values) {
		struct hd_run *run;
		uint64_t end = find(filter, at, false), next = find(filter, end, true);

		while (update && next < filter->values && next - end <= bridge) {
			fill_gap(filter, update, end, next);
			end = find(filter, next, false);
			next = find(filter, end, true);
		}
		if (filter->run_count == filter->run_limit)
			return HD_FILTER_DENSE;
		run = &filter->runs[filter->run_count++];
		run->first = at;
		run->count = end - at;
		memcpy(filter->data + packed, x + at, (size_t)run->count * sizeof(float));
		packed += (size_t)run->count;
		at = next;
	}
	return HD_FILTER_SPARSE;
}

/* --- one step ------------------------------------------------------------------------------- */

/* held += update, x += factor update; then the block's norms decide. */
static void step_block(
	struct hd_significance *filter,
	float *x,
	float *update,
	uint64_t first,
	size_t count,
	struct hd_filter_sums *sums
) {
	float *held = filter->held + first;
	double factor = (double)filter->settings.factor, threshold = (double)filter->threshold;
	double held2;

	hd_add_f32(held, update, count);
	hd_scale_f32(update, update, count, filter->settings.factor);
	hd_add_f32(x, update, count);
	held2 = hd_norm2_f32(held, count);
	if (isfinite(held2)
	    && factor * factor * held2 <= threshold * threshold * hd_norm2_f32(x, count)) {
		memset(update, 0, count * sizeof(float));
		sums->held2 += held2;
		return;
	}
	memcpy(update, held, count * sizeof(float));
	memset(held, 0, count * sizeof(float));
	set_bits(filter, first, count);
	sums->sent2 += held2;
	sums->sent += count;
}

static void
step_blocks(struct hd_significance *filter, float *x, float *update, struct hd_filter_sums *sums) {
	clear_mask(filter);
	for (uint64_t at = 0; at < filter->values; at += filter->settings.block) {
		uint64_t left = filter->values - at;
		size_t count
			= left < filter->settings.block ? (size_t)left : filter->settings.block;

		step_block(filter, x + at, update + at, at, count, sums);
	}
}

/* Nothing is held: all values but zeros are sent unchanged, and x is only the caller's. */
static void step_open(struct hd_significance *filter, float *update, struct hd_filter_sums *sums) {
	mask_of(filter, update);
	sums->sent2 = hd_norm2_f32(update, filter->values);
	for (uint64_t i = 0; i < filter->values / 8 + 1; i++)
		sums->sent += (size_t)__builtin_popcount(filter->mask[i]);
}

/* A synchronous step waits for an update of this worker: sends the first block, whatever it holds. */
static void send_first(struct hd_significance *filter, float *update) {
	uint64_t count
		= filter->settings.block < filter->values ? filter->settings.block : filter->values;

	if (filter->settings.v > 0.0f)
		fill_gap(filter, update, 0, count);
	set_bits(filter, 0, count);
}

enum hd_filter_result hd_filter_step(
	struct hd_significance *filter,
	float *x,
	float *update,
	uint64_t step,
	bool everything
) {
	const struct hd_filter_arrays arrays = {x, filter->held, update, filter->mask};
	struct hd_filter_sums sums = {0};

	filter->threshold = everything ? 0.0f : hd_filter_threshold(filter, step);
	if (!(filter->settings.v > 0.0f)) {
		step_open(filter, update, &sums);
	} else if (filter->settings.block > 1) {
		step_blocks(filter, x, update, &sums);
	} else {
		const struct hd_filter_step how = {filter->settings.factor, filter->threshold};

		hd_filter_f32(&arrays, filter->values, &how, &sums);
	}
	filter->sent2 = sums.sent2;
	filter->held2 = sums.held2;
	filter->sent = sums.sent;
	if (sums.sent == 0 && filter->settings.always)
		send_first(filter, update);
	return pack(filter, update, everything ? NULL : update);
}

/* --- held values ---------------------------------------------------------------------------- */

enum hd_filter_result hd_filter_flush(struct hd_significance *filter) {
	mask_of(filter, filter->held);
	return pack(filter, filter->held, NULL);
}

void hd_filter_clear(struct hd_significance *filter) {
	memset(filter->held, 0, filter->values * sizeof(float));
	filter->held2 = 0.0;
}

static void scale_held(struct hd_significance *filter, float by) {
	hd_scale_f32(filter->held, filter->held, filter->values, by);
	filter->held2 = hd_norm2_f32(filter->held, filter->values);
}

bool hd_filter_refactor(struct hd_significance *filter, float factor) {
	double by = (double)filter->settings.factor / (double)factor;
	float before = filter->settings.factor;

	if (filter->held2 > 0.0 && (factor < before || factor > before)) {
		/* The ratio, and each value times it, must fit into a float. */
		if (!(sqrt(filter->held2) * fabs(by) < (double)FLT_MAX)
		    || !(fabs(by) < (double)FLT_MAX))
			return false;
		scale_held(filter, (float)by);
	}
	filter->settings.factor = factor;
	return true;
}

void hd_filter_keep(struct hd_significance *filter, float part) {
	if (filter->held2 > 0.0 && part < 1.0f)
		scale_held(filter, part);
}

void hd_filter_put_back(struct hd_significance *filter, const float *update) {
	if (!(filter->settings.v > 0.0f))
		return;
	for (uint64_t i = 0; i < filter->values; i++)
		filter->held[i] += isfinite(update[i]) ? update[i] : 0.0f;
	filter->held2 = hd_norm2_f32(filter->held, filter->values);
}

void hd_filter_reapply(const struct hd_significance *filter, float *x) {
	for (uint64_t i = 0; i < filter->values; i++)
		x[i] += filter->settings.factor * filter->held[i];
}
