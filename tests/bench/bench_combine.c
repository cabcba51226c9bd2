/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of all-reduces on one core, type by type: processor time a value, for a sum in the second-level cache
 * and for one beyond the caches, beside memcpy() of as many bytes as the sum has, which moves two thirds of what an
 * operation does. An aggregator combines a packet's payload with a sum that is usually beyond the caches. Best of
 * several rounds, alternating.
 */
#include "hd_kernels_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 9
#define BIG ((size_t)64 * 1024 * 1024) /* bytes of the sum */
#define SMALL ((size_t)64 * 1024)
#define OPS 4

/* Of this process, so that others on the machine matter little. */
static double now_s(void) {
	struct timespec at;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void *array(size_t bytes) {
	void *data = aligned_alloc(64, bytes);

	if (!data) {
		(void)fprintf(stderr, "bench_combine: no memory\n");
		exit(1);
	}
	memset(data, 1, bytes);
	return data;
}

static double better(double best, double began, size_t passes, size_t values) {
	double each = (now_s() - began) / (double)passes / (double)values;

	return best <= 0 || each < best ? each : best;
}

static void measure(const char *name, uint8_t dtype, size_t bytes) {
	static const uint8_t ops[OPS]
		= {HD_REDUCE_OP_SUM, HD_REDUCE_OP_MIN, HD_REDUCE_OP_PRODUCT, HD_REDUCE_OP_AVERAGE};
	const size_t wide = hd_dtype_is_half(dtype) ? sizeof(float) : hd_dtype_bytes(dtype);
	const size_t values = bytes / wide, passes = BIG / bytes;
	void *sum = array(bytes), *x = array(bytes);
	double best[OPS] = {0}, copy = 0;

	for (int round = 0; round < ROUNDS; round++) {
		double began = now_s();

		for (size_t i = 0; i < passes; i++)
			memcpy(sum, x, bytes);
		copy = better(copy, began, passes, values);
		for (int k = 0; k < OPS; k++) {
			began = now_s();
			for (size_t i = 0; i < passes && ops[k] != HD_REDUCE_OP_AVERAGE; i++)
				hd_combine(dtype, ops[k], sum, x, values);
			for (size_t i = 0; i < passes && ops[k] == HD_REDUCE_OP_AVERAGE; i++)
				hd_average(dtype, sum, values, 1); /* no value changes */
			best[k] = better(best[k], began, passes, values);
		}
	}
	printf("%-6s %8zu KiB: sum %6.0f ps a value, minimum %6.0f, product %6.0f, division %6.0f; "
	       "memcpy %6.0f\n",
	       name,
	       bytes / 1024,
	       best[0] * 1e12,
	       best[1] * 1e12,
	       best[2] * 1e12,
	       best[3] * 1e12,
	       copy * 1e12);
	free(sum);
	free(x);
}

int main(void) {
	static const struct {
		const char *name;
		uint8_t dtype;
	} types[] = {
		{"fp32", HD_DTYPE_FP32},
		{"fp16", HD_DTYPE_FP16},
		{"bf16", HD_DTYPE_BF16},
		{"fp64", HD_DTYPE_FP64},
		{"int8", HD_DTYPE_INT8},
		{"uint8", HD_DTYPE_UINT8},
		{"int32", HD_DTYPE_INT32},
		{"int64", HD_DTYPE_INT64},
	};

	printf("kernels: %s\n", hd_kernels_name());
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		measure(types[i].name, types[i].dtype, SMALL);
		measure(types[i].name, types[i].dtype, BIG);
	}
	return 0;
}
