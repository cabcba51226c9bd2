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
	uint64_t part_bytes; /* of one broadcast, at most; 0: 8 MiB. Alike at all workers */
	unsigned exact; /* as of heddle_collective_options */
};
#ifdef __cplusplus
#define HEDDLE_STATE_OPTIONS_INIT                                                                  \
	{ sizeof(struct heddle_state_options), 0, 0 }
#else
#define HEDDLE_STATE_OPTIONS_INIT                                                                  \
	{ .size = sizeof(struct heddle_state_options) }
#endif

/*
 * Gives every worker of the job the newest state that one of them has. All workers call this as their next collective,
 * with items of the same names and sizes in the same order. A worker that calls it earlier than the others waits here:
 * their collectives go on without it, and status.waiting of each says so, to all of them alike. So one that joins, or
 * was told HEDDLE_REASON_LATE, calls this at once, and the others when they see that it waits:
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
 * version: in, that of this worker's state: below HEDDLE_STATE_VERSIONS_MAX, or HEDDLE_STATE_NONE, where the contents
 * of the items do not matter. 0 is an initial state: if no worker has a greater version, that of the lowest rank with 0
 * is given to all others. Out: the newest version. It is the same at all workers, and so are the items: workers that
 * have the newest version already keep theirs, and only call the roll; the others receive it from one that has it. If
 * that one dies, they receive it from another one that has the newest version then. A worker that was told
 * HEDDLE_REASON_LATE since its last heddle_share_state() may lack what others have: its state counts if no other
 * worker has one of a version above 0. The items that came are compared with the source's hash (BLAKE2b-256).
 *
 * No other collective of the handle may be in flight. The items must not be changed meanwhile.
 * options, status: may be NULL. status: workers (of the roll), version, bytes (of the items, if this worker gave or
 * received them, else 0), and of an error the reason.
 * Returns 0 (this worker has kept its state) or 1 (it has received one). -EIO: status.reason is MISMATCH (the items
 * differ; the words name the first that does, and all workers have this error), MEMBERS (options.exact, of all), NONE
 * (the items that came are not those that the source has sent), or another one of heddle_allreduce(). -ENODATA: no
 * worker has a state; all have this error. -ETIMEDOUT, and errors of heddle_allreduce_start(). After an error with
 * which parts of the items were overwritten, *version is HEDDLE_STATE_NONE; after others it is as it was.
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
