/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dispatch: the best table that the CPU supports, chosen at the first call. HEDDLE_SIMD lowers it ("avx2", "scalar").
 * Results of hd_sgd_apply do not depend on the choice, so reading the environment cannot make two runs differ.
 */
#include "hd_kernels_impl.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define HD_KERNELS_TABLES 3
#define PEAK_WIDTH 8
#define HD_HALF_BLOCK 2048 /* values: 8 KiB of converted ones stay in the first-level cache */

#if defined(__x86_64__)
#include <cpuid.h>

/* Not every compiler's __builtin_cpu_supports() knows this name. */
static bool hd_cpu_has_f16c(void) {
	unsigned a = 0, b = 0, c = 0, d = 0;

	return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

/* writer: the first caller, always the same value; readers: any thread */
static _Atomic(const struct hd_kernels *) hd_kernels_chosen;

const struct hd_kernels *hd_kernels_supported(size_t index) {
	const struct hd_kernels *found[HD_KERNELS_TABLES + 1] = {NULL};
	size_t count = 0;
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		found[count++] = &hd_kernels_avx512;
	if (__builtin_cpu_supports("avx2") && hd_cpu_has_f16c())
		found[count++] = &hd_kernels_avx2;
#endif
	found[count] = &hd_kernels_scalar;
	return index <= count ? found[index] : NULL;
}

static const struct hd_kernels *hd_kernels_choose(void) {
	const char *wanted = getenv("HEDDLE_SIMD");
	const struct hd_kernels *chosen = hd_kernels_supported(0);
	const struct hd_kernels *table;

	for (size_t i = 0; wanted && (table = hd_kernels_supported(i)); i++)
		if (strcmp(table->name, wanted) == 0)
			chosen = table;
	atomic_store_explicit(&hd_kernels_chosen, chosen, memory_order_relaxed);
	return chosen;
}

static inline const struct hd_kernels *hd_kernels_get(void) {
	const struct hd_kernels *chosen
		= atomic_load_explicit(&hd_kernels_chosen, memory_order_relaxed);

	return chosen ? chosen : hd_kernels_choose();
}

double hd_sgd_apply(float *w, float *h, const float *g, size_t count, const struct hd_sgd *sgd) {
	return hd_kernels_get()->sgd_apply(w, h, g, count, sgd);
}

void hd_prox_apply(float *w, const float *w_t, const float *g, size_t count, float rate, float mu) {
	hd_kernels_get()->prox_apply(w, w_t, g, count, rate, mu);
}

void hd_add_f32(float *sum, const float *x, size_t count) {
	hd_kernels_get()->add_f32(sum, x, count);
}

void hd_scale_f32(float *y, const float *x, size_t count, float a) {
	hd_kernels_get()->scale_f32(y, x, count, a);
}

double hd_norm2_f32(const float *x, size_t count) {
	return hd_kernels_get()->norm2_f32(x, count);
}

size_t hd_find_not_finite_f32(const float *x, size_t count) {
	return hd_kernels_get()->find_not_finite_f32(x, count);
}

void hd_half_from_f32(uint8_t dtype, uint16_t *y, const float *x, size_t count, float a) {
	if (dtype == HD_DTYPE_BF16)
		hd_kernels_get()->bf16_from_f32(y, x, count, a);
	else
		hd_kernels_get()->f16_from_f32(y, x, count, a);
}

void hd_half_to_f32(uint8_t dtype, float *y, const uint16_t *x, size_t count) {
	if (dtype == HD_DTYPE_BF16)
		hd_kernels_get()->f32_from_bf16(y, x, count);
	else
		hd_kernels_get()->f32_from_f16(y, x, count);
}

size_t hd_find_not_finite_half(uint8_t dtype, const uint16_t *x, size_t count) {
	return hd_kernels_get()->find_mask_16(x, count, dtype == HD_DTYPE_BF16 ? 0x7f80 : 0x7c00);
}

size_t hd_find_not_finite_as(uint8_t dtype, const float *x, size_t count) {
	uint16_t block[HD_HALF_BLOCK];

	if (!hd_dtype_is_half(dtype))
		return hd_find_not_finite_f32(x, count);
	for (size_t at = 0; at < count; at += HD_HALF_BLOCK) {
		size_t left = count - at < HD_HALF_BLOCK ? count - at : HD_HALF_BLOCK, found;

		hd_half_from_f32(dtype, block, x + at, left, 1);
		found = hd_find_not_finite_half(dtype, block, left);
		if (found < left)
			return at + found;
	}
	return count;
}

double hd_sgd_apply_half(
	uint8_t dtype,
	float *w,
	float *h,
	const uint16_t *g,
	size_t count,
	const struct hd_sgd *sgd
) {
	float block[HD_HALF_BLOCK];
	double norm2 = 0;

	for (size_t at = 0; at < count; at += HD_HALF_BLOCK) {
		size_t left = count - at < HD_HALF_BLOCK ? count - at : HD_HALF_BLOCK;

		hd_half_to_f32(dtype, block, g + at, left);
		norm2 += hd_sgd_apply(w + at, h + at, block, left, sgd);
	}
	return norm2;
}

/* `x` is the block's g in wire format; may be in place. */
static double
hd_sgd_apply_block(float *w, float *h, float *x, size_t count, const struct hd_sgd_sum *how) {
	double norm2 = 0;

	hd_scale_f32(x, x, count, 1.0f / (float)how->steps);
	for (uint32_t i = 0; i < how->steps; i++)
		norm2 = hd_sgd_apply(w, h, x, count, &how->sgd);
	return norm2;
}

double
hd_sgd_apply_sum(float *w, float *h, const void *sum, size_t count, const struct hd_sgd_sum *how) {
	bool remembers
		= fpclassify(how->sgd.momentum) != FP_ZERO || fpclassify(how->sgd.decay) != FP_ZERO;
	bool half = hd_dtype_is_half(how->dtype);
	float block[HD_HALF_BLOCK];
	double norm2 = 0;

	if (how->steps <= 1 || !remembers) {
		return half ? hd_sgd_apply_half(how->dtype, w, h, sum, count, &how->sgd) :
			      hd_sgd_apply(w, h, sum, count, &how->sgd);
	}
	for (size_t at = 0; at < count; at += HD_HALF_BLOCK) {
		size_t left = count - at < HD_HALF_BLOCK ? count - at : HD_HALF_BLOCK;

		if (half)
			hd_half_to_f32(how->dtype, block, (const uint16_t *)sum + at, left);
		else
			memcpy(block, (const float *)sum + at, left * sizeof(float));
		norm2 += hd_sgd_apply_block(w + at, h + at, block, left, how);
	}
	return norm2;
}

void hd_add_half(uint8_t dtype, float *sum, const uint16_t *x, size_t count) {
	if (dtype == HD_DTYPE_BF16)
		hd_kernels_get()->add_bf16(sum, x, count);
	else
		hd_kernels_get()->add_f16(sum, x, count);
}

/* --- operations of all-reduces --- */

static enum hd_combine_type combine_type(uint8_t dtype) {
	switch (dtype) {
	case HD_DTYPE_FP64:
		return HD_COMBINE_F64;
	case HD_DTYPE_INT8:
		return HD_COMBINE_I8;
	case HD_DTYPE_UINT8:
		return HD_COMBINE_U8;
	case HD_DTYPE_INT32:
		return HD_COMBINE_I32;
	case HD_DTYPE_INT64:
		return HD_COMBINE_I64;
	default:
		return HD_COMBINE_F32;
	}
}

static enum hd_combine_op combine_op(uint8_t op) {
	switch (op) {
	case HD_REDUCE_OP_MIN:
		return HD_COMBINE_LEAST;
	case HD_REDUCE_OP_MAX:
		return HD_COMBINE_MOST;
	case HD_REDUCE_OP_PRODUCT:
		return HD_COMBINE_MULTIPLY;
	default:
		return HD_COMBINE_ADD;
	}
}

void hd_combine(uint8_t dtype, uint8_t op, void *sum, const void *x, size_t count) {
	const enum hd_combine_op column = combine_op(op);
	const hd_combine_kernel kernel = (*hd_kernels_get()->combine)[combine_type(dtype)][column];
	float block[HD_HALF_BLOCK];

	if (!hd_dtype_is_half(dtype)) {
		kernel(sum, x, count);
		return;
	}
	if (column == HD_COMBINE_ADD) {
		hd_add_half(dtype, sum, x, count);
		return;
	}
	for (size_t at = 0; at < count; at += HD_HALF_BLOCK) {
		size_t left = count - at < HD_HALF_BLOCK ? count - at : HD_HALF_BLOCK;

		hd_half_to_f32(dtype, block, (const uint16_t *)x + at, left);
		kernel((float *)sum + at, block, left);
	}
}

/* Division by one number, many times: by multiplication with its inverse, floor((2^64 - 1) / members), which is at most
 * one too low (Granlund and Montgomery 1994, "Division by invariant integers using multiplication"). */
static inline uint64_t quotient(uint64_t x, uint64_t members, uint64_t inverse) {
	uint64_t q = (uint64_t)((unsigned __int128)x * inverse >> 64);

	return q + (x - q * members >= members);
}

/* Of the absolute value: rounded towards 0. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type in a declaration */
#define HD_AVERAGE(name, type)                                                                     \
	static void name(void *sum, size_t count, uint64_t members) {                              \
		const uint64_t inverse = UINT64_MAX / members;                                     \
		type *x = sum;                                                                     \
                                                                                                   \
		for (size_t i = 0; i < count; i++) {                                               \
			const bool minus = (int64_t)x[i] < 0;                                      \
			const uint64_t all = (uint64_t)(int64_t)x[i];                              \
			const uint64_t q = quotient(minus ? -all : all, members, inverse);         \
                                                                                                   \
			x[i] = (type)(minus ? -q : q);                                             \
		}                                                                                  \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

HD_AVERAGE(average_i8, int8_t)
HD_AVERAGE(average_u8, uint8_t)
HD_AVERAGE(average_i32, int32_t)
HD_AVERAGE(average_i64, int64_t)

void hd_average(uint8_t dtype, void *sum, size_t count, uint32_t members) {
	double *x = sum;

	switch (combine_type(dtype)) {
	case HD_COMBINE_F64:
		for (size_t i = 0; i < count; i++)
			x[i] /= (double)members;
		break;
	case HD_COMBINE_I8:
		average_i8(sum, count, members);
		break;
	case HD_COMBINE_U8:
		average_u8(sum, count, members);
		break;
	case HD_COMBINE_I32:
		average_i32(sum, count, members);
		break;
	case HD_COMBINE_I64:
		average_i64(sum, count, members);
		break;
	default:
		hd_scale_f32(sum, sum, count, 1.0F / (float)members);
		break;
	}
}

bool hd_any_not_finite(uint8_t dtype, const void *x, size_t count) {
	const uint64_t exponent = UINT64_C(0x7ff) << 52;
	uint64_t bits, found = 0;

	if (hd_dtype_is_half(dtype))
		return hd_find_not_finite_half(dtype, x, count) < count;
	if (dtype == HD_DTYPE_FP32)
		return hd_find_not_finite_f32(x, count) < count;
	for (size_t i = 0; dtype == HD_DTYPE_FP64 && i < count; i++) {
		memcpy(&bits, (const uint8_t *)x + i * sizeof bits, sizeof bits);
		found |= (bits & exponent) == exponent;
	}
	return found != 0;
}

/* The bits of a float's absolute value grow with it, to Inf and beyond it NaN. Those from `end` on do not count. */
static inline float find_peak(const float *x, size_t count, uint32_t end) {
	uint32_t most[PEAK_WIDTH] = {0}, bits;
	float peak;
	size_t i = 0;

	for (; i + PEAK_WIDTH <= count; i += PEAK_WIDTH) {
		for (size_t k = 0; k < PEAK_WIDTH; k++) {
			memcpy(&bits, &x[i + k], sizeof bits);
			bits &= 0x7fffffff;
			bits = bits < end ? bits : 0;
			most[k] = bits > most[k] ? bits : most[k];
		}
	}
	for (size_t k = 0; i < count; i++, k++) {
		memcpy(&bits, &x[i], sizeof bits);
		bits &= 0x7fffffff;
		bits = bits < end ? bits : 0;
		most[k] = bits > most[k] ? bits : most[k];
	}
	for (size_t k = 1; k < PEAK_WIDTH; k++)
		most[0] = most[k] > most[0] ? most[k] : most[0];
	memcpy(&peak, &most[0], sizeof peak);
	return peak;
}

float hd_peak_f32(const float *x, size_t count) {
	return find_peak(x, count, UINT32_MAX);
}

float hd_peak_finite_f32(const float *x, size_t count) {
	return find_peak(x, count, UINT32_C(0x7f800000));
}

bool hd_add_fixed(uint32_t *sum, const uint32_t *x, size_t count) {
	return hd_kernels_get()->add_fixed(sum, x, count);
}

bool hd_add_fixed_both(uint32_t *sum, uint32_t *x, size_t count) {
	return hd_kernels_get()->add_fixed_both(sum, x, count);
}

bool hd_add_f32_both(float *sum, float *x, size_t count) {
	return hd_kernels_get()->add_f32_both(sum, x, count);
}

bool hd_fixed_from_f32(uint32_t *y, const float *x, size_t count, float a, int exponent) {
	return hd_kernels_get()->fixed_from_f32(y, x, count, a, ldexpf(1, -exponent));
}

void hd_fixed_to_f32(float *y, const uint32_t *x, size_t count, int exponent) {
	hd_kernels_get()->f32_from_fixed(y, x, count, ldexpf(1, exponent));
}

/* Each lane is at most its value / 2^exponent after two roundings to fp32, and one half for the third. */
int hd_fixed_exponent(double peaks, uint32_t members) {
	double lanes = 2147483647.0 - members, most = fabs(peaks) * (1 + 0x1p-22);
	int exponent = HD_FIXED_EXPONENT_MIN;

	if (!isfinite(most))
		return HD_FIXED_EXPONENT_MAX + 1;
	/* Lanes are below 2^31: an exponent that fits is above this. */
	if (most > 0 && ilogb(most) - 31 > exponent)
		exponent = ilogb(most) - 31;
	while (exponent <= HD_FIXED_EXPONENT_MAX && !(most <= ldexp(lanes, exponent)))
		exponent++;
	return exponent;
}

void hd_filter_f32(
	const struct hd_filter_arrays *arrays,
	size_t count,
	const struct hd_filter_step *step,
	struct hd_filter_sums *sums
) {
	hd_kernels_get()->filter(arrays, count, step, sums);
}

const char *hd_kernels_name(void) {
	return hd_kernels_get()->name;
}
