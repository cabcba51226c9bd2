/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference for sums of packets' values: any alignment, one element at a time. */
#include "hd_bytes.h"
#include "hd_kernels_impl.h"

#include <math.h>

void hd_add_f16_scalar(float *sum, const uint16_t *x, size_t count) {
	for (size_t i = 0; i < count; i++) {
		uint16_t half;

		memcpy(&half, x + i, sizeof half);
		sum[i] += hd_stage_from_f16(half);
	}
}

void hd_add_bf16_scalar(float *sum, const uint16_t *x, size_t count) {
	for (size_t i = 0; i < count; i++) {
		uint16_t half;

		memcpy(&half, x + i, sizeof half);
		sum[i] += hd_stage_from_bf16(half);
	}
}

bool hd_add_fixed_scalar(uint32_t *sum, const uint32_t *x, size_t count) {
	uint32_t overflow = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t a = be32toh(sum[i]), b = hd_get32((const uint8_t *)(x + i)), s = a + b;

		overflow |= (s ^ a) & (s ^ b); /* both have the same sign, the sum the other */
		sum[i] = htobe32(s);
	}
	return overflow >> 31 != 0;
}

bool hd_add_fixed_both_scalar(uint32_t *sum, uint32_t *x, size_t count) {
	bool overflow = hd_add_fixed_scalar(sum, x, count);

	memcpy(x, sum, count * sizeof *sum);
	return overflow;
}

bool hd_add_f32_both_scalar(float *sum, float *x, size_t count) {
	bool wrong = false;

	for (size_t i = 0; i < count; i++) {
		float value;

		memcpy(&value, x + i, sizeof value);
		sum[i] += value;
		wrong |= !isfinite(sum[i]);
	}
	memcpy(x, sum, count * sizeof *sum);
	return wrong;
}

bool hd_fixed_from_f32_scalar(uint32_t *y, const float *x, size_t count, float a, float scale) {
	bool unfit = false;

	for (size_t i = 0; i < count; i++)
		y[i] = hd_stage_fixed(a * x[i] * scale, &unfit);
	return unfit;
}

void hd_f32_from_fixed_scalar(float *y, const uint32_t *x, size_t count, float scale) {
	for (size_t i = 0; i < count; i++) {
		uint32_t lane;

		memcpy(&lane, x + i, sizeof lane);
		y[i] = hd_stage_from_fixed(lane, scale);
	}
}
