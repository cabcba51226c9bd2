/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The merger of sparse updates under chunks of any header, size and contents, true ones among them: nothing is written
 * outside of the sum, what is final only grows, and is runs that ascend.
 */
#include "fuzz.h"
#include "hd_limits.h"
#include "hd_merge.h"
#include "hd_runs.h"

#include <stdlib.h>
#include <string.h>

#define INPUTS 3
#define BYTES ((uint64_t)6 * 256 + 100)
#define GUARD 4096

struct world {
	const uint8_t *input;
	size_t left;
	struct hd_reduce_config config;
	struct hd_reduce *reduce;
	uint64_t next[INPUTS]; /* indices that a true chunk begins with */
};

static uint8_t sum[GUARD + 3 * BYTES + GUARD] __attribute__((aligned(64)));

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

/* Runs, mostly true ones, that fill a chunk. */
static void fill(struct world *world, uint32_t index, uint8_t *payload, size_t bytes) {
	size_t at = 0;

	memset(payload, 0, bytes);
	while (bytes - at >= HD_RUN_BYTES_MIN) {
		uint64_t shape = take(world, 1), first = world->next[index] + (shape & 15);
		uint64_t count = 1 + (shape >> 4), room = (bytes - at - 8) / 4, word;

		count = count < room && bytes - at - 8 - 4 * count >= 12 ? count : room;
		world->next[index] = first + count;
		if (shape == 0xff)
			first = take(world, 5);
		if (shape == 0xfe)
			count = take(world, 3);
		word = first | count << 40;
		memcpy(payload + at, &word, 8);
		at += 8 + 4 * (count < room ? count : room);
	}
}

static void step(struct world *world) {
	static uint8_t payload[HD_CHUNK_BYTES_MAX] __attribute__((aligned(64)));
	uint32_t index = (uint32_t)take(world, 1) % world->config.input_count;
	struct hd_recv *recv = hd_reduce_recv(world->reduce, index);
	uint32_t chunk = recv ? hd_recv_held(recv) : 0, size = 256;
	uint64_t from, bytes;
	struct hd_chunk_header header;
	uint8_t change = (uint8_t)take(world, 1);

	chunk += change == 1 ? (uint32_t)take(world, 1) : 0;
	size = change == 2 ? 4 * (uint32_t)take(world, 1) : size;
	from = (uint64_t)chunk * 256;
	bytes = from < BYTES ? BYTES - from : 4;
	bytes = bytes < size ? bytes : size;
	header = (struct hd_chunk_header){
		.job = 7,
		.worker = (uint16_t)index,
		.round = change == 3 ? 2 : 1,
		.attempt = 1,
		.dtype = change == 4 ? HD_DTYPE_FP32 : HD_DTYPE_SPARSE32,
		.chunk = chunk,
		.flags
		= (from + bytes == BYTES ? HD_CHUNK_LAST : 0) ^ (change == 5 ? HD_CHUNK_LAST : 0),
		.count = (uint16_t)(bytes / 4),
	};
	if (bytes == 0)
		return;
	fill(world, index, payload, bytes);
	(void)hd_reduce_chunk(world->reduce, index, 1, &header, payload, bytes);
}

static void check(const struct world *world, uint64_t before) {
	uint64_t final = hd_reduce_final(world->reduce), next = 0, most = world->config.bytes;
	uint32_t chunk = hd_reduce_chunk_bytes(world->reduce);

	CHECK(final >= before && final <= most);
	CHECK(hd_reduce_total(world->reduce) == 0 || hd_reduce_total(world->reduce) == final);
	CHECK(hd_reduce_early_bytes(world->reduce) <= hd_reduce_state_bytes(&world->config));
	for (uint64_t at = 0; at < final; at += chunk) {
		struct hd_runs_cursor cursor;
		struct hd_run run;
		const float *x;
		int more;

		hd_runs_begin(
			&cursor,
			sum + GUARD + at,
			final - at < chunk ? final - at : chunk,
			HD_RUN_FIRST_MAX + 1
		);
		while ((more = hd_runs_next(&cursor, &run, &x)) > 0) {
			CHECK(run.first >= next);
			next = run.first + run.count;
		}
		CHECK(more == 0);
	}
	for (size_t i = 0; i < GUARD; i++)
		CHECK(sum[i] == 0xa5 && sum[GUARD + most + i] == 0xa5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static const struct hd_reduce_input inputs[INPUTS]
		= {{1, 1, 0, 1, BYTES}, {2, 1, 1, 1, BYTES}, {3, 1, 2, 1, BYTES}};
	struct world world = {.input = data, .left = bytes};
	uint8_t shape = (uint8_t)take(&world, 1);
	uint64_t final = 0;

	world.config = (struct hd_reduce_config){
		.job = 7,
		.dtype = HD_DTYPE_SPARSE32,
		.bytes = shape & 1 ? BYTES : 3 * BYTES,
		.input_count = 2 + (shape >> 1 & 1),
		.inputs = inputs,
		.early_bytes = (uint64_t)(shape >> 5) * 700,
		.sum = sum + GUARD,
	};
	memset(sum, 0xa5, sizeof sum);
	if (hd_reduce_create(&world.config, &world.reduce) < 0)
		abort();
	for (size_t i = 0; i < 3000 && world.left > 0; i++) {
		step(&world);
		check(&world, final);
		final = hd_reduce_final(world.reduce);
	}
	hd_reduce_destroy(world.reduce);
	return 0;
}
