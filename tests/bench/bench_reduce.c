/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adding an update to a sum on one core, beside what memory allows: a loop as wide as the CPU can that reads the
 * same bytes of the sum and of the update and writes the sum back, with one 32-bit integer addition in between
 * (STREAM's Add without its third array, as sums are made in place). Best of several rounds for both,
 * alternating, so that a slow moment hits both.
 */
#include "hd_kernels_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ROUNDS 15

static double now_s(void) {
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* `bytes` of the sum; of the update as many (shift 0) or half as many (shift 1). */
#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void
stream_avx512(uint8_t *sum, const uint8_t *x, size_t bytes, int shift) {
	if (shift == 0) {
		for (size_t i = 0; i + 64 <= bytes; i += 64)
			_mm512_storeu_si512(
				sum + i,
				_mm512_add_epi32(
					_mm512_loadu_si512(sum + i), _mm512_loadu_si512(x + i)
				)
			);
		return;
	}
	for (size_t i = 0; i + 64 <= bytes; i += 64) {
		__m256i half = _mm256_loadu_si256((const void *)(x + i / 2));

		_mm512_storeu_si512(
			sum + i,
			_mm512_add_epi32(_mm512_loadu_si512(sum + i), _mm512_castsi256_si512(half))
		);
	}
}

__attribute__((target("avx2"))) static void
stream_avx2(uint8_t *sum, const uint8_t *x, size_t bytes, int shift) {
	for (size_t i = 0; i + 32 <= bytes; i += 32) {
		__m256i xi = shift == 0 ?
			_mm256_loadu_si256((const void *)(x + i)) :
			_mm256_castsi128_si256(_mm_loadu_si128((const void *)(x + i / 2)));
		__m256i *to = (void *)(sum + i);

		_mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), xi));
	}
}
#endif

static void stream(uint8_t *sum, const uint8_t *x, size_t bytes, int shift) {
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f")) {
		stream_avx512(sum, x, bytes, shift);
		return;
	}
	if (__builtin_cpu_supports("avx2")) {
		stream_avx2(sum, x, bytes, shift);
		return;
	}
#endif
	for (size_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t a, b;

		memcpy(&a, sum + i, 8);
		memcpy(&b, x + (i >> shift), 8);
		a += b;
		memcpy(sum + i, &a, 8);
	}
}

enum kind {
	ADD_FP32,
	ADD_FP16,
	ADD_BF16,
	ADD_FIXED,
	KINDS
};
static const struct {
	const char *name;
	int shift;
	double aim;
} kinds[KINDS] = {{"fp32", 0, 90}, {"fp16", 1, 80}, {"bf16", 1, 80}, {"int32", 0, 80}};

static void
add(const struct hd_kernels *table, enum kind kind, void *sum, const void *x, size_t n) {
	switch (kind) {
	case ADD_FP32:
		table->add_f32(sum, x, n);
		break;
	case ADD_FP16:
		table->add_f16(sum, x, n);
		break;
	case ADD_BF16:
		table->add_bf16(sum, x, n);
		break;
	default:
		if (table->add_fixed(sum, x, n))
			abort(); /* all is 0 */
	}
}

static void *array(size_t bytes) {
	void *data = aligned_alloc(64, bytes);

	if (!data) {
		(void)fprintf(stderr, "bench_reduce: no memory\n");
		exit(1);
	}
	memset(data, 0, bytes);
	return data;
}

static double better(double best, double gbytes, double began) {
	double rate = gbytes / (now_s() - began);

	return rate > best ? rate : best;
}

static void measure(size_t values, enum kind kind) {
	void *sum = array(values * 4), *x = array(values * 4 >> kinds[kind].shift);
	size_t passes = (size_t)48 * 1024 * 1024 / values;
	double bound = 0, best[3] = {0};
	const struct hd_kernels *table;
	double gbytes;

	passes = passes == 0 ? 1 : passes;
	gbytes = (double)(values * passes) * (8 + (4 >> kinds[kind].shift)) * 1e-9;
	for (int round = 0; round < ROUNDS; round++) {
		double began = now_s();

		for (size_t i = 0; i < passes; i++)
			stream(sum, x, values * 4, kinds[kind].shift);
		bound = better(bound, gbytes, began);
		for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
			began = now_s();
			for (size_t i = 0; i < passes; i++)
				add(table, kind, sum, x, values);
			best[t] = better(best[t], gbytes, began);
		}
	}
	for (size_t t = 0; (table = hd_kernels_supported(t)); t++)
		printf("add %-5s %6.1f MB sum, %-6s: %6.2f GB/s; streams alone %6.2f GB/s: %5.1f %% "
		       "(aim: %.0f %% with the best, 100 MB)\n",
		       kinds[kind].name,
		       (double)values * 4e-6,
		       table->name,
		       best[t],
		       bound,
		       100 * best[t] / bound,
		       kinds[kind].aim);
	free(sum);
	free(x);
}

int main(void) {
	for (enum kind kind = 0; kind < KINDS; kind++) {
		measure(UINT64_C(64) * 1024, kind);
		measure((size_t)25 * 1000 * 1000 / 16 * 16, kind);
	}
	return 0;
}
