/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: collectives of all workers of a job. Include heddle.h. */
#ifndef HEDDLE_COLLECTIVE_H
#define HEDDLE_COLLECTIVE_H

#include "heddle_ticket.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a reduction combines the values of several workers. */
enum heddle_reduce_op {
	HEDDLE_REDUCE_OP_SUM = 0,
	HEDDLE_REDUCE_OP_AVERAGE = 1, /* the sum divided by the number of workers in it */
	/* The smallest and the greatest value. Both are NaN if one of the values is NaN, and -0 is less than 0: so they do
	 * not depend on the order of the workers. */
	HEDDLE_REDUCE_OP_MIN = 2,
	HEDDLE_REDUCE_OP_MAX = 3,
	HEDDLE_REDUCE_OP_PRODUCT = 4
};

/* The type of the values in the caller's buffers. fp16 and bf16 are combined in fp32, and the result (of an average:
 * the quotient) is rounded once. Integers wrap (two's complement); their average is the wrapped sum divided by the
 * number of workers, rounded towards 0. */
enum heddle_type {
	HEDDLE_TYPE_FP32 = 0,
	HEDDLE_TYPE_FP16 = 1, /* IEEE 754 binary16 */
	HEDDLE_TYPE_BF16 = 2, /* the upper half of fp32 */
	HEDDLE_TYPE_FP64 = 3,
	HEDDLE_TYPE_INT8 = 4,
	HEDDLE_TYPE_UINT8 = 5,
	HEDDLE_TYPE_INT32 = 6,
	HEDDLE_TYPE_INT64 = 7
};

/* How a collective is made. All workers must give the same payload, reduce_op, ranked, type, exact, tag, wait_ms and
 * least. The other members are for the caller alone. */
struct heddle_collective_options {
	size_t size;
	/* Of `in` and `out`, which are on the same device. A barrier has no values: HOST. */
	enum heddle_memory memory;
	void *stream; /* of the memory's kind; NULL for HOST */
	/* 1: `in` is not copied; the caller must not touch it until the ticket has ended. 0: it is copied first. In GPU
	 * memory it is always copied, when the stream reaches the call. */
	int borrow;
	/* Of type FP32: the type on the wire; 16-bit values are combined in fp32. Other types travel as they are. */
	enum heddle_payload payload;
	enum heddle_reduce_op reduce_op;
	/* 1: add in the order of ranks, which gives the same bits each time. 0: add in the order of arrival, which
	 * is faster. In both cases all workers get the same bits. */
	int ranked;
	enum heddle_type type;
	/* N: the operation has exactly N workers. It fails at all of them (HEDDLE_REASON_MEMBERS) as soon as fewer are
	 * left, because one is lost or has left; if fewer have called within wait_ms (when that is given); or if more
	 * have called. 0: the operation has those workers that call it. */
	unsigned exact;
	/* A name of the call: UTF-8 without control characters, at most HEDDLE_TAG_BYTES_MAX bytes. If the workers give
	 * different tags, the operation fails at all of them (HEDDLE_REASON_MISMATCH). NULL: an empty tag. */
	const char *tag;
	/* The number of values for which `out` has room, where the size of the result depends on the number of workers:
	 * all-gather, gather, reduce-scatter, scatter, all-to-all. Values behind the result are undefined. If the
	 * result does not fit, the operation fails at all workers (HEDDLE_REASON_REFUSED). 0, only with `exact`: room
	 * for the result of that many workers. Other collectives ignore it. */
	uint64_t out_count;
	/* For calls that wait: the ranks of the workers that took part are written here, ascending, at most
	 * rank_capacity of them. NULL: nowhere. Where a call returns a ticket, use heddle_ticket_members(). */
	int *ranks;
	size_t rank_capacity;
	/* How long the operation waits for workers that are registered and have not called it, in milliseconds after
	 * the first call. Then it starts without them. HEDDLE_WAIT_FOREVER: as long as they are registered. 0: the
	 * default, which is 1 s (the detection time); with `least`, until that many have called; with `exact`, and for
	 * a barrier, HEDDLE_WAIT_FOREVER. "Workers that do not call" below has more. */
	uint32_t wait_ms;
	/* n: the operation does not start before n workers have called it. With wait_ms 0 it starts with the first n
	 * that call; with another value it also waits for wait_ms. It fails at all workers (HEDDLE_REASON_MEMBERS) if
	 * fewer than n are left. 0: any number. Not together with `exact`. */
	unsigned least;
};
#define HEDDLE_WAIT_FOREVER UINT32_MAX
#define HEDDLE_TAG_BYTES_MAX 63
#ifdef __cplusplus
#define HEDDLE_COLLECTIVE_OPTIONS_INIT                                                             \
	{                                                                                          \
		sizeof(struct heddle_collective_options), HEDDLE_MEMORY_HOST, 0, 0,                \
			HEDDLE_PAYLOAD_FP32, HEDDLE_REDUCE_OP_SUM, 0, HEDDLE_TYPE_FP32, 0, 0, 0,   \
			0, 0, 0, 0                                                                 \
	}
#else
#define HEDDLE_COLLECTIVE_OPTIONS_INIT                                                             \
	{ .size = sizeof(struct heddle_collective_options) }
#endif

#define HEDDLE_COLLECTIVES_MAX 64

/*
 * Starts an all-reduce: adds, or combines otherwise, `count` values of every worker of the job, and gives all of them
 * the result.
 * in, out: `count` values each, of options.type (NULL: fp32), aligned to the type: the caller's values and the result.
 * They are the same buffer (in place), or disjoint. out is undefined until the ticket is APPLIED.
 * options: NULL: host memory, copied, fp32, sum.
 * Matching. The k-th call of one worker is matched with the k-th call of the others. These must be the same operation,
 * with the same count and options (type, payload, reduce_op, ranked, exact, tag, wait_ms, least). Otherwise the
 * operation fails at all of them (HEDDLE_REASON_MISMATCH), and heddle_ticket_error() names both calls. The first round
 * starts when HEDDLE_WORLD_SIZE workers have registered, at the earliest. A round starts when all registered workers
 * have called it, or are not waited for any more. At most HEDDLE_COLLECTIVES_MAX rounds run at once; later calls wait.
 * A job that makes only collectives needs no model (a description without tensors) and no server.
 * Workers that do not call. A round starts without a worker that is registered and has not called it within
 * options.wait_ms. That worker's call ends as FAILED with HEDDLE_REASON_LATE. Its next call is matched with the
 * others' next call. Until it calls, later rounds that may leave it out do not wait for it at all; from then on they
 * do. A round waits longer for a worker that has called it already. Unless it has `least` and no wait_ms, it also
 * waits longer for one that is in an earlier round that goes on, or that has registered or called an earlier round
 * within wait_ms. By default (wait_ms 0, neither `exact` nor `least`) the first round of a job with HEDDLE_WORLD_SIZE
 * waits for 30 s. A round with a root waits for the root as long as it is registered, and for the others 1 s after the
 * root's call.
 * Failures. A worker that dies is excluded from the rounds that start after 1 s. If a worker or an aggregator dies
 * during a round, the round is repeated without it. The reason of a call that has FAILED can be:
 * - HEDDLE_REASON_LATE: the others have the sum, and this worker can no longer get it. Copy the state of another worker
 *   (heddle_share_state()); the next call is matched with their next call. A worker that was cut off from the
 *   controller, and has a sum that the others then computed again without it, gets the same reason at its next call.
 * - HEDDLE_REASON_NO_SERVER: no aggregator has room, or none was there within 10 s (the call can be cancelled before).
 * Returns 0, -EDESTADDRREQ (no controller is configured), -EAGAIN (HEDDLE_COMMANDS_MAX calls are queued), -ENOTSUP
 * (memory), -EINVAL, -ENOMEM, -ECONNREFUSED, -ESHUTDOWN, -ECHILD.
 */
int heddle_allreduce_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
/* Makes an all-reduce: heddle_allreduce_start(), and waits for its end, at most timeout_ms.
 * out: with timeout_ms >= 0 the library adds in its own memory and copies the result, so out is unchanged unless the
 * call returns 0. With timeout_ms < 0 out is undefined after an error of the operation (-EIO).
 * -ETIMEDOUT: the call is withdrawn if the round had not started; otherwise the round continues without the caller.
 * Results: heddle.h, "Operations". */
int heddle_allreduce(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/*
 * The other collectives are rounds as an all-reduce is. The k-th call of one worker, of whatever kind, is matched with
 * the k-th call of the others, and a round that a death interrupts is repeated by the workers that are left. A function
 * that waits treats `out` (of a broadcast: data) and -ETIMEDOUT as heddle_allreduce() does.
 * in, out: values of options.type (NULL: fp32); they may overlap. Values that are only copied keep their bits.
 * Blocks belong to the workers that take part, the members, in the order of their ranks. heddle_ticket_members(), or
 * options.ranks, names the members. A member whose values others need is done when they have them.
 * root: the rank that gives or receives all values, the same at all workers. When it is lost or takes no part, the call
 * fails at the others (HEDDLE_REASON_ROOT), at once if that is known.
 * options: NULL where options.out_count is not needed (barrier, broadcast, reduce, and where this worker receives
 * nothing). payload, reduce_op and ranked are for the sums (reduce, reduce-scatter) only. GPU memory must have the
 * whole room that options.out_count or exact says; only the result is written.
 * Return values: those of heddle_allreduce_start() and heddle_allreduce().
 */

/* Waits until all workers have called it; with options.wait_ms, for those that have not at most that long. */
int heddle_barrier_start(
	struct heddle *fabric,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_barrier(
	struct heddle *fabric,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Copies `count` values of the root to all others.
 * data: at the root the values, which are not changed; at the others the result.
 * If a worker dies when only some have the values, the root gives them to the rest in another execution. The members
 * (status.workers, heddle_ticket_members()) are those of the execution that delivered the values, and at the root those
 * of the last one: they may differ between workers. */
int heddle_broadcast_start(
	struct heddle *fabric,
	void *data,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_broadcast(
	struct heddle *fabric,
	void *data,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Adds, or combines otherwise, `count` values of each worker, and gives the root the result.
 * in: `count` values. out: at the root room for `count` values; not used at the others. */
int heddle_reduce_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_reduce(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Gives all workers the values of each of them.
 * in: `count` values, the caller's block. out: the block of the first member, then that of the second, and so on:
 * `count` values of each. Its room: options.out_count, or exact. */
int heddle_allgather_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_allgather(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Adds, or combines otherwise, `count` values of each worker, and gives each member one block of the result.
 * in: `count` values. out: the caller's block. Of n members the i-th, from 0, receives the values i count / n to
 * (i + 1) count / n - 1, both quotients rounded down (heddle_block()). Its room: options.out_count, or exact. */
int heddle_reduce_scatter_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_reduce_scatter(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Gives each member one block of each worker's values.
 * in: `count` values, which are divided into one block for each of the n members (heddle_block()). out: of member i,
 * block i of each member's values, in the order of the members' ranks. These are n blocks of one size, at most
 * count + n - 1 values in all; its room: options.out_count, or exact. With count = n b, each block has b values, as in
 * MPI. At most 64 members (HEDDLE_REASON_REFUSED). */
int heddle_alltoall_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_alltoall(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Gives the root the values of each worker.
 * in: `count` values, the caller's block. out: at the root as of an all-gather; not used at the others. */
int heddle_gather_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_gather(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Gives each member one block of the root's values.
 * in: at the root `count` values; not used at the others. out: the caller's block, as of a reduce-scatter. */
int heddle_scatter_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_scatter(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Says where in `count` values the block of member `index` (from 0) of `workers` members is: sets first and length.
 * Returns 0, -EINVAL (NULL, an index that is not below workers, a count that no collective can have). */
int heddle_block(
	uint64_t count,
	unsigned index,
	unsigned workers,
	uint64_t *first,
	uint64_t *length
);
/* Writes the ranks of the workers that took part in a collective that is APPLIED, ascending, at most `capacity` of
 * them. All workers see the same, except after a broadcast (see there). Returns how many there are; -ENODATA (not
 * APPLIED, or unknown, because a switch has added), -EINVAL, -ECHILD. */
long heddle_ticket_members(struct heddle_ticket *ticket, int *ranks, size_t capacity);

/*
 * Says whether `bytes` bytes in host memory are the same at all workers of the job. All of them call this.
 * It is an all-reduce of the bits of a hash (BLAKE2b-256) with a tag of its own. It waits for all registered workers.
 * If one of them calls something else at its place, all fail (HEDDLE_REASON_MISMATCH).
 * timeout_ms < 0: no limit. status: may be NULL; status->workers is the number of workers that were compared.
 * Returns 1 (they are the same) or 0 (they are not); -ETIMEDOUT, -EIO and other errors as heddle_allreduce().
 */
int heddle_agree(
	struct heddle *fabric,
	const void *data,
	size_t bytes,
	int timeout_ms,
	struct heddle_status *status
);

#ifdef __cplusplus
}
#endif

#endif
