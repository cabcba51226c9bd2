/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One step of SGD with momentum on one core beside what memory allows: a loop over three arrays of the
 * same size that reads three streams and writes two of them back, as the step does, and computes
 * nothing (best of several rounds for both, alternating, so that a slow moment hits both).
 * Conversions to and from 16 bits likewise, beside memcpy() of the same bytes.
 */
#include "beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define STREAM_BYTES_PER_VALUE 20.0 /* read w, h, g; write w, h */

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void
streams_avx512(float *w, float *h, const float *g, size_t count) {
	for (size_t i = 0; i + 16 <= count; i += 16) {
		__m512 gi = _mm512_loadu_ps(g + i);

		_mm512_storeu_ps(w + i, _mm512_add_ps(_mm512_loadu_ps(w + i), gi));
		_mm512_storeu_ps(h + i, _mm512_add_ps(_mm512_loadu_ps(h + i), gi));
	}
}

__attribute__((target("avx2"))) static void
streams_avx2(float *w, float *h, const float *g, size_t count) {
	for (size_t i = 0; i + 8 <= count; i += 8) {
		__m256 gi = _mm256_loadu_ps(g + i);

		_mm256_storeu_ps(w + i, _mm256_add_ps(_mm256_loadu_ps(w + i), gi));
		_mm256_storeu_ps(h + i, _mm256_add_ps(_mm256_loadu_ps(h + i), gi));
	}
}
#endif

/* The least work that moves the same streams, as wide as the CPU can. */
static void move_streams(float *w, float *h, const float *g, size_t count) {
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f")) {
		streams_avx512(w, h, g, count);
		return;
	}
	if (__builtin_cpu_supports("avx2")) {
		streams_avx2(w, h, g, count);
		return;
	}
#endif
	for (size_t i = 0; i < count; i++) {
		w[i] += g[i];
		h[i] += g[i];
	}
}

struct arrays {
	float *w, *h, *g;
};

static void streams(void *of, size_t values) {
	const struct arrays *a = of;

	move_streams(a->w, a->h, a->g, values);
}

static void apply(const struct hd_kernels *table, void *of, size_t values) {
	static const struct hd_sgd sgd = {0.05F, 0.9F, 1e-4F};
	const struct arrays *a = of;

	table->sgd_apply(a->w, a->h, a->g, values, &sgd);
}

static void measure(size_t values) {
	static const struct beside what = {"apply", STREAM_BYTES_PER_VALUE, streams, apply};
	struct arrays a = {array(values, 0), array(values, 0), array(values, 0)};

	beside(&what, &a, values);
	free(a.w);
	free(a.h);
	free(a.g);
}

/* A conversion moves 6 bytes a value: so does a copy of 3 bytes of it. */
static void
convert(const struct hd_kernels *table, int which, float *wide, uint16_t *half, size_t n) {
	switch (which) {
	case 0:
		table->f16_from_f32(half, wide, n, 0.5F);
		break;
	case 1:
		table->f32_from_f16(wide, half, n);
		break;
	case 2:
		table->bf16_from_f32(half, wide, n, 0.5F);
		break;
	case 3:
		table->f32_from_bf16(wide, half, n);
		break;
	default:
		memcpy(half, wide, 3 * n);
	}
}

static void measure_conversions(size_t values) {
	static const char *const names[]
		= {"fp32 -> fp16", "fp16 -> fp32", "fp32 -> bf16", "bf16 -> fp32"};
	float *wide = array(values, 0);
	uint16_t *half = (void *)array(values, 0);
	const struct hd_kernels *table;
	const size_t passes = passes_of(values);

	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		double best[5] = {0};

		for (int round = 0; round < BESIDE_ROUNDS * 5; round++) {
			double began = now_s(), rate;

			for (size_t i = 0; i < passes; i++)
				convert(table, round % 5, wide, half, values);
			rate = (double)(values * passes) * 6e-9 / (now_s() - began);
			best[round % 5] = rate > best[round % 5] ? rate : best[round % 5];
		}
		for (int which = 0; which < 4; which++) {
			(void
			)printf("%s %6.1f MB of fp32, %-6s: %6.2f GB/s; memcpy %6.2f GB/s: %5.1f %%\n",
				names[which],
				(double)values * 4e-6,
				table->name,
				best[which],
				best[4],
				100 * best[which] / best[4]);
		}
	}
	free(wide);
	free(half);
}

int main(void) {
	measure(UINT64_C(256) * 1024);
	measure(UINT64_C(1024) * 1024);
	measure(UINT64_C(25) * 1000 * 1000);
	measure_conversions(UINT64_C(256) * 1024);
	measure_conversions(UINT64_C(25) * 1000 * 1000);
	return 0;
}
