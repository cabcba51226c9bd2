/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference: one element at a time, in the order of operations that every version keeps. */
#include "hd_kernels_impl.h"

#include <string.h>

double
hd_sgd_apply_scalar(float *w, float *h, const float *g, size_t count, const struct hd_sgd *sgd) {
	const float lr = sgd->learning_rate, momentum = sgd->momentum, decay = sgd->decay;
	double norm2 = 0;

	for (size_t i = 0; i < count; i++) {
		float u = -lr * (g[i] + decay * w[i]);

		h[i] = momentum * h[i] + u;
		w[i] = w[i] + h[i];
		norm2 += (double)h[i] * (double)h[i];
	}
	return norm2;
}

void hd_prox_apply_scalar(
	float *w,
	const float *w_t,
	const float *g,
	size_t count,
	float rate,
	float mu
) {
	for (size_t i = 0; i < count; i++)
		w[i] = hd_stage_prox(w[i], w_t[i], g[i], rate, mu);
}

void hd_add_f32_scalar(float *sum, const float *x, size_t count) {
	for (size_t i = 0; i < count; i++) {
		float xi;

		memcpy(&xi, x + i, sizeof xi); /* in a packet it is not aligned */
		sum[i] += xi;
	}
}

void hd_scale_f32_scalar(float *y, const float *x, size_t count, float a) {
	for (size_t i = 0; i < count; i++)
		y[i] = a * x[i];
}

double hd_norm2_f32_scalar(const float *x, size_t count) {
	double norm2 = 0;

	for (size_t i = 0; i < count; i++)
		norm2 += (double)x[i] * (double)x[i];
	return norm2;
}

size_t hd_find_not_finite_f32_scalar(const float *x, size_t count) {
	/* On the bits, so that no compiler option for floats matters. */
	for (size_t i = 0; i < count; i++)
		if (!hd_stage_is_finite(x[i]))
			return i;
	return count;
}

const struct hd_kernels hd_kernels_scalar = {
	.name = "scalar",
	.combine = &hd_combine_scalar,
	.sgd_apply = hd_sgd_apply_scalar,
	.prox_apply = hd_prox_apply_scalar,
	.add_f32 = hd_add_f32_scalar,
	.scale_f32 = hd_scale_f32_scalar,
	.norm2_f32 = hd_norm2_f32_scalar,
	.find_not_finite_f32 = hd_find_not_finite_f32_scalar,
	.f16_from_f32 = hd_f16_from_f32_scalar,
	.f32_from_f16 = hd_f32_from_f16_scalar,
	.bf16_from_f32 = hd_bf16_from_f32_scalar,
	.f32_from_bf16 = hd_f32_from_bf16_scalar,
	.find_mask_16 = hd_find_mask_16_scalar,
	.add_f16 = hd_add_f16_scalar,
	.add_bf16 = hd_add_bf16_scalar,
	.add_fixed = hd_add_fixed_scalar,
	.add_fixed_both = hd_add_fixed_both_scalar,
	.add_f32_both = hd_add_f32_both_scalar,
	.fixed_from_f32 = hd_fixed_from_f32_scalar,
	.f32_from_fixed = hd_f32_from_fixed_scalar,
	.filter = hd_filter_scalar,
};
