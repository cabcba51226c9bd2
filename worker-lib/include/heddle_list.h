/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: collectives of many buffers as one operation. Include heddle.h. */
#ifndef HEDDLE_LIST_H
#define HEDDLE_LIST_H

#include "heddle_collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One buffer of a list, for example a parameter tensor: `count` values of options.type (NULL: fp32). With count 0 it
 * has no values, and data may be NULL. */
struct heddle_part {
	void *data;
	uint64_t count;
};
#define HEDDLE_PARTS_MAX 65536

/*
 * Starts an all-reduce of the values of all parts, as one operation: one request, one round, one ticket. The result
 * replaces the values in each part.
 * parts: `part_count` buffers in host memory, at most HEDDLE_PARTS_MAX, which do not overlap. The array itself is
 * copied; what it points to must stay, and must not be touched, until the ticket has ended.
 * options: as for heddle_allreduce_start(); memory must be HOST, borrow is not used.
 * Copies. The library copies the values of all parts into memory of its own when it is called, and the result from
 * there into the parts before the ticket is APPLIED. The second copy is made by the progress thread, in which nothing
 * is sent or received meanwhile (in manual mode by the thread that drives the fabric): a worker that copies for 1 s is
 * taken for lost, so split lists of more than about 1 GB. The copies take as much memory as the values, and the result
 * as much again; the largest is kept for the next call, until the handle is closed. In return, an operation that does
 * not become APPLIED leaves all parts unchanged: it can be called again with the same values, or without the workers
 * that are lost.
 * Matching. It is the all-reduce of one buffer that has the values of part 0, then those of part 1, and so on: all
 * workers must give the same number of values in all, but may divide them differently; heddle_allreduce_start() of one
 * buffer matches, too.
 * Returns what heddle_allreduce_start() returns. -EINVAL also for parts that overlap, a part with values and data NULL,
 * more than HEDDLE_PARTS_MAX parts, and parts without any value.
 */
int heddle_allreduce_list_start(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
/* Makes the same, and waits for its end, at most timeout_ms. Both copies are made by the calling thread. The parts are
 * unchanged unless the call returns 0, and belong to the caller in any case. -ETIMEDOUT: as of heddle_allreduce().
 * Results: heddle.h, "Operations". */
int heddle_allreduce_list(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* The same for a broadcast: copies the values of all parts of the root into the parts of all others. The root's parts
 * are not changed. */
int heddle_broadcast_list_start(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_broadcast_list(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* The same for a reduction: the result replaces the values in the root's parts. The parts of the others are not
 * changed. */
int heddle_reduce_list_start(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_reduce_list(
	struct heddle *fabric,
	const struct heddle_part *parts,
	size_t part_count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

#ifdef __cplusplus
}
#endif

#endif
