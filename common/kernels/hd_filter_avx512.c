/* SPDX-License-Identifier: BSD-3-Clause */
/* The significance filter, 16 values at a time; compiled with -ffp-contract=off, like this directory. */
#include "hd_kernels_impl.h"

#if defined(__x86_64__)
#include <float.h>
#include <immintrin.h>

#define HD_AVX512 __attribute__((target("avx512f")))
#define HD_LANES 16

/* x^2 of 16 floats, in double. */
HD_AVX512 static inline __m512d hd_squares(__m512d sum, __m512 x) {
	__m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
	__m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(x)), b = _mm512_cvtps_pd(upper);

	return _mm512_add_pd(sum, _mm512_add_pd(_mm512_mul_pd(a, a), _mm512_mul_pd(b, b)));
}

HD_AVX512 void hd_filter_avx512(
	const struct hd_filter_arrays *arrays,
	size_t count,
	const struct hd_filter_step *step,
	struct hd_filter_sums *sums
) {
	const __m512 factor = _mm512_set1_ps(step->factor);
	const __m512 threshold = _mm512_set1_ps(step->threshold);
	const __m512 most = _mm512_set1_ps(FLT_MAX);
	__m512d sent2 = _mm512_setzero_pd(), held2 = _mm512_setzero_pd();
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m512 u = _mm512_loadu_ps(arrays->update + i);
		__m512 a = _mm512_add_ps(_mm512_loadu_ps(arrays->held + i), u);
		__m512 x = _mm512_add_ps(_mm512_loadu_ps(arrays->x + i), _mm512_mul_ps(factor, u));
		__m512 mine = _mm512_abs_ps(_mm512_mul_ps(factor, a));
		__m512 bound = _mm512_mul_ps(threshold, _mm512_abs_ps(x));
		__mmask16 yes = _mm512_cmp_ps_mask(mine, _mm512_min_ps(most, bound), _CMP_NLE_UQ);
		__m512 sent = _mm512_maskz_mov_ps(yes, a);
		__m512 held = _mm512_maskz_mov_ps((__mmask16)~yes, a);

		_mm512_storeu_ps(arrays->x + i, x);
		_mm512_storeu_ps(arrays->update + i, sent);
		_mm512_storeu_ps(arrays->held + i, held);
		arrays->mask[i / 8] = (uint8_t)yes;
		arrays->mask[i / 8 + 1] = (uint8_t)(yes >> 8);
		sums->sent += (size_t)__builtin_popcount(yes);
		sent2 = hd_squares(sent2, sent);
		held2 = hd_squares(held2, held);
	}
	sums->sent2 += _mm512_reduce_add_pd(sent2);
	sums->held2 += _mm512_reduce_add_pd(held2);
	if (i < count) {
		const struct hd_filter_arrays rest = {
			.x = arrays->x + i,
			.held = arrays->held + i,
			.update = arrays->update + i,
			.mask = arrays->mask + i / 8,
		};

		hd_filter_scalar(&rest, count - i, step, sums);
	}
}
#endif
