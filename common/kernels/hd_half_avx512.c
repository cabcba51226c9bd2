/* SPDX-License-Identifier: BSD-3-Clause */
/* 16-bit floats, 16 at a time. AVX512_BF16's own conversion cannot be used: it treats subnormal numbers as 0, so that a
 * model would depend on the machine. */
#include "hd_kernels_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HD_AVX512 __attribute__((target("avx512f")))
#define HD_LANES 16

HD_AVX512 void hd_f16_from_f32_avx512(uint16_t *y, const float *x, size_t count, float a) {
	const __m512 factor = _mm512_set1_ps(a);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m512 scaled = _mm512_mul_ps(factor, _mm512_loadu_ps(x + i));

		_mm256_storeu_si256(
			(__m256i *)(void *)(y + i),
			_mm512_cvtps_ph(scaled, _MM_FROUND_TO_NEAREST_INT)
		);
	}
	hd_f16_from_f32_scalar(y + i, x + i, count - i, a);
}

HD_AVX512 void hd_f32_from_f16_avx512(float *y, const uint16_t *x, size_t count) {
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256i half = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));

		_mm512_storeu_ps(y + i, _mm512_cvtph_ps(half));
	}
	hd_f32_from_f16_scalar(y + i, x + i, count - i);
}

HD_AVX512 static inline __m256i hd_bf16_lanes(__m512 x) {
	__m512i bits = _mm512_castps_si512(x), upper = _mm512_srli_epi32(bits, 16);
	__m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
	__m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
	__m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
	__mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);

	rounded = _mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40));
	return _mm512_cvtepi32_epi16(rounded);
}

HD_AVX512 void hd_bf16_from_f32_avx512(uint16_t *y, const float *x, size_t count, float a) {
	const __m512 factor = _mm512_set1_ps(a);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		_mm256_storeu_si256(
			(__m256i *)(void *)(y + i),
			hd_bf16_lanes(_mm512_mul_ps(factor, _mm512_loadu_ps(x + i)))
		);
	}
	hd_bf16_from_f32_scalar(y + i, x + i, count - i, a);
}

HD_AVX512 void hd_f32_from_bf16_avx512(float *y, const uint16_t *x, size_t count) {
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256i half = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));

		_mm512_storeu_si512(y + i, _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
	}
	hd_f32_from_bf16_scalar(y + i, x + i, count - i);
}
#endif
