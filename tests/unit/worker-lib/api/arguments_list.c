/* SPDX-License-Identifier: BSD-3-Clause */
/* NULL and nonsense for the collectives of lists. */
#include "arguments.h"

#include <stdint.h>

#define NONE (&s->none)
#define PARTS 3

/* Two halves of the scene's data, and nothing between them. */
static struct heddle_part *halves(struct arguments_scene *s) {
	static struct heddle_part parts[PARTS];

	parts[0] = (struct heddle_part){s->data + VALUES / 2, VALUES / 2};
	parts[1] = (struct heddle_part){NULL, 0};
	parts[2] = (struct heddle_part){s->data, VALUES / 2};
	return parts;
}

typedef int list_call(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);

/* The lists that all of them refuse. */
static void check_parts(struct arguments_scene *s, list_call *call) {
	static struct heddle_part many[HEDDLE_PARTS_MAX + 1];
	struct heddle_part *parts = halves(s);

	refused(call(NULL, parts, PARTS, NULL, NONE), "handle: NULL");
	refused(call(s->fabric, NULL, PARTS, NULL, NONE), "parts: NULL");
	refused(call(s->fabric, parts, PARTS, NULL, NULL), "ticket: NULL");
	refused(call(s->fabric, NULL, 0, NULL, NONE), "count: 0");
	refused(call(s->fabric, parts + 1, 1, NULL, NONE), "count: 0");
	refused(call(s->fabric, many, HEDDLE_PARTS_MAX, NULL, NONE), "count: 0");
	refused(call(s->fabric, many, HEDDLE_PARTS_MAX + 1, NULL, NONE), "part_count: 65537");
	parts[1].count = 1;
	refused(call(s->fabric, parts, PARTS, NULL, NONE), "parts[1].data: NULL");
	parts[1].data = s->data + 1;
	refused(call(s->fabric, parts, PARTS, NULL, NONE), "parts: 2 and 1 overlap");
	parts[1].data = s->data + VALUES / 2;
	refused(call(s->fabric, parts, PARTS, NULL, NONE), "overlap");
	parts[1].count = UINT64_MAX;
	refused(call(s->fabric, parts, PARTS, NULL, NONE), "parts[1].count: more");
	parts[1].count = UINT64_C(1) << 40; /* no sum of counts overflows */
	refused(call(s->fabric, parts, PARTS, NULL, NONE), "count: more");
}

/* The options that all of them refuse. */
static void check_options(struct arguments_scene *s, list_call *call) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	const struct heddle_part *parts = halves(s);

	options.size--;
	refused(call(s->fabric, parts, PARTS, &options, NONE), "options: size");
	options.size++;
	options.memory = HEDDLE_MEMORY_CUDA;
	says(call(s->fabric, parts, PARTS, &options, NONE), -ENOTSUP, "memory: CUDA");
	options.memory = HEDDLE_MEMORY_HOST;
	options.type = (enum heddle_type)NONSENSE;
	refused(call(s->fabric, parts, PARTS, &options, NONE), "type: 256");
	options.type = HEDDLE_TYPE_INT64; /* what has room for half as many fp32 */
	refused(call(s->fabric, parts, PARTS, &options, NONE), "parts: 2 and 0 overlap");
	options.type = HEDDLE_TYPE_FP32;
	options.payload = (enum heddle_payload)NONSENSE;
	refused(call(s->fabric, parts, PARTS, &options, NONE), "payload");
	options.payload = HEDDLE_PAYLOAD_FP32;
	options.exact = HEDDLE_WORKERS_MAX + 1;
	refused(call(s->fabric, parts, PARTS, &options, NONE), "exact");
	options.exact = 0;
	options.tag = "\x01";
	refused(call(s->fabric, parts, PARTS, &options, NONE), "tag: not UTF-8");
	says(call(s->fabric, parts, PARTS, NULL, NONE), -EDESTADDRREQ, "controller: ");
}

static void allreduce_list_start(struct arguments_scene *s) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;

	check_parts(s, heddle_allreduce_list_start);
	check_options(s, heddle_allreduce_list_start);
	options.reduce_op = (enum heddle_reduce_op)NONSENSE;
	refused(heddle_allreduce_list_start(s->fabric, halves(s), PARTS, &options, NONE),
		"reduce_op");
}

static void allreduce_list(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	const struct heddle_part *parts = halves(s);

	refused(heddle_allreduce_list(NULL, parts, PARTS, NULL, -1, NULL), "handle: NULL");
	refused(heddle_allreduce_list(s->fabric, NULL, PARTS, NULL, -1, NULL), "parts: NULL");
	refused(heddle_allreduce_list(s->fabric, parts, 0, NULL, -1, NULL), "count: 0");
	status.size = 0;
	refused(heddle_allreduce_list(s->fabric, parts, PARTS, NULL, -1, &status), "status: size");
}

static int broadcast_of_0(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	return heddle_broadcast_list_start(fabric, parts, count, 0, options, ticket);
}

static void broadcast_list_start(struct arguments_scene *s) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	const struct heddle_part *parts = halves(s);

	check_parts(s, broadcast_of_0);
	check_options(s, broadcast_of_0);
	refused(heddle_broadcast_list_start(s->fabric, parts, PARTS, -1, NULL, NONE), "root: -1");
	refused(heddle_broadcast_list_start(s->fabric, parts, PARTS, 4096, NULL, NONE), "root");
	options.ranked = 1;
	refused(heddle_broadcast_list_start(s->fabric, parts, PARTS, 0, &options, NONE), "ranked");
}

static void broadcast_list(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	const struct heddle_part *parts = halves(s);

	refused(heddle_broadcast_list(NULL, parts, PARTS, 0, NULL, -1, NULL), "handle: NULL");
	refused(heddle_broadcast_list(s->fabric, parts, PARTS, -1, NULL, -1, NULL), "root: -1");
	status.size = 0;
	refused(heddle_broadcast_list(s->fabric, parts, PARTS, 0, NULL, -1, &status), "status");
}

static int reduce_to_0(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	return heddle_reduce_list_start(fabric, parts, count, 0, options, ticket);
}

static void reduce_list_start(struct arguments_scene *s) {
	check_parts(s, reduce_to_0);
	check_options(s, reduce_to_0);
	refused(heddle_reduce_list_start(s->fabric, halves(s), PARTS, -1, NULL, NONE), "root: -1");
}

static void reduce_list(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	const struct heddle_part *parts = halves(s);

	refused(heddle_reduce_list(NULL, parts, PARTS, 0, NULL, -1, NULL), "handle: NULL");
	refused(heddle_reduce_list(s->fabric, NULL, PARTS, 0, NULL, -1, NULL), "parts: NULL");
	status.size = 0;
	refused(heddle_reduce_list(s->fabric, parts, PARTS, 0, NULL, -1, &status), "status");
}

const struct arguments_row arguments_list[] = {
	{"heddle_allreduce_list", allreduce_list},
	{"heddle_allreduce_list_start", allreduce_list_start},
	{"heddle_broadcast_list", broadcast_list},
	{"heddle_broadcast_list_start", broadcast_list_start},
	{"heddle_reduce_list", reduce_list},
	{"heddle_reduce_list_start", reduce_list_start},
	{0},
};
