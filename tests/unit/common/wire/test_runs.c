/* SPDX-License-Identifier: BSD-3-Clause */
/* Sparse updates on the wire: bytes by hand, cuts at chunks, and what is no update. */
#include "hd_random.h"
#include "hd_runs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL 100000

static void test_bytes_by_hand(void **state) {
	static const struct hd_run runs[] = {{3, 2}, {0x0102030405, 1}};
	static const float x[] = {1, -2, 0.5F};
	static const uint8_t expected[] = {
		3, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0,    0x3f, 0, 0, 0x80, 0xbf, /* weight 0.5 */
		5, 4, 3, 2, 1, 1, 0, 0, 0, 0, 0x80, 0x3e,
	};
	uint8_t out[sizeof expected];

	assert_int_equal(hd_runs_bytes(runs, 2, 1408), sizeof expected);
	hd_runs_encode(runs, 2, x, 0.5F, 1408, out);
	assert_memory_equal(out, expected, sizeof expected);
}

static void test_cut_at_chunks(void **state) {
	/* 24 bytes a chunk: header and 4 values; after a run of 2 there are 8 bytes, too few for another. */
	static const struct hd_run runs[] = {{0, 2}, {10, 9}};
	static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
	static const uint64_t first[] = {0, 10, 14, 18}, count[] = {2, 4, 4, 1};
	_Alignas(8) uint8_t out[84];
	struct hd_runs_cursor cursor;
	struct hd_run run;
	const float *values;

	assert_int_equal(hd_runs_bytes(runs, 2, 24), 84);
	memset(out, 0xee, sizeof out);
	hd_runs_encode(runs, 2, x, 1, 24, out);
	for (size_t i = 0; i < 4; i++) {
		hd_runs_begin(&cursor, out + 24 * i, i < 3 ? 24 : 12, MODEL);
		assert_int_equal(hd_runs_next(&cursor, &run, &values), 1);
		assert_int_equal(run.first, first[i]);
		assert_int_equal(run.count, count[i]);
		assert_true(values[0] == (float)(i == 0 ? 1 : 4 * i - 1));
		assert_int_equal(hd_runs_next(&cursor, &run, &values), 0);
	}
}

/* Any runs, any chunk size: read back chunk by chunk they are the same values at the same places. */
static void test_reads_what_it_wrote(void **state) {
	float *dense = calloc(MODEL, sizeof(float)), *back = calloc(MODEL, sizeof(float));
	float *x = malloc(MODEL * sizeof(float));
	struct hd_run *runs = malloc(MODEL * sizeof *runs);
	struct hd_random random;

	hd_random_init(&random, 31);
	for (size_t round = 0; round < 200; round++) {
		uint32_t chunk_bytes = (uint32_t)(4 * (3 + hd_random_below(&random, 400)));
		uint64_t at = hd_random_below(&random, 1000), sum = 0, bytes, check;
		uint64_t gap = 1 + hd_random_below(&random, 2000);
		size_t count = 0;
		uint8_t *out;

		memset(dense, 0, MODEL * sizeof(float));
		memset(back, 0, MODEL * sizeof(float));
		while (at < MODEL) {
			uint64_t length = 1 + hd_random_below(&random, round % 3 == 0 ? 1 : 700);

			length = length < MODEL - at ? length : MODEL - at;
			runs[count++] = (struct hd_run){at, length};
			for (uint64_t i = at; i < at + length; i++)
				dense[i] = x[sum++] = (float)(1 + hd_random_below(&random, 99));
			at += length + hd_random_below(&random, gap);
		}
		assert_int_equal(hd_runs_check(runs, count, MODEL, &check), 0);
		assert_int_equal(check, sum);
		bytes = hd_runs_bytes(runs, count, chunk_bytes);
		out = malloc(bytes);
		hd_runs_encode(runs, count, x, 1, chunk_bytes, out);
		for (uint64_t begin = 0; begin < bytes; begin += chunk_bytes) {
			uint64_t left = bytes - begin;
			struct hd_runs_cursor cursor;
			struct hd_run run;
			const float *values;
			int more;

			hd_runs_begin(
				&cursor, out + begin, left < chunk_bytes ? left : chunk_bytes, MODEL
			);
			while ((more = hd_runs_next(&cursor, &run, &values)) > 0)
				memcpy(back + run.first, values, run.count * sizeof(float));
			assert_int_equal(more, 0);
		}
		assert_memory_equal(dense, back, MODEL * sizeof(float));
		free(out);
	}
	free(dense);
	free(back);
	free(x);
	free(runs);
}

static void refused(const struct hd_run *runs, size_t count) {
	uint64_t sum;

	assert_int_equal(hd_runs_check(runs, count, MODEL, &sum), -EINVAL);
}

static void test_refuses_runs(void **state) {
	refused(NULL, 0);
	refused(&(struct hd_run){5, 0}, 1);
	refused(&(struct hd_run){MODEL, 1}, 1);
	refused(&(struct hd_run){MODEL - 1, 2}, 1);
	refused(&(struct hd_run){1, UINT64_MAX}, 1);
	refused((struct hd_run[]){{1, 2}, {2, 1}}, 2);
	refused((struct hd_run[]){{5, 1}, {1, 1}}, 2);
}

static void broken(uint64_t first, uint64_t count, size_t bytes) {
	_Alignas(8) uint8_t chunk[64] = {0};
	uint64_t header = first | count << 40;
	struct hd_runs_cursor cursor;
	struct hd_run run;
	const float *x;

	memcpy(chunk, &header, sizeof header);
	hd_runs_begin(&cursor, chunk, bytes, MODEL);
	assert_int_equal(hd_runs_next(&cursor, &run, &x), -EBADMSG);
}

static void test_refuses_chunks(void **state) {
	struct hd_runs_cursor cursor;
	struct hd_run run;
	const float *x;

	broken(0, 0, 12); /* no values, where there is room for some */
	broken(0, 2, 12); /* more than the chunk has */
	broken(MODEL, 1, 12);
	broken(MODEL - 1, 2, 16);
	broken(HD_RUN_FIRST_MAX, HD_RUN_COUNT_MAX, 64);
	broken(7, 0, 8); /* padding that is not 0 */
	hd_runs_begin(&cursor, (const uint8_t[8]){0}, 8, MODEL);
	assert_int_equal(hd_runs_next(&cursor, &run, &x), 0);
}

/* Places beyond what 32 bits count, in values and in bytes. */
static void test_places_beyond_32_bits(void **state) {
	static const struct hd_run runs[] = {{UINT64_C(1) << 32, 3}, {(UINT64_C(1) << 38) - 2, 2}};
	static const float x[] = {1, 2, 3, 4, 5};
	_Alignas(8) uint8_t out[36];
	struct hd_runs_cursor cursor;
	struct hd_run run;
	const float *values;
	uint64_t sum;

	assert_int_equal(hd_runs_check(runs, 2, UINT64_C(1) << 38, &sum), 0);
	assert_int_equal(hd_runs_bytes(runs, 2, 1408), sizeof out);
	hd_runs_encode(runs, 2, x, 1, 1408, out);
	hd_runs_begin(&cursor, out, sizeof out, UINT64_C(1) << 38);
	assert_int_equal(hd_runs_next(&cursor, &run, &values), 1);
	assert_true(run.first == UINT64_C(1) << 32);
	assert_int_equal(hd_runs_next(&cursor, &run, &values), 1);
	assert_true(run.first == (UINT64_C(1) << 38) - 2 && values[1] == 5);
	/* A run that is longer than a chunk has a header in each: 350 values of 352. */
	assert_true(
		hd_runs_bytes(&(struct hd_run){0, 350 * (UINT64_C(1) << 20)}, 1, 1408)
		== UINT64_C(1408) << 20
	);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_by_hand),
		cmocka_unit_test(test_cut_at_chunks),
		cmocka_unit_test(test_reads_what_it_wrote),
		cmocka_unit_test(test_refuses_runs),
		cmocka_unit_test(test_refuses_chunks),
		cmocka_unit_test(test_places_beyond_32_bits),
	};

	return cmocka_run_group_tests_name("runs", tests, NULL, NULL);
}
