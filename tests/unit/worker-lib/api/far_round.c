/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective of three workers: see far_round.h. */
#include "device_check.h"
#include "far_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS 30000
#define MARK 0xa5
#define BEHIND 5 /* values behind a result for which there is room, */
#define GUARD ((uint64_t)9) /* and behind those that are not the library's */

static const int RANKS[FAR_WORKERS] = {3, 9, 14};

/* --- workers -------------------------------------------------------------------------------- */

void far_group_open(
	struct far_group *group,
	struct hd_device *device,
	const char *job,
	const char *const hosts[FAR_WORKERS]
) {
	group->device = device;
	group->nodes = far_nodes_start();
	assert_int_equal(setenv("HEDDLE_WORLD_SIZE", "3", 1), 0);
	for (int i = 0; i < FAR_WORKERS; i++)
		group->worker[i] = far_nodes_join(group->nodes, job, hosts[i], RANKS[i]);
	assert_int_equal(unsetenv("HEDDLE_WORLD_SIZE"), 0);
}

void far_group_close(struct far_group *group, int timeout_ms) {
	for (int i = 0; i < FAR_WORKERS; i++)
		(void)heddle_close(group->worker[i], timeout_ms);
	far_nodes_stop(group->nodes);
}

/* --- values --------------------------------------------------------------------------------- */

size_t far_value_bytes(enum heddle_type type) {
	static const size_t bytes[] = {
		[HEDDLE_TYPE_FP32] = 4,
		[HEDDLE_TYPE_FP16] = 2,
		[HEDDLE_TYPE_BF16] = 2,
		[HEDDLE_TYPE_FP64] = 8,
		[HEDDLE_TYPE_INT8] = 1,
		[HEDDLE_TYPE_UINT8] = 1,
		[HEDDLE_TYPE_INT32] = 4,
		[HEDDLE_TYPE_INT64] = 8,
	};

	return bytes[type];
}

static void put(enum heddle_type type, char *to, uint64_t at, int value) {
	const size_t bytes = far_value_bytes(type);
	const float f = (float)value;
	const double d = value;
	const int64_t i = value; /* little-endian: its first bytes are those of the shorter types */
	const uint16_t half = type == HEDDLE_TYPE_FP16 ? hd_stage_f16(f) : hd_stage_bf16(f);

	memcpy(to + at * bytes,
	       type == HEDDLE_TYPE_FP32                                     ? (const void *)&f :
		       type == HEDDLE_TYPE_FP64                             ? (const void *)&d :
		       type == HEDDLE_TYPE_FP16 || type == HEDDLE_TYPE_BF16 ? (const void *)&half :
									      (const void *)&i,
	       bytes);
}

static int given(unsigned worker, uint64_t at) {
	return (int)((at * (worker + 3) + worker) % 13) - 6;
}

static int sum(uint64_t at) {
	int all = 0;

	for (unsigned i = 0; i < FAR_WORKERS; i++)
		all += given(i, at);
	return all;
}

static uint64_t first_of_block(const struct far_how *how, unsigned worker) {
	return worker * how->count / FAR_WORKERS;
}

static uint64_t block(const struct far_how *how, unsigned worker) {
	return first_of_block(how, worker + 1) - first_of_block(how, worker);
}

static bool is_root(const struct far_how *how, unsigned worker) {
	return worker == how->root;
}

static bool is_behind_root(const struct far_how *how, unsigned worker) {
	return worker == (how->root + 1) % FAR_WORKERS;
}

int far_rank(unsigned worker) {
	return RANKS[worker];
}

bool far_takes_part(const struct far_how *how, unsigned worker) {
	return how->kind != FAR_SEND || is_root(how, worker) || is_behind_root(how, worker);
}

bool far_gives(const struct far_how *how, unsigned worker) {
	if (how->kind == FAR_BROADCAST || how->kind == FAR_SCATTER || how->kind == FAR_SEND)
		return is_root(how, worker);
	return true;
}

bool far_receives(const struct far_how *how, unsigned worker) {
	if (how->kind == FAR_REDUCE || how->kind == FAR_GATHER)
		return is_root(how, worker);
	if (how->kind == FAR_BROADCAST)
		return !is_root(how, worker);
	return how->kind != FAR_SEND || is_behind_root(how, worker);
}

uint64_t far_result_count(const struct far_how *how, unsigned worker) {
	if (!far_receives(how, worker))
		return 0;
	switch (how->kind) {
	case FAR_ALLGATHER:
	case FAR_GATHER:
		return FAR_WORKERS * how->count;
	case FAR_REDUCE_SCATTER:
	case FAR_SCATTER:
		return block(how, worker);
	case FAR_ALLTOALL:
		return FAR_WORKERS * block(how, worker);
	default:
		return how->count;
	}
}

static int expected(const struct far_how *how, unsigned worker, uint64_t at) {
	const uint64_t first = first_of_block(how, worker), length = block(how, worker);

	switch (how->kind) {
	case FAR_ALLREDUCE:
	case FAR_REDUCE:
		return sum(at);
	case FAR_REDUCE_SCATTER:
		return sum(first + at);
	case FAR_ALLGATHER:
	case FAR_GATHER:
		return given((unsigned)(at / how->count), at % how->count);
	case FAR_ALLTOALL:
		return given((unsigned)(at / length), first + at % length);
	case FAR_SCATTER:
		return given(how->root, first + at);
	default:
		return given(how->root, at);
	}
}

/* --- one worker's part ---------------------------------------------------------------------- */

/* Room for blocks: more than the result may be said; for others it is the result's. */
static uint64_t room(const struct far_how *how, unsigned worker) {
	const bool blocks = how->kind == FAR_ALLGATHER || how->kind == FAR_GATHER
		|| how->kind == FAR_REDUCE_SCATTER || how->kind == FAR_SCATTER
		|| how->kind == FAR_ALLTOALL;

	return far_result_count(how, worker) + (blocks ? BEHIND : 0);
}

/* A buffer of the device, exactly as long as it has to be. */
static char *on_device(
	const struct far_group *group,
	const char *from,
	size_t bytes,
	size_t shift,
	void **memory
) {
	assert_int_equal(group->device->ops->allocate(group->device, shift + bytes, memory), 0);
	device_copy(group->device, (char *)*memory + shift, from, bytes, true);
	return (char *)*memory + shift;
}

void far_part_init(
	struct far_part *part,
	const struct far_group *group,
	const struct far_how *how,
	unsigned worker
) {
	const size_t value = far_value_bytes(how->type), shift = how->shift * value;
	size_t bytes;

	memset(part, 0, sizeof *part);
	part->room = room(how, worker);
	bytes = (part->room + GUARD) * value;
	part->in = malloc(how->count * value);
	part->out = malloc(bytes);
	for (uint64_t i = 0; i < how->count; i++)
		put(how->type, part->in, i, given(worker, i));
	memset(part->out, MARK, bytes);
	if (group->is_far[worker]) {
		part->far_in
			= on_device(group, part->in, how->count * value, shift, &part->in_memory);
		part->far_out = on_device(group, part->out, bytes, shift, &part->out_memory);
	} else {
		part->far_in = memcpy(malloc(how->count * value), part->in, how->count * value);
		part->far_out = memcpy(malloc(bytes), part->out, bytes);
	}
}

void far_part_fini(struct far_part *part, const struct far_group *group) {
	const struct hd_device_ops *ops = group->device->ops;

	if (part->in_memory) {
		ops->release(group->device, part->in_memory);
		ops->release(group->device, part->out_memory);
	} else {
		free(part->far_in);
		free(part->far_out);
	}
	heddle_ticket_free(part->ticket);
	free(part->in);
	free(part->out);
}

/* NOLINTNEXTLINE(readability-function-size): a call for each kind */
static int
start(const struct far_part *part,
      struct heddle *fabric,
      const struct far_how *how,
      unsigned worker,
      const struct heddle_collective_options *options,
      struct heddle_ticket **ticket) {
	const int root = RANKS[how->root];
	char *in = part->far_in, *out = part->far_out;
	const uint64_t count = how->count;

	switch (how->kind) {
	case FAR_ALLREDUCE:
		return heddle_allreduce_start(fabric, in, out, count, options, ticket);
	case FAR_BROADCAST:
		out = is_root(how, worker) ? in : out;
		return heddle_broadcast_start(fabric, out, count, root, options, ticket);
	case FAR_REDUCE:
		return heddle_reduce_start(fabric, in, out, count, root, options, ticket);
	case FAR_ALLGATHER:
		return heddle_allgather_start(fabric, in, out, count, options, ticket);
	case FAR_REDUCE_SCATTER:
		return heddle_reduce_scatter_start(fabric, in, out, count, options, ticket);
	case FAR_ALLTOALL:
		return heddle_alltoall_start(fabric, in, out, count, options, ticket);
	case FAR_GATHER:
		return heddle_gather_start(fabric, in, out, count, root, options, ticket);
	case FAR_SCATTER:
		return heddle_scatter_start(fabric, in, out, count, root, options, ticket);
	default:
		return is_root(how, worker) ? heddle_send_start(
			       fabric, in, count, RANKS[(worker + 1) % FAR_WORKERS], options, ticket
		       ) :
					      heddle_recv_start(
						      fabric, out, count, root, options, ticket
					      );
	}
}

int far_part_start(
	struct far_part *part,
	const struct far_group *group,
	const struct far_how *how,
	unsigned worker
) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;

	options.type = how->type;
	options.payload = how->payload;
	options.borrow = (int)(how->count % 2);
	if (how->kind != FAR_SEND) {
		options.exact = FAR_WORKERS;
		options.out_count = part->room;
	}
	if (group->is_far[worker]) {
		options.memory = HEDDLE_MEMORY_CUDA;
		options.stream = group->stream;
	}
	return start(part, group->worker[worker], how, worker, &options, &part->ticket);
}

struct heddle_status far_part_end(struct far_part *part) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	assert_int_equal(
		heddle_ticket_wait(part->ticket, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status), 0
	);
	return status;
}

/* The buffer of the host or the device, with the values behind the result. */
static char *
fetch(const struct far_part *part,
      const struct far_group *group,
      const struct far_how *how,
      unsigned worker) {
	const size_t bytes = (part->room + GUARD) * far_value_bytes(how->type);
	char *found = malloc(bytes);

	if (group->is_far[worker])
		device_copy(group->device, found, part->far_out, bytes, false);
	else
		memcpy(found, part->far_out, bytes);
	return found;
}

void far_part_untouched(
	const struct far_part *part,
	const struct far_group *group,
	const struct far_how *how,
	unsigned worker
) {
	char *found = fetch(part, group, how, worker);

	assert_memory_equal(found, part->out, (part->room + GUARD) * far_value_bytes(how->type));
	free(found);
}

void far_part_found(
	struct far_part *part,
	const struct far_group *group,
	const struct far_how *how,
	unsigned worker
) {
	const size_t value = far_value_bytes(how->type);
	const uint64_t count = far_result_count(how, worker);
	char *found = fetch(part, group, how, worker);

	for (uint64_t i = 0; i < count; i++)
		put(how->type, part->out, i, expected(how, worker, i));
	assert_memory_equal(found, part->out, count * value);
	/* Values behind the result, within the room, are undefined. */
	assert_memory_equal(
		found + part->room * value, part->out + part->room * value, GUARD * value
	);
	free(found);
}

void far_part_check(
	struct far_part *part,
	const struct far_group *group,
	const struct far_how *how,
	unsigned worker
) {
	const struct heddle_status status = far_part_end(part);

	assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
	if (how->kind != FAR_SEND)
		assert_int_equal(status.workers, FAR_WORKERS);
	far_part_found(part, group, how, worker);
}

void far_round(const struct far_group *group, const struct far_how *how) {
	struct far_part part[FAR_WORKERS] = {0};

	for (unsigned i = 0; i < FAR_WORKERS; i++)
		if (far_takes_part(how, i))
			far_part_init(&part[i], group, how, i);
	for (unsigned i = 0; i < FAR_WORKERS; i++)
		if (far_takes_part(how, i))
			assert_int_equal(far_part_start(&part[i], group, how, i), 0);
	for (unsigned i = 0; i < FAR_WORKERS; i++) {
		if (!far_takes_part(how, i))
			continue;
		far_part_check(&part[i], group, how, i);
		far_part_fini(&part[i], group);
	}
}
