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
	HEDDLE_REDUCE_OP_MIN = 2, /* NaN, if one of the values is; -0 is less than 0 */
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

struct heddle_collective_options {
	size_t size;
	enum heddle_memory memory;
	void *stream; /* of the memory's kind; NULL for HOST */
	int borrow; /* no copy: the caller must not touch `in` until the ticket has ended */
	/* Of type FP32: the type on the wire; 16-bit values are combined in fp32. Other types travel as they are. */
	enum heddle_payload payload;
	enum heddle_reduce_op reduce_op;
	/* 1: add in the order of ranks, which gives the same bits each time. 0: add in the order of arrival, which
	 * is faster. In both cases all workers get the same bits. */
	int ranked;
	enum heddle_type type;
	/* The operation is of exactly this many workers, or an error of all of them: HEDDLE_REASON_MEMBERS as soon as
	 * one of them is known to be lost, or has left. 0: of the workers that are there. */
	unsigned exact;
	/* NULL or a text of at most HEDDLE_TAG_BYTES_MAX bytes of UTF-8 without control characters, which all workers
	 * must give alike: HEDDLE_REASON_MISMATCH. */
	const char *tag;
	/* Values that `out` has room for, where the result has a block of each worker, or is one: 0 with `exact`, which
	 * says it. Those behind the result are undefined. More members than fit are an error of all of them
	 * (HEDDLE_REASON_REFUSED). */
	uint64_t out_count;
	/* Of calls that wait: where the ranks of the members are written, ascending, at most rank_capacity of them. NULL:
	 * nowhere. heddle_ticket_members() has those of others. */
	int *ranks;
	size_t rank_capacity;
	/* How long after the first call of the operation workers that are registered and have not called it are waited
	 * for; then it starts without them. 0: the default, 1 s (the detection time); with `least` until that many
	 * have called; with `exact`, and of a barrier, HEDDLE_WAIT_FOREVER: as long as they are registered. See
	 * "Workers that do not call" below. */
	uint32_t wait_ms;
	/* It starts when at least this number of workers have called: HEDDLE_REASON_MEMBERS if fewer are left. With
	 * wait_ms 0 these are the first that call. 0: any number. Not with `exact`. */
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
 * Starts an all-reduce: adds, or combines otherwise, `count` values of every worker of the job. in, out: `count`
 * elements each, of options.type (NULL: fp32), of the caller's values and of the result, aligned to the type; the same
 * buffer (in place) or disjoint. out is undefined until the ticket is APPLIED. The k-th call of one worker is matched
 * with the k-th call of the others. These must be the same operation with the same count and options (type, payload,
 * reduce_op, ranked, exact, tag, wait_ms, least): HEDDLE_REASON_MISMATCH for all of them if not, and the words of
 * heddle_ticket_error() name both calls. A round starts when all registered workers have called, or are not waited for
 * any more (the first round: when HEDDLE_WORLD_SIZE workers have registered). At most HEDDLE_COLLECTIVES_MAX rounds
 * run at once; later calls wait. The values travel to the aggregators (heddle-aggregator) in shards sized to what each
 * host's link can carry. A job that only uses all-reduce needs no model (a description without tensors) and no server.
 * Workers that do not call. A round starts without a worker that is registered and has not called it within
 * options.wait_ms. Later rounds do not wait for that worker at all, until it calls: its call ends as FAILED with
 * HEDDLE_REASON_LATE, and its next call is matched with the others' next, which wait for it again. A worker is waited
 * for in any case while it is in an earlier round that goes on, for wait_ms after it has registered or called an
 * earlier round, and when it has called this one. By default the first round of a job with HEDDLE_WORLD_SIZE waits for
 * 30 s, and a round with a root for the root as long as it is registered, and for the others 1 s after the root's call.
 * Failures. A worker that dies is excluded from the rounds that start after 1 s. If a worker or an aggregator dies
 * during a round, the round is repeated without it. FAILED with HEDDLE_REASON_LATE: the others have the sum and this
 * worker can no longer get it; copy the state of another worker, and the next call is matched with their next call. A
 * worker that was cut off from the controller, and has a sum that the others then computed again without it, gets the
 * same reason at its next call. HEDDLE_REASON_NO_SERVER: no aggregator has room, or none was there within 10 s (the
 * call can be cancelled before).
 * options: may be NULL (host memory, copied, fp32, sum). 0, -EDESTADDRREQ (no controller is configured), -EAGAIN
 * (HEDDLE_COMMANDS_MAX calls are queued), -ENOTSUP (memory; GPU memory of another type than fp32), -EINVAL, -ENOMEM,
 * -ECONNREFUSED, -ESHUTDOWN, -ECHILD.
 */
int heddle_allreduce_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
/* The same, and waits. -ETIMEDOUT: withdrawn, or, if the round had started, it continues without the caller; out is
 * unchanged. With timeout_ms >= 0 the library adds in its own memory and copies the sum. Results: heddle.h,
 * "Operations". */
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
 * The other collectives. They are rounds as an all-reduce is: the k-th call of one worker, of whatever kind, is matched
 * with the k-th call of the others, and a round that a death interrupts is made again over those that are left. Values
 * are of options.type (NULL: fp32). Those that are only copied arrive with the bits that they had. Blocks are those of
 * the members in the order of their ranks; heddle_ticket_members() says who they are. A worker whose values others need
 * is done when they have them. root: a rank; HEDDLE_REASON_ROOT for the others when it is lost or takes no part, at
 * once if that is known. options: may be NULL where they say no room; memory must be HOST. Results: as of
 * heddle_allreduce_start() and heddle_allreduce(). `in` and `out` may overlap.
 */

/* Waits until all workers have called it. */
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

/* `count` values of the root for all others. data: given at the root, received at the others. When a worker dies, and
 * only some have the values, the root gives them to the rest in another execution. The members (status.workers,
 * heddle_ticket_members()) are those of the execution that delivered the values, at the root those of the last one:
 * they may differ between workers. */
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

/* The sum of `count` values of each worker for the root. out: at the others it is not used. */
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

/* A block of `count` values of each worker for all of them: out has `count` values of the first member, then those of
 * the second, and so on. */
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

/* The sum of `count` values of each worker, of which each of the n members receives one block: the i-th of them values
 * i count / n to (i + 1) count / n - 1, rounded down (heddle_block()). */
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

/* `count` values of each worker, of which each of the n members receives one block of each worker's: the i-th of them
 * that of heddle_block(count, i, n), in the order of the givers' ranks. So `out` has n blocks of one size, at most
 * count + n - 1 values in all; with n blocks of b values, count = n b, it is MPI's all-to-all. At most 64 members
 * (HEDDLE_REASON_REFUSED). */
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

/* As an all-gather, for the root only. out: at the others it is not used. */
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

/* `count` values of the root, of which each member receives its block, as of a reduce-scatter. in: at the others it is
 * not used. */
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

/* Where the block of member `index` of `workers` is in `count` values: sets first and length. -EINVAL (NULL, an index
 * that is not below workers, a count that no collective can have). */
int heddle_block(
	uint64_t count,
	unsigned index,
	unsigned workers,
	uint64_t *first,
	uint64_t *length
);
/* The ranks of the workers that took part in a collective that is APPLIED, ascending: at most `capacity` of them are
 * written. All workers see the same, except after a broadcast (see there). Returns how many there are. -ENODATA: not
 * APPLIED, or unknown, as a switch has added. -EINVAL, -ECHILD. */
long heddle_ticket_members(struct heddle_ticket *ticket, int *ranks, size_t capacity);

/*
 * Whether `bytes` bytes in host memory are the same at all workers of the job: 1: they are; 0: they are not. All of
 * them call this: it is an all-reduce of the bits of a hash (BLAKE2b-256), with a tag of its own, so another call of a
 * worker at its place is an error of all (HEDDLE_REASON_MISMATCH). status->workers (status may be NULL) is the number
 * of workers that were compared. -ETIMEDOUT, -EIO and other errors as heddle_allreduce(); timeout_ms < 0: no limit.
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
