/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: the newest state (model, optimizer) from another worker of the job. Include heddle.h. */
#ifndef HEDDLE_STATE_H
#define HEDDLE_STATE_H

#include "heddle_ticket.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_STATE_NONE UINT64_MAX /* the version of a worker that has no state */
#define HEDDLE_STATE_VERSIONS_MAX (UINT64_C(1) << 48)
#define HEDDLE_STATE_ITEMS_MAX 1000000

/* A part of the state: a buffer in host memory. */
struct heddle_state_item {
	const char *name; /* not empty */
	void *data;
	uint64_t bytes; /* > 0 */
};

struct heddle_state_options {
	size_t size;
	uint64_t
		part_bytes; /* the longest broadcast of a part; 0: 8 MiB. The same at all workers */
	unsigned
		exact; /* as in heddle_collective_options. Whatever it is, all registered workers are waited for */
};
#ifdef __cplusplus
#define HEDDLE_STATE_OPTIONS_INIT                                                                  \
	{ sizeof(struct heddle_state_options), 0, 0 }
#else
#define HEDDLE_STATE_OPTIONS_INIT                                                                  \
	{ .size = sizeof(struct heddle_state_options) }
#endif

/*
 * Gives every worker of the job the newest state that one of them has. All workers call this as their next collective.
 * The others' collectives go on without a worker that calls this earlier than they do: it waits here, and
 * status.waiting of their collectives says so, to all of them alike. So a worker that joins, or was told
 * HEDDLE_REASON_LATE, calls this at once, and the others call it when they see that it waits:
 *
 *	heddle_share_state(fabric, items, count, &step, NULL, -1, NULL);
 *	while (step < steps) {
 *		... gradient, from the model in items ...
 *		rc = heddle_allreduce(fabric, gradient, sum, values, NULL, -1, &status);
 *		if (rc == 0) {
 *			... optimizer, in items ...
 *			step++;
 *		}
 *		if (rc < 0 && status.reason != HEDDLE_REASON_LATE)
 *			return rc;
 *		if (rc < 0 || status.waiting > 0)
 *			heddle_share_state(fabric, items, count, &step, NULL, -1, NULL);
 *	}
 *
 * items: the same names and sizes in the same order at all workers. They must not be changed during the call, and no
 * other collective of the handle may be in flight.
 * version, in: that of this worker's state: below HEDDLE_STATE_VERSIONS_MAX, or HEDDLE_STATE_NONE, where the contents
 * of the items do not matter. 0 is an initial state: if no worker has a greater version, the lowest rank with 0 gives
 * its state to all others.
 * version, out: the newest version. It is the same at all workers, and so are the items. Workers that have the newest
 * version already keep their items. The others receive them from one that has it; if that one dies, from another one
 * that has the newest version then. The state of a worker that was told HEDDLE_REASON_LATE since its last
 * heddle_share_state() may lack steps that others have made: it counts only if no other worker has a version above 0.
 * After an error with which parts of the items were overwritten, *version is HEDDLE_STATE_NONE; after other errors it
 * is unchanged. Items that were received are compared with the source's hash (BLAKE2b-256).
 * options, status: may be NULL. status has workers (of the roll call), version, bytes (of the items, if this worker
 * gave or received them, else 0), and after an error the reason.
 * Returns 0 (this worker has kept its state) or 1 (it has received one). Errors:
 * - -EIO: status.reason is MISMATCH (the items differ; the message names the first that does, and all workers have this
 *   error), MEMBERS (options.exact; all have it), NONE (the items that were received are not those that the source has
 *   sent), or another one of heddle_allreduce();
 * - -ENODATA: no worker has a state; all have this error;
 * - -ETIMEDOUT, and errors of heddle_allreduce_start().
 */
int heddle_share_state(
	struct heddle *fabric,
	const struct heddle_state_item *items,
	size_t count,
	uint64_t *version,
	const struct heddle_state_options *options,
	int timeout_ms,
	struct heddle_status *status
);

#ifdef __cplusplus
}
#endif

#endif
