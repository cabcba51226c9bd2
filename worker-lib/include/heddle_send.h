/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: values from one worker of a job to one other. Include heddle.h. */
#ifndef HEDDLE_SEND_H
#define HEDDLE_SEND_H

#include "heddle_collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sends `count` values to the worker with rank `to`, which receives them with heddle_recv(). The send is APPLIED when
 * the receiver has all values.
 * data: values of options.type (NULL: fp32). They arrive with the bits that they had.
 * options: only memory, stream, borrow (of a send), type, tag and ranks are used; the others must be as
 * HEDDLE_COLLECTIVE_OPTIONS_INIT sets them.
 * Matching. The k-th send from one worker to another is matched with the k-th receive there from it. Collectives, sends
 * and receives of other workers, and those in the other direction, do not count. Both calls must have the same count,
 * type and tag. Otherwise both fail (HEDDLE_REASON_MISMATCH), and the next two calls are matched as before. Several
 * sends between the same two workers may end in another order than they were started in. At most HEDDLE_PAIRS_MAX sends
 * and receives of a worker are open at once; later calls, also of collectives, wait.
 * Failures:
 * - HEDDLE_REASON_PEER: the other worker is lost, or has withdrawn its call; the next two calls are matched as before.
 *   The call fails as soon as the controller notices this. It also fails when the other worker was never there and the
 *   job has all its workers. When the process of one end has been replaced, both count from 1 again; calls of the other
 *   end fail with this reason until it has been told so once. A receive whose sender is lost may still get its values.
 * - HEDDLE_REASON_NO_SERVER: no aggregator can hold the values. (When an aggregator dies, they are sent again.)
 * Returns 0; errors as of heddle_allreduce_start(), and -EINVAL: `to` is no rank, or the worker's own.
 */
int heddle_send_start(
	struct heddle *fabric,
	const void *data,
	uint64_t count,
	int to,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
/* Sends as heddle_send_start() does, and waits until the receiver has the values, at most timeout_ms. -ETIMEDOUT: the
 * send is withdrawn if the receiver has not called yet; otherwise it continues without the caller. Results: heddle.h,
 * "Operations". */
int heddle_send(
	struct heddle *fabric,
	const void *data,
	uint64_t count,
	int to,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Receives `count` values from the worker with rank `from`. data: undefined until the ticket is APPLIED. Matching,
 * options, failures and results: as of heddle_send_start(). */
int heddle_recv_start(
	struct heddle *fabric,
	void *data,
	uint64_t count,
	int from,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
/* Receives as heddle_recv_start() does, and waits, at most timeout_ms. -ETIMEDOUT: as of heddle_send(). data: with
 * timeout_ms >= 0 it is unchanged unless the call returns 0; with timeout_ms < 0 it is undefined after -EIO. */
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
