/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a list. The core, and the aggregator and the segment behind it, read and write one buffer: chunks,
 * shards, blocks and pieces of shared memory are ranges of it. So the values are gathered into the ticket's copy, and
 * the result is spread from there:
 *
 *   caller's thread     parts --take--> copy: | in | out | the array of parts |
 *   progress thread                            in --> core --> out
 *   who delivers        parts <--spread-- out     a call that waits: the caller's thread; else the progress thread
 *
 * The caller's memory is written only when the operation is APPLIED.
 */
#include "heddle_parts.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/* --- arguments ------------------------------------------------------------------------------ */

int heddle_parts_total(const struct heddle_part *parts, size_t count, uint64_t *total) {
	uint64_t sum = 0;

	if (!parts && count > 0)
		return heddle_fail(-EINVAL, "parts: NULL");
	if (count > HEDDLE_PARTS_MAX)
		return heddle_fail(
			-EINVAL,
			"part_count: %zu, more than %d (HEDDLE_PARTS_MAX)",
			count,
			HEDDLE_PARTS_MAX
		);
	for (size_t i = 0; i < count; i++) {
		if (parts[i].count > 0 && !parts[i].data)
			return heddle_fail(-EINVAL, "parts[%zu].data: NULL", i);
		if (parts[i].count > HD_MODEL_BYTES_MAX)
			return heddle_fail(
				-EINVAL, "parts[%zu].count: more than HD_MODEL_BYTES_MAX", i
			);
		sum += parts[i].count; /* at most 2^56 */
	}
	*total = sum;
	return 0;
}

struct extent {
	uintptr_t first, end; /* addresses */
	size_t index;
};

static int compare(const void *a, const void *b) {
	const struct extent *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

int heddle_parts_check_apart(const struct heddle_part *parts, size_t count, size_t value) {
	struct extent *extents = calloc(count, sizeof *extents);
	size_t used = 0;
	int rc = 0;

	if (!extents)
		return heddle_fail(-ENOMEM, "no memory");
	for (size_t i = 0; i < count; i++) {
		const uintptr_t first = (uintptr_t)parts[i].data;

		if (parts[i].count > 0)
			extents[used++] = (struct extent){first, first + parts[i].count * value, i};
	}
	qsort(extents, used, sizeof *extents, compare);
	for (size_t i = 1; i < used && rc == 0; i++)
		if (extents[i].first < extents[i - 1].end)
			rc = heddle_fail(
				-EINVAL,
				"parts: %zu and %zu overlap",
				extents[i - 1].index,
				extents[i].index
			);
	free(extents);
	return rc;
}

/* --- copies --------------------------------------------------------------------------------- */

static void gather(const struct heddle_call *call, size_t value, void *to) {
	uint8_t *at = to;

	for (size_t i = 0; i < call->part_count; i++) {
		const size_t bytes = call->parts[i].count * value;

		if (bytes > 0)
			memcpy(at, call->parts[i].data, bytes);
		at += bytes;
	}
}

void heddle_parts_spread(
	const struct heddle_part *parts,
	size_t count,
	size_t value,
	const void *values
) {
	const uint8_t *at = values;

	for (size_t i = 0; i < count; i++) {
		const size_t bytes = parts[i].count * value;

		if (bytes > 0)
			memcpy(parts[i].data, at, bytes);
		at += bytes;
	}
}

/* The caller may free the array as soon as the call has returned. */
static const struct heddle_parts *
keep(const struct heddle_call *call, size_t value, struct heddle_parts *kept) {
	kept->value = value;
	kept->count = call->part_count;
	memcpy(kept->part, call->parts, call->part_count * sizeof *call->parts);
	return kept;
}

int heddle_parts_take(
	struct heddle *fabric,
	struct heddle_ticket *ticket,
	const struct heddle_call *call
) {
	const size_t value = hd_dtype_bytes(ticket->type), align = alignof(struct heddle_parts);
	const size_t in = call->in_count * value, values = in + call->out_count * value;
	const size_t at = (values + align - 1) / align * align;
	const size_t array = sizeof(struct heddle_parts) + call->part_count * sizeof *call->parts;
	uint8_t *copy;

	if (heddle_ticket_copy(fabric, ticket, at + array) < 0)
		return heddle_fail(-ENOMEM, "no memory");
	copy = ticket->copy;
	if (call->in) {
		gather(call, value, copy);
		ticket->data = ticket->copy;
	}
	if (call->out)
		ticket->into = copy + in;
	ticket->keeps = call->apart;
	if (call->out && !call->apart)
		ticket->parts = keep(call, value, (struct heddle_parts *)(void *)(copy + at));
	return 0;
}

void heddle_parts_deliver(const struct heddle_ticket *ticket) {
	const struct heddle_parts *parts = ticket->parts;

	heddle_parts_spread(parts->part, parts->count, parts->value, ticket->into);
}
