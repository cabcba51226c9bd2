/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker of a job that makes an all-reduce of each type with each operation, once with both buffers the same, once
 * with a copy of its own in between (a timeout), and once with borrowed ones: reduce_types. Every value of every result
 * is checked. Prints how many results there were.
 */
#include "heddle.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 15000
#define COUNT 20011
#define TYPES 8
#define OPERATIONS 5

static const size_t sizes[TYPES] = {4, 2, 2, 8, 1, 1, 4, 8};

static void die(const char *what, const char *why) {
	(void)fprintf(stderr, "reduce_types: %s: %s\n", what, why);
	exit(1);
}

static bool is_integer(enum heddle_type type) {
	return type >= HEDDLE_TYPE_INT8;
}

static int64_t narrowed(enum heddle_type type, int64_t x) {
	switch (type) {
	case HEDDLE_TYPE_INT8:
		return (int8_t)x;
	case HEDDLE_TYPE_UINT8:
		return (uint8_t)x;
	case HEDDLE_TYPE_INT32:
		return (int32_t)x;
	default:
		return x;
	}
}

/* Small whole numbers, exact in every type with every operation; the integers of sums and products wrap. */
static int64_t
value(enum heddle_type type, enum heddle_reduce_op op, int world, int rank, uint64_t i) {
	int64_t x = (int64_t)((i * 7 + (uint64_t)rank * 13) % 5);

	if (type != HEDDLE_TYPE_UINT8)
		x -= 2;
	if (op == HEDDLE_REDUCE_OP_AVERAGE)
		return x * world;
	if (is_integer(type) && (op == HEDDLE_REDUCE_OP_SUM || op == HEDDLE_REDUCE_OP_PRODUCT))
		return narrowed(type, (int64_t)((uint64_t)x * UINT64_C(0x7a3d5b71f00d6b65)));
	return x;
}

static int64_t expected(enum heddle_type type, enum heddle_reduce_op op, int world, uint64_t i) {
	int64_t result = value(type, op, world, 0, i);

	for (int rank = 1; rank < world; rank++) {
		const int64_t x = value(type, op, world, rank, i);

		if (op == HEDDLE_REDUCE_OP_MIN)
			result = x < result ? x : result;
		else if (op == HEDDLE_REDUCE_OP_MAX)
			result = x > result ? x : result;
		else if (op == HEDDLE_REDUCE_OP_PRODUCT)
			result = (int64_t)((uint64_t)result * (uint64_t)x);
		else
			result = (int64_t)((uint64_t)result + (uint64_t)x);
	}
	result = narrowed(type, result);
	return op == HEDDLE_REDUCE_OP_AVERAGE ? result / world : result;
}

/* Bits of a whole number that the type has exactly. */
static uint64_t encoded(enum heddle_type type, int64_t x) {
	const double wide = (double)x;
	const float narrow = (float)x;
	uint64_t bits64;
	uint32_t bits;

	memcpy(&bits64, &wide, sizeof wide);
	memcpy(&bits, &narrow, sizeof narrow);
	switch (type) {
	case HEDDLE_TYPE_FP32:
		return bits;
	case HEDDLE_TYPE_BF16:
		return bits >> 16;
	case HEDDLE_TYPE_FP16:
		if (x == 0)
			return 0;
		return (bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10)
			| (bits >> 13 & 0x3ff);
	case HEDDLE_TYPE_FP64:
		return bits64;
	default:
		return (uint64_t)x;
	}
}

static void put(enum heddle_type type, void *data, uint64_t i, int64_t x) {
	const uint64_t bits = encoded(type, x);

	memcpy((char *)data + i * sizes[type], &bits, sizes[type]);
}

static void check(const void *out, enum heddle_type type, enum heddle_reduce_op op, int world) {
	char text[128];

	for (uint64_t i = 0; i < COUNT; i++) {
		const uint64_t want = encoded(type, expected(type, op, world, i));
		uint64_t got = 0, zero = UINT64_C(1) << (8 * sizes[type] - 1);

		memcpy(&got, (const char *)out + i * sizes[type], sizes[type]);
		if (memcmp(&got, &want, sizes[type]) == 0
		    || (!is_integer(type) && want == 0 && got == zero)) /* -0 */
			continue;
		(void)snprintf(
			text,
			sizeof text,
			"type %d, operation %d, value %llu: %llx, not %llx",
			(int)type,
			(int)op,
			(unsigned long long)i,
			(unsigned long long)got,
			(unsigned long long)want
		);
		die("result", text);
	}
}

static void
call(struct heddle *fabric,
     void *in,
     void *out,
     const struct heddle_collective_options *options,
     int timeout_ms) {
	const int world = heddle_world_size(fabric);
	struct heddle_status status = HEDDLE_STATUS_INIT;

	for (uint64_t i = 0; i < COUNT; i++)
		put(options->type,
		    in,
		    i,
		    value(options->type, options->reduce_op, world, heddle_rank(fabric), i));
	if (heddle_allreduce(fabric, in, out, COUNT, options, timeout_ms, &status) < 0)
		die("all-reduce", heddle_last_error());
	if (status.workers != (uint32_t)world || status.bytes != COUNT * sizes[options->type])
		die("all-reduce", "not of all workers, or not of these bytes");
	check(out, options->type, options->reduce_op, world);
}

int main(void) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	void *in = malloc(COUNT * sizeof(int64_t)), *out = malloc(COUNT * sizeof(int64_t));
	struct heddle *fabric = NULL;
	struct heddle_spec *spec = NULL;
	int results = 0;

	if (!in || !out || heddle_spec_create(NULL, NULL, &spec) < 0
	    || heddle_open(spec, NULL, &fabric) < 0
	    || heddle_wait_joined(fabric, TIMEOUT_MS, NULL, NULL) < 0)
		die("open", heddle_last_error());
	heddle_spec_destroy(spec);
	options.exact = (unsigned)heddle_world_size(fabric); /* however slow one of them is */
	for (int type = 0; type < TYPES; type++)
		for (int op = 0; op < OPERATIONS; op++, results += 3) {
			options.type = (enum heddle_type)type;
			options.reduce_op = (enum heddle_reduce_op)op;
			options.borrow = 0;
			call(fabric, in, in, &options, -1);
			call(fabric, in, out, &options, TIMEOUT_MS);
			options.borrow = 1;
			call(fabric, in, out, &options, -1);
		}
	(void)printf("{\"results\": %d}\n", results);
	free(in);
	free(out);
	(void)heddle_close(fabric, 2000);
	return 0;
}
