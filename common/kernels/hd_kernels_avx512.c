/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 16 values at a time, the rest under a mask (a mask on every store costs half of the speed beyond the caches, even if
 * it is full). AVX-512 includes FMA: this directory is compiled with -ffp-contract=off, or mul and add below would be
 * fused into one operation with one rounding.
 */
#include "hd_kernels_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HD_AVX512 __attribute__((target("avx512f")))
#define HD_LANES 16

/* The lanes that hold values when `left` remain: all, or the first ones. */
HD_AVX512 static inline __mmask16 hd_lanes(size_t left) {
	if (left >= HD_LANES)
		return 0xffff;
	return (__mmask16)((1U << left) - 1U);
}

HD_AVX512 static inline void hd_square(__m512 x, __m512d *low, __m512d *high) {
	__m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
	__m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
	__m512d b = _mm512_cvtps_pd(upper);

	*low = _mm512_add_pd(*low, _mm512_mul_pd(a, a));
	*high = _mm512_add_pd(*high, _mm512_mul_pd(b, b));
}

/* One vector: new h and w from the old ones, in the order of the reference. */
struct hd_step {
	__m512 minus_lr, gamma, lambda;
};

HD_AVX512 static inline __m512 hd_step_h(const struct hd_step *step, __m512 w, __m512 h, __m512 g) {
	__m512 u = _mm512_mul_ps(step->minus_lr, _mm512_add_ps(g, _mm512_mul_ps(step->lambda, w)));

	return _mm512_add_ps(_mm512_mul_ps(step->gamma, h), u);
}

HD_AVX512 static double
hd_sgd_apply_avx512(float *w, float *h, const float *g, size_t count, const struct hd_sgd *sgd) {
	const struct hd_step step = {
		.minus_lr = _mm512_set1_ps(-sgd->learning_rate),
		.gamma = _mm512_set1_ps(sgd->momentum),
		.lambda = _mm512_set1_ps(sgd->decay),
	};
	__m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m512 wi = _mm512_loadu_ps(w + i);
		__m512 hi = hd_step_h(&step, wi, _mm512_loadu_ps(h + i), _mm512_loadu_ps(g + i));

		_mm512_storeu_ps(h + i, hi);
		_mm512_storeu_ps(w + i, _mm512_add_ps(wi, hi));
		hd_square(hi, &low, &high);
	}
	if (i < count) {
		__mmask16 lanes = hd_lanes(count - i);
		__m512 wi = _mm512_maskz_loadu_ps(lanes, w + i);
		__m512 hi = _mm512_maskz_loadu_ps(lanes, h + i);

		hi = hd_step_h(&step, wi, hi, _mm512_maskz_loadu_ps(lanes, g + i));
		hi = _mm512_maskz_mov_ps(lanes, hi);
		_mm512_mask_storeu_ps(h + i, lanes, hi);
		_mm512_mask_storeu_ps(w + i, lanes, _mm512_add_ps(wi, hi));
		hd_square(hi, &low, &high);
	}
	return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}

HD_AVX512 static void hd_prox_apply_avx512(
	float *w,
	const float *w_t,
	const float *g,
	size_t count,
	float rate,
	float mu
) {
	const __m512 step = _mm512_set1_ps(rate), pull = _mm512_set1_ps(mu);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m512 wi = _mm512_loadu_ps(w + i);
		__m512 away = _mm512_sub_ps(wi, _mm512_loadu_ps(w_t + i));
		__m512 slope = _mm512_add_ps(_mm512_loadu_ps(g + i), _mm512_mul_ps(pull, away));

		_mm512_storeu_ps(w + i, _mm512_sub_ps(wi, _mm512_mul_ps(step, slope)));
	}
	hd_prox_apply_scalar(w + i, w_t + i, g + i, count - i, rate, mu);
}

HD_AVX512 static void hd_add_f32_avx512(float *sum, const float *x, size_t count) {
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		_mm512_storeu_ps(
			sum + i, _mm512_add_ps(_mm512_loadu_ps(sum + i), _mm512_loadu_ps(x + i))
		);
	}
	hd_add_f32_scalar(sum + i, x + i, count - i);
}

HD_AVX512 static void hd_scale_f32_avx512(float *y, const float *x, size_t count, float a) {
	const __m512 factor = _mm512_set1_ps(a);
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES)
		_mm512_storeu_ps(y + i, _mm512_mul_ps(factor, _mm512_loadu_ps(x + i)));
	hd_scale_f32_scalar(y + i, x + i, count - i, a);
}

HD_AVX512 static double hd_norm2_f32_avx512(const float *x, size_t count) {
	__m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();

	for (size_t i = 0; i < count; i += HD_LANES)
		hd_square(_mm512_maskz_loadu_ps(hd_lanes(count - i), x + i), &low, &high);
	return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}

HD_AVX512 static size_t hd_find_not_finite_f32_avx512(const float *x, size_t count) {
	const __m512i exponent = _mm512_set1_epi32(0x7f800000);

	for (size_t i = 0; i < count; i += HD_LANES) {
		__m512i bits = _mm512_maskz_loadu_epi32(hd_lanes(count - i), x + i);
		__mmask16 bad = _mm512_cmpeq_epi32_mask(_mm512_and_si512(bits, exponent), exponent);

		if (bad != 0)
			return i + (size_t)__builtin_ctz((unsigned)bad);
	}
	return count;
}

const struct hd_kernels hd_kernels_avx512 = {
	.name = "avx512",
	.combine = &hd_combine_avx512,
	.sgd_apply = hd_sgd_apply_avx512,
	.prox_apply = hd_prox_apply_avx512,
	.add_f32 = hd_add_f32_avx512,
	.scale_f32 = hd_scale_f32_avx512,
	.norm2_f32 = hd_norm2_f32_avx512,
	.find_not_finite_f32 = hd_find_not_finite_f32_avx512,
	.f16_from_f32 = hd_f16_from_f32_avx512,
	.f32_from_f16 = hd_f32_from_f16_avx512,
	.bf16_from_f32 = hd_bf16_from_f32_avx512,
	.f32_from_bf16 = hd_f32_from_bf16_avx512,
	/* Comparing 16-bit lanes needs AVX-512BW; the search is bound by memory anyway. */
	.find_mask_16 = hd_find_mask_16_avx2,
	.add_f16 = hd_add_f16_avx512,
	.add_bf16 = hd_add_bf16_avx512,
	.add_fixed = hd_add_fixed_avx512,
	.add_fixed_both = hd_add_fixed_both_avx512,
	.add_f32_both = hd_add_f32_both_avx512,
	.fixed_from_f32 = hd_fixed_from_f32_avx512,
	.f32_from_fixed = hd_f32_from_fixed_avx512,
	.filter = hd_filter_avx512,
};
#endif
