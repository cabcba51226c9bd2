/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The combiner of one group beside a model that knows nothing of it: chunks of all members in any interleaving, lost,
 * duplicated, with wrong headers. After each one, what is final is what the model says, bit for bit.
 */
#include "hd_bytes.h"
#include "hd_cc.h"
#include "hd_kernels.h"
#include "hd_limits.h"
#include "hd_random.h"
#include "hd_reduce.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS_MAX 9
#define CHUNKS_MAX 40
#define GUARD 256

struct scene {
	struct hd_random random;
	struct hd_reduce_config config;
	struct hd_reduce_input inputs[MEMBERS_MAX];
	struct hd_reduce *reduce;
	uint32_t chunk_bytes, chunks;
	uint8_t *update[MEMBERS_MAX]; /* as on the wire */
	uint8_t *sum; /* with guards */
	/* the model */
	bool in[MEMBERS_MAX][CHUNKS_MAX]; /* taken */
	uint32_t order[CHUNKS_MAX][MEMBERS_MAX], count[CHUNKS_MAX];
	uint32_t kept[MEMBERS_MAX], quota;
	uint64_t early;
};

static size_t values_of(size_t bytes, uint8_t dtype) {
	size_t value = hd_dtype_bytes(dtype);

	return value > 0 ? bytes / value : 0;
}

static uint32_t bytes_of(const struct scene *scene, uint32_t chunk) {
	uint64_t left = scene->config.bytes - (uint64_t)chunk * scene->chunk_bytes;

	return left < scene->chunk_bytes ? (uint32_t)left : scene->chunk_bytes;
}

static void fill(struct scene *scene, uint8_t *data) {
	size_t value = hd_dtype_bytes(scene->config.dtype);

	for (size_t i = 0; i < scene->config.bytes; i += value) {
		float x = (float)ldexp(hd_random_unit(&scene->random) - 0.5, (int)(i % 23) - 11);
		uint32_t lane = (uint32_t)hd_random_u64(&scene->random);

		if (scene->config.dtype == HD_DTYPE_FP32) {
			memcpy(data + i, &x, 4);
		} else if (scene->config.dtype == HD_DTYPE_FIXED32) {
			hd_put32(data + i, (uint32_t)((int32_t)lane / MEMBERS_MAX));
		} else {
			uint16_t half;

			hd_half_from_f32(scene->config.dtype, &half, &x, 1, 1);
			memcpy(data + i, &half, 2);
		}
	}
}

static void open_scene(struct scene *scene, uint64_t seed) {
	static const uint8_t dtypes[]
		= {HD_DTYPE_FP32, HD_DTYPE_FP16, HD_DTYPE_BF16, HD_DTYPE_FIXED32};
	uint64_t bytes;
	size_t value;

	memset(scene, 0, sizeof *scene);
	hd_random_init(&scene->random, seed);
	scene->config.job = 7;
	scene->config.dtype = dtypes[seed % 4];
	scene->config.order = seed / 4 % 2 ? HD_GROUP_RANKED : HD_GROUP_ARRIVAL;
	scene->config.exponent = -12;
	scene->config.input_count = 1 + (uint32_t)hd_random_below(&scene->random, MEMBERS_MAX);
	scene->config.inputs = scene->inputs;
	value = hd_dtype_bytes(scene->config.dtype);
	scene->chunk_bytes
		= HD_REDUCE_CHUNK_BYTES_MIN + 4 * (uint32_t)hd_random_below(&scene->random, 30);
	scene->chunks = 1 + (uint32_t)hd_random_below(&scene->random, CHUNKS_MAX);
	bytes = (uint64_t)scene->chunk_bytes * (scene->chunks - 1);
	bytes += value
		* (1 + hd_random_below(&scene->random, value > 0 ? scene->chunk_bytes / value : 1));
	scene->config.bytes = bytes;
	scene->config.early_bytes = hd_random_below(&scene->random, 30000);
	scene->sum = aligned_alloc(64, (size_t)2 * GUARD + (2 * bytes + 63) / 64 * 64);
	memset(scene->sum, 0xa5, (size_t)2 * GUARD + (2 * bytes + 63) / 64 * 64);
	scene->config.sum = scene->sum + GUARD;
	for (uint32_t i = 0; i < scene->config.input_count; i++) {
		scene->inputs[i]
			= (struct hd_reduce_input){100 + i, 5 + i, (uint16_t)(20 + i), 1, 0};
		scene->update[i] = malloc(bytes);
		fill(scene, scene->update[i]);
	}
	assert_int_equal(hd_reduce_create(&scene->config, &scene->reduce), 0);
	if (scene->config.order == HD_GROUP_RANKED && scene->config.input_count > 1) {
		uint64_t quota = scene->config.early_bytes / scene->chunk_bytes
			/ (scene->config.input_count - 1);

		quota = quota > scene->chunks ? scene->chunks : quota;
		scene->quota = quota > 0 ? (uint32_t)quota : 1;
	}
}

static void close_scene(struct scene *scene) {
	size_t bytes = hd_reduce_sum_bytes(
		scene->config.dtype, scene->config.bytes, scene->config.input_count
	);

	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal(scene->sum[i], 0xa5);
		assert_int_equal(scene->sum[GUARD + bytes + i], 0xa5);
	}
	hd_reduce_destroy(scene->reduce);
	for (uint32_t i = 0; i < scene->config.input_count; i++)
		free(scene->update[i]);
	free(scene->sum);
}

/* --- the model -------------------------------------------------------------------------------- */

static bool ranked(const struct scene *scene) {
	return scene->config.order == HD_GROUP_RANKED && scene->config.input_count > 1;
}

/* Its turn: all members before it are in this chunk. */
static bool turn(const struct scene *scene, uint32_t member, uint32_t chunk) {
	for (uint32_t i = 0; ranked(scene) && i < member; i++)
		if (!scene->in[i][chunk])
			return false;
	return true;
}

static uint64_t model_final(const struct scene *scene) {
	uint64_t final = 0;

	for (uint32_t c = 0; c < scene->chunks; c++) {
		if (scene->count[c] < scene->config.input_count)
			return final;
		final += bytes_of(scene, c);
	}
	return final;
}

/* One value of the sum, members in the order in which they are to be added. */
static void model_value(const struct scene *scene, uint32_t chunk, size_t at, uint8_t *out) {
	uint32_t k = scene->config.input_count;
	uint8_t dtype = scene->config.dtype;
	int64_t lanes = 0;
	float sum = 0;

	for (uint32_t i = 0; i < k; i++) {
		uint32_t member = ranked(scene) ? i : scene->order[chunk][i];
		const uint8_t *from = scene->update[member] + at;
		uint16_t half;
		float x = 0;

		if (dtype == HD_DTYPE_FIXED32) {
			lanes += (int32_t)hd_get32(from);
			continue;
		}
		if (dtype == HD_DTYPE_FP32) {
			memcpy(&x, from, 4);
		} else {
			memcpy(&half, from, 2);
			hd_half_to_f32(dtype, &x, &half, 1);
		}
		sum = i == 0 ? x : sum + x;
	}
	if (dtype == HD_DTYPE_FIXED32)
		hd_put32(out, (uint32_t)(uint64_t)lanes);
	else if (dtype == HD_DTYPE_FP32)
		memcpy(out, &sum, 4);
	else
		hd_half_from_f32(dtype, (uint16_t *)(void *)out, &sum, 1, 1);
}

static void check_chunk(const struct scene *scene, uint32_t chunk) {
	const uint8_t *at = (const uint8_t *)scene->config.sum
		+ (size_t)chunk * hd_reduce_stride(scene->reduce);
	size_t value = hd_dtype_bytes(scene->config.dtype);

	for (size_t i = 0; i < bytes_of(scene, chunk); i += value) {
		uint8_t expected[4];

		model_value(scene, chunk, (size_t)chunk * scene->chunk_bytes + i, expected);
		assert_memory_equal(at + i, expected, value);
	}
}

static void check(const struct scene *scene, uint64_t before) {
	uint64_t final = model_final(scene);

	assert_int_equal(hd_reduce_final(scene->reduce), final);
	for (uint64_t at = before; at < final; at += scene->chunk_bytes)
		check_chunk(scene, (uint32_t)(at / scene->chunk_bytes));
}

/* --- chunks ------------------------------------------------------------------------------------ */

static struct hd_chunk_header
header_of(const struct scene *scene, uint32_t member, uint32_t chunk, uint32_t packet) {
	return (struct hd_chunk_header){
		.flags = chunk == scene->chunks - 1 ? HD_CHUNK_LAST : 0,
		.attempt = 1,
		.dtype = scene->config.dtype,
		.job = 7,
		.worker = scene->inputs[member].worker,
		.round = scene->inputs[member].round,
		.exponent = -12,
		.chunk = chunk,
		.packet = packet,
		.count = (uint16_t)values_of(bytes_of(scene, chunk), scene->config.dtype),
		.token = scene->inputs[member].token,
	};
}

static bool member_done(const struct scene *scene, uint32_t member) {
	for (uint32_t c = 0; c < scene->chunks; c++)
		if (!scene->in[member][c])
			return false;
	return true;
}

static enum hd_reduce_result expected(const struct scene *scene, uint32_t member, uint32_t chunk) {
	if (scene->in[member][chunk])
		return HD_REDUCE_DUPLICATE;
	if (ranked(scene) && !turn(scene, member, chunk) && scene->kept[member] >= scene->quota)
		return HD_REDUCE_EARLY;
	return HD_REDUCE_NEW;
}

static void model_take(struct scene *scene, uint32_t member, uint32_t chunk) {
	scene->in[member][chunk] = true;
	if (!ranked(scene)) {
		scene->order[chunk][scene->count[chunk]++] = member;
		return;
	}
	scene->kept[member]++;
	for (uint32_t i = scene->count[chunk]; i < scene->config.input_count && scene->in[i][chunk];
	     i++) {
		scene->count[chunk]++;
		scene->kept[i]--;
	}
}

static void give(struct scene *scene, uint32_t member, uint32_t chunk, uint32_t packet) {
	struct hd_chunk_header header = header_of(scene, member, chunk, packet);
	enum hd_reduce_result want = expected(scene, member, chunk), got;
	uint64_t before = model_final(scene);
	/* where a frame has it: aligned to 2 */
	uint8_t frame[HD_CHUNK_BYTES_MAX];

	memcpy(frame + 2,
	       scene->update[member] + (size_t)chunk * scene->chunk_bytes,
	       bytes_of(scene, chunk));
	got = hd_reduce_chunk(
		scene->reduce, member, packet, &header, frame + 2, bytes_of(scene, chunk)
	);
	if (want == HD_REDUCE_NEW) {
		model_take(scene, member, chunk);
		want = member_done(scene, member) ? HD_REDUCE_DONE : HD_REDUCE_NEW;
	}
	assert_int_equal(got, want);
	check(scene, before);
}

/* Right token, wrong otherwise. */
static void give_wrong(struct scene *scene, uint32_t member, uint32_t chunk) {
	struct hd_chunk_header header = header_of(scene, member, chunk, 0);
	uint8_t payload[HD_CHUNK_BYTES_MAX] = {0};
	uint64_t before = model_final(scene);
	size_t bytes = bytes_of(scene, chunk);
	enum hd_reduce_result got;

	switch (hd_random_below(&scene->random, 7)) {
	case 0:
		header.job++;
		break;
	case 1:
		header.worker++;
		break;
	case 2:
		header.round++;
		break;
	case 3:
		header.attempt++;
		break;
	case 4:
		header.dtype = (header.dtype + 1) % HD_DTYPE_COUNT;
		break;
	case 5:
		header.chunk = scene->chunks + 3;
		header.flags = 0;
		break;
	default:
		bytes = (size_t)4 * (HD_CHUNK_BYTES_MAX / 4); /* more than a chunk that was seen */
		header.count = (uint16_t)values_of(bytes, header.dtype);
		header.flags = 0;
		break;
	}
	/* A chunk without room is dropped before it is read. */
	got = hd_reduce_chunk(scene->reduce, member, 0, &header, payload, bytes);
	assert_true(
		got == HD_REDUCE_MISMATCH
		|| (got == HD_REDUCE_EARLY && expected(scene, member, chunk) == HD_REDUCE_EARLY)
	);
	check(scene, before);
}

static bool all_done(const struct scene *scene) {
	for (uint32_t i = 0; i < scene->config.input_count; i++)
		if (!member_done(scene, i))
			return false;
	return true;
}

static void test_any_interleaving(void **state) {
	struct scene scene;

	(void)state;
	for (uint64_t seed = 0; seed < 400; seed++) {
		uint32_t packet = 0;

		open_scene(&scene, seed);
		while (!all_done(&scene)) {
			uint32_t member = (uint32_t
			)hd_random_below(&scene.random, scene.config.input_count);
			uint32_t chunk = (uint32_t)hd_random_below(&scene.random, scene.chunks);

			if (hd_random_chance(&scene.random, 0.05) && packet > 0)
				give_wrong(&scene, member, chunk);
			if (!hd_random_chance(&scene.random, 0.3)) /* lost */
				give(&scene, member, chunk, packet);
			packet++;
		}
		assert_int_equal(hd_reduce_final(scene.reduce), scene.config.bytes);
		assert_int_equal(hd_reduce_early_bytes(scene.reduce), 0);
		assert_false(hd_reduce_not_finite(scene.reduce));
		close_scene(&scene);
	}
}

/* Twice the same members in different orders: the same bits when they are ranked, and in fixed point. */
static void test_order_does_not_matter(void **state) {
	struct scene one, two;

	(void)state;
	for (uint64_t seed = 0; seed < 80; seed++) {
		bool same = seed % 4 == 3 || seed / 4 % 2 == 1; /* fixed, or ranked */

		open_scene(&one, seed);
		open_scene(&two, seed);
		for (uint32_t i = 0, k = one.config.input_count; i < k; i++)
			for (uint32_t c = 0; c < one.chunks; c++)
				give(&one, i, c, c);
		for (uint32_t c = 0; c < two.chunks; c++)
			for (uint32_t i = two.config.input_count; i-- > 0;)
				give(&two, i, c, c);
		for (uint32_t i = 0; i < two.config.input_count; i++)
			for (uint32_t c = 0; c < two.chunks; c++)
				if (!two.in[i][c])
					give(&two, i, c, two.chunks + c);
		for (uint32_t i = 0; same && i < two.config.input_count; i++)
			assert_true(member_done(&two, i));
		for (uint32_t c = 0; same && c < one.chunks; c++)
			assert_memory_equal(
				(uint8_t *)one.config.sum
					+ (size_t)c * hd_reduce_stride(one.reduce),
				(uint8_t *)two.config.sum
					+ (size_t)c * hd_reduce_stride(two.reduce),
				bytes_of(&one, c)
			);
		close_scene(&one);
		close_scene(&two);
	}
}

/* Without one member nothing is final, whatever the others send. */
static void test_nothing_partial(void **state) {
	struct scene scene;

	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		open_scene(&scene, seed);
		for (uint32_t i = 0; i + 1 < scene.config.input_count; i++)
			for (uint32_t c = 0; c < scene.chunks; c++)
				give(&scene, i, c, c);
		if (scene.config.input_count > 1)
			assert_int_equal(hd_reduce_final(scene.reduce), 0);
		close_scene(&scene);
	}
}

static void test_numbers_that_are_none(void **state) {
	struct scene scene;

	(void)state;
	for (uint64_t seed = 0; seed < 200; seed++) {
		uint32_t member, chunk;
		uint8_t *at;

		open_scene(&scene, seed);
		member = (uint32_t)hd_random_below(&scene.random, scene.config.input_count);
		chunk = (uint32_t)hd_random_below(&scene.random, scene.chunks);
		at = scene.update[member] + (size_t)chunk * scene.chunk_bytes;
		if (scene.config.dtype == HD_DTYPE_FP32)
			memcpy(at, &(float){seed % 3 ? NAN : INFINITY}, 4);
		else if (scene.config.dtype == HD_DTYPE_FIXED32)
			hd_put32(at, INT32_MAX);
		else
			memcpy(at,
			       &(uint16_t){scene.config.dtype == HD_DTYPE_FP16 ? 0x7c00 : 0xff80},
			       2);
		if (scene.config.dtype == HD_DTYPE_FIXED32 && scene.config.input_count > 1) {
			uint32_t other = member == 0 ? 1 : 0;

			for (uint32_t i = 0; i < scene.config.input_count; i++)
				if (i != member)
					hd_put32(
						scene.update[i] + (at - scene.update[member]),
						i == other
					);
		}
		for (uint32_t i = 0; i < scene.config.input_count; i++) {
			for (uint32_t c = 0; c < scene.chunks; c++) {
				bool last = i + 1 == scene.config.input_count && c >= chunk;

				if (!last)
					assert_false(
						hd_reduce_not_finite(scene.reduce)
						&& scene.config.dtype != HD_DTYPE_FIXED32
					);
				give(&scene, i, c, c);
			}
		}
		assert_int_equal(hd_reduce_not_finite(scene.reduce), scene.config.input_count > 1);
		close_scene(&scene);
	}
}

static void test_fixed_needs_its_exponent(void **state) {
	struct hd_chunk_header header;
	struct scene scene;

	(void)state;
	open_scene(&scene, 3);
	header = header_of(&scene, 0, 0, 0);
	header.exponent++;
	assert_int_equal(
		hd_reduce_chunk(scene.reduce, 0, 0, &header, scene.update[0], bytes_of(&scene, 0)),
		HD_REDUCE_MISMATCH
	);
	assert_int_equal(hd_reduce_chunk_bytes(scene.reduce), 0);
	give(&scene, 0, 0, 0);
	close_scene(&scene);
}

/* A small first chunk would make the arrays big. */
static void test_small_chunks_are_refused(void **state) {
	uint8_t sum[4096] __attribute__((aligned(64))), payload[1024] = {0};
	struct hd_reduce_input inputs[2] = {{1, 1, 0, 1, 0}, {2, 1, 1, 1, 0}};
	struct hd_reduce_config config
		= {.job = 7, .bytes = 4096, .input_count = 2, .inputs = inputs, .sum = sum};
	struct hd_chunk_header header
		= {.job = 7, .round = 1, .attempt = 1, .token = 1, .count = 16};
	struct hd_reduce *reduce;

	(void)state;
	assert_int_equal(hd_reduce_create(&config, &reduce), 0);
	assert_int_equal(hd_reduce_chunk(reduce, 0, 0, &header, payload, 64), HD_REDUCE_MISMATCH);
	header.flags = HD_CHUNK_LAST;
	header.chunk = 63;
	assert_int_equal(hd_reduce_chunk(reduce, 0, 0, &header, payload, 64), HD_REDUCE_MISMATCH);
	header.chunk = 3; /* 3 x 1,344 + 64 */
	assert_int_equal(hd_reduce_chunk(reduce, 0, 0, &header, payload, 64), HD_REDUCE_NEW);
	assert_int_equal(hd_reduce_chunk_bytes(reduce), 1344);
	/* the other member has to have the same */
	header = (struct hd_chunk_header
	){.job = 7, .round = 1, .worker = 1, .attempt = 1, .token = 2, .count = 256};
	assert_int_equal(hd_reduce_chunk(reduce, 1, 0, &header, payload, 1024), HD_REDUCE_MISMATCH);
	hd_reduce_destroy(reduce);
}

static void test_refuses(void **state) {
	uint8_t sum[64] __attribute__((aligned(64)));
	struct hd_reduce_input inputs[2] = {{1, 1, 0, 1, 0}, {2, 1, 1, 1, 0}};
	struct hd_reduce_config good
		= {.job = 7, .bytes = 64, .input_count = 2, .inputs = inputs, .sum = sum};
	struct hd_reduce *reduce = (void *)sum;
	struct hd_reduce_config bad;

	(void)state;
#define BAD(change, error)                                                                         \
	bad = good;                                                                                \
	bad.change;                                                                                \
	assert_int_equal(hd_reduce_create(&bad, &reduce), error);
	BAD(input_count = 0, -EINVAL)
	BAD(input_count = HD_GROUP_MEMBERS_MAX + 1, -E2BIG)
	BAD(bytes = 0, -EINVAL)
	BAD(bytes = 62, -EINVAL)
	BAD(dtype = HD_DTYPE_SPARSE32, -EINVAL) /* inputs without a length */
	BAD(dtype = HD_DTYPE_COUNT, -EINVAL)
	BAD(order = 2, -EINVAL)
	BAD(sum = NULL, -EINVAL)
#undef BAD
	assert_ptr_equal(reduce, sum);
	good.dtype = HD_DTYPE_SPARSE32; /* passed on, it needs no sum */
	good.input_count = 1;
	assert_int_equal(hd_reduce_create(&good, &reduce), 0);
	hd_reduce_destroy(reduce);
}

/* A member that runs ahead of its turn is told to stop, and notified when there is room again. */
static void test_windows(void **state) {
	struct scene scene;
	uint32_t quota, packet = 0;

	(void)state;
	/* a ranked fp32 scene with room for some chunks of each member, but not for all */
	for (uint64_t seed = 4;; seed += 8) {
		open_scene(&scene, seed);
		if (scene.config.input_count >= 3 && scene.quota >= 2
		    && scene.quota + 3 < scene.chunks)
			break;
		close_scene(&scene);
	}
	quota = scene.quota;
	assert_int_equal(hd_reduce_window(scene.reduce, 1, 1 << 20), 1 << 20);
	for (uint32_t c = 0; c < quota; c++) {
		give(&scene, 1, c, packet++);
		assert_true(
			hd_reduce_window(scene.reduce, 1, 1 << 20)
			== (c + 1 < quota ? quota - c - 1 : 1)
				* (scene.chunk_bytes + HD_CHUNK_OVERHEAD_BYTES)
		);
	}
	assert_int_equal(hd_reduce_window(scene.reduce, 0, 1 << 20), 1 << 20);
	assert_false(hd_reduce_relieved(scene.reduce, 1));
	give(&scene, 1, quota, packet++); /* EARLY */
	assert_false(hd_reduce_relieved(scene.reduce, 1));
	give(&scene, 0, 0, packet++);
	assert_true(hd_reduce_relieved(scene.reduce, 1));
	assert_false(hd_reduce_relieved(scene.reduce, 1));
	give(&scene, 1, quota, packet++);
	/* what the first has sent is this one's turn */
	for (uint32_t c = 1; c < scene.chunks; c++)
		give(&scene, 0, c, packet++);
	assert_true(
		hd_reduce_window(scene.reduce, 1, 1 << 20)
		== (quota + scene.chunks - quota - 1)
			* (scene.chunk_bytes + HD_CHUNK_OVERHEAD_BYTES)
	);
	close_scene(&scene);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_interleaving),
		cmocka_unit_test(test_order_does_not_matter),
		cmocka_unit_test(test_nothing_partial),
		cmocka_unit_test(test_numbers_that_are_none),
		cmocka_unit_test(test_fixed_needs_its_exponent),
		cmocka_unit_test(test_small_chunks_are_refused),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_windows),
	};

	return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
