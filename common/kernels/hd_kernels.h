/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loops over arrays of values. Each has a scalar reference (hd_<name>_scalar, exported for tests) and
 * SIMD versions chosen once at start by what the CPU has; results of hd_sgd_apply are bit-identical
 * between them (same order of operations per element, no fused multiply-add), norms agree to 1e-6
 * relative. Arrays need no alignment; 64 bytes is fastest. No allocation, no state but the dispatch.
 */
#ifndef HD_KERNELS_H
#define HD_KERNELS_H

#include "hd_types.h"

/* The settings of a step. */
struct hd_sgd {
	float learning_rate;
	float momentum;
	float decay;
};

/* One step of SGD with momentum and weight decay, for each i (MLfabric's notation, section 2):
 *   u = -lr (g + decay w);  h <- momentum h + u;  w <- w + h
 * Returns the squared L2 norm of the new h. */
double hd_sgd_apply(float *w, float *h, const float *g, size_t count, const struct hd_sgd *sgd);
double
hd_sgd_apply_scalar(float *w, float *h, const float *g, size_t count, const struct hd_sgd *sgd);

/* sum[i] += x[i] */
void hd_add_f32(float *sum, const float *x, size_t count);
void hd_add_f32_scalar(float *sum, const float *x, size_t count);

/* y[i] = a * x[i]; x may equal y. */
void hd_scale_f32(float *y, const float *x, size_t count, float a);
void hd_scale_f32_scalar(float *y, const float *x, size_t count, float a);

/* Squared L2 norm in double. NaN or Inf in x make it NaN or Inf. */
double hd_norm2_f32(const float *x, size_t count);
double hd_norm2_f32_scalar(const float *x, size_t count);

/* Index of the first NaN or Inf, or count. */
size_t hd_find_not_finite_f32(const float *x, size_t count);
size_t hd_find_not_finite_f32_scalar(const float *x, size_t count);

/*
 * 16-bit floats: dtype is HD_DTYPE_FP16 (IEEE 754 binary16: 11 bits of precision, largest 65504) or
 * HD_DTYPE_BF16 (the upper half of a binary32: 8 bits of precision, its range). Every version gives the
 * same bits as the scalar reference, subnormal numbers and the payloads of NaN included.
 */

/* y[i] = a * x[i], the product rounded to fp32 and then to 16 bits, both to nearest, ties to even. What is
 * beyond the type's range becomes Inf; a NaN stays one (quiet, the payload's upper bits kept). */
void hd_half_from_f32(uint8_t dtype, uint16_t *y, const float *x, size_t count, float a);
/* y[i] = x[i], which is exact; a signalling NaN of fp16 becomes quiet. */
void hd_half_to_f32(uint8_t dtype, float *y, const uint16_t *x, size_t count);
/* Index of the first NaN or Inf, or count. */
size_t hd_find_not_finite_half(uint8_t dtype, const uint16_t *x, size_t count);
/* The same for fp32 values as they will be once rounded to dtype (HD_DTYPE_FP32: as they are). */
size_t hd_find_not_finite_as(uint8_t dtype, const float *x, size_t count);
/* hd_sgd_apply() with the values of g converted, a block that fits the first cache at a time. */
double hd_sgd_apply_half(
	uint8_t dtype,
	float *w,
	float *h,
	const uint16_t *g,
	size_t count,
	const struct hd_sgd *sgd
);

/* "avx512", "avx2" or "scalar": what the dispatch chose; HEDDLE_SIMD in the environment lowers it. */
const char *hd_kernels_name(void);

#endif
