/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The merger of sparse updates beside a model that knows nothing of chunks: every value is the sum of those that name
 * it, in the order of the list, bit for bit; and what is final is exactly what every member has come past.
 */
#include "hd_kernels.h"
#include "hd_limits.h"
#include "hd_merge.h"
#include "hd_random.h"
#include "hd_runs.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS_MAX 7
#define VALUES 20000
#define RUNS_MAX 60
#define GUARD 256

struct update {
	struct hd_run runs[RUNS_MAX];
	size_t run_count;
	float x[VALUES];
	uint64_t values, bytes;
	uint32_t chunk_bytes, chunks;
	uint8_t *wire;
	bool given[VALUES]; /* chunks that were taken */
	uint32_t held;
};

struct scene {
	struct hd_random random;
	struct update update[MEMBERS_MAX];
	struct hd_reduce_input inputs[MEMBERS_MAX];
	struct hd_reduce_config config;
	struct hd_reduce *reduce;
	uint8_t *sum;
	float model[VALUES];
	bool named[VALUES];
};

static void draw_update(struct scene *s, struct update *u) {
	uint64_t at = hd_random_below(&s->random, 200);
	uint64_t most = 1 + hd_random_below(&s->random, 900);

	u->run_count = 0;
	u->values = 0;
	while (u->run_count < 1 + hd_random_below(&s->random, RUNS_MAX) && at + most < VALUES) {
		uint64_t count = 1 + hd_random_below(&s->random, most);

		for (uint64_t i = 0; i < count; i++)
			u->x[u->values + i] = (float
			)ldexp(hd_random_unit(&s->random) - 0.5, (int)((at + i) % 23) - 11);
		u->runs[u->run_count++] = (struct hd_run){at, count};
		u->values += count;
		/* Now and then a run begins where the one before ends. */
		at += count + hd_random_below(&s->random, 3) * hd_random_below(&s->random, 500);
	}
	u->chunk_bytes = 256 + 4 * (uint32_t)hd_random_below(&s->random, 300);
	u->bytes = hd_runs_bytes(u->runs, u->run_count, u->chunk_bytes);
	u->chunks = (uint32_t)((u->bytes - 1) / u->chunk_bytes + 1);
	u->wire = aligned_alloc(64, (u->bytes + 63) / 64 * 64);
	hd_runs_encode(u->runs, u->run_count, u->x, 1, u->chunk_bytes, u->wire);
}

/* The expected sum: in the order of the list, one addition after the other. */
static void model_add(struct scene *s, const struct update *u) {
	const float *x = u->x;

	for (size_t r = 0; r < u->run_count; r++)
		for (uint64_t i = u->runs[r].first; i < u->runs[r].first + u->runs[r].count; i++) {
			s->model[i] = s->named[i] ? s->model[i] + *x : *x;
			s->named[i] = true;
			x++;
		}
}

static void open_scene(struct scene *s, uint64_t seed) {
	uint64_t all = 0;
	size_t room;

	memset(s, 0, sizeof *s);
	hd_random_init(&s->random, seed);
	s->config = (struct hd_reduce_config){
		.job = 7,
		.dtype = HD_DTYPE_SPARSE32,
		.order = seed % 2 ? HD_GROUP_RANKED : HD_GROUP_ARRIVAL,
		.input_count = 2 + (uint32_t)hd_random_below(&s->random, MEMBERS_MAX - 1),
		.inputs = s->inputs,
		.early_bytes = hd_random_below(&s->random, 60000),
	};
	for (uint32_t i = 0; i < s->config.input_count; i++) {
		draw_update(s, &s->update[i]);
		model_add(s, &s->update[i]);
		s->inputs[i] = (struct hd_reduce_input
		){100 + i, 5 + i, (uint16_t)(20 + i), 1, s->update[i].bytes};
		all += s->update[i].bytes;
	}
	s->config.bytes = hd_runs_merged_bytes(all);
	room = (s->config.bytes + 63) / 64 * 64;
	s->sum = aligned_alloc(64, (size_t)2 * GUARD + room);
	memset(s->sum, 0xa5, (size_t)2 * GUARD + room);
	s->config.sum = s->sum + GUARD;
	assert_int_equal(hd_reduce_create(&s->config, &s->reduce), 0);
}

static void close_scene(struct scene *s) {
	for (size_t i = 0; i < GUARD; i++)
		assert_true(s->sum[i] == 0xa5 && s->sum[GUARD + s->config.bytes + i] == 0xa5);
	hd_reduce_destroy(s->reduce);
	for (uint32_t i = 0; i < s->config.input_count; i++)
		free(s->update[i].wire);
	free(s->sum);
}

static enum hd_reduce_result give(struct scene *s, uint32_t index, uint32_t chunk) {
	const struct update *u = &s->update[index];
	uint64_t at = (uint64_t)chunk * u->chunk_bytes;
	size_t bytes = u->bytes - at < u->chunk_bytes ? u->bytes - at : u->chunk_bytes;
	struct hd_chunk_header header = {
		.job = 7,
		.worker = (uint16_t)(20 + index),
		.round = 5 + index,
		.attempt = 1,
		.dtype = HD_DTYPE_SPARSE32,
		.chunk = chunk,
		.flags = chunk + 1 == u->chunks ? HD_CHUNK_LAST : 0,
		.count = (uint16_t)(bytes / 4),
		.token = 100 + index,
	};

	return hd_reduce_chunk(s->reduce, index, 1, &header, u->wire + at, bytes);
}

/* The least index that this member may still name: nothing of a chunk before it is missing. */
static uint64_t passed(const struct update *u) {
	uint64_t next = 0;
	struct hd_runs_cursor cursor;
	struct hd_run run;
	const float *x;

	if (u->held == u->chunks)
		return UINT64_MAX;
	for (uint32_t c = 0; c < u->held; c++) {
		hd_runs_begin(
			&cursor, u->wire + (size_t)c * u->chunk_bytes, u->chunk_bytes, VALUES
		);
		while (hd_runs_next(&cursor, &run, &x) > 0)
			next = run.first + run.count;
	}
	return next;
}

/* The bytes on the wire of the merged update below an index. */
static uint64_t merged_bytes(const struct scene *s, uint64_t below, uint32_t chunk_bytes) {
	static struct hd_run runs[VALUES];
	size_t count = 0;

	for (uint64_t i = 0; i < VALUES && i < below; i++) {
		if (!s->named[i])
			continue;
		if (count > 0 && runs[count - 1].first + runs[count - 1].count == i)
			runs[count - 1].count++;
		else
			runs[count++] = (struct hd_run){i, 1};
	}
	return hd_runs_bytes(runs, count, chunk_bytes);
}

static void check_final(const struct scene *s) {
	uint32_t chunk = hd_reduce_chunk_bytes(s->reduce);
	uint64_t least = UINT64_MAX, bytes;

	for (uint32_t i = 0; i < s->config.input_count; i++) {
		uint64_t at = passed(&s->update[i]);

		least = at < least ? at : least;
	}
	bytes = merged_bytes(s, least, chunk);
	if (least == UINT64_MAX) {
		assert_int_equal(hd_reduce_total(s->reduce), bytes);
		assert_int_equal(hd_reduce_final(s->reduce), bytes);
		assert_true(hd_reduce_is_final(s->reduce));
		return;
	}
	assert_int_equal(hd_reduce_total(s->reduce), 0);
	assert_false(hd_reduce_is_final(s->reduce));
	assert_int_equal(hd_reduce_final(s->reduce), bytes > 0 ? (bytes - 1) / chunk * chunk : 0);
}

/* Chunk by chunk what a plain encoder makes of the model. */
static void check_sum(const struct scene *s) {
	uint32_t chunk = hd_reduce_chunk_bytes(s->reduce);
	uint64_t total = hd_reduce_total(s->reduce), next = 0, seen = 0, named = 0;
	const uint8_t *sum = s->sum + GUARD;

	for (uint64_t at = 0; at < total; at += chunk) {
		struct hd_runs_cursor cursor;
		struct hd_run run;
		const float *x;
		int more;

		hd_runs_begin(&cursor, sum + at, total - at < chunk ? total - at : chunk, VALUES);
		while ((more = hd_runs_next(&cursor, &run, &x)) > 0) {
			assert_true(run.first >= next);
			next = run.first + run.count;
			seen += run.count;
			assert_memory_equal(x, &s->model[run.first], run.count * sizeof(float));
			for (uint64_t i = run.first; i < next; i++)
				assert_true(s->named[i]);
		}
		assert_int_equal(more, 0);
	}
	for (size_t i = 0; i < VALUES; i++)
		named += s->named[i];
	assert_int_equal(seen, named);
}

static uint32_t not_given(struct scene *s, uint32_t *index) {
	uint32_t left = 0, which;

	for (uint32_t i = 0; i < s->config.input_count; i++)
		left += s->update[i].held < s->update[i].chunks;
	if (left == 0)
		return UINT32_MAX;
	which = (uint32_t)hd_random_below(&s->random, left);
	for (*index = 0;; (*index)++)
		if (s->update[*index].held < s->update[*index].chunks && which-- == 0)
			break;
	/* In order mostly, out of it now and then, far ahead of it too. */
	return s->update[*index].held
		+ (uint32_t)hd_random_below(&s->random, 3)
		* (uint32_t)hd_random_below(&s->random, 6);
}

static void note(struct update *u, uint32_t chunk, enum hd_reduce_result result) {
	if (result == HD_REDUCE_EARLY) {
		assert_true(chunk > 0);
		return;
	}
	assert_int_equal(result == HD_REDUCE_DUPLICATE, u->given[chunk]);
	if (result == HD_REDUCE_DUPLICATE)
		return;
	u->given[chunk] = true;
	while (u->held < u->chunks && u->given[u->held])
		u->held++;
	if (result == HD_REDUCE_DONE)
		assert_int_equal(u->held, u->chunks);
	else
		assert_int_equal(result, HD_REDUCE_NEW);
}

static void test_any_order(void **state) {
	static struct scene s;
	uint64_t early = 0, bytes = 0, together = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		uint32_t index, chunk;

		open_scene(&s, seed);
		while ((chunk = not_given(&s, &index)) != UINT32_MAX) {
			struct update *u = &s.update[index];
			enum hd_reduce_result result;

			if (chunk >= u->chunks)
				continue;
			result = give(&s, index, chunk);
			early += result == HD_REDUCE_EARLY;
			note(u, chunk, result);
			check_final(&s);
			assert_true(
				hd_reduce_early_bytes(s.reduce) <= hd_reduce_state_bytes(&s.config)
			);
		}
		check_sum(&s);
		assert_false(hd_reduce_not_finite(s.reduce));
		bytes += hd_reduce_total(s.reduce);
		for (uint32_t i = 0; i < s.config.input_count; i++)
			together += s.update[i].bytes;
		close_scene(&s);
	}
	assert_true(early > 100);
	assert_true(bytes < together);
}

/* The same bytes whatever came first. */
static void test_order_does_not_matter(void **state) {
	static struct scene a, b;

	(void)state;
	for (uint64_t seed = 100; seed < 120; seed++) {
		uint32_t left = 0;

		open_scene(&a, seed);
		open_scene(&b, seed);
		for (uint32_t i = 0; i < a.config.input_count; i++)
			left += a.update[i].chunks;
		/* One by turns, from the first and from the last; who must wait comes again. */
		for (uint32_t turn = 0, k = a.config.input_count; left > 0; turn++) {
			uint32_t index = turn % k;
			struct update *u = &a.update[index];

			if (u->held < u->chunks && give(&a, index, u->held) != HD_REDUCE_EARLY) {
				u->held++;
				left--;
			}
		}
		for (uint32_t i = 0; i < b.config.input_count; i++)
			left += b.update[i].chunks;
		for (uint32_t turn = 0, k = b.config.input_count; left > 0; turn++) {
			uint32_t index = k - 1 - turn % k;
			struct update *u = &b.update[index];

			if (u->held < u->chunks && give(&b, index, u->held) != HD_REDUCE_EARLY) {
				u->held++;
				left--;
			}
		}
		check_sum(&a);
		check_sum(&b);
		close_scene(&a);
		close_scene(&b);
	}
}

/* A member that runs ahead is held up, and notified when there is room; the one that others wait for never is. */
static void test_windows(void **state) {
	static struct scene s;
	uint32_t taken = 0;

	(void)state;
	for (uint64_t seed = 1;; seed++) { /* a first member longer than what is kept of it */
		open_scene(&s, seed);
		s.config.early_bytes = 0;
		if (s.update[0].chunks > 8)
			break;
		close_scene(&s);
	}
	hd_reduce_destroy(s.reduce);
	assert_int_equal(hd_reduce_create(&s.config, &s.reduce), 0);
	assert_int_equal(hd_reduce_window(s.reduce, 0, 1 << 20), 1 << 20);
	while (give(&s, 0, taken) != HD_REDUCE_EARLY)
		taken++;
	s.update[0].held = taken;
	assert_int_equal(taken, 2);
	assert_true(hd_reduce_is_full(s.reduce, 0));
	assert_true(hd_reduce_window(s.reduce, 0, 1 << 20) < 2 * s.update[0].chunk_bytes);
	assert_false(hd_reduce_relieved(s.reduce, 0));
	for (uint32_t i = 1; i < s.config.input_count; i++)
		for (struct update *u = &s.update[i]; u->held < u->chunks;) {
			enum hd_reduce_result result = give(&s, i, u->held);

			if (result == HD_REDUCE_EARLY)
				break; /* beyond the first one's chunks */
			u->held++;
		}
	if (hd_reduce_relieved(s.reduce, 0)) {
		assert_false(hd_reduce_is_full(s.reduce, 0));
		assert_false(hd_reduce_relieved(s.reduce, 0));
	}
	/* It always goes on: some member has room for its next chunk. */
	for (uint32_t turn = 0, still = 0; still < s.config.input_count; turn++) {
		uint32_t index = turn % s.config.input_count;
		struct update *u = &s.update[index];

		still = u->held < u->chunks && give(&s, index, u->held) != HD_REDUCE_EARLY ?
			(u->held++, 0) :
			still + 1;
	}
	check_sum(&s);
	close_scene(&s);
}

/* --- what is no update ----------------------------------------------------------------------- */

struct pair {
	uint8_t sum[4096];
	struct hd_reduce *reduce;
	struct hd_reduce_input inputs[2];
};

static void open_pair(struct pair *p, uint64_t bytes0, uint64_t bytes1, uint64_t most) {
	struct hd_reduce_config config = {
		.job = 7,
		.dtype = HD_DTYPE_SPARSE32,
		.bytes = most,
		.input_count = 2,
		.inputs = p->inputs,
		.sum = p->sum,
	};

	memset(p, 0, sizeof *p);
	p->inputs[0] = (struct hd_reduce_input){1, 1, 0, 1, bytes0};
	p->inputs[1] = (struct hd_reduce_input){2, 1, 1, 1, bytes1};
	assert_int_equal(hd_reduce_create(&config, &p->reduce), 0);
}

static enum hd_reduce_result
put(struct pair *p, uint32_t index, uint32_t chunk, const void *payload, size_t bytes, bool last) {
	struct hd_chunk_header header = {
		.job = 7,
		.worker = (uint16_t)index,
		.round = 1,
		.attempt = 1,
		.dtype = HD_DTYPE_SPARSE32,
		.chunk = chunk,
		.flags = last ? HD_CHUNK_LAST : 0,
		.count = (uint16_t)(bytes / 4),
	};

	return hd_reduce_chunk(p->reduce, index, 1, &header, payload, bytes);
}

static size_t encode(uint64_t first, uint64_t count, uint8_t *out) {
	static const float ones[64] = {1, 1, 1, 1};
	struct hd_run run = {first, count};

	hd_runs_encode(&run, 1, ones, 1, 1024, out);
	return hd_runs_bytes(&run, 1, 1024);
}

static void test_broken_members(void **state) {
	static struct pair p;
	uint8_t one[512] __attribute__((aligned(64))) = {0},
			 other[512] __attribute__((aligned(64)));
	size_t bytes = encode(10, 62, one);

	(void)state;
	/* It goes back from chunk to chunk. */
	assert_int_equal(bytes, 256);
	assert_int_equal(encode(71, 62, other), 256);
	open_pair(&p, 512, 12, 4096);
	assert_int_equal(put(&p, 0, 0, one, 256, false), HD_REDUCE_NEW);
	assert_int_equal(put(&p, 0, 1, other, 256, true), HD_REDUCE_DONE);
	encode(500, 1, other);
	assert_int_equal(put(&p, 1, 0, other, 12, true), HD_REDUCE_BROKEN);
	assert_int_equal(hd_reduce_culprit(p.reduce), 0);
	assert_int_equal(hd_reduce_total(p.reduce), 0);
	assert_int_equal(put(&p, 1, 0, other, 12, true), HD_REDUCE_BROKEN);
	hd_reduce_destroy(p.reduce);
	/* No run at all; an empty one; one that is longer than its chunk. */
	memset(other, 0, sizeof other);
	open_pair(&p, 12, 256, 4096);
	assert_int_equal(put(&p, 0, 0, other, 12, true), HD_REDUCE_BROKEN);
	assert_int_equal(hd_reduce_culprit(p.reduce), 0);
	hd_reduce_destroy(p.reduce);
	open_pair(&p, 12, 256, 4096);
	encode(10, 40, other);
	assert_int_equal(put(&p, 0, 0, other, 12, true), HD_REDUCE_BROKEN);
	hd_reduce_destroy(p.reduce);
}

/* Chunks beyond the announced count are not an error, and are not written either. */
static void test_beyond_the_bound(void **state) {
	static struct pair p;
	uint8_t one[512] __attribute__((aligned(64)));

	(void)state;
	open_pair(&p, 256, 256, 320);
	encode(0, 62, one);
	assert_int_equal(put(&p, 0, 0, one, 256, true), HD_REDUCE_DONE);
	encode(1000, 62, one);
	assert_int_equal(put(&p, 1, 0, one, 256, true), HD_REDUCE_BROKEN);
	assert_int_equal(hd_reduce_culprit(p.reduce), HD_MERGE_NONE);
	for (size_t i = 320; i < sizeof p.sum; i++)
		assert_int_equal(p.sum[i], 0);
	hd_reduce_destroy(p.reduce);
}

static void test_not_finite(void **state) {
	static struct pair p;
	uint8_t one[512] __attribute__((aligned(64)));
	float nan = NAN;

	(void)state;
	open_pair(&p, 24, 24, 4096);
	encode(0, 4, one);
	assert_int_equal(put(&p, 0, 0, one, 24, true), HD_REDUCE_DONE);
	memcpy(one + 12, &nan, 4);
	assert_int_equal(put(&p, 1, 0, one, 24, true), HD_REDUCE_DONE);
	assert_true(hd_reduce_not_finite(p.reduce));
	assert_int_equal(hd_reduce_total(p.reduce), 24); /* all four values of one run */
	hd_reduce_destroy(p.reduce);
}

static void test_refuses(void **state) {
	uint8_t sum[64] __attribute__((aligned(64)));
	struct hd_reduce_input inputs[HD_MERGE_MEMBERS_MAX + 1]
		= {{1, 1, 0, 1, 12}, {2, 1, 1, 1, 12}};
	struct hd_reduce_config good = {
		.job = 7,
		.dtype = HD_DTYPE_SPARSE32,
		.bytes = 64,
		.input_count = 2,
		.inputs = inputs,
		.sum = sum,
	};
	struct hd_reduce *reduce = NULL;
	struct hd_reduce_config bad = good;

	(void)state;
	bad.bytes = 8;
	assert_int_equal(hd_reduce_create(&bad, &reduce), -EINVAL);
	bad.bytes = UINT64_C(1) << 32;
	assert_int_equal(hd_reduce_create(&bad, &reduce), -EINVAL);
	bad = good;
	bad.input_count = HD_MERGE_MEMBERS_MAX + 1;
	assert_int_equal(hd_reduce_create(&bad, &reduce), -E2BIG);
	inputs[1].bytes = 0;
	assert_int_equal(hd_reduce_create(&good, &reduce), -EINVAL);
	inputs[1].bytes = 14;
	assert_int_equal(hd_reduce_create(&good, &reduce), -EINVAL);
	inputs[1].bytes = 68;
	assert_int_equal(hd_reduce_create(&good, &reduce), -EINVAL);
	inputs[1].bytes = 64;
	assert_int_equal(hd_reduce_create(&good, &reduce), 0);
	hd_reduce_destroy(reduce);
}

/* The bound holds for the worst: disjoint runs of one value in the smallest chunks. */
static void test_bound(void **state) {
	static struct hd_run runs[4000];

	(void)state;
	for (uint32_t chunk = HD_REDUCE_CHUNK_BYTES_MIN; chunk < 9000; chunk += 4 * 7)
		for (uint64_t length = 1; length < 40; length += 3) {
			uint64_t all = 0;

			for (uint64_t i = 0; i < 4000; i++) {
				runs[i] = (struct hd_run){50 * i, length};
				all += hd_runs_bytes(&runs[i], 1, chunk);
			}
			assert_true(hd_runs_bytes(runs, 4000, chunk) <= hd_runs_merged_bytes(all));
		}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_order_does_not_matter),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_broken_members),
		cmocka_unit_test(test_beyond_the_bound),
		cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
