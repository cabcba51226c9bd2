/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Histograms of whole numbers over fixed buckets: nanoseconds of a wait, versions of a delay.
 *
 *   bounds      b0        b1        b2
 *   buckets  [0, b0]  (b0, b1]  (b1, b2]  (b2, ...)
 *
 * A value is counted in the first bucket whose bound it does not exceed. Counts and the sum stop at their greatest
 * value. Nothing is allocated: adding costs a search through at most HD_HISTOGRAM_BUCKETS_MAX bounds.
 */
#ifndef HD_HISTOGRAM_H
#define HD_HISTOGRAM_H

#include "hd_types.h"

#define HD_HISTOGRAM_BUCKETS_MAX 23

struct hd_bound {
	uint64_t most; /* of the bucket's values */
	const char *text; /* the same in the unit of metrics, as OpenMetrics writes numbers of le */
};

/* The bounds of a histogram, and the units that its values are shown in: one counted is so much of each. */
struct hd_scale {
	const struct hd_bound *bounds; /* ascending */
	uint8_t count; /* of them; there is one bucket more */
	const char *metric_unit, *shell_unit;
	double metric_size, shell_size;
};

/* Counted in ns, from 10 us to 100 s; metrics have seconds, the shell ms. */
extern const struct hd_scale hd_scale_time;
/* Delays of updates, in versions: from 0 to 256. */
extern const struct hd_scale hd_scale_delay;

struct hd_histogram {
	uint64_t bucket[HD_HISTOGRAM_BUCKETS_MAX];
	uint64_t count, sum, max; /* of the values */
};

void hd_histogram_add(struct hd_histogram *histogram, const struct hd_scale *scale, uint64_t value);
/* Of the values that were added, those in the buckets from the first to this one. */
uint64_t hd_histogram_count_to(const struct hd_histogram *histogram, uint8_t bucket);
/* As counted; NaN: no value was added. */
double hd_histogram_mean(const struct hd_histogram *histogram);
/*
 * The value that this share (0 to 1) of the values does not exceed, as if those of a bucket were spread evenly between
 * its least and its greatest possible one (of the last bucket, and of that with the greatest value: up to this one).
 * Wrong by less than the bucket is wide. As counted; NaN: no value was added.
 */
double hd_histogram_quantile(
	const struct hd_histogram *histogram,
	const struct hd_scale *scale,
	double share
);

#endif
