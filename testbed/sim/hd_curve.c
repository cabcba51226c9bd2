/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_curve.h"

#include <errno.h>
#include <stdlib.h>

int hd_curve_add(struct hd_curve *curve, const struct hd_evaluation *evaluation) {
	if (curve->count == HD_CURVE_POINTS_MAX)
		return -ENOSPC;
	if (curve->count == curve->capacity) {
		uint32_t capacity = curve->capacity ? 2 * curve->capacity : 256;
		struct hd_evaluation *grown = realloc(curve->points, capacity * sizeof *grown);

		if (!grown)
			return -ENOMEM;
		curve->points = grown;
		curve->capacity = capacity;
	}
	curve->points[curve->count++] = *evaluation;
	return 0;
}

void hd_curve_fini(struct hd_curve *curve) {
	free(curve->points);
	*curve = (struct hd_curve){0};
}

/* Of the `count` evaluations that end before `end`. */
static double mean_before(const struct hd_curve *curve, uint32_t end, uint32_t count) {
	double sum = 0;

	for (uint32_t i = end - count; i < end; i++)
		sum += curve->points[i].accuracy;
	return sum / count;
}

const struct hd_evaluation *hd_curve_reached(const struct hd_curve *curve, double target) {
	for (uint32_t end = HD_CURVE_MEAN; end <= curve->count; end++)
		if (mean_before(curve, end, HD_CURVE_MEAN) >= target)
			return &curve->points[end - 1];
	return NULL;
}

double hd_curve_final(const struct hd_curve *curve) {
	uint32_t count = curve->count < HD_CURVE_MEAN ? curve->count : HD_CURVE_MEAN;

	return count > 0 ? mean_before(curve, curve->count, count) : -1;
}
