/* SPDX-License-Identifier: BSD-3-Clause */
/* The table that the run-time dispatch chooses among. Private to common/kernels, its tests and bench. */
#ifndef HD_KERNELS_IMPL_H
#define HD_KERNELS_IMPL_H

#include "hd_kernels.h"

struct hd_kernels {
	const char *name;
	double (*sgd_apply
	)(float *w, float *h, const float *g, size_t count, const struct hd_sgd *sgd);
	void (*add_f32)(float *sum, const float *x, size_t count);
	void (*scale_f32)(float *y, const float *x, size_t count, float a);
	double (*norm2_f32)(const float *x, size_t count);
	size_t (*find_not_finite_f32)(const float *x, size_t count);
	void (*f16_from_f32)(uint16_t *y, const float *x, size_t count, float a);
	void (*f32_from_f16)(float *y, const uint16_t *x, size_t count);
	void (*bf16_from_f32)(uint16_t *y, const float *x, size_t count, float a);
	void (*f32_from_bf16)(float *y, const uint16_t *x, size_t count);
	/* The first whose bits under the mask are all set: the exponent of a NaN or an Inf. */
	size_t (*find_mask_16)(const uint16_t *x, size_t count, uint16_t mask);
};

extern const struct hd_kernels hd_kernels_scalar;
#if defined(__x86_64__)
extern const struct hd_kernels hd_kernels_avx2;
extern const struct hd_kernels hd_kernels_avx512;
#endif

/* hd_half_scalar.c, hd_half_avx2.c, hd_half_avx512.c */
void hd_f16_from_f32_scalar(uint16_t *y, const float *x, size_t count, float a);
void hd_f32_from_f16_scalar(float *y, const uint16_t *x, size_t count);
void hd_bf16_from_f32_scalar(uint16_t *y, const float *x, size_t count, float a);
void hd_f32_from_bf16_scalar(float *y, const uint16_t *x, size_t count);
size_t hd_find_mask_16_scalar(const uint16_t *x, size_t count, uint16_t mask);
#if defined(__x86_64__)
void hd_f16_from_f32_avx2(uint16_t *y, const float *x, size_t count, float a);
void hd_f32_from_f16_avx2(float *y, const uint16_t *x, size_t count);
void hd_bf16_from_f32_avx2(uint16_t *y, const float *x, size_t count, float a);
void hd_f32_from_bf16_avx2(float *y, const uint16_t *x, size_t count);
size_t hd_find_mask_16_avx2(const uint16_t *x, size_t count, uint16_t mask);
void hd_f16_from_f32_avx512(uint16_t *y, const float *x, size_t count, float a);
void hd_f32_from_f16_avx512(float *y, const uint16_t *x, size_t count);
void hd_bf16_from_f32_avx512(uint16_t *y, const float *x, size_t count, float a);
void hd_f32_from_bf16_avx512(float *y, const uint16_t *x, size_t count);
#endif

/* What this CPU can run, best first, ending with the scalar reference: index 0..2, NULL past it. */
const struct hd_kernels *hd_kernels_supported(size_t index);

#endif
