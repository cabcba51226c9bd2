/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of values on a device: see far_check_collective.h. */
#include "device_check.h"
#include "far_check_collective.h"
#include "far_round.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS 30000
#define LONG 40001 /* values: of no multiple */
#define BEFORE 20 /* copies in a stream ahead of a call */

static const char *const APART[FAR_WORKERS] = {"h0", "h1", "h2"};
static const char *const TOGETHER[FAR_WORKERS] = {"h0", "h0", "h0"};

static bool is_sum(enum far_kind kind) {
	return kind == FAR_ALLREDUCE || kind == FAR_REDUCE || kind == FAR_REDUCE_SCATTER;
}

/* --- values --------------------------------------------------------------------------------- */

/* 2: a block of one worker is empty. Up to 4 KiB of a worker go with its request. */
static const uint64_t COUNTS[] = {2, 601, LONG};

static void each_type(const struct far_group *group, enum far_kind kind, uint64_t count) {
	for (unsigned type = 0; type <= HEDDLE_TYPE_INT64; type++) {
		struct far_how how = {
			.kind = kind,
			.type = (enum heddle_type)type,
			.count = count,
			.root = (type + kind) % FAR_WORKERS,
			.shift = (type + (unsigned)count) % 4,
		};

		far_round(group, &how);
		if (type != HEDDLE_TYPE_FP32 || !is_sum(kind))
			continue;
		how.payload = HEDDLE_PAYLOAD_BF16;
		far_round(group, &how);
	}
}

void far_check_collectives(struct hd_device *device, bool is_one_host) {
	struct far_group group = {.is_far = {true, false, true}};

	far_group_open(&group, device, "kinds", is_one_host ? TOGETHER : APART);
	for (unsigned kind = 0; kind < FAR_KINDS; kind++)
		for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++)
			each_type(&group, (enum far_kind)kind, COUNTS[i]);
	far_group_close(&group, PATIENCE_MS);
}

/* --- order ---------------------------------------------------------------------------------- */

struct copies {
	char *right, *wrong; /* registered */
	size_t bytes;
};

static void copies_init(struct copies *copies, const struct far_group *group, size_t bytes) {
	copies->bytes = bytes;
	copies->right = (char *)device_host(group->device, bytes);
	copies->wrong = (char *)device_host(group->device, bytes);
	memset(copies->wrong, 0x77, bytes);
}

static void copies_fini(const struct copies *copies, const struct far_group *group) {
	group->device->ops->host_release(group->device, copies->right);
	group->device->ops->host_release(group->device, copies->wrong);
}

static void
fill(const struct far_group *group, char *to, const char *from, size_t bytes, int times) {
	for (int i = 0; i < times; i++)
		assert_int_equal(
			group->device->ops->copy(group->device, group->stream, to, from, bytes), 0
		);
}

/* All that the group's stream has. */
static void drain(const struct far_group *group) {
	void *event;

	assert_int_equal(group->device->ops->event_create(group->device, &event), 0);
	assert_int_equal(group->device->ops->record(group->device, event, group->stream), 0);
	assert_int_equal(hd_device_wait(group->device, event, 60 * HD_SECOND), 0);
	group->device->ops->event_destroy(group->device, event);
}

/* Worker 0 is the device's: its stream fills both buffers, with what is wrong until the last. */
static void check_order(const struct far_group *group, enum far_kind kind, unsigned root) {
	const struct far_how how
		= {.kind = kind, .type = HEDDLE_TYPE_INT32, .count = LONG, .root = root};
	struct far_part part[FAR_WORKERS] = {0};
	struct copies in, out;

	for (unsigned i = 0; i < FAR_WORKERS; i++)
		if (far_takes_part(&how, i))
			far_part_init(&part[i], group, &how, i);
	copies_init(&in, group, LONG * sizeof(int32_t));
	copies_init(&out, group, part[0].room * sizeof(int32_t) + 1);
	memcpy(in.right, part[0].in, in.bytes);
	fill(group, part[0].far_in, in.wrong, in.bytes, BEFORE);
	fill(group, part[0].far_out, out.wrong, part[0].room * sizeof(int32_t), BEFORE);
	fill(group, part[0].far_in, in.right, in.bytes, 1);
	for (unsigned i = 0; i < FAR_WORKERS; i++)
		if (far_takes_part(&how, i))
			assert_int_equal(far_part_start(&part[i], group, &how, i), 0);
	fill(group, part[0].far_in, in.wrong, in.bytes, 1);
	for (unsigned i = 0; i < FAR_WORKERS; i++)
		if (far_takes_part(&how, i))
			far_part_check(&part[i], group, &how, i);
	drain(group);
	for (unsigned i = 0; i < FAR_WORKERS; i++)
		if (far_takes_part(&how, i))
			far_part_fini(&part[i], group);
	copies_fini(&in, group);
	copies_fini(&out, group);
}

void far_check_collective_order(struct hd_device *device) {
	struct far_group group = {.is_far = {true, false, false}};

	far_group_open(&group, device, "order", APART);
	assert_int_equal(device->ops->stream_create(device, &group.stream), 0);
	for (unsigned kind = 0; kind < FAR_KINDS; kind++)
		for (unsigned root = 0; root < FAR_WORKERS; root++)
			if (kind != FAR_SEND || root != 1) /* worker 0 takes part */
				check_order(&group, (enum far_kind)kind, root);
	far_group_close(&group, PATIENCE_MS);
	device->ops->stream_destroy(device, group.stream);
}

/* --- what is wrong -------------------------------------------------------------------------- */

static void
refused(struct far_part part, /* a copy, with a wrong address */
	const struct far_group *group,
	const struct far_how *how,
	const char *words) {
	assert_int_equal(far_part_start(&part, group, how, 0), -EINVAL);
	assert_null(part.ticket);
	assert_non_null(strstr(heddle_last_error(), words));
}

static void check_refusals(const struct far_group *group, const struct far_how *how) {
	const size_t value = far_value_bytes(how->type);
	struct far_part part, wrong;

	far_part_init(&part, group, how, 0);
	wrong = part;
	wrong.far_in = part.in;
	if (far_gives(how, 0))
		refused(wrong, group, how, "is not memory of a");
	wrong.far_in = part.far_in + value; /* the last value is beyond it */
	if (far_gives(how, 0))
		refused(wrong, group, how, "beyond their allocation");
	wrong = part;
	wrong.far_out = part.out;
	if (far_receives(how, 0))
		refused(wrong, group, how, "is not memory of a");
	wrong.far_out = part.far_out + 10 * value; /* nine are the guard */
	if (far_receives(how, 0))
		refused(wrong, group, how, "beyond their allocation");
	group->device->ops->release(group->device, part.in_memory);
	if (far_gives(how, 0))
		refused(part, group, how, "freed");
	assert_int_equal(
		group->device->ops->allocate(group->device, how->count * value, &part.in_memory), 0
	);
	far_part_fini(&part, group);
}

void far_check_collective_refusals(struct hd_device *device) {
	struct far_group group = {.is_far = {true, false, false}};

	far_group_open(&group, device, "refusals", APART);
	for (unsigned i = 0; i < FAR_KINDS * 2; i++) {
		struct far_how how = {.kind = (enum far_kind)(i / 2), .count = LONG};

		how.root = i % 2 == 0 ? 0 : FAR_WORKERS - 1;
		check_refusals(&group, &how);
	}
	/* Nothing of it has reached the other workers. */
	far_round(&group, &(struct far_how){.kind = FAR_ALLGATHER, .count = LONG});
	far_round(&group, &(struct far_how){.kind = FAR_SEND, .count = LONG});
	far_group_close(&group, PATIENCE_MS);
}

/* --- a wait that ends ----------------------------------------------------------------------- */

void far_check_collective_timeout(struct hd_device *device) {
	const struct far_how how = {.kind = FAR_ALLGATHER, .count = LONG};
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	struct far_group group = {.is_far = {true, false, false}};
	struct far_part part;

	far_group_open(&group, device, "timeout", APART);
	far_part_init(&part, &group, &how, 0);
	options.memory = HEDDLE_MEMORY_CUDA;
	options.out_count = part.room;
	assert_int_equal(
		heddle_allgather(
			group.worker[0], part.far_in, part.far_out, LONG, &options, 100, NULL
		),
		-ETIMEDOUT
	);
	far_part_untouched(&part, &group, &how, 0);
	far_part_fini(&part, &group);
	far_group_close(&group, PATIENCE_MS);
}
