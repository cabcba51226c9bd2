/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks of sparse updates: runs within the model that ascend, or an error; and what was read, written again, is
 * read the same. */
#include "fuzz.h"
#include "hd_limits.h"
#include "hd_runs.h"

#include <string.h>

#define MODEL 70000
#define RUNS_MAX (HD_CHUNK_BYTES_MAX / HD_RUN_BYTES_MIN)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static _Alignas(8) uint8_t chunk[HD_CHUNK_BYTES_MAX], again[HD_CHUNK_BYTES_MAX];
	static struct hd_run runs[RUNS_MAX];
	static float values[HD_CHUNK_BYTES_MAX / 4];
	struct hd_runs_cursor cursor;
	uint64_t sum = 0, check;
	size_t count = 0;
	const float *x;
	int more;

	if (bytes > sizeof chunk)
		return 0;
	memcpy(chunk, data, bytes);
	hd_runs_begin(&cursor, chunk, bytes, MODEL);
	while ((more = hd_runs_next(&cursor, &runs[count], &x)) > 0) {
		const struct hd_run *run = &runs[count];

		CHECK(run->count > 0 && run->first < MODEL && run->count <= MODEL - run->first);
		CHECK((const uint8_t *)x >= chunk
		      && (const uint8_t *)(x + run->count) <= chunk + bytes);
		memcpy(values + sum, x, run->count * sizeof(float));
		sum += run->count;
		count++;
	}
	if (more < 0 || count == 0)
		return 0;
	CHECK(hd_runs_check(runs, count, MODEL, &check) == 0 && check == sum);
	/* The same bytes, but for what may be left over, and NaNs that a product makes quiet. */
	bytes = hd_runs_bytes(runs, count, HD_CHUNK_BYTES_MAX);
	CHECK(bytes == 8 * count + 4 * sum);
	hd_runs_encode(runs, count, values, 1, HD_CHUNK_BYTES_MAX, again);
	hd_runs_begin(&cursor, again, bytes, MODEL);
	for (size_t i = 0; i < count; i++) {
		struct hd_run run;

		CHECK(hd_runs_next(&cursor, &run, &x) == 1);
		CHECK(run.first == runs[i].first && run.count == runs[i].count);
	}
	CHECK(hd_runs_next(&cursor, &runs[0], &x) == 0);
	return 0;
}
