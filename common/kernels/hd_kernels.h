/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loops over arrays of values. Each has a scalar reference (hd_<name>_scalar, exported for tests) and SIMD versions
 * chosen once at start by the CPU's features. Results of hd_sgd_apply are bit-identical between them (same order of
 * operations per element, no fused multiply-add), norms agree to 1e-6 relative. Arrays need no alignment; 64 bytes is
 * fastest. No allocation, no state but the dispatch.
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

/*
 * A sum of updates is applied as `steps` steps of hd_sgd_apply(), each with g = sum / steps. One step of the whole sum
 * would weight it `steps` times as long in the momentum, which decays once a step.
 */
struct hd_sgd_sum {
	struct hd_sgd sgd;
	uint32_t steps; /* from 1; 1: exactly hd_sgd_apply() */
	uint8_t dtype; /* of the sum's values: HD_DTYPE_FP32, _FP16 or _BF16 */
};

/* Gives the same bits as passes over whole arrays: g = (1.0f / steps) * sum[i] (16 bits: converted first), rounded to
 * fp32, then the steps in turn; without momentum and decay, where these equal one step of the sum except for rounding,
 * that one step. Works in blocks that stay in the first-level cache, so that memory is read and written once. Returns
 * the squared L2 norm of h after the last step. */
double
hd_sgd_apply_sum(float *w, float *h, const void *sum, size_t count, const struct hd_sgd_sum *how);

/* A client's step with a proximal term towards the model from which it began (FedProx, arXiv 1812.06127, section 3.2:
 * the gradient of F(w) + mu/2 |w - w_t|^2), for each i:  w <- w - rate (g + mu (w - w_t)). mu = 0: plain SGD where w_t
 * is finite. Every version gives the bits of the scalar reference. */
void hd_prox_apply(float *w, const float *w_t, const float *g, size_t count, float rate, float mu);
void hd_prox_apply_scalar(
	float *w,
	const float *w_t,
	const float *g,
	size_t count,
	float rate,
	float mu
);

/* sum[i] += x[i]; sum is aligned to its type, x need not be (a packet's payload), here and below. */
void hd_add_f32(float *sum, const float *x, size_t count);
void hd_add_f32_scalar(float *sum, const float *x, size_t count);

/* y[i] = a * x[i]; x may equal y. */
void hd_scale_f32(float *y, const float *x, size_t count, float a);
void hd_scale_f32_scalar(float *y, const float *x, size_t count, float a);

/* Squared L2 norm in double. NaN or Inf in x make it NaN or Inf. */
double hd_norm2_f32(const float *x, size_t count);
double hd_norm2_f32_scalar(const float *x, size_t count);

/* The largest absolute value; 0 of no values; NaN if there is one. */
float hd_peak_f32(const float *x, size_t count);
/* The same of those that are finite. */
float hd_peak_finite_f32(const float *x, size_t count);

/* Index of the first NaN or Inf, or count. */
size_t hd_find_not_finite_f32(const float *x, size_t count);
size_t hd_find_not_finite_f32_scalar(const float *x, size_t count);

/*
 * 16-bit floats: dtype is HD_DTYPE_FP16 (IEEE 754 binary16: 11 bits of precision, largest 65504) or
 * HD_DTYPE_BF16 (the upper half of a binary32: 8 bits of precision, its range). Every version gives the
 * same bits as the scalar reference, subnormal numbers and the payloads of NaN included.
 */

/* y[i] = a * x[i], the product rounded to fp32 and then to 16 bits, both to nearest, ties to even. A value beyond the
 * type's range becomes Inf; a NaN stays one (quiet, with the payload's upper bits). */
void hd_half_from_f32(uint8_t dtype, uint16_t *y, const float *x, size_t count, float a);
/* y[i] = x[i], which is exact; a signalling NaN of fp16 becomes quiet. */
void hd_half_to_f32(uint8_t dtype, float *y, const uint16_t *x, size_t count);
/* Index of the first NaN or Inf, or count. */
size_t hd_find_not_finite_half(uint8_t dtype, const uint16_t *x, size_t count);
/* The same for fp32 values as they will be after rounding to dtype (HD_DTYPE_FP32: unchanged). */
size_t hd_find_not_finite_as(uint8_t dtype, const float *x, size_t count);
/* hd_sgd_apply() with the values of g converted, one block of the first-level cache at a time. */
double hd_sgd_apply_half(
	uint8_t dtype,
	float *w,
	float *h,
	const uint16_t *g,
	size_t count,
	const struct hd_sgd *sgd
);

/* sum[i] += x[i] with 16-bit floats added to an fp32 sum. The sum is rounded to 16 bits once, when it is sent, so it
 * does not lose a member that is small beside it (bf16: less than 1/512 of it), and its bits depend on the order of the
 * members far more rarely. Costs 10 bytes of memory traffic a value instead of 6. */
void hd_add_half(uint8_t dtype, float *sum, const uint16_t *x, size_t count);

/*
 * Operations of all-reduces, for each i:  sum[i] = sum[i] op x[i]
 *
 * dtype: hd_dtype_is_element(). `sum` has the same type; of 16-bit floats it is fp32, and rounded once at the end. op:
 * enum hd_reduce_op; AVERAGE adds. x need not be aligned (a packet's payload).
 *
 *   integers         sums and products modulo 2^bits, in two's complement
 *   MIN, MAX         NaN if one of both is NaN, and -0 is less than 0: the order of the members makes no difference
 *
 * Every version gives the same bits as the scalar reference, except for the bits of a NaN.
 */
void hd_combine(uint8_t dtype, uint8_t op, void *sum, const void *x, size_t count);
/* The end of an AVERAGE over `members` >= 1: fp32 (also for 16-bit floats) times 1 / members, rounded to fp32, as
 * elsewhere; fp64 divided; integers divided, and rounded towards 0. */
void hd_average(uint8_t dtype, void *sum, size_t count, uint32_t members);
/* Whether a value of this type, which is fp32, fp64 or 16 bits, is NaN or Inf; false of integers. */
bool hd_any_not_finite(uint8_t dtype, const void *x, size_t count);

/*
 * Fixed point (HD_DTYPE_FIXED32): a value is lane x 2^exponent; lanes are int32 in network order, as a switch adds
 * them. A sum of lanes does not depend on the order of its members.
 */
#define HD_FIXED_EXPONENT_MIN (-126)
#define HD_FIXED_EXPONENT_MAX 126

/* sum[i] += x[i], modulo 2^32. True when a lane overflowed: its sum is wrong. */
bool hd_add_fixed(uint32_t *sum, const uint32_t *x, size_t count);
/* The same, and x[i] = sum[i]: the packet that completes a sum carries it. x need not be aligned. */
bool hd_add_fixed_both(uint32_t *sum, uint32_t *x, size_t count);
/* sum[i] += x[i]; x[i] = sum[i] of fp32. True when a sum is NaN or Inf. */
bool hd_add_f32_both(float *sum, float *x, size_t count);
/* y[i] = a * x[i] / 2^exponent: rounded to fp32 after each product, then to nearest, ties to even. True when a value
 * did not fit: one beyond 2^31 becomes +-(2^31 - 128), a NaN 0. */
bool hd_fixed_from_f32(uint32_t *y, const float *x, size_t count, float a, int exponent);
/* y[i] = x[i] * 2^exponent, rounded to fp32. */
void hd_fixed_to_f32(float *y, const uint32_t *x, size_t count, int exponent);
/* The least exponent with which a sum of `members` updates cannot overflow, where the greatest absolute values of the
 * weighted updates add up to `peaks`; beyond HD_FIXED_EXPONENT_MAX: there is none. */
int hd_fixed_exponent(double peaks, uint32_t members);

/*
 * The significance filter (Gaia, NSDI'17; MLLess, arXiv 2206.05786, ISP), for each i:
 *   a = held + update;  x <- x + factor update
 *   unless |factor a| <= threshold |x|:  update <- a, held <- 0, bit i of the mask 1
 *   else:                                update <- 0, held <- a, bit i of the mask 0
 * so that NaN and Inf pass, and where x is 0 everything but 0 passes. The same bits from every version.
 */
struct hd_filter_arrays {
	float *x; /* the worker's own model */
	float *held; /* held back so far */
	float *update; /* in: this step's; out: the part to send */
	uint8_t *mask; /* (count + 7) / 8 bytes */
};
struct hd_filter_step {
	float factor; /* change of the model for an update of 1: with SGD minus the learning rate */
	float threshold;
};
/* Sums to which the call adds. */
struct hd_filter_sums {
	double sent2, held2; /* squared L2 norms */
	size_t sent; /* values */
};
void hd_filter_f32(
	const struct hd_filter_arrays *arrays,
	size_t count,
	const struct hd_filter_step *step,
	struct hd_filter_sums *sums
);

/* The dispatch's choice, "avx512", "avx2" or "scalar"; HEDDLE_SIMD in the environment lowers it. */
const char *hd_kernels_name(void);

#endif
