/* SPDX-License-Identifier: BSD-3-Clause */
#include "beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double now_s(void) {
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

float *array(size_t values, float value) {
	float *data = aligned_alloc(64, values * sizeof(float));

	if (!data) {
		(void)fprintf(stderr, "no memory\n");
		exit(1);
	}
	for (size_t i = 0; i < values; i++)
		data[i] = value;
	return data;
}

size_t passes_of(size_t values) {
	size_t passes = (size_t)64 * 1024 * 1024 / values / 4;

	return passes == 0 ? 1 : passes;
}

void beside(const struct beside *what, void *arrays, size_t values) {
	const size_t passes = passes_of(values);
	const double gbytes = (double)values * what->bytes_per_value * 1e-9 * (double)passes;
	const struct hd_kernels *table;
	double bound = 0, best[3] = {0};

	for (int round = 0; round < BESIDE_ROUNDS; round++) {
		double began = now_s(), rate;

		for (size_t i = 0; i < passes; i++)
			what->streams(arrays, values);
		rate = gbytes / (now_s() - began);
		bound = rate > bound ? rate : bound;
		for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
			began = now_s();
			for (size_t i = 0; i < passes; i++)
				what->kernel(table, arrays, values);
			rate = gbytes / (now_s() - began);
			best[t] = rate > best[t] ? rate : best[t];
		}
	}
	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		(void
		)printf("%s %6.1f MB model, %-6s: %6.2f GB/s; streams alone %6.2f GB/s: %5.1f %% "
			"(aim: 80 %% with the best)\n",
			what->name,
			(double)values * 4e-6,
			table->name,
			best[t],
			bound,
			100 * best[t] / bound);
	}
}
