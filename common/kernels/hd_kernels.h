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

/* "avx512", "avx2" or "scalar": what the dispatch chose; HEDDLE_SIMD in the environment lowers it. */
const char *hd_kernels_name(void);

#endif
