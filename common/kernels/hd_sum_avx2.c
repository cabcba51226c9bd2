/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of packets' values, 8 lanes at a time. */
#include "hd_kernels_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HD_AVX2 __attribute__((target("avx2,f16c")))
#define HD_LANES 8

HD_AVX2 static inline __m256i hd_load(const void *at) {
	return _mm256_loadu_si256((const __m256i *)at);
}

HD_AVX2 static inline void hd_store(void *at, __m256i lanes) {
	_mm256_storeu_si256((__m256i *)at, lanes);
}

/* Reverses the four bytes of each lane. */
HD_AVX2 static inline __m256i hd_swap(__m256i lanes) {
	const __m256i order = _mm256_setr_epi8(
		3,
		2,
		1,
		0,
		7,
		6,
		5,
		4,
		11,
		10,
		9,
		8,
		15,
		14,
		13,
		12,
		3,
		2,
		1,
		0,
		7,
		6,
		5,
		4,
		11,
		10,
		9,
		8,
		15,
		14,
		13,
		12
	);

	return _mm256_shuffle_epi8(lanes, order);
}

HD_AVX2 void hd_add_f16_avx2(float *sum, const uint16_t *x, size_t count) {
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m128i half = _mm_loadu_si128((const __m128i *)(const void *)(x + i));

		_mm256_storeu_ps(
			sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), _mm256_cvtph_ps(half))
		);
	}
	hd_add_f16_scalar(sum + i, x + i, count - i);
}

HD_AVX2 void hd_add_bf16_avx2(float *sum, const uint16_t *x, size_t count) {
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m128i half = _mm_loadu_si128((const __m128i *)(const void *)(x + i));
		__m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);

		_mm256_storeu_ps(
			sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), _mm256_castsi256_ps(wide))
		);
	}
	hd_add_bf16_scalar(sum + i, x + i, count - i);
}

HD_AVX2 bool hd_add_fixed_avx2(uint32_t *sum, const uint32_t *x, size_t count) {
	__m256i overflow = _mm256_setzero_si256();
	size_t i = 0;
	bool rest;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256i a = hd_swap(hd_load(sum + i)), b = hd_swap(hd_load(x + i));
		__m256i s = _mm256_add_epi32(a, b);
		__m256i wrong = _mm256_and_si256(_mm256_xor_si256(s, a), _mm256_xor_si256(s, b));

		overflow = _mm256_or_si256(overflow, wrong);
		hd_store(sum + i, hd_swap(s));
	}
	rest = hd_add_fixed_scalar(sum + i, x + i, count - i);
	return rest || _mm256_movemask_ps(_mm256_castsi256_ps(overflow)) != 0;
}

HD_AVX2 bool hd_add_fixed_both_avx2(uint32_t *sum, uint32_t *x, size_t count) {
	__m256i overflow = _mm256_setzero_si256();
	size_t i = 0;
	bool rest;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256i a = hd_swap(hd_load(sum + i)), b = hd_swap(hd_load(x + i));
		__m256i s = _mm256_add_epi32(a, b);
		__m256i wrong = _mm256_and_si256(_mm256_xor_si256(s, a), _mm256_xor_si256(s, b));

		overflow = _mm256_or_si256(overflow, wrong);
		s = hd_swap(s);
		hd_store(sum + i, s);
		hd_store(x + i, s);
	}
	rest = hd_add_fixed_both_scalar(sum + i, x + i, count - i);
	return rest || _mm256_movemask_ps(_mm256_castsi256_ps(overflow)) != 0;
}

/* x - x is NaN for NaN and Inf, and 0 for finite x. */
HD_AVX2 bool hd_add_f32_both_avx2(float *sum, float *x, size_t count) {
	__m256 wrong = _mm256_setzero_ps();
	size_t i = 0;
	bool rest;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256 s = _mm256_add_ps(_mm256_loadu_ps(sum + i), _mm256_loadu_ps(x + i));

		wrong = _mm256_or_ps(wrong, _mm256_sub_ps(s, s));
		_mm256_storeu_ps(sum + i, s);
		_mm256_storeu_ps(x + i, s);
	}
	rest = hd_add_f32_both_scalar(sum + i, x + i, count - i);
	return rest || _mm256_movemask_ps(_mm256_cmp_ps(wrong, wrong, _CMP_UNORD_Q)) != 0;
}

HD_AVX2 bool
hd_fixed_from_f32_avx2(uint32_t *y, const float *x, size_t count, float a, float scale) {
	const __m256 factor = _mm256_set1_ps(a), unit = _mm256_set1_ps(scale);
	const __m256 limit = _mm256_set1_ps(HD_STAGE_FIXED_LIMIT),
		     least = _mm256_set1_ps(-HD_STAGE_FIXED_LIMIT);
	__m256 unfit = _mm256_setzero_ps();
	size_t i = 0;
	bool rest;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256 v = _mm256_mul_ps(_mm256_mul_ps(factor, _mm256_loadu_ps(x + i)), unit);
		__m256 number = _mm256_cmp_ps(v, v, _CMP_ORD_Q);

		/* "Not less or equal" is true of NaN. */
		unfit = _mm256_or_ps(unfit, _mm256_cmp_ps(v, limit, _CMP_NLE_UQ));
		unfit = _mm256_or_ps(unfit, _mm256_cmp_ps(v, least, _CMP_NGE_UQ));
		v = _mm256_and_ps(v, number);
		v = _mm256_max_ps(_mm256_min_ps(v, limit), least);
		hd_store(y + i, hd_swap(_mm256_cvtps_epi32(v)));
	}
	rest = hd_fixed_from_f32_scalar(y + i, x + i, count - i, a, scale);
	return rest || _mm256_movemask_ps(unfit) != 0;
}

HD_AVX2 void hd_f32_from_fixed_avx2(float *y, const uint32_t *x, size_t count, float scale) {
	const __m256 unit = _mm256_set1_ps(scale);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256 wide = _mm256_cvtepi32_ps(hd_swap(hd_load(x + i)));

		_mm256_storeu_ps(y + i, _mm256_mul_ps(wide, unit));
	}
	hd_f32_from_fixed_scalar(y + i, x + i, count - i, scale);
}
#endif
