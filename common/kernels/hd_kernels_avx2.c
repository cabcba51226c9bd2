/* SPDX-License-Identifier: BSD-3-Clause */
/* 8 values at a time. The target has no FMA, so that no operations can be fused. */
#include "hd_kernels_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HD_AVX2 __attribute__((target("avx2")))
#define HD_LANES 8

/* x^2 of 8 floats, in double, onto two accumulators. */
HD_AVX2 static inline void hd_square(__m256 x, __m256d *low, __m256d *high) {
	__m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
	__m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));

	*low = _mm256_add_pd(*low, _mm256_mul_pd(a, a));
	*high = _mm256_add_pd(*high, _mm256_mul_pd(b, b));
}

HD_AVX2 static inline double hd_sum(__m256d low, __m256d high) {
	double part[4];

	_mm256_storeu_pd(part, _mm256_add_pd(low, high));
	return (part[0] + part[1]) + (part[2] + part[3]);
}

HD_AVX2 static double
hd_sgd_apply_avx2(float *w, float *h, const float *g, size_t count, const struct hd_sgd *sgd) {
	const __m256 minus_lr = _mm256_set1_ps(-sgd->learning_rate);
	const __m256 gamma = _mm256_set1_ps(sgd->momentum);
	const __m256 lambda = _mm256_set1_ps(sgd->decay);
	__m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256 wi = _mm256_loadu_ps(w + i);
		__m256 hi = _mm256_loadu_ps(h + i);
		__m256 gi = _mm256_loadu_ps(g + i);
		__m256 u = _mm256_mul_ps(minus_lr, _mm256_add_ps(gi, _mm256_mul_ps(lambda, wi)));

		hi = _mm256_add_ps(_mm256_mul_ps(gamma, hi), u);
		_mm256_storeu_ps(h + i, hi);
		_mm256_storeu_ps(w + i, _mm256_add_ps(wi, hi));
		hd_square(hi, &low, &high);
	}
	return hd_sum(low, high) + hd_sgd_apply_scalar(w + i, h + i, g + i, count - i, sgd);
}

HD_AVX2 static void
hd_prox_apply_avx2(float *w, const float *w_t, const float *g, size_t count, float rate, float mu) {
	const __m256 step = _mm256_set1_ps(rate), pull = _mm256_set1_ps(mu);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256 wi = _mm256_loadu_ps(w + i);
		__m256 away = _mm256_sub_ps(wi, _mm256_loadu_ps(w_t + i));
		__m256 slope = _mm256_add_ps(_mm256_loadu_ps(g + i), _mm256_mul_ps(pull, away));

		_mm256_storeu_ps(w + i, _mm256_sub_ps(wi, _mm256_mul_ps(step, slope)));
	}
	hd_prox_apply_scalar(w + i, w_t + i, g + i, count - i, rate, mu);
}

HD_AVX2 static void hd_add_f32_avx2(float *sum, const float *x, size_t count) {
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		_mm256_storeu_ps(
			sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), _mm256_loadu_ps(x + i))
		);
	}
	hd_add_f32_scalar(sum + i, x + i, count - i);
}

HD_AVX2 static void hd_scale_f32_avx2(float *y, const float *x, size_t count, float a) {
	const __m256 factor = _mm256_set1_ps(a);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES)
		_mm256_storeu_ps(y + i, _mm256_mul_ps(factor, _mm256_loadu_ps(x + i)));
	hd_scale_f32_scalar(y + i, x + i, count - i, a);
}

HD_AVX2 static double hd_norm2_f32_avx2(const float *x, size_t count) {
	__m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES)
		hd_square(_mm256_loadu_ps(x + i), &low, &high);
	return hd_sum(low, high) + hd_norm2_f32_scalar(x + i, count - i);
}

HD_AVX2 static size_t hd_find_not_finite_f32_avx2(const float *x, size_t count) {
	const __m256i exponent = _mm256_set1_epi32(0x7f800000);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
		__m256i bad = _mm256_cmpeq_epi32(_mm256_and_si256(bits, exponent), exponent);
		unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(bad));

		if (mask != 0)
			return i + (size_t)__builtin_ctz(mask);
	}
	return i + hd_find_not_finite_f32_scalar(x + i, count - i);
}

const struct hd_kernels hd_kernels_avx2 = {
	.name = "avx2",
	.combine = &hd_combine_avx2,
	.sgd_apply = hd_sgd_apply_avx2,
	.prox_apply = hd_prox_apply_avx2,
	.add_f32 = hd_add_f32_avx2,
	.scale_f32 = hd_scale_f32_avx2,
	.norm2_f32 = hd_norm2_f32_avx2,
	.find_not_finite_f32 = hd_find_not_finite_f32_avx2,
	.f16_from_f32 = hd_f16_from_f32_avx2,
	.f32_from_f16 = hd_f32_from_f16_avx2,
	.bf16_from_f32 = hd_bf16_from_f32_avx2,
	.f32_from_bf16 = hd_f32_from_bf16_avx2,
	.find_mask_16 = hd_find_mask_16_avx2,
	.add_f16 = hd_add_f16_avx2,
	.add_bf16 = hd_add_bf16_avx2,
	.add_fixed = hd_add_fixed_avx2,
	.add_fixed_both = hd_add_fixed_both_avx2,
	.add_f32_both = hd_add_f32_both_avx2,
	.fixed_from_f32 = hd_fixed_from_f32_avx2,
	.f32_from_fixed = hd_f32_from_fixed_avx2,
	.filter = hd_filter_avx2,
};
#endif
