/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of many buffers, as the caller sees them: calls of one buffer, whose values heddle_parts.c gathers. */
#include "hd_message_codes.h"
#include "heddle_call.h"

static struct heddle_call
list(uint8_t collective, int root, const struct heddle_part *parts, size_t part_count) {
	return (struct heddle_call){
		.is_list = true,
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

	return heddle_call_start(fabric, &call, options, ticket);
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

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
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

	return heddle_call_start(fabric, &call, options, ticket);
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

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
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

	return heddle_call_start(fabric, &call, options, ticket);
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

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
}
