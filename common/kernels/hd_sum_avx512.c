/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of packets' values, 16 lanes at a time. */
#include "hd_kernels_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HD_AVX512 __attribute__((target("avx512f,avx512bw")))
#define HD_LANES 16

/* Reverses the four bytes of each lane. */
HD_AVX512 static inline __m512i hd_swap(__m512i lanes) {
	const __m512i order = _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);

	return _mm512_shuffle_epi8(lanes, order);
}

HD_AVX512 void hd_add_f16_avx512(float *sum, const uint16_t *x, size_t count) {
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256i half = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));

		_mm512_storeu_ps(
			sum + i, _mm512_add_ps(_mm512_loadu_ps(sum + i), _mm512_cvtph_ps(half))
		);
	}
	hd_add_f16_scalar(sum + i, x + i, count - i);
}

HD_AVX512 void hd_add_bf16_avx512(float *sum, const uint16_t *x, size_t count) {
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256i half = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
		__m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);

		_mm512_storeu_ps(
			sum + i, _mm512_add_ps(_mm512_loadu_ps(sum + i), _mm512_castsi512_ps(wide))
		);
	}
	hd_add_bf16_scalar(sum + i, x + i, count - i);
}

/* Adds lanes in network order; an overflow sets the sign bit in *overflow. */
HD_AVX512 static inline __m512i hd_add_swapped(__m512i left, __m512i right, __m512i *overflow) {
	__m512i a = hd_swap(left), b = hd_swap(right), s = _mm512_add_epi32(a, b);

	*overflow = _mm512_or_si512(
		*overflow, _mm512_and_si512(_mm512_xor_si512(s, a), _mm512_xor_si512(s, b))
	);
	return hd_swap(s);
}

HD_AVX512 static inline bool hd_is_negative(__m512i lanes) {
	return _mm512_cmplt_epi32_mask(lanes, _mm512_setzero_si512()) != 0;
}

/* The lanes that remain after whole registers: a packet's count is rarely a multiple of one. */
HD_AVX512 static inline __mmask16 hd_rest(size_t count) {
	return (__mmask16)((1u << count) - 1);
}

HD_AVX512 bool hd_add_fixed_avx512(uint32_t *sum, const uint32_t *x, size_t count) {
	__m512i overflow = _mm512_setzero_si512();
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m512i b = _mm512_loadu_si512(x + i);

		_mm512_storeu_si512(
			sum + i, hd_add_swapped(_mm512_loadu_si512(sum + i), b, &overflow)
		);
	}
	if (i < count) {
		__mmask16 rest = hd_rest(count - i);
		__m512i a = _mm512_maskz_loadu_epi32(rest, sum + i);
		__m512i b = _mm512_maskz_loadu_epi32(rest, x + i);

		_mm512_mask_storeu_epi32(sum + i, rest, hd_add_swapped(a, b, &overflow));
	}
	return hd_is_negative(overflow);
}

HD_AVX512 bool hd_add_fixed_both_avx512(uint32_t *sum, uint32_t *x, size_t count) {
	__m512i overflow = _mm512_setzero_si512();
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m512i b = _mm512_loadu_si512(x + i);
		__m512i s = hd_add_swapped(_mm512_loadu_si512(sum + i), b, &overflow);

		_mm512_storeu_si512(sum + i, s);
		_mm512_storeu_si512(x + i, s);
	}
	if (i < count) {
		__mmask16 rest = hd_rest(count - i);
		__m512i a = _mm512_maskz_loadu_epi32(rest, sum + i);
		__m512i s = hd_add_swapped(a, _mm512_maskz_loadu_epi32(rest, x + i), &overflow);

		_mm512_mask_storeu_epi32(sum + i, rest, s);
		_mm512_mask_storeu_epi32(x + i, rest, s);
	}
	return hd_is_negative(overflow);
}

/* x - x is NaN for NaN and Inf, and 0 for finite x. */
HD_AVX512 bool hd_add_f32_both_avx512(float *sum, float *x, size_t count) {
	unsigned wrong = 0;
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m512 s = _mm512_add_ps(_mm512_loadu_ps(sum + i), _mm512_loadu_ps(x + i));
		__m512 none = _mm512_sub_ps(s, s);

		wrong |= _mm512_cmp_ps_mask(none, none, _CMP_UNORD_Q);
		_mm512_storeu_ps(sum + i, s);
		_mm512_storeu_ps(x + i, s);
	}
	if (i < count) {
		__mmask16 rest = hd_rest(count - i);
		__m512 s = _mm512_maskz_loadu_ps(rest, sum + i), none;

		s = _mm512_add_ps(s, _mm512_maskz_loadu_ps(rest, x + i));
		none = _mm512_sub_ps(s, s);
		wrong |= _mm512_cmp_ps_mask(none, none, _CMP_UNORD_Q);
		_mm512_mask_storeu_ps(sum + i, rest, s);
		_mm512_mask_storeu_ps(x + i, rest, s);
	}
	return wrong != 0;
}

HD_AVX512 bool
hd_fixed_from_f32_avx512(uint32_t *y, const float *x, size_t count, float a, float scale) {
	const __m512 factor = _mm512_set1_ps(a), unit = _mm512_set1_ps(scale);
	const __m512 limit = _mm512_set1_ps(HD_STAGE_FIXED_LIMIT),
		     least = _mm512_set1_ps(-HD_STAGE_FIXED_LIMIT);
	unsigned unfit = 0;
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m512 v = _mm512_mul_ps(_mm512_mul_ps(factor, _mm512_loadu_ps(x + i)), unit);
		__mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);

		/* "Not less or equal" is true of NaN. */
		unfit |= _mm512_cmp_ps_mask(v, limit, _CMP_NLE_UQ);
		unfit |= _mm512_cmp_ps_mask(v, least, _CMP_NGE_UQ);
		v = _mm512_maskz_mov_ps(number, v);
		v = _mm512_max_ps(_mm512_min_ps(v, limit), least);
		_mm512_storeu_si512(y + i, hd_swap(_mm512_cvtps_epi32(v)));
	}
	return hd_fixed_from_f32_scalar(y + i, x + i, count - i, a, scale) || unfit != 0;
}

HD_AVX512 void hd_f32_from_fixed_avx512(float *y, const uint32_t *x, size_t count, float scale) {
	const __m512 unit = _mm512_set1_ps(scale);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m512 wide = _mm512_cvtepi32_ps(hd_swap(_mm512_loadu_si512(x + i)));

		_mm512_storeu_ps(y + i, _mm512_mul_ps(wide, unit));
	}
	hd_f32_from_fixed_scalar(y + i, x + i, count - i, scale);
}
#endif
