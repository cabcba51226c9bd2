/* SPDX-License-Identifier: BSD-3-Clause */
/* The table from which the run-time dispatch chooses. Private to common/kernels, its tests and bench. */
#ifndef HD_KERNELS_IMPL_H
#define HD_KERNELS_IMPL_H

#include "hd_kernels.h"
#include "hd_stages.h"

/* Types of sums and operations for which there is a kernel. */
enum hd_combine_type {
	HD_COMBINE_F32,
	HD_COMBINE_F64,
	HD_COMBINE_I8,
	HD_COMBINE_U8,
	HD_COMBINE_I32,
	HD_COMBINE_I64,
	HD_COMBINE_TYPES
};
enum hd_combine_op {
	HD_COMBINE_ADD,
	HD_COMBINE_LEAST,
	HD_COMBINE_MOST,
	HD_COMBINE_MULTIPLY,
	HD_COMBINE_OPS
};
typedef void (*hd_combine_kernel)(void *sum, const void *x, size_t count);
typedef hd_combine_kernel hd_combine_table[HD_COMBINE_TYPES][HD_COMBINE_OPS];

struct hd_kernels {
	const char *name;
	const hd_combine_table *combine;
	double (*sgd_apply
	)(float *w, float *h, const float *g, size_t count, const struct hd_sgd *sgd);
	void (*prox_apply
	)(float *w, const float *w_t, const float *g, size_t count, float rate, float mu);
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
	void (*add_f16)(float *sum, const uint16_t *x, size_t count);
	void (*add_bf16)(float *sum, const uint16_t *x, size_t count);
	bool (*add_fixed)(uint32_t *sum, const uint32_t *x, size_t count);
	bool (*add_fixed_both)(uint32_t *sum, uint32_t *x, size_t count);
	bool (*add_f32_both)(float *sum, float *x, size_t count);
	bool (*fixed_from_f32)(uint32_t *y, const float *x, size_t count, float a, float scale);
	void (*f32_from_fixed)(float *y, const uint32_t *x, size_t count, float scale);
	void (*filter
	)(const struct hd_filter_arrays *arrays,
	  size_t count,
	  const struct hd_filter_step *step,
	  struct hd_filter_sums *sums);
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

/* hd_sum_scalar.c, hd_sum_avx2.c, hd_sum_avx512.c */
void hd_add_f16_scalar(float *sum, const uint16_t *x, size_t count);
void hd_add_bf16_scalar(float *sum, const uint16_t *x, size_t count);
bool hd_add_fixed_scalar(uint32_t *sum, const uint32_t *x, size_t count);
bool hd_add_fixed_both_scalar(uint32_t *sum, uint32_t *x, size_t count);
bool hd_add_f32_both_scalar(float *sum, float *x, size_t count);
bool hd_fixed_from_f32_scalar(uint32_t *y, const float *x, size_t count, float a, float scale);
void hd_f32_from_fixed_scalar(float *y, const uint32_t *x, size_t count, float scale);
#if defined(__x86_64__)
void hd_add_f16_avx2(float *sum, const uint16_t *x, size_t count);
void hd_add_bf16_avx2(float *sum, const uint16_t *x, size_t count);
bool hd_add_fixed_avx2(uint32_t *sum, const uint32_t *x, size_t count);
bool hd_add_fixed_both_avx2(uint32_t *sum, uint32_t *x, size_t count);
bool hd_add_f32_both_avx2(float *sum, float *x, size_t count);
bool hd_fixed_from_f32_avx2(uint32_t *y, const float *x, size_t count, float a, float scale);
void hd_f32_from_fixed_avx2(float *y, const uint32_t *x, size_t count, float scale);
void hd_add_f16_avx512(float *sum, const uint16_t *x, size_t count);
void hd_add_bf16_avx512(float *sum, const uint16_t *x, size_t count);
bool hd_add_fixed_avx512(uint32_t *sum, const uint32_t *x, size_t count);
bool hd_add_fixed_both_avx512(uint32_t *sum, uint32_t *x, size_t count);
bool hd_add_f32_both_avx512(float *sum, float *x, size_t count);
bool hd_fixed_from_f32_avx512(uint32_t *y, const float *x, size_t count, float a, float scale);
void hd_f32_from_fixed_avx512(float *y, const uint32_t *x, size_t count, float scale);
#endif

/* hd_filter_scalar.c, hd_filter_avx2.c, hd_filter_avx512.c */
void hd_filter_scalar(
	const struct hd_filter_arrays *arrays,
	size_t count,
	const struct hd_filter_step *step,
	struct hd_filter_sums *sums
);
#if defined(__x86_64__)
void hd_filter_avx2(
	const struct hd_filter_arrays *arrays,
	size_t count,
	const struct hd_filter_step *step,
	struct hd_filter_sums *sums
);
void hd_filter_avx512(
	const struct hd_filter_arrays *arrays,
	size_t count,
	const struct hd_filter_step *step,
	struct hd_filter_sums *sums
);
#endif

/* hd_combine_scalar.c, hd_combine_avx2.c, hd_combine_avx512.c */
extern const hd_combine_table hd_combine_scalar;
#if defined(__x86_64__)
extern const hd_combine_table hd_combine_avx2;
extern const hd_combine_table hd_combine_avx512;
#endif

/* The versions that this CPU supports, best first, ending with the scalar reference: index 0..2, NULL past it. */
const struct hd_kernels *hd_kernels_supported(size_t index);

#endif
