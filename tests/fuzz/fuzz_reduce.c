/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The combiner of a group under chunks of any header and size, true ones among them: nothing is written outside of
 * the sum, what is final only grows and has every member, what is kept early stays within its bound.
 */
#include "fuzz.h"
#include "hd_limits.h"
#include "hd_reduce.h"

#include <stdlib.h>
#include <string.h>

#define INPUTS 3
#define BYTES ((uint64_t)20 * 512 + 96)
#define GUARD 4096

struct world {
	const uint8_t *input;
	size_t left;
	struct hd_reduce_config config;
	struct hd_reduce *reduce;
};

static uint8_t sum[GUARD + 2 * BYTES + GUARD] __attribute__((aligned(64)));

static uint64_t take(struct world *world, size_t bytes) {
	uint64_t value = 0;

	while (bytes-- > 0) {
		uint8_t byte = 0;

		if (world->left > 0) {
			byte = *world->input++;
			world->left--;
		}
		value = value << 8 | byte;
	}
	return value;
}

/* A chunk as its sender would make it. */
static struct hd_chunk_header
true_header(const struct world *world, uint32_t index, uint32_t chunk) {
	uint64_t from = (uint64_t)chunk * 512;
	uint64_t bytes = from + 512 < BYTES ? 512 : BYTES - from;
	size_t value = hd_dtype_bytes(world->config.dtype);

	return (struct hd_chunk_header){
		.job = 7,
		.worker = (uint16_t)index,
		.round = 1,
		.attempt = 1,
		.dtype = world->config.dtype,
		.exponent = world->config.exponent,
		.chunk = chunk,
		.flags = from + bytes == BYTES ? HD_CHUNK_LAST : 0,
		.count = (uint16_t)(value > 0 ? bytes / value : 0),
	};
}

static void change(struct world *world, struct hd_chunk_header *header) {
	switch (take(world, 1) % 10) {
	case 0:
		header->chunk = (uint32_t)take(world, 4);
		break;
	case 1:
		header->flags = (uint8_t)take(world, 1);
		break;
	case 2:
		header->count = (uint16_t)(take(world, 2) % (HD_CHUNK_BYTES_MAX / 2));
		break;
	case 3:
		header->dtype = (uint8_t)take(world, 1);
		break;
	case 4:
		header->exponent = (int16_t)take(world, 2);
		break;
	case 5:
		header->round = (uint32_t)take(world, 1);
		break;
	default:
		break;
	}
}

static void step(struct world *world) {
	static const uint8_t payload[HD_CHUNK_BYTES_MAX];
	uint32_t index = (uint32_t)take(world, 1) % world->config.input_count;
	uint32_t chunk = (uint32_t)take(world, 1) % 21;
	struct hd_chunk_header header = true_header(world, index, chunk);
	uint64_t before = hd_reduce_final(world->reduce);
	struct hd_recv *recv;
	size_t bytes;

	change(world, &header);
	header.packet = (uint32_t)take(world, 1);
	bytes = header.count * hd_dtype_bytes(header.dtype);
	if (bytes == 0 || bytes > sizeof payload)
		return; /* the wire's decoder lets none pass */
	hd_reduce_chunk(world->reduce, index, 1, &header, payload, bytes);
	CHECK(hd_reduce_final(world->reduce) >= before);
	CHECK(hd_reduce_final(world->reduce) <= BYTES);
	recv = hd_reduce_recv(world->reduce, index);
	CHECK(!recv || hd_recv_stats(recv)->bytes_held <= BYTES);
	CHECK(hd_reduce_window(world->reduce, index, 100000) <= 100000);
	(void)hd_reduce_relieved(world->reduce, index);
}

static void check(const struct world *world) {
	uint64_t final = hd_reduce_final(world->reduce);
	size_t used = hd_reduce_sum_bytes(world->config.dtype, BYTES, world->config.input_count);

	for (uint32_t i = 0; i < world->config.input_count; i++) {
		const struct hd_recv *recv = hd_reduce_recv(world->reduce, i);

		CHECK(final == 0 || (recv && hd_recv_stats(recv)->bytes_held >= final));
	}
	CHECK(hd_reduce_early_bytes(world->reduce) <= hd_reduce_state_bytes(&world->config));
	for (size_t i = 0; i < GUARD; i++)
		CHECK(sum[i] == 0xa5 && sum[GUARD + used + i] == 0xa5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static const struct hd_reduce_input inputs[INPUTS]
		= {{1, 1, 0, 1, 0}, {2, 1, 1, 1, 0}, {3, 1, 2, 1, 0}};
	struct world world = {.input = data, .left = bytes};
	static const uint8_t elements[]
		= {HD_DTYPE_FP64, HD_DTYPE_INT8, HD_DTYPE_UINT8, HD_DTYPE_INT32, HD_DTYPE_INT64};
	uint8_t shape = (uint8_t)take(&world, 1), more = bytes > 1 ? data[bytes - 1] : 0;
	uint8_t dtype = more < 128 ? shape % 4 : elements[more % 5];

	world.config = (struct hd_reduce_config){
		.job = 7,
		.dtype = dtype,
		.op
		= hd_dtype_is_element(dtype) ? (more >> 3) % HD_REDUCE_OP_COUNT : HD_REDUCE_OP_SUM,
		.order = shape >> 2 & 1,
		.exponent = 3,
		.bytes = BYTES,
		.input_count = 1 + (shape >> 3 & 3) % INPUTS,
		.inputs = inputs,
		.early_bytes = (uint64_t)(shape >> 5) * 1500,
		.sum = sum + GUARD,
	};
	memset(sum, 0xa5, sizeof sum);
	if (hd_reduce_create(&world.config, &world.reduce) < 0)
		abort();
	for (size_t i = 0; i < 3000 && world.left > 0; i++)
		step(&world);
	check(&world);
	hd_reduce_destroy(world.reduce);
	return 0;
}
