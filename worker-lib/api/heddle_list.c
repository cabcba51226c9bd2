/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of many buffers, as the caller sees them: calls of one buffer, whose values heddle_parts.c gathers. */
#include "hd_message_codes.h"
#include "heddle_parts.h"

#include <errno.h>

/* Sets which values this worker gives and receives, of a call whose collective, root and parts are set. */
static int complete(
	struct heddle *fabric,
	struct heddle_call *call,
	const struct heddle_collective_options *options
) {
	static char nothing; /* neither read nor written: the parts are */
	const bool is_root = fabric && fabric->rank == call->root;
	const bool gives = call->collective != HD_COLLECTIVE_BROADCAST || is_root;
	const bool receives = call->collective == HD_COLLECTIVE_ALLREDUCE
		|| is_root == (call->collective == HD_COLLECTIVE_REDUCE);
	int rc = heddle_parts_total(call->parts, call->part_count, &call->count);

	if (rc < 0)
		return rc;
	call->in = gives ? &nothing : NULL;
	call->in_count = gives ? call->count : 0;
	call->out = receives ? &nothing : NULL;
	call->out_count = receives ? call->count : 0;
	rc = heddle_check_call(fabric, call, options);
	if (rc == 0 && options)
		rc = heddle_check_host(options->memory, options->stream);
	if (rc < 0 || call->count == 0)
		return rc;
	return heddle_parts_check_apart(
		call->parts,
		call->part_count,
		heddle_type_bytes(options ? options->type : HEDDLE_TYPE_FP32)
	);
}

static int
begin(struct heddle *fabric,
      struct heddle_call *call,
      const struct heddle_collective_options *options,
      struct heddle_ticket **ticket) {
	int rc;

	if (!ticket)
		return heddle_fail(-EINVAL, "ticket: NULL");
	rc = complete(fabric, call, options);
	return rc < 0 ? rc : heddle_reduce_start_call(fabric, call, options, ticket);
}

static int
make(struct heddle *fabric,
     struct heddle_call *call,
     const struct heddle_collective_options *options,
     int timeout_ms,
     struct heddle_status *status) {
	int rc = complete(fabric, call, options);

	return rc < 0 ? rc : heddle_reduce_make_call(fabric, call, options, timeout_ms, status);
}

static struct heddle_call
list(uint8_t collective, int root, const struct heddle_part *parts, size_t part_count) {
	return (struct heddle_call){
		.collective = collective,
		.root = root,
		.parts = parts,
		.part_count = part_count,
	};
}

int heddle_allreduce_list_start(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = list(HD_COLLECTIVE_ALLREDUCE, 0, parts, part_count);

	return begin(fabric, &call, options, ticket);
}

int heddle_allreduce_list(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = list(HD_COLLECTIVE_ALLREDUCE, 0, parts, part_count);

	return make(fabric, &call, options, timeout_ms, status);
}

int heddle_broadcast_list_start(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = list(HD_COLLECTIVE_BROADCAST, root, parts, part_count);

	return begin(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments of the function above, and how long it waits */
int heddle_broadcast_list(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = list(HD_COLLECTIVE_BROADCAST, root, parts, part_count);

	return make(fabric, &call, options, timeout_ms, status);
}

int heddle_reduce_list_start(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = list(HD_COLLECTIVE_REDUCE, root, parts, part_count);

	return begin(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the same */
int heddle_reduce_list(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = list(HD_COLLECTIVE_REDUCE, root, parts, part_count);

	return make(fabric, &call, options, timeout_ms, status);
}
