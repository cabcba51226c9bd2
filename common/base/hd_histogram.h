/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Histograms of whole numbers over fixed buckets: nanoseconds of a wait, versions of a delay.
 *
 *   bounds      b0        b1        b2
 *   buckets  [0, b0]  (b0, b1]  (b1, b2]  (b2, ...)
 *
 * A value is counted in the first bucket whose bound it does not exceed. Counts and the sum saturate. Nothing is
 * allocated: adding costs a search through at most HD_HISTOGRAM_BUCKETS_MAX bounds.
 */
#ifndef HD_HISTOGRAM_H
#define HD_HISTOGRAM_H

#include "hd_types.h"

#define HD_HISTOGRAM_BUCKETS_MAX 23

struct hd_bound {
	uint64_t most; /* greatest value of the bucket */
	const char *text; /* the same in the unit of metrics, as text for OpenMetrics' le */
};

/* The bounds of a histogram, and the units in which its values are shown: factors on the counted unit. */
struct hd_scale {
	const struct hd_bound *bounds; /* ascending */
	uint8_t count; /* of bounds; there is one bucket more */
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
/* The number of values in the buckets up to and including this one. */
uint64_t hd_histogram_count_to(const struct hd_histogram *histogram, uint8_t bucket);
/* In the counted unit; NaN: no values. */
double hd_histogram_mean(const struct hd_histogram *histogram);
/*
 * The value that this share (0 to 1) of the values does not exceed, if values are spread evenly within their bucket (in
 * the last bucket, and in that of the greatest value: up to that value). The error is less than the bucket's width. In
 * the counted unit; NaN: no values.
 */
double hd_histogram_quantile(
	const struct hd_histogram *histogram,
	const struct hd_scale *scale,
	double share
);

#endif
