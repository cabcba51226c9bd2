/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sparse updates as runs of indices with their fp32 values (docs/wire.md). In units of 4 bytes:
 *
 *      | chunk 0                               | chunk 1                                 |
 *      | first:40 count:24 | values ... | run.. 0 | first:40 count:24 | values ...          |
 *
 * Every chunk begins with a run; a run that would cross into the next chunk is cut. So each chunk can be read, and
 * added to others of the same indices, without the previous one.
 */
#ifndef HD_RUNS_H
#define HD_RUNS_H

#include "hd_types.h"

#define HD_RUN_HEADER_BYTES 8
#define HD_RUN_BYTES_MIN 12 /* a header and one value */
#define HD_RUN_COUNT_MAX ((UINT64_C(1) << 24) - 1)
#define HD_RUN_FIRST_MAX ((UINT64_C(1) << 40) - 1)

/* Values first .. first + count - 1 of a model. */
struct hd_run {
	uint64_t first, count;
};

/* 0, or -EINVAL: no run, an empty one, not ascending and disjoint, or beyond `values`. *sum: their number of values. */
int hd_runs_check(const struct hd_run *runs, size_t run_count, uint64_t values, uint64_t *sum);
/* Bytes of the encoded update; chunk_bytes >= HD_RUN_BYTES_MIN, a multiple of 4. */
uint64_t hd_runs_bytes(const struct hd_run *runs, size_t run_count, uint32_t chunk_bytes);
/* The maximum size of the union of several updates of `bytes` in all, for any runs and chunks (of 256 bytes or more, or
 * a single one): each chunk may cut a run, and end with zeros. */
static inline uint64_t hd_runs_merged_bytes(uint64_t bytes) {
	return (bytes + bytes / 15 + 63) / 64 * 64;
}
/* Writes that many bytes. x holds the runs' values one after the other; each is multiplied by a. */
void hd_runs_encode(
	const struct hd_run *runs,
	size_t run_count,
	const float *x,
	float a,
	uint32_t chunk_bytes,
	uint8_t *out
);

/* Reads one chunk. Any bytes are accepted: the result is runs within the model, or an error. */
struct hd_runs_cursor {
	const uint8_t *at;
	size_t left; /* bytes */
	uint64_t next, values; /* the least valid index; the model's values */
};

void hd_runs_begin(
	struct hd_runs_cursor *cursor,
	const uint8_t *chunk,
	size_t bytes,
	uint64_t values
);
/* 1: *run, and *x its values (fp32, aligned like the chunk); 0: the end; -EBADMSG. */
int hd_runs_next(struct hd_runs_cursor *cursor, struct hd_run *run, const float **x);

#endif
