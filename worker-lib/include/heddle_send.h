/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: values from one worker of a job to one other. Include heddle.h. */
#ifndef HEDDLE_SEND_H
#define HEDDLE_SEND_H

#include "heddle_collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sends `count` values to the worker with rank `to`, which receives them with heddle_recv(). The k-th send from one
 * worker to another is matched with the k-th receive there from it, whatever collectives, and sends and receives of
 * other workers, are called in between: the two directions of two workers are apart, too. Both calls must have the same
 * count, type and tag: HEDDLE_REASON_MISMATCH for both if not, and the next two calls are matched as before. Values are
 * of options.type (NULL: fp32), and arrive with the bits that they had. A send is APPLIED when the receiver has all
 * values. Begun in one order, several between the same two workers may end in another.
 * Of the options only memory (HOST), borrow (of a send), type, tag and ranks are used; the others must be as
 * HEDDLE_COLLECTIVE_OPTIONS_INIT sets them.
 * Failures. HEDDLE_REASON_PEER: the other worker is lost (as soon as the controller notices it, also when it was never
 * there and the job has all its workers), or has withdrawn its call: the next two calls are matched as before. When the
 * process of one end has been replaced, both count from 1 again; the other end's calls fail with this reason until it
 * has been told so once. A receive whose sender is lost may still get its values. When an aggregator dies they are sent
 * again. HEDDLE_REASON_NO_SERVER: no aggregator can hold them.
 * At most HEDDLE_PAIRS_MAX sends and receives of a worker are open at once; later calls, also of collectives, wait.
 * 0; errors as of heddle_allreduce_start(), and -EINVAL: `to` or `from` is no rank, or the worker's own.
 */
int heddle_send_start(
	struct heddle *fabric,
	const void *data,
	uint64_t count,
	int to,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
/* The same, and waits until the receiver has them. Results: heddle.h, "Operations". -ETIMEDOUT: withdrawn, or, if both
 * ends had called it, it continues without the caller. */
int heddle_send(
	struct heddle *fabric,
	const void *data,
	uint64_t count,
	int to,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Receives `count` values from the worker with rank `from`. data is undefined until the ticket is APPLIED. */
int heddle_recv_start(
	struct heddle *fabric,
	void *data,
	uint64_t count,
	int from,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
/* The same, and waits. -ETIMEDOUT: as of heddle_send(), and data is unchanged. */
int heddle_recv(
	struct heddle *fabric,
	void *data,
	uint64_t count,
	int from,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

#define HEDDLE_PAIRS_MAX 1024

#ifdef __cplusplus
}
#endif

#endif
