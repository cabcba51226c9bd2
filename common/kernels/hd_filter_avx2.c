/* SPDX-License-Identifier: BSD-3-Clause */
/* The significance filter, 8 values at a time. The target has no FMA, so that no operations can be fused. */
#include "hd_kernels_impl.h"

#if defined(__x86_64__)
#include <float.h>
#include <immintrin.h>

#define HD_AVX2 __attribute__((target("avx2")))
#define HD_LANES 8

/* x^2 of 8 floats, in double. */
HD_AVX2 static inline __m256d hd_squares(__m256d sum, __m256 x) {
	__m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
	__m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));

	return _mm256_add_pd(sum, _mm256_add_pd(_mm256_mul_pd(a, a), _mm256_mul_pd(b, b)));
}

HD_AVX2 static inline double hd_sum(__m256d x) {
	double part[4];

	_mm256_storeu_pd(part, x);
	return (part[0] + part[1]) + (part[2] + part[3]);
}

HD_AVX2 void hd_filter_avx2(
	const struct hd_filter_arrays *arrays,
	size_t count,
	const struct hd_filter_step *step,
	struct hd_filter_sums *sums
) {
	const __m256 factor = _mm256_set1_ps(step->factor);
	const __m256 threshold = _mm256_set1_ps(step->threshold);
	const __m256 most = _mm256_set1_ps(FLT_MAX);
	const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
	__m256d sent2 = _mm256_setzero_pd(), held2 = _mm256_setzero_pd();
	size_t i = 0;

	for (; i + HD_LANES <= count; i += HD_LANES) {
		__m256 u = _mm256_loadu_ps(arrays->update + i);
		__m256 a = _mm256_add_ps(_mm256_loadu_ps(arrays->held + i), u);
		__m256 x = _mm256_add_ps(_mm256_loadu_ps(arrays->x + i), _mm256_mul_ps(factor, u));
		__m256 mine = _mm256_and_ps(_mm256_mul_ps(factor, a), magnitude);
		__m256 bound = _mm256_mul_ps(threshold, _mm256_and_ps(x, magnitude));
		__m256 yes = _mm256_cmp_ps(mine, _mm256_min_ps(most, bound), _CMP_NLE_UQ);
		__m256 sent = _mm256_and_ps(yes, a), held = _mm256_andnot_ps(yes, a);
		unsigned bits = (unsigned)_mm256_movemask_ps(yes);

		_mm256_storeu_ps(arrays->x + i, x);
		_mm256_storeu_ps(arrays->update + i, sent);
		_mm256_storeu_ps(arrays->held + i, held);
		arrays->mask[i / 8] = (uint8_t)bits;
		sums->sent += (size_t)__builtin_popcount(bits);
		sent2 = hd_squares(sent2, sent);
		held2 = hd_squares(held2, held);
	}
	sums->sent2 += hd_sum(sent2);
	sums->held2 += hd_sum(held2);
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
