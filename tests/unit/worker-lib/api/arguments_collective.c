/* SPDX-License-Identifier: BSD-3-Clause */
/* NULL and nonsense for the collectives besides the all-reduce. */
#include "arguments.h"

#define NONE (&s->none)

static struct heddle_collective_options four(void) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;

	options.exact = 4;
	return options;
}

/* The options that all of them refuse. */
static void check_options(
	struct arguments_scene *s,
	int (*call)(struct arguments_scene *s, const struct heddle_collective_options *options)
) {
	struct heddle_collective_options options = four();

	options.size--;
	refused(call(s, &options), "options: size");
	options = four();
	options.stream = s->data;
	refused(call(s, &options), "stream");
	options = four();
	options.memory = (enum heddle_memory)NONSENSE;
	refused(call(s, &options), "memory: kind");
	options = four();
	options.payload = (enum heddle_payload)NONSENSE;
	refused(call(s, &options), "payload");
	options = four();
	options.exact = HEDDLE_WORKERS_MAX + 1;
	refused(call(s, &options), "exact");
	options = four();
	options.least = 3;
	refused(call(s, &options), "least: 3, and exact: 4");
	options.exact = 0;
	options.out_count = VALUES;
	options.least = HEDDLE_WORKERS_MAX + 1;
	refused(call(s, &options), "least: 4097, more than 4096");
	options = four();
	options.tag = "\x01";
	refused(call(s, &options), "tag: not UTF-8");
	options = four();
	says(call(s, &options), -EDESTADDRREQ, "controller: ");
}

static int
call_barrier(struct arguments_scene *s, const struct heddle_collective_options *options) {
	return heddle_barrier_start(s->fabric, options, NONE);
}

static void barrier_start(struct arguments_scene *s) {
	struct heddle_collective_options options = four();

	refused(heddle_barrier_start(NULL, NULL, NONE), "handle: NULL");
	refused(heddle_barrier_start(s->fabric, NULL, NULL), "ticket: NULL");
	options.reduce_op = HEDDLE_REDUCE_OP_AVERAGE;
	refused(heddle_barrier_start(s->fabric, &options, NONE), "not added");
	options = four();
	options.memory = HEDDLE_MEMORY_CUDA;
	says(heddle_barrier_start(s->fabric, &options, NONE), -ENOTSUP, "memory: CUDA");
	check_options(s, call_barrier);
}

static void barrier(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	refused(heddle_barrier(NULL, NULL, -1, NULL), "handle: NULL");
	status.size = 0;
	refused(heddle_barrier(s->fabric, NULL, -1, &status), "status: size");
}

static int
call_broadcast(struct arguments_scene *s, const struct heddle_collective_options *options) {
	return heddle_broadcast_start(s->fabric, s->data, VALUES, 0, options, NONE);
}

static void broadcast_start(struct arguments_scene *s) {
	float *d = s->data;

	refused(heddle_broadcast_start(NULL, d, VALUES, 0, NULL, NONE), "handle: NULL");
	refused(heddle_broadcast_start(s->fabric, NULL, VALUES, 0, NULL, NONE), "data: NULL");
	refused(heddle_broadcast_start(s->fabric, d, VALUES, 0, NULL, NULL), "ticket: NULL");
	refused(heddle_broadcast_start(s->fabric, d, VALUES, -1, NULL, NONE), "root: -1");
	refused(heddle_broadcast_start(s->fabric, d, VALUES, HEDDLE_WORKERS_MAX, NULL, NONE),
		"root");
	refused(heddle_broadcast_start(s->fabric, d, 0, 0, NULL, NONE), "count: 0");
	refused(heddle_broadcast_start(s->fabric, d, UINT64_MAX, 0, NULL, NONE), "count");
	check_options(s, call_broadcast);
}

static void broadcast(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	refused(heddle_broadcast(NULL, s->data, VALUES, 0, NULL, -1, NULL), "handle: NULL");
	refused(heddle_broadcast(s->fabric, NULL, VALUES, 0, NULL, -1, NULL), "data: NULL");
	status.size = 0;
	refused(heddle_broadcast(s->fabric, s->data, VALUES, 0, NULL, -1, &status), "status: size");
}

static int call_reduce(struct arguments_scene *s, const struct heddle_collective_options *options) {
	return heddle_reduce_start(s->fabric, s->data, NULL, VALUES, 1, options, NONE);
}

static void reduce_start(struct arguments_scene *s) {
	float *d = s->data;

	refused(heddle_reduce_start(NULL, d, d, VALUES, 0, NULL, NONE), "handle: NULL");
	refused(heddle_reduce_start(s->fabric, NULL, d, VALUES, 0, NULL, NONE), "in: NULL");
	refused(heddle_reduce_start(s->fabric, d, NULL, VALUES, 0, NULL, NONE), "at the root");
	refused(heddle_reduce_start(s->fabric, d, d, VALUES, 0, NULL, NULL), "ticket: NULL");
	refused(heddle_reduce_start(s->fabric, d, d, VALUES, -1, NULL, NONE), "root");
	refused(heddle_reduce_start(s->fabric, d, d, 0, 0, NULL, NONE), "count: 0");
	check_options(s, call_reduce);
}

static void reduce(struct arguments_scene *s) {
	float *d = s->data;
	struct heddle_status status = HEDDLE_STATUS_INIT;

	refused(heddle_reduce(NULL, d, d, VALUES, 0, NULL, -1, NULL), "handle: NULL");
	refused(heddle_reduce(s->fabric, NULL, d, VALUES, 0, NULL, -1, NULL), "in: NULL");
	status.size = 0;
	refused(heddle_reduce(s->fabric, d, d, VALUES, 0, NULL, -1, &status), "status: size");
}

static int
call_allgather(struct arguments_scene *s, const struct heddle_collective_options *options) {
	return heddle_allgather_start(s->fabric, s->data, s->data, 1, options, NONE);
}

static void allgather_start(struct arguments_scene *s) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	float *d = s->data;

	refused(heddle_allgather_start(NULL, d, d, 1, NULL, NONE), "handle: NULL");
	refused(heddle_allgather_start(s->fabric, NULL, d, 1, NULL, NONE), "in or out: NULL");
	refused(heddle_allgather_start(s->fabric, d, NULL, 1, NULL, NONE), "in or out: NULL");
	refused(heddle_allgather_start(s->fabric, d, d, 1, NULL, NULL), "ticket: NULL");
	refused(heddle_allgather_start(s->fabric, d, d, 1, NULL, NONE), "out_count: 0");
	refused(heddle_allgather_start(s->fabric, d, d, 1, &options, NONE), "out_count: 0");
	options.out_count = UINT64_MAX;
	refused(heddle_allgather_start(s->fabric, d, d, 1, &options, NONE), "out_count: more");
	check_options(s, call_allgather);
}

static void allgather(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_collective_options options = four();
	float *d = s->data;

	refused(heddle_allgather(NULL, d, d, 1, &options, -1, NULL), "handle: NULL");
	refused(heddle_allgather(s->fabric, NULL, d, 1, &options, -1, NULL), "in or out: NULL");
	status.size = 0;
	refused(heddle_allgather(s->fabric, d, d, 1, &options, -1, &status), "status: size");
}

static int
call_reduce_scatter(struct arguments_scene *s, const struct heddle_collective_options *options) {
	return heddle_reduce_scatter_start(s->fabric, s->data, s->data, VALUES, options, NONE);
}

static void reduce_scatter_start(struct arguments_scene *s) {
	float *d = s->data;

	refused(heddle_reduce_scatter_start(NULL, d, d, VALUES, NULL, NONE), "handle: NULL");
	refused(heddle_reduce_scatter_start(s->fabric, NULL, d, VALUES, NULL, NONE), "in or out");
	refused(heddle_reduce_scatter_start(s->fabric, d, NULL, VALUES, NULL, NONE), "in or out");
	refused(heddle_reduce_scatter_start(s->fabric, d, d, VALUES, NULL, NULL), "ticket: NULL");
	refused(heddle_reduce_scatter_start(s->fabric, d, d, VALUES, NULL, NONE), "out_count: 0");
	check_options(s, call_reduce_scatter);
}

static void reduce_scatter(struct arguments_scene *s) {
	struct heddle_collective_options options = four();
	struct heddle_status status = HEDDLE_STATUS_INIT;
	float *d = s->data;

	refused(heddle_reduce_scatter(NULL, d, d, VALUES, &options, -1, NULL), "handle: NULL");
	refused(heddle_reduce_scatter(s->fabric, d, NULL, VALUES, &options, -1, NULL), "in or out");
	status.size = 0;
	refused(heddle_reduce_scatter(s->fabric, d, d, VALUES, &options, -1, &status), "status");
}

static int
call_alltoall(struct arguments_scene *s, const struct heddle_collective_options *options) {
	return heddle_alltoall_start(s->fabric, s->data, s->data, VALUES, options, NONE);
}

static void alltoall_start(struct arguments_scene *s) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	float *d = s->data;

	refused(heddle_alltoall_start(NULL, d, d, VALUES, NULL, NONE), "handle: NULL");
	refused(heddle_alltoall_start(s->fabric, NULL, d, VALUES, NULL, NONE), "in or out");
	refused(heddle_alltoall_start(s->fabric, d, NULL, VALUES, NULL, NONE), "in or out");
	refused(heddle_alltoall_start(s->fabric, d, d, VALUES, NULL, NULL), "ticket: NULL");
	refused(heddle_alltoall_start(s->fabric, d, d, VALUES, NULL, NONE), "out_count: 0");
	options.out_count = UINT64_MAX;
	refused(heddle_alltoall_start(s->fabric, d, d, VALUES, &options, NONE), "out_count: more");
	options = four();
	options.ranked = 1;
	refused(heddle_alltoall_start(s->fabric, d, d, VALUES, &options, NONE), "ranked");
	check_options(s, call_alltoall);
}

static void alltoall(struct arguments_scene *s) {
	struct heddle_collective_options options = four();
	struct heddle_status status = HEDDLE_STATUS_INIT;
	float *d = s->data;

	refused(heddle_alltoall(NULL, d, d, VALUES, &options, -1, NULL), "handle: NULL");
	refused(heddle_alltoall(s->fabric, d, NULL, VALUES, &options, -1, NULL), "in or out");
	status.size = 0;
	refused(heddle_alltoall(s->fabric, d, d, VALUES, &options, -1, &status), "status");
}

static int call_gather(struct arguments_scene *s, const struct heddle_collective_options *options) {
	return heddle_gather_start(s->fabric, s->data, s->data, 1, 0, options, NONE);
}

static void gather_start(struct arguments_scene *s) {
	float *d = s->data;

	refused(heddle_gather_start(NULL, d, d, 1, 0, NULL, NONE), "handle: NULL");
	refused(heddle_gather_start(s->fabric, NULL, d, 1, 0, NULL, NONE), "in: NULL");
	refused(heddle_gather_start(s->fabric, d, NULL, 1, 0, NULL, NONE), "at the root");
	refused(heddle_gather_start(s->fabric, d, d, 1, 0, NULL, NULL), "ticket: NULL");
	refused(heddle_gather_start(s->fabric, d, d, 1, 0, NULL, NONE), "out_count: 0");
	refused(heddle_gather_start(s->fabric, d, d, 1, -1, NULL, NONE), "root");
	check_options(s, call_gather);
}

static void gather(struct arguments_scene *s) {
	struct heddle_collective_options options = four();
	struct heddle_status status = HEDDLE_STATUS_INIT;
	float *d = s->data;

	refused(heddle_gather(NULL, d, d, 1, 0, &options, -1, NULL), "handle: NULL");
	refused(heddle_gather(s->fabric, NULL, d, 1, 0, &options, -1, NULL), "in: NULL");
	status.size = 0;
	refused(heddle_gather(s->fabric, d, d, 1, 0, &options, -1, &status), "status: size");
}

static int
call_scatter(struct arguments_scene *s, const struct heddle_collective_options *options) {
	return heddle_scatter_start(s->fabric, s->data, s->data, VALUES, 0, options, NONE);
}

static void scatter_start(struct arguments_scene *s) {
	float *d = s->data;

	refused(heddle_scatter_start(NULL, d, d, VALUES, 0, NULL, NONE), "handle: NULL");
	refused(heddle_scatter_start(s->fabric, NULL, d, VALUES, 0, NULL, NONE), "at the root");
	refused(heddle_scatter_start(s->fabric, d, NULL, VALUES, 0, NULL, NONE), "out: NULL");
	refused(heddle_scatter_start(s->fabric, d, d, VALUES, 0, NULL, NULL), "ticket: NULL");
	refused(heddle_scatter_start(s->fabric, d, d, VALUES, 0, NULL, NONE), "out_count: 0");
	refused(heddle_scatter_start(s->fabric, d, d, VALUES, 4096, NULL, NONE), "root: 4096");
	check_options(s, call_scatter);
}

static void scatter(struct arguments_scene *s) {
	struct heddle_collective_options options = four();
	struct heddle_status status = HEDDLE_STATUS_INIT;
	float *d = s->data;

	refused(heddle_scatter(NULL, d, d, VALUES, 0, &options, -1, NULL), "handle: NULL");
	refused(heddle_scatter(s->fabric, d, NULL, VALUES, 0, &options, -1, NULL), "out: NULL");
	status.size = 0;
	refused(heddle_scatter(s->fabric, d, d, VALUES, 0, &options, -1, &status), "status: size");
}

static void block(struct arguments_scene *s) {
	uint64_t first = 7, length = 7, next = 0;

	(void)s;
	refused(heddle_block(10, 0, 3, NULL, &length), "NULL");
	refused(heddle_block(10, 0, 3, &first, NULL), "NULL");
	refused(heddle_block(10, 3, 3, &first, &length), "index: 3");
	refused(heddle_block(10, 0, 0, &first, &length), "index: 0");
	refused(heddle_block(10, 0, HEDDLE_WORKERS_MAX + 1, &first, &length), "index");
	refused(heddle_block(UINT64_MAX, 0, 3, &first, &length), "count");
	assert_int_equal(first, 7);
	assert_int_equal(length, 7);
	for (unsigned i = 0; i < 3; i++, next = first + length) {
		assert_int_equal(heddle_block(10, i, 3, &first, &length), 0);
		assert_int_equal(first, next);
		assert_in_range(length, 3, 4);
	}
	assert_int_equal(next, 10);
}

static void ticket_members(struct arguments_scene *s) {
	int ranks[2] = {7, 7};

	refused(heddle_ticket_members(NULL, ranks, 2), "ticket: NULL");
	refused(heddle_ticket_members(s->ticket, NULL, 2), "ranks: NULL");
	says(heddle_ticket_members(s->ticket, ranks, 2), -ENODATA, "not applied");
	assert_int_equal(ranks[0], 7);
}

const struct arguments_row arguments_collective[] = {
	{"heddle_allgather", allgather},
	{"heddle_allgather_start", allgather_start},
	{"heddle_alltoall", alltoall},
	{"heddle_alltoall_start", alltoall_start},
	{"heddle_barrier", barrier},
	{"heddle_barrier_start", barrier_start},
	{"heddle_block", block},
	{"heddle_broadcast", broadcast},
	{"heddle_broadcast_start", broadcast_start},
	{"heddle_gather", gather},
	{"heddle_gather_start", gather_start},
	{"heddle_reduce", reduce},
	{"heddle_reduce_scatter", reduce_scatter},
	{"heddle_reduce_scatter_start", reduce_scatter_start},
	{"heddle_reduce_start", reduce_start},
	{"heddle_scatter", scatter},
	{"heddle_scatter_start", scatter_start},
	{"heddle_ticket_members", ticket_members},
	{0},
};
