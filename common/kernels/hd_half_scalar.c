/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference for 16-bit floats. */
#include "hd_kernels_impl.h"

#include <string.h>

void hd_f16_from_f32_scalar(uint16_t *y, const float *x, size_t count, float a) {
	for (size_t i = 0; i < count; i++)
		y[i] = hd_stage_f16(a * x[i]);
}

void hd_f32_from_f16_scalar(float *y, const uint16_t *x, size_t count) {
	uint16_t half;

	for (size_t i = 0; i < count; i++) {
		memcpy(&half, &x[i], sizeof half); /* a payload is not aligned */
		y[i] = hd_stage_from_f16(half);
	}
}

void hd_bf16_from_f32_scalar(uint16_t *y, const float *x, size_t count, float a) {
	for (size_t i = 0; i < count; i++)
		y[i] = hd_stage_bf16(a * x[i]);
}

void hd_f32_from_bf16_scalar(float *y, const uint16_t *x, size_t count) {
	for (size_t i = 0; i < count; i++) {
		uint16_t half;

		memcpy(&half, &x[i], sizeof half);
		y[i] = hd_stage_from_bf16(half);
	}
}

size_t hd_find_mask_16_scalar(const uint16_t *x, size_t count, uint16_t mask) {
	for (size_t i = 0; i < count; i++)
		if ((x[i] & mask) == mask)
			return i;
	return count;
}
