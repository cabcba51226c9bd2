/* SPDX-License-Identifier: BSD-3-Clause */
/* 16-bit floats, 8 at a time: F16C converts fp16, integer arithmetic rounds bf16. */
#include "hd_kernels_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HD_AVX2 __attribute__((target("avx2,f16c")))
#define HD_LANES 8

HD_AVX2 void hd_f16_from_f32_avx2(uint16_t *y, const float *x, size_t count, float a) {
	const __m256 factor = _mm256_set1_ps(a);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256 scaled = _mm256_mul_ps(factor, _mm256_loadu_ps(x + i));

		_mm_storeu_si128(
			(__m128i *)(void *)(y + i),
			_mm256_cvtps_ph(scaled, _MM_FROUND_TO_NEAREST_INT)
		);
	}
	hd_f16_from_f32_scalar(y + i, x + i, count - i, a);
}

HD_AVX2 void hd_f32_from_f16_avx2(float *y, const uint16_t *x, size_t count) {
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m128i half = _mm_loadu_si128((const __m128i *)(const void *)(x + i));

		_mm256_storeu_ps(y + i, _mm256_cvtph_ps(half));
	}
	hd_f32_from_f16_scalar(y + i, x + i, count - i);
}

/* Rounds to the upper 16 bits of each lane and moves them to its lower ones. */
HD_AVX2 static inline __m256i hd_bf16_lanes(__m256 x) {
	__m256i bits = _mm256_castps_si256(x);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
	__m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
	__m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
	__m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
	__m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));

	return _mm256_blendv_epi8(rounded, quiet, nan);
}

HD_AVX2 void hd_bf16_from_f32_avx2(uint16_t *y, const float *x, size_t count, float a) {
	const __m256 factor = _mm256_set1_ps(a);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256i lanes = hd_bf16_lanes(_mm256_mul_ps(factor, _mm256_loadu_ps(x + i)));

		_mm_storeu_si128(
			(__m128i *)(void *)(y + i),
			_mm_packus_epi32(
				_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1)
			)
		);
	}
	hd_bf16_from_f32_scalar(y + i, x + i, count - i, a);
}

HD_AVX2 void hd_f32_from_bf16_avx2(float *y, const uint16_t *x, size_t count) {
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m128i half = _mm_loadu_si128((const __m128i *)(const void *)(x + i));

		_mm256_storeu_si256(
			(__m256i *)(void *)(y + i),
			_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16)
		);
	}
	hd_f32_from_bf16_scalar(y + i, x + i, count - i);
}

HD_AVX2 size_t hd_find_mask_16_avx2(const uint16_t *x, size_t count, uint16_t mask) {
	const __m256i wanted = _mm256_set1_epi16((short)mask);
	size_t i = 0;

	for (; i + (size_t)2 * HD_LANES <= count; i += (size_t)2 * HD_LANES) {
		__m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
		__m256i found = _mm256_cmpeq_epi16(_mm256_and_si256(bits, wanted), wanted);
		unsigned bytes = (unsigned)_mm256_movemask_epi8(found);

		if (bytes != 0)
			return i + (size_t)__builtin_ctz(bytes) / 2;
	}
	return i + hd_find_mask_16_scalar(x + i, count - i, mask);
}
#endif
