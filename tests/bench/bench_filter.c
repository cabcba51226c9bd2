/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The significance filter on one core beside what memory allows: a loop over three arrays of the same size that reads
 * three streams and writes three, as the filter does, and computes nothing (best of several rounds, alternating, so
 * that a slow moment hits both). Then the whole step, with the runs of what is sent packed, for several shares sent.
 */
#include "beside.h"
#include "hd_filter.h"
#include "hd_random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define BYTES_PER_VALUE 24.0 /* read x, held, update; write them */

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void
streams_avx512(float *x, float *h, float *u, size_t count) {
	for (size_t i = 0; i + 16 <= count; i += 16) {
		__m512 a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(h + i);
		__m512 c = _mm512_loadu_ps(u + i);

		_mm512_storeu_ps(x + i, b);
		_mm512_storeu_ps(h + i, c);
		_mm512_storeu_ps(u + i, a);
	}
}

__attribute__((target("avx2"))) static void
streams_avx2(float *x, float *h, float *u, size_t count) {
	for (size_t i = 0; i + 8 <= count; i += 8) {
		__m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(h + i);
		__m256 c = _mm256_loadu_ps(u + i);

		_mm256_storeu_ps(x + i, b);
		_mm256_storeu_ps(h + i, c);
		_mm256_storeu_ps(u + i, a);
	}
}
#endif

/* The least work that moves the same streams, as wide as the CPU can: the arrays change places. */
static void move_streams(float *x, float *h, float *u, size_t count) {
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f")) {
		streams_avx512(x, h, u, count);
		return;
	}
	if (__builtin_cpu_supports("avx2")) {
		streams_avx2(x, h, u, count);
		return;
	}
#endif
	for (size_t i = 0; i < count; i++) {
		float a = x[i];

		x[i] = h[i];
		h[i] = u[i];
		u[i] = a;
	}
}

static void streams(void *of, size_t values) {
	const struct hd_filter_arrays *a = of;

	move_streams(a->x, a->held, a->update, values);
}

static void pass(const struct hd_kernels *table, void *of, size_t values) {
	static const struct hd_filter_step how = {-0.1F, 0.1F};
	struct hd_filter_sums sums = {0};

	table->filter(of, values, &how, &sums);
}

static void measure(size_t values) {
	static const struct beside what = {"filter", BYTES_PER_VALUE, streams, pass};
	uint8_t *mask = calloc(values / 8 + 8, 1);
	struct hd_filter_arrays a
		= {array(values, 1), array(values, 0), array(values, 1e-3F), mask};

	if (mask)
		beside(&what, &a, values);
	free(mask);
	free(a.x);
	free(a.held);
	free(a.update);
}

static void fill(size_t values, uint32_t block, size_t every, float *x, float *u) {
	for (size_t i = 0; i < values; i++) {
		x[i] = 1;
		u[i] = i / block % every == 0 ? 2.0F : 1e-6F;
	}
}

/* A step with its runs, and how much of it is packing: what it takes beyond the pass alone, over the same values. Of
 * every `every` values one is significant. */
static void measure_step(size_t values, uint32_t block, size_t every) {
	const struct hd_filter_settings settings
		= {.v = 0.5F, .factor = 1, .block = block, .bridge = 2, .constant = true};
	float *x = array(values, 1), *u = array(values, 0);
	const struct hd_filter_step how = {1, 0.5F};
	struct hd_filter_sums sums = {0};
	struct hd_significance filter;
	double step_s = INFINITY, pass_s = INFINITY;

	if (hd_filter_init(&filter, values, &settings) < 0)
		exit(1);
	for (int round = 0; round < BESIDE_ROUNDS; round++) {
		double began;

		fill(values, block, every, x, u);
		began = now_s();
		(void)hd_filter_step(&filter, x, u, 1, false);
		step_s = fmin(step_s, now_s() - began);
		if (block > 1)
			continue; /* their pass is not the kernel's */
		fill(values, block, every, x, u);
		began = now_s();
		hd_filter_f32(
			&(struct hd_filter_arrays){x, filter.held, u, filter.mask},
			values,
			&how,
			&sums
		);
		pass_s = fmin(pass_s, now_s() - began);
	}
	(void
	)printf("step   %6.1f MB model, blocks of %3u, 1 of %4zu sent, runs packed: %6.2f GB/s",
		(double)values * 4e-6,
		block,
		every,
		(double)values * BYTES_PER_VALUE * 1e-9 / step_s);
	if (block == 1)
		(void
		)printf(" (packing %5.1f %%: %5.2f ns a run)",
			100 * (1 - fmin(pass_s / step_s, 1)),
			fmax(step_s - pass_s, 0) * 1e9 / ((double)values / (double)every));
	(void)putchar('\n');
	hd_filter_fini(&filter);
	free(x);
	free(u);
}

int main(void) {
	measure(UINT64_C(256) * 1024);
	measure(UINT64_C(1024) * 1024);
	measure(UINT64_C(25) * 1000 * 1000);
	for (uint32_t block = 1; block <= 256; block *= 256) {
		measure_step(UINT64_C(25) * 1000 * 1000, block, 1000);
		measure_step(UINT64_C(25) * 1000 * 1000, block, 50);
		measure_step(UINT64_C(25) * 1000 * 1000, block, 8);
	}
	return 0;
}
