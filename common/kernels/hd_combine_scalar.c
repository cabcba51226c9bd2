/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference for operations of all-reduces: any alignment of x, one element at a time. */
#include "hd_kernels_impl.h"

#include <math.h>

/* `a` is an element of the sum, `b` of the member; integers wrap as unsigned ones do. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type in a declaration */
#define HD_KERNEL(name, type, expression)                                                          \
	static void hd_combine_##name##_scalar(void *sum, const void *x, size_t count) {           \
		type *to = sum;                                                                    \
                                                                                                   \
		for (size_t i = 0; i < count; i++) {                                               \
			type a = to[i], b;                                                         \
                                                                                                   \
			memcpy(&b, (const uint8_t *)x + i * sizeof b, sizeof b);                   \
			to[i] = (type)(expression);                                                \
		}                                                                                  \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

#define HD_INTEGER(name, type, wraps)                                                              \
	HD_KERNEL(add_##name, type, (wraps)a + (wraps)b)                                           \
	HD_KERNEL(least_##name, type, a < b ? a : b)                                               \
	HD_KERNEL(most_##name, type, a > b ? a : b)                                                \
	HD_KERNEL(multiply_##name, type, (wraps)a *(wraps)b)

static inline float hd_least_of_f32(float a, float b) {
	if (isnan(a) || isnan(b))
		return a + b;
	if (a < b || (!(b < a) && signbit(a)))
		return a;
	return b;
}

static inline double hd_least_of_f64(double a, double b) {
	if (isnan(a) || isnan(b))
		return a + b;
	if (a < b || (!(b < a) && signbit(a)))
		return a;
	return b;
}

#define HD_FLOAT(name, type)                                                                       \
	HD_KERNEL(add_##name, type, a + b)                                                         \
	HD_KERNEL(least_##name, type, hd_least_of_##name(a, b))                                    \
	HD_KERNEL(most_##name, type, -hd_least_of_##name(-a, -b))                                  \
	HD_KERNEL(multiply_##name, type, a *b)

HD_FLOAT(f32, float)
HD_FLOAT(f64, double)
HD_INTEGER(i8, int8_t, uint32_t)
HD_INTEGER(u8, uint8_t, uint32_t)
HD_INTEGER(i32, int32_t, uint32_t)
HD_INTEGER(i64, int64_t, uint64_t)

#define HD_ROW(name)                                                                               \
	{                                                                                          \
		hd_combine_add_##name##_scalar, hd_combine_least_##name##_scalar,                  \
			hd_combine_most_##name##_scalar, hd_combine_multiply_##name##_scalar       \
	}

const hd_combine_table hd_combine_scalar
	= {HD_ROW(f32), HD_ROW(f64), HD_ROW(i8), HD_ROW(u8), HD_ROW(i32), HD_ROW(i64)};
