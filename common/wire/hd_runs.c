/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_runs.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define VALUE_BYTES 4

int hd_runs_check(const struct hd_run *runs, size_t run_count, uint64_t values, uint64_t *sum) {
	uint64_t next = 0;

	*sum = 0;
	for (size_t i = 0; i < run_count; i++) {
		if (runs[i].count == 0 || runs[i].first < next || runs[i].first >= values
		    || runs[i].count > values - runs[i].first || runs[i].first > HD_RUN_FIRST_MAX)
			return -EINVAL;
		next = runs[i].first + runs[i].count;
		*sum += runs[i].count;
	}
	return run_count > 0 ? 0 : -EINVAL;
}

/* Places the next piece of a run: returns how many of `count` values fit after `used` bytes of a chunk; skips a rest
 * that cannot hold one. */
static uint64_t place(uint64_t *at, uint64_t count, uint32_t chunk_bytes) {
	uint64_t room = chunk_bytes - *at % chunk_bytes, fit;

	if (room < HD_RUN_BYTES_MIN) {
		*at += room;
		room = chunk_bytes;
	}
	fit = (room - HD_RUN_HEADER_BYTES) / VALUE_BYTES;
	fit = fit < HD_RUN_COUNT_MAX ? fit : HD_RUN_COUNT_MAX;
	return fit < count ? fit : count;
}

uint64_t hd_runs_bytes(const struct hd_run *runs, size_t run_count, uint32_t chunk_bytes) {
	uint64_t at = 0;

	for (size_t i = 0; i < run_count; i++) {
		uint64_t left = runs[i].count;

		while (left > 0) {
			uint64_t count = place(&at, left, chunk_bytes);

			at += HD_RUN_HEADER_BYTES + count * VALUE_BYTES;
			left -= count;
		}
	}
	return at;
}

static void put_values(uint8_t *out, const float *x, uint64_t count, float a) {
	float *to = (float *)(void *)out;

	for (uint64_t i = 0; i < count; i++)
		to[i] = a * x[i];
}

void hd_runs_encode(
	const struct hd_run *runs,
	size_t run_count,
	const float *x,
	float a,
	uint32_t chunk_bytes,
	uint8_t *out
) {
	uint64_t at = 0;

	for (size_t i = 0; i < run_count; i++) {
		uint64_t first = runs[i].first, left = runs[i].count;

		while (left > 0) {
			uint64_t before = at, count = place(&at, left, chunk_bytes);
			uint64_t header = htole64(first | count << 40);

			memset(out + before, 0, at - before);
			memcpy(out + at, &header, sizeof header);
			put_values(out + at + HD_RUN_HEADER_BYTES, x, count, a);
			at += HD_RUN_HEADER_BYTES + count * VALUE_BYTES;
			x += count;
			first += count;
			left -= count;
		}
	}
}

void hd_runs_begin(
	struct hd_runs_cursor *cursor,
	const uint8_t *chunk,
	size_t bytes,
	uint64_t values
) {
	*cursor = (struct hd_runs_cursor){.at = chunk, .left = bytes, .values = values};
}

/* Bytes too few for a run must be zero. */
static int padding(const struct hd_runs_cursor *cursor) {
	for (size_t i = 0; i < cursor->left; i++)
		if (cursor->at[i] != 0)
			return -EBADMSG;
	return 0;
}

int hd_runs_next(struct hd_runs_cursor *cursor, struct hd_run *run, const float **x) {
	uint64_t header;

	if (cursor->left < HD_RUN_BYTES_MIN)
		return padding(cursor);
	memcpy(&header, cursor->at, sizeof header);
	header = le64toh(header);
	run->first = header & HD_RUN_FIRST_MAX;
	run->count = header >> 40;
	if (run->count == 0 || run->first < cursor->next || run->first >= cursor->values
	    || run->count > cursor->values - run->first
	    || run->count > (cursor->left - HD_RUN_HEADER_BYTES) / VALUE_BYTES)
		return -EBADMSG;
	*x = (const float *)(const void *)(cursor->at + HD_RUN_HEADER_BYTES);
	cursor->next = run->first + run->count;
	cursor->at += HD_RUN_HEADER_BYTES + run->count * VALUE_BYTES;
	cursor->left -= HD_RUN_HEADER_BYTES + run->count * VALUE_BYTES;
	return 1;
}
