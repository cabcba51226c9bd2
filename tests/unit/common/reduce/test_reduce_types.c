/* SPDX-License-Identifier: BSD-3-Clause */
/* The combiner with every type and operation of an all-reduce, beside a model of one value: chunks of all members in
 * any interleaving, with duplicates, at odd addresses. */
#include "hd_cc.h"
#include "hd_kernels.h"
#include "hd_limits.h"
#include "hd_random.h"
#include "hd_reduce.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS_MAX 5
#define CHUNKS_MAX 6
#define WORD sizeof(uint64_t)

struct scene {
	struct hd_random random;
	struct hd_reduce_config config;
	struct hd_reduce_input inputs[MEMBERS_MAX];
	struct hd_reduce *reduce;
	size_t value; /* bytes of one */
	uint32_t chunk_bytes, chunks;
	uint8_t *update[MEMBERS_MAX];
};

static bool is_integer(uint8_t dtype) {
	return dtype >= HD_DTYPE_INT8;
}

/* --- the model ----------------------------------------------------------------------------------- */

static uint64_t get(const struct scene *s, uint32_t member, size_t at) {
	uint64_t x = 0;

	memcpy(&x, s->update[member] + at, s->value);
	return x;
}

static int64_t integer(uint8_t dtype, uint64_t x) {
	switch (dtype) {
	case HD_DTYPE_INT8:
		return (int8_t)x;
	case HD_DTYPE_UINT8:
		return (uint8_t)x;
	case HD_DTYPE_INT32:
		return (int32_t)x;
	default:
		return (int64_t)x;
	}
}

static uint64_t of_integers(const struct scene *s, size_t at) {
	const uint8_t dtype = s->config.dtype, op = s->config.op;
	int64_t result = integer(dtype, get(s, 0, at)), x;

	for (uint32_t i = 1; i < s->config.input_count; i++) {
		x = integer(dtype, get(s, i, at));
		if (op == HD_REDUCE_OP_MIN)
			result = x < result ? x : result;
		else if (op == HD_REDUCE_OP_MAX)
			result = x > result ? x : result;
		else if (op == HD_REDUCE_OP_PRODUCT)
			result = (int64_t)((uint64_t)result * (uint64_t)x);
		else
			result = (int64_t)((uint64_t)result + (uint64_t)x);
	}
	result = integer(dtype, (uint64_t)result);
	return (uint64_t)(op == HD_REDUCE_OP_AVERAGE ? result / s->config.input_count : result);
}

static double number(const struct scene *s, uint32_t member, size_t at) {
	const uint64_t x = get(s, member, at);
	const uint16_t half = (uint16_t)x;
	double y;
	float z;

	memcpy(&y, &x, sizeof y);
	memcpy(&z, &x, sizeof z);
	if (hd_dtype_is_half(s->config.dtype))
		hd_half_to_f32(s->config.dtype, &z, &half, 1);
	return s->config.dtype == HD_DTYPE_FP64 ? y : (double)z;
}

static double step(uint8_t op, double a, double b) {
	switch (op) {
	case HD_REDUCE_OP_MIN:
		return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
	case HD_REDUCE_OP_MAX:
		return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
	case HD_REDUCE_OP_PRODUCT:
		return a * b;
	default:
		return a + b;
	}
}

/* Each step of fp32 is rounded to fp32. The order is that of the list: the scenes are ranked. */
static double of_floats(const struct scene *s, size_t at) {
	const bool wide = s->config.dtype == HD_DTYPE_FP64;
	double result = number(s, 0, at);

	for (uint32_t i = 1; i < s->config.input_count; i++) {
		result = step(s->config.op, result, number(s, i, at));
		result = wide ? result : (double)(float)result;
	}
	if (s->config.op != HD_REDUCE_OP_AVERAGE || s->config.input_count == 1)
		return result;
	return wide ? result / s->config.input_count :
		      (double)((float)result * (1.0F / (float)s->config.input_count));
}

static uint64_t float_bits(const struct scene *s, double x) {
	float narrow = (float)x;
	uint64_t bits = 0;
	uint16_t half;

	if (s->config.dtype == HD_DTYPE_FP64) {
		memcpy(&bits, &x, sizeof x);
		return bits;
	}
	if (hd_dtype_is_half(s->config.dtype)) {
		hd_half_from_f32(s->config.dtype, &half, &narrow, 1, 1);
		return half;
	}
	memcpy(&bits, &narrow, sizeof narrow);
	return bits;
}

static void check_value(const struct scene *s, const uint8_t *sum, size_t at) {
	uint64_t got = 0, want;

	memcpy(&got, sum, s->value);
	if (is_integer(s->config.dtype)) {
		want = of_integers(s, at);
		assert_memory_equal(&got, &want, s->value);
		return;
	}
	want = float_bits(s, of_floats(s, at));
	if (!isnan(of_floats(s, at))) {
		assert_true(got == want);
		return;
	}
	assert_true(hd_any_not_finite(s->config.dtype, &got, 1));
	assert_true(hd_any_not_finite(s->config.dtype, &want, 1));
}

/* --- a scene ------------------------------------------------------------------------------------- */

/* Numbers of any size, also none; integers of any bits. */
static void fill(struct scene *s, uint8_t *data) {
	static const double odd[] = {NAN, INFINITY, -INFINITY};

	for (size_t at = 0; at < s->config.bytes; at += s->value) {
		uint64_t bits = hd_random_u64(&s->random);
		double x = ldexp(hd_random_unit(&s->random) - 0.5, (int)(bits % 40) - 20);

		if (bits % 64 == 0)
			x = odd[bits / 64 % 3];
		if (!is_integer(s->config.dtype))
			bits = float_bits(s, x);
		memcpy(data + at, &bits, s->value);
	}
}

static void open_scene(struct scene *s, uint8_t dtype, uint8_t op, uint64_t seed) {
	uint64_t values;

	memset(s, 0, sizeof *s);
	hd_random_init(&s->random, seed);
	s->value = hd_dtype_bytes(dtype);
	s->chunk_bytes = HD_REDUCE_CHUNK_BYTES_MIN + 8 * (uint32_t)hd_random_below(&s->random, 200);
	values = 1 + hd_random_below(&s->random, (uint64_t)CHUNKS_MAX * s->chunk_bytes / s->value);
	s->config = (struct hd_reduce_config){
		.job = 7,
		.dtype = dtype,
		.op = op,
		.order = HD_GROUP_RANKED,
		.bytes = values * s->value,
		.input_count = 1 + (uint32_t)hd_random_below(&s->random, MEMBERS_MAX),
		.inputs = s->inputs,
		.early_bytes = UINT64_C(1) << 20,
	};
	s->chunks = (uint32_t)((s->config.bytes - 1) / s->chunk_bytes + 1);
	s->config.sum = aligned_alloc(
		64, hd_reduce_buffer_bytes(dtype, s->config.bytes, s->config.input_count)
	);
	for (uint32_t i = 0; i < s->config.input_count; i++) {
		s->inputs[i] = (struct hd_reduce_input){100 + i, 5, (uint16_t)i, 1, 0};
		s->update[i] = malloc(s->config.bytes);
		fill(s, s->update[i]);
	}
	assert_int_equal(hd_reduce_create(&s->config, &s->reduce), 0);
}

static void close_scene(struct scene *s) {
	hd_reduce_destroy(s->reduce);
	for (uint32_t i = 0; i < s->config.input_count; i++)
		free(s->update[i]);
	free(s->config.sum);
}

static void give(struct scene *s, uint32_t member, uint32_t chunk) {
	const uint64_t from = (uint64_t)chunk * s->chunk_bytes, left = s->config.bytes - from;
	const size_t bytes = left < s->chunk_bytes ? (size_t)left : s->chunk_bytes;
	const struct hd_chunk_header header = {
		.flags = chunk == s->chunks - 1 ? HD_CHUNK_LAST : 0,
		.attempt = 1,
		.dtype = s->config.dtype,
		.job = 7,
		.worker = s->inputs[member].worker,
		.round = 5,
		.chunk = chunk,
		.count = (uint16_t)(bytes / s->value),
		.token = s->inputs[member].token,
	};
	uint8_t frame[HD_CHUNK_BYTES_MAX + WORD];
	uint8_t *at = frame + 1 + hd_random_below(&s->random, WORD - 1);

	memcpy(at, s->update[member] + from, bytes);
	(void)hd_reduce_chunk(s->reduce, member, 0, &header, at, bytes);
}

static void check_scene(uint8_t dtype, uint8_t op, uint64_t seed) {
	struct scene s;

	open_scene(&s, dtype, op, seed);
	for (uint32_t i = 0; hd_reduce_final(s.reduce) < s.config.bytes && i < 100000; i++)
		give(&s,
		     (uint32_t)hd_random_below(&s.random, s.config.input_count),
		     (uint32_t)hd_random_below(&s.random, s.chunks));
	assert_true(hd_reduce_is_final(s.reduce));
	for (uint64_t at = 0; at < s.config.bytes; at += s.value) {
		const uint64_t chunk = at / s.chunk_bytes;

		check_value(
			&s,
			(const uint8_t *)s.config.sum + chunk * hd_reduce_stride(s.reduce)
				+ at % s.chunk_bytes,
			at
		);
	}
	close_scene(&s);
}

static void test_types_and_operations(void **state) {
	static const uint8_t dtypes[]
		= {HD_DTYPE_FP32,
		   HD_DTYPE_FP16,
		   HD_DTYPE_BF16,
		   HD_DTYPE_FP64,
		   HD_DTYPE_INT8,
		   HD_DTYPE_UINT8,
		   HD_DTYPE_INT32,
		   HD_DTYPE_INT64};

	for (size_t d = 0; d < sizeof dtypes; d++)
		for (int op = 0; op < HD_REDUCE_OP_COUNT; op++)
			for (uint64_t seed = 1; seed <= 12; seed++)
				check_scene(dtypes[d], (uint8_t)op, seed);
}

/* The sum of two is beyond fp16, their average is not: it is divided before it is rounded. */
static void test_averages_do_not_overflow(void **state) {
	struct scene s;
	float x = 60000;
	uint16_t half;

	open_scene(&s, HD_DTYPE_FP16, HD_REDUCE_OP_AVERAGE, 2);
	assert_true(s.config.input_count > 1);
	hd_half_from_f32(HD_DTYPE_FP16, &half, &x, 1, 1);
	for (uint32_t i = 0; i < s.config.input_count; i++)
		memcpy(s.update[i], &half, sizeof half);
	for (uint32_t i = 0; i < s.config.input_count; i++)
		for (uint32_t c = 0; c < s.chunks; c++)
			give(&s, i, c);
	assert_memory_equal(s.config.sum, &half, sizeof half);
	close_scene(&s);
}

static void test_refuses(void **state) {
	uint8_t sum[64] __attribute__((aligned(64)));
	struct hd_reduce_input inputs[2] = {{1, 1, 0, 1, 64}, {2, 1, 1, 1, 64}};
	struct hd_reduce_config config
		= {.job = 7, .bytes = 64, .input_count = 2, .inputs = inputs, .sum = sum};
	struct hd_reduce *reduce;

	config.op = HD_REDUCE_OP_COUNT;
	assert_int_equal(hd_reduce_create(&config, &reduce), -EINVAL);
	config.op = HD_REDUCE_OP_MAX;
	config.dtype = HD_DTYPE_FIXED32;
	assert_int_equal(hd_reduce_create(&config, &reduce), -EINVAL);
	config.dtype = HD_DTYPE_SPARSE32;
	assert_int_equal(hd_reduce_create(&config, &reduce), -EINVAL);
	config.dtype = HD_DTYPE_INT64;
	config.bytes = 60;
	assert_int_equal(hd_reduce_create(&config, &reduce), -EINVAL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types_and_operations),
		cmocka_unit_test(test_averages_do_not_overflow),
		cmocka_unit_test(test_refuses),
	};

	return cmocka_run_group_tests_name("reduce types", tests, NULL, NULL);
}
