/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of sparse updates: the union of their indices, its bytes on the wire, and, for jobs that train, the step. */
#include "hd_check_private.h"
#include "hd_limits.h"
#include "hd_runs.h"

#include <stdlib.h>
#include <string.h>

/* Consecutive indices from `at` on that are all in the union, or all not. */
static uint64_t piece(const struct hd_check *check, uint64_t at) {
	uint64_t end = at;

	while (end < check->values && check->named[end] == check->named[at])
		end++;
	return end - at;
}

/* The bytes of the union on the wire: as one update with the same runs. */
static uint64_t union_bytes(const struct hd_check *check) {
	struct hd_run *runs = malloc((check->values / 2 + 1) * sizeof *runs);
	size_t count = 0;
	uint64_t bytes;

	if (!runs)
		return 0;
	for (uint64_t at = 0, length; at < check->values; at += length) {
		length = piece(check, at);
		if (check->named[at])
			runs[count++] = (struct hd_run){at, length};
	}
	bytes = hd_runs_bytes(runs, count, HD_CHUNK_BYTES_DEFAULT);
	free(runs);
	return bytes;
}

static bool begin(struct hd_check *check) {
	if (check->named)
		return true;
	check->named = calloc(check->values, 1);
	check->sum = check->trains ? malloc(check->values * sizeof(float)) : NULL;
	if (check->named && (check->sum || !check->trains))
		return true;
	hd_check_fail(check, "out of memory");
	return false;
}

static void add(struct hd_check *check, const float *data, struct hd_run run, float weight) {
	for (uint64_t i = run.first; i < run.first + run.count; i++) {
		if (check->sum && data) {
			float x = data[i] * weight;

			check->sum[i] = check->named[i] ? check->sum[i] + x : x;
		}
		check->named[i] = true;
	}
}

static void step(struct hd_check *check) {
	for (uint64_t at = 0, length; at < check->values; at += length) {
		length = piece(check, at);
		if (check->named[at])
			(void)hd_sgd_apply(
				check->shadow + at,
				check->momentum + at,
				check->sum + at,
				length,
				&check->sgd
			);
	}
}

void hd_check_merge(
	struct hd_check *check,
	const struct hd_check_record *record,
	float weight,
	uint16_t more
) {
	struct hd_run runs[HD_CHECK_RUNS_MAX];
	size_t count = hd_check_runs(record->salt, check->values, runs);
	uint64_t bytes;

	if (!begin(check))
		return;
	for (size_t i = 0; i < count; i++)
		add(check, record->data, runs[i], weight);
	if (more > 0)
		return;
	bytes = union_bytes(check);
	if (bytes != check->merged_bytes)
		hd_check_fail(
			check,
			"a merged sum has %llu bytes, what its members name %llu",
			(unsigned long long)check->merged_bytes,
			(unsigned long long)bytes
		);
	if (check->trains && !check->blind)
		step(check);
	hd_check_merge_end(check);
}

void hd_check_merge_end(struct hd_check *check) {
	free(check->named);
	free(check->sum);
	check->named = NULL;
	check->sum = NULL;
}
