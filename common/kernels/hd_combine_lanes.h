/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of all-reduces on vectors of any width, by the compiler's vector extension. Each including file
 * defines HD_TARGET (the function attribute), HD_WIDTH (bytes of a vector) and HD_VERSION(name), and gets the table
 * HD_VERSION(hd_combine).
 */
#ifndef HD_COMBINE_LANES_H
#define HD_COMBINE_LANES_H

#include "hd_kernels_impl.h"

#ifndef HD_TARGET /* compiled alone: what any processor has */
#define HD_TARGET
#define HD_WIDTH 16
#define HD_VERSION(name) name##_lanes
#endif

/* `a` are elements of the sum, `b` of the member. The rest, shorter than a vector, is the reference's. */
#define HD_KERNEL(name, type, row, column, statement)                                              \
	HD_TARGET static void HD_VERSION(hd_combine_##name                                         \
	)(void *sum, const void *x, size_t count) {                                                \
		typedef type lanes __attribute__((vector_size(HD_WIDTH)));                         \
		const size_t whole = count * sizeof(type) / HD_WIDTH * HD_WIDTH;                   \
		const uint8_t *from = x;                                                           \
		uint8_t *to = sum;                                                                 \
                                                                                                   \
		for (size_t at = 0; at < whole; at += HD_WIDTH) {                                  \
			lanes a, b;                                                                \
                                                                                                   \
			memcpy(&a, to + at, HD_WIDTH);                                             \
			memcpy(&b, from + at, HD_WIDTH);                                           \
			statement;                                                                 \
			memcpy(to + at, &a, HD_WIDTH);                                             \
		}                                                                                  \
		hd_combine_scalar[row][column](                                                    \
			to + whole, from + whole, count - whole / sizeof(type)                     \
		);                                                                                 \
	}

/* A comparison of vectors is all ones where it is true. */
#define HD_CHOOSE(less)                                                                            \
	const lanes mask = (lanes)(less);                                                          \
	a = (a & mask) | (b & ~mask)

#define HD_INTEGER(name, type, wraps, row)                                                         \
	HD_KERNEL(add_##name, wraps, row, HD_COMBINE_ADD, a += b)                                  \
	HD_KERNEL(least_##name, type, row, HD_COMBINE_LEAST, HD_CHOOSE(a < b))                     \
	HD_KERNEL(most_##name, type, row, HD_COMBINE_MOST, HD_CHOOSE(a > b))                       \
	HD_KERNEL(multiply_##name, wraps, row, HD_COMBINE_MULTIPLY, a *= b)

/* Where neither is less they are equal, or one is NaN: in both cases the bits of both together are right, for a maximum
 * with the opposite signs: -0 of -0 and 0, NaN of NaN and anything. */
#define HD_LEAST(bits, flip)                                                                       \
	typedef bits words __attribute__((vector_size(HD_WIDTH)));                                 \
	const words u = (words)a ^ (flip), v = (words)b ^ (flip);                                  \
	const words less = (words)((lanes)u < (lanes)v), more = (words)((lanes)v < (lanes)u);      \
	a = (lanes)(((u & less) | (v & more) | ((u | v) & ~(less | more))) ^ (flip))

#define HD_FLOAT(name, type, bits, sign, row)                                                      \
	HD_KERNEL(add_##name, type, row, HD_COMBINE_ADD, a += b)                                   \
	HD_KERNEL(least_##name, type, row, HD_COMBINE_LEAST, HD_LEAST(bits, 0))                    \
	HD_KERNEL(most_##name, type, row, HD_COMBINE_MOST, HD_LEAST(bits, sign))                   \
	HD_KERNEL(multiply_##name, type, row, HD_COMBINE_MULTIPLY, a *= b)

HD_FLOAT(f32, float, uint32_t, UINT32_C(1) << 31, HD_COMBINE_F32)
HD_FLOAT(f64, double, uint64_t, UINT64_C(1) << 63, HD_COMBINE_F64)
HD_INTEGER(i8, int8_t, uint8_t, HD_COMBINE_I8)
HD_INTEGER(u8, uint8_t, uint8_t, HD_COMBINE_U8)
HD_INTEGER(i32, int32_t, uint32_t, HD_COMBINE_I32)
HD_INTEGER(i64, int64_t, uint64_t, HD_COMBINE_I64)

#define HD_ROW(name)                                                                               \
	{                                                                                          \
		HD_VERSION(hd_combine_add_##name), HD_VERSION(hd_combine_least_##name),            \
			HD_VERSION(hd_combine_most_##name), HD_VERSION(hd_combine_multiply_##name) \
	}

const hd_combine_table HD_VERSION(hd_combine)
	= {HD_ROW(f32), HD_ROW(f64), HD_ROW(i8), HD_ROW(u8), HD_ROW(i32), HD_ROW(i64)};

#endif
