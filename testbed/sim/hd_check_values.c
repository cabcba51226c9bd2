/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of updates, and the checker's operations on all values of a model. Compiled with all optimizations and
 * without sanitizers: the simulator spends much of its time here. */
#include "hd_check_private.h"

#include <string.h>

static uint32_t mix(uint32_t x) {
	x = (x ^ (x >> 16)) * 0x7feb352du;
	x = (x ^ (x >> 15)) * 0x846ca68bu;
	return x ^ (x >> 16);
}

void hd_check_fill(uint64_t salt, float *data, uint64_t values) {
	uint32_t start = mix((uint32_t)salt ^ mix((uint32_t)(salt >> 32)));

	/* 1..4: a missing, doubled or torn update never cancels out. */
	for (uint64_t i = 0; i < values; i++)
		data[i] = (float)(1 + (((uint32_t)i * 2654435761u + start) >> 30));
}

size_t hd_check_runs(uint64_t salt, uint64_t values, struct hd_run runs[HD_CHECK_RUNS_MAX]) {
	uint32_t draw = mix((uint32_t)salt + 77);
	uint64_t count = 1 + draw % HD_CHECK_RUNS_MAX;
	uint64_t part;

	count = count < values ? count : values;
	part = values / count;
	/* One run in each of `count` equal parts: with a random start, and a length of up to half of the rest. */
	for (uint64_t i = 0; i < count; i++) {
		uint64_t skip = (draw = mix(draw + 1)) % part;
		uint64_t most = (part - skip + 1) / 2;

		runs[i].first = i * part + skip;
		runs[i].count = 1 + (draw = mix(draw + 1)) % most;
	}
	return count;
}

void hd_check_subtract(float *from, const float *what, uint64_t values) {
	for (uint64_t i = 0; i < values; i++)
		from[i] -= what[i];
}

uint64_t hd_check_hash(const float *data, uint64_t values) {
	uint64_t lane[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	uint64_t hash = values;

	for (uint64_t i = 0; i < values; i++) {
		uint32_t bits;

		memcpy(&bits, &data[i], sizeof bits);
		lane[i % 8] = (lane[i % 8] ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
	}
	for (size_t i = 0; i < 8; i++)
		hash = (hash ^ lane[i] ^ (lane[i] >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
	return hash;
}
