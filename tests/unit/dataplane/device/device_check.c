/* SPDX-License-Identifier: BSD-3-Clause */
/* The requirements on any device. */
#include "device_check.h"
#include "hd_random.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define PATIENCE (60 * HD_SECOND)
#define ROOM ((size_t)3 * HD_STAGE_VALUES)
#define SHIFTS ((size_t)4)
#define STREAMS 100
#define LINKS 8
#define GENERATION 9

float *device_host(struct hd_device *device, size_t bytes) {
	void *memory;

	assert_int_equal(device->ops->host_allocate(device, bytes, &memory), 0);
	return memory;
}

void device_run(struct hd_device *device, const struct hd_stage_job *job) {
	void *event;

	assert_int_equal(device->ops->event_create(device, &event), 0);
	assert_int_equal(device->ops->launch(device, NULL, job), 0);
	assert_int_equal(device->ops->record(device, event, NULL), 0);
	assert_int_equal(hd_device_wait(device, event, PATIENCE), 0);
	device->ops->event_destroy(device, event);
}

float *device_filled(struct hd_device *device, const float *values, size_t count) {
	float *host = device_host(device, count * sizeof *host);
	struct hd_stage_job job = {.kind = HD_STAGE_UNPACK};
	void *memory;

	memcpy(host, values, count * sizeof *host);
	assert_int_equal(device->ops->allocate(device, count * sizeof *host, &memory), 0);
	job.unpack.from = host;
	job.unpack.to = memory;
	job.unpack.values = count;
	device_run(device, &job);
	device->ops->host_release(device, host);
	return memory;
}

void device_fetch(struct hd_device *device, const float *far, float *host, size_t count) {
	struct hd_stage_job job = {.kind = HD_STAGE_PACK};
	float *near = device_host(device, count * sizeof *near);
	uint64_t *flags
		= (uint64_t *)(void *)device_host(device, hd_stage_blocks(count) * sizeof *flags);

	job.pack = (struct hd_pack
	){.from = far, .to = near, .values = count, .flags = flags, .weight = 1};
	device_run(device, &job);
	memcpy(host, near, count * sizeof *host);
	device->ops->host_release(device, near);
	device->ops->host_release(device, flags);
}

/* --- bits ----------------------------------------------------------------------------------- */

struct bench {
	struct hd_device *device;
	float *values; /* on the host, of any bits */
	float *far; /* the same on the device */
	float *far_copy;
	uint8_t *ours, *theirs; /* registered */
	uint64_t *flags;
	struct hd_stage_sums *sums;
	float *copy;
};

static void bench_init(struct bench *bench, struct hd_device *device) {
	struct hd_random random;
	void *memory;

	hd_random_init(&random, 31);
	bench->device = device;
	bench->values = malloc((ROOM + SHIFTS) * sizeof(float));
	for (size_t i = 0; i < ROOM + SHIFTS; i++)
		bench->values[i] = i % 3 == 0 ? hd_stage_float((uint32_t)hd_random_u64(&random)) :
						(float)(hd_random_unit(&random) - 0.5);
	bench->far = device_filled(device, bench->values, ROOM + SHIFTS);
	assert_int_equal(
		device->ops->allocate(device, (ROOM + SHIFTS) * sizeof(float), &memory), 0
	);
	bench->far_copy = memory;
	bench->ours = (uint8_t *)device_host(device, (ROOM + SHIFTS) * sizeof(float));
	bench->theirs = (uint8_t *)device_host(device, (ROOM + SHIFTS) * sizeof(float));
	bench->flags = (uint64_t *)(void *)device_host(device, 4 * sizeof(uint64_t));
	bench->sums = (struct hd_stage_sums *)(void *)device_host(
		device, 4 * sizeof(struct hd_stage_sums)
	);
	bench->copy = malloc((ROOM + SHIFTS) * sizeof(float));
}

static void bench_fini(struct bench *bench) {
	const struct hd_device_ops *ops = bench->device->ops;

	free(bench->values);
	free(bench->copy);
	ops->release(bench->device, bench->far);
	ops->release(bench->device, bench->far_copy);
	ops->host_release(bench->device, bench->ours);
	ops->host_release(bench->device, bench->theirs);
	ops->host_release(bench->device, bench->flags);
	ops->host_release(bench->device, bench->sums);
}

static void check_pack(struct bench *bench, struct hd_pack pack, size_t shift) {
	struct hd_stage_job job = {.kind = HD_STAGE_PACK, .pack = pack};
	uint64_t flags[4] = {0};

	memset(bench->ours, 0xa5, ROOM * sizeof(float));
	memset(bench->theirs, 0xa5, ROOM * sizeof(float));
	memset(bench->flags, 0, 4 * sizeof(uint64_t));
	job.pack.from = bench->far + shift;
	job.pack.to = bench->ours;
	job.pack.flags = bench->flags;
	device_run(bench->device, &job);
	pack.from = bench->values + shift;
	pack.to = bench->theirs;
	pack.flags = flags;
	for (uint64_t b = 0; b < hd_stage_blocks(pack.values); b++)
		hd_pack_block(&pack, b);
	assert_memory_equal(bench->ours, bench->theirs, ROOM * sizeof(float));
	assert_memory_equal(bench->flags, flags, sizeof flags);
}

static void check_take(struct bench *bench, struct hd_take take, size_t shift) {
	struct hd_stage_job job = {.kind = HD_STAGE_TAKE, .take = take};
	struct hd_stage_job back = {.kind = HD_STAGE_PACK};
	struct hd_stage_sums sums[4];

	job.take.from = bench->far + shift;
	job.take.copy = bench->far_copy;
	job.take.sums = bench->sums;
	device_run(bench->device, &job);
	take.from = bench->values + shift;
	take.copy = bench->copy;
	take.sums = sums;
	for (uint64_t b = 0; b < hd_stage_blocks(take.values); b++) {
		hd_take_block(&take, b);
		if (!isnan(sums[b].norm2)) /* a NaN's bits are undefined */
			assert_memory_equal(&bench->sums[b], &sums[b], sizeof *sums);
		else
			assert_true(isnan(bench->sums[b].norm2));
		assert_int_equal(bench->sums[b].not_finite, sums[b].not_finite);
		assert_int_equal(bench->sums[b].peak, sums[b].peak);
	}
	back.pack.from = bench->far_copy;
	back.pack.to = bench->ours;
	back.pack.flags = bench->flags;
	back.pack.values = take.values;
	back.pack.weight = 1;
	device_run(bench->device, &back);
	assert_memory_equal(bench->ours, bench->copy, take.values * sizeof(float));
}

static void check_unpack(struct bench *bench, struct hd_unpack unpack, size_t shift) {
	struct hd_stage_job job = {.kind = HD_STAGE_UNPACK, .unpack = unpack};
	struct hd_stage_job back = {.kind = HD_STAGE_PACK};

	memcpy(bench->ours, bench->values, ROOM * sizeof(float));
	job.unpack.from = bench->ours;
	job.unpack.to = bench->far_copy + shift;
	device_run(bench->device, &job);
	unpack.from = bench->values;
	unpack.to = bench->copy;
	for (uint64_t b = 0; b < hd_stage_blocks(unpack.values); b++)
		hd_unpack_block(&unpack, b);
	back.pack.from = bench->far_copy + shift;
	back.pack.to = bench->theirs;
	back.pack.flags = bench->flags;
	back.pack.values = unpack.values;
	back.pack.weight = 1;
	device_run(bench->device, &back);
	assert_memory_equal(bench->theirs, bench->copy, unpack.values * sizeof(float));
}

void device_check_stages(struct hd_device *device) {
	static const uint64_t sizes[]
		= {1,
		   3,
		   7,
		   8,
		   9,
		   127,
		   4095,
		   4097,
		   HD_STAGE_VALUES - 1,
		   HD_STAGE_VALUES,
		   HD_STAGE_VALUES + 1,
		   2 * HD_STAGE_VALUES + 4099};
	static const float weights[] = {1.0F, 0.37F, 0.0F, 3.5F};
	struct bench bench;

	bench_init(&bench, device);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes * 4 * SHIFTS; i++) {
		const uint64_t values = sizes[i / (4 * SHIFTS)];
		const uint8_t dtype = (uint8_t)(i / SHIFTS % 4); /* fp32, fp16, bf16, fixed32 */
		const size_t shift = i % SHIFTS;

		for (size_t w = 0; w < 4; w++)
			check_pack(
				&bench,
				(struct hd_pack){
					.values = values,
					.weight = weights[w],
					.unit = 0x1p20F,
					.generation = GENERATION,
					.dtype = dtype,
				},
				shift
			);
		for (size_t w = 0; w < 2; w++)
			check_take(
				&bench,
				(struct hd_take
				){.values = values, .scale = weights[w], .dtype = dtype},
				shift
			);
		check_unpack(
			&bench,
			(struct hd_unpack){.values = values, .unit = 0x1p-20F, .dtype = dtype},
			shift
		);
	}
	bench_fini(&bench);
}

/* --- flags ---------------------------------------------------------------------------------- */

#define RING_BLOCKS 64

static bool
look(const uint64_t *flags, uint64_t block, uint32_t generation, const float *ring, float first) {
	uint64_t flag = __atomic_load_n(&flags[block], __ATOMIC_ACQUIRE);

	if ((uint32_t)flag != generation)
		return false;
	for (size_t i = 0; i < HD_STAGE_VALUES; i++)
		assert_true(ring[block * HD_STAGE_VALUES + i] == first + (float)(i % 7));
	return true;
}

uint64_t device_check_flags(struct hd_device *device, uint32_t generation) {
	const size_t count = (size_t)RING_BLOCKS * HD_STAGE_VALUES;
	float *values = malloc(count * sizeof *values), *far;
	float *ring = device_host(device, count * sizeof *ring);
	uint64_t *flags = (uint64_t *)(void *)device_host(device, RING_BLOCKS * sizeof *flags);
	struct hd_stage_job job = {.kind = HD_STAGE_PACK};
	bool seen[RING_BLOCKS] = {false};
	uint64_t blocks = 0, early = 0;
	void *event;

	for (size_t i = 0; i < count; i++) {
		const size_t block = i / HD_STAGE_VALUES;

		values[i] = (float)(generation + block + i % HD_STAGE_VALUES % 7);
	}
	far = device_filled(device, values, count);
	memset(ring, 0xff, count * sizeof *ring);
	memset(flags, 0, RING_BLOCKS * sizeof *flags);
	job.pack = (struct hd_pack
	){.from = far,
	  .to = ring,
	  .values = count,
	  .flags = flags,
	  .weight = 1,
	  .generation = generation};
	assert_int_equal(device->ops->event_create(device, &event), 0);
	assert_int_equal(device->ops->launch(device, NULL, &job), 0);
	assert_int_equal(device->ops->record(device, event, NULL), 0);
	while (blocks < RING_BLOCKS) {
		int rc = device->ops->done(device, event);

		assert_in_range(rc, 0, 1);
		for (uint64_t b = 0; b < RING_BLOCKS; b++) {
			if (seen[b] || !look(flags, b, generation, ring, (float)(generation + b)))
				continue;
			seen[b] = true;
			blocks++;
			early += rc == 0;
		}
		assert_true(rc == 0 || blocks == RING_BLOCKS);
	}
	assert_int_equal(hd_device_wait(device, event, PATIENCE), 0);
	device->ops->event_destroy(device, event);
	device->ops->release(device, far);
	device->ops->host_release(device, ring);
	device->ops->host_release(device, flags);
	free(values);
	return early;
}

/* --- order ---------------------------------------------------------------------------------- */

struct lane {
	void *stream, *event;
	float *host, *near, *next, *sent; /* in: registered; two of the device's; out: registered */
	struct hd_stage_sums *sums;
	uint64_t *flags;
	float expected;
};

static void lane_init(struct lane *lane, struct hd_device *device) {
	const size_t bytes = (HD_STAGE_VALUES + 1000) * sizeof(float);
	void *memory;

	assert_int_equal(device->ops->stream_create(device, &lane->stream), 0);
	assert_int_equal(device->ops->event_create(device, &lane->event), 0);
	assert_int_equal(device->ops->allocate(device, bytes, &memory), 0);
	lane->near = memory;
	assert_int_equal(device->ops->allocate(device, bytes, &memory), 0);
	lane->next = memory;
	lane->host = device_host(device, bytes);
	lane->sent = device_host(device, bytes);
	lane->sums = (struct hd_stage_sums *)(void *)device_host(device, 2 * sizeof *lane->sums);
	lane->flags = (uint64_t *)(void *)device_host(device, 2 * sizeof *lane->flags);
	memset(lane->flags, 0, 2 * sizeof *lane->flags);
}

static void lane_fini(struct lane *lane, struct hd_device *device) {
	device->ops->stream_destroy(device, lane->stream);
	device->ops->event_destroy(device, lane->event);
	device->ops->release(device, lane->near);
	device->ops->release(device, lane->next);
	device->ops->host_release(device, lane->host);
	device->ops->host_release(device, lane->sent);
	device->ops->host_release(device, lane->sums);
	device->ops->host_release(device, lane->flags);
}

/* The lane's values times 2, or another lane's, once that one has come so far. */
static void lane_step(struct lane *lane, struct lane *other, struct hd_device *device) {
	struct hd_stage_job job = {.kind = HD_STAGE_TAKE};
	float *to = lane->next;

	if (other != lane) {
		assert_int_equal(device->ops->record(device, other->event, other->stream), 0);
		assert_int_equal(device->ops->after(device, lane->stream, other->event), 0);
	}
	job.take = (struct hd_take
	){.from = other->near,
	  .copy = to,
	  .scale = 2,
	  .values = HD_STAGE_VALUES + 1000,
	  .sums = lane->sums};
	assert_int_equal(device->ops->launch(device, lane->stream, &job), 0);
	/* The other may go on once this was read. */
	if (other != lane) {
		assert_int_equal(device->ops->record(device, lane->event, lane->stream), 0);
		assert_int_equal(device->ops->after(device, other->stream, lane->event), 0);
	}
	lane->next = lane->near;
	lane->near = to;
	lane->expected = 2 * other->expected;
}

void device_check_order(struct hd_device *device, uint64_t seed) {
	struct lane *lanes = calloc(STREAMS, sizeof *lanes);
	const size_t count = HD_STAGE_VALUES + 1000;
	struct hd_random random;

	hd_random_init(&random, seed);
	for (size_t i = 0; i < STREAMS; i++) {
		struct hd_stage_job job = {.kind = HD_STAGE_UNPACK};

		lane_init(&lanes[i], device);
		lanes[i].expected = (float)(i + 1);
		for (size_t k = 0; k < count; k++)
			lanes[i].host[k] = lanes[i].expected;
		job.unpack = (struct hd_unpack
		){.from = lanes[i].host, .to = lanes[i].near, .values = count};
		assert_int_equal(device->ops->launch(device, lanes[i].stream, &job), 0);
	}
	for (size_t i = 0; i < (size_t)STREAMS * LINKS; i++) {
		size_t own = hd_random_u64(&random) % STREAMS;
		bool alone = hd_random_u64(&random) % 2 == 0;

		lane_step(
			&lanes[own], &lanes[alone ? own : hd_random_u64(&random) % STREAMS], device
		);
	}
	for (size_t i = 0; i < STREAMS; i++) {
		struct hd_stage_job job = {.kind = HD_STAGE_PACK};

		job.pack = (struct hd_pack
		){.from = lanes[i].near,
		  .to = lanes[i].sent,
		  .values = count,
		  .flags = lanes[i].flags,
		  .weight = 1,
		  .generation = 1};
		assert_int_equal(device->ops->launch(device, lanes[i].stream, &job), 0);
		assert_int_equal(device->ops->record(device, lanes[i].event, lanes[i].stream), 0);
	}
	for (size_t i = 0; i < STREAMS; i++) {
		assert_int_equal(hd_device_wait(device, lanes[i].event, PATIENCE), 0);
		for (size_t k = 0; k < count; k++)
			assert_true(lanes[i].sent[k] == lanes[i].expected);
	}
	for (size_t i = 0; i < STREAMS; i++)
		lane_fini(&lanes[i], device);
	free(lanes);
}

/* --- memory --------------------------------------------------------------------------------- */

void device_check_memory(struct hd_device *device) {
	struct hd_device *found = NULL;
	float on_stack[4];
	void *memory, *host;

	assert_int_equal(device->ops->allocate(device, 4096, &memory), 0);
	assert_int_equal(hd_device_of(memory, 4096, &found), 0);
	assert_ptr_equal(found, device);
	assert_int_equal(hd_device_of((char *)memory + 96, 4000, &found), 0);
	assert_int_equal(hd_device_of((char *)memory + 96, 40000000, &found), -EINVAL);
	assert_non_null(strstr(hd_device_words(), "beyond"));
	device->ops->release(device, memory);
	assert_int_equal(hd_device_of(memory, 4096, &found), -EINVAL);
	assert_non_null(strstr(hd_device_words(), "freed"));
	assert_int_equal(hd_device_of(on_stack, sizeof on_stack, &found), -EINVAL);
	assert_non_null(strstr(hd_device_words(), "not memory of a"));
	host = device_host(device, 4096);
	assert_int_equal(hd_device_of(host, 4096, &found), -EINVAL);
	device->ops->host_release(device, host);
}
