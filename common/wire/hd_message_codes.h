/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers in fields of REGISTER and of replication messages. They are part of the wire format: append only. */
#ifndef HD_MESSAGE_CODES_H
#define HD_MESSAGE_CODES_H

#include <stdint.h>

/* In REGISTER's flags: two of a worker, one of a server; all other bits are refused. */
enum hd_register_flag {
	HD_REGISTER_OBSERVER = 1, /* it only pulls, and is not a member */
	HD_REGISTER_UNSEALED = 2, /* integrity off: its job's chunks between hosts carry no MAC */
	HD_REGISTER_KEEPS = 4 /* there are checkpoints from which it restores jobs */
};

/*
 * Kinds of collectives. Blocks are those of the members, in the order of their ranks. In REQUEST, `root` is the rank
 * that gives or receives alone, if there is one, else 0; `exact` the number of members without which it is an error
 * (0: those that are there); `wait_ms` how long after the round's first REQUEST workers that have not asked are waited
 * for (0: the default, HD_REDUCE_WAIT_FOREVER: as long as they are registered); `least` how many must have asked (0:
 * any number); `tag` the caller's; `room` the bytes that the worker has for its result (0: enough); `values` all that
 * the worker gives, or nothing. All but room and values, with bytes, dtype and order, must be those of the first
 * REQUEST. In REDUCE, `bytes` is all that the round is about (of a gather all blocks, of an all-to-all all rows of
 * them), and `shards` has those to which the worker gives or which it receives; with `inlined` the values came with the
 * requests, `values` is what the worker receives, and there are no shards. `inline_bytes` says of which rounds they
 * should come from now on: those in which no member's buffer is longer (0: none). REDUCED goes to a member that
 * receives nothing: those that receive have their results, so its values are not needed any more. In DROP, `deadline`
 * is the job's newest round that has begun, from which the worker continues (0: with the next), `sum_id` the attempt of
 * the result that others have (0: unknown), `text` the error in words.
 */
enum hd_collective {
	HD_COLLECTIVE_ALLREDUCE = 0, /* all give all values, all receive the sum */
	HD_COLLECTIVE_BARRIER = 1, /* no values: all have come */
	HD_COLLECTIVE_BROADCAST = 2, /* the root gives, all others receive */
	HD_COLLECTIVE_REDUCE = 3, /* all give, the root receives the sum */
	HD_COLLECTIVE_ALLGATHER = 4, /* each gives its block, all receive all blocks */
	HD_COLLECTIVE_REDUCE_SCATTER = 5, /* all give, each receives its block of the sum */
	HD_COLLECTIVE_GATHER = 6, /* each gives its block, the root receives all blocks */
	HD_COLLECTIVE_SCATTER = 7, /* the root gives all blocks, each receives its own */
	HD_COLLECTIVE_ALLTOALL = 8, /* each gives a block to each, and receives one of each */
	HD_COLLECTIVE_SEND = 9, /* a message from one worker to one other: it has a channel */
	HD_COLLECTIVE_COUNT
};
#define HD_REDUCE_WAIT_FOREVER UINT32_MAX

/* The part of a REQUEST in handing a state over from one worker to others (collectives). */
enum hd_request_state {
	HD_REQUEST_PLAIN = 0,
	/* An all-reduce that is matched with such calls only. Where others of the round call something else, they go on
	 * without this worker: it is told `late`, and they are told how many wait (REDUCE). Each asks again. */
	HD_REQUEST_ROLL = 1,
	HD_REQUEST_HAS = 2, /* of a broadcast: this worker has the values, and receives none */
	HD_REQUEST_STATE_COUNT
};
/*
 * `channel` of a collective's messages: 0: a round of the job; else a message of SEND: the ordered pair of its workers,
 * (sender + 1) << 16 | receiver + 1. `round` is then the number of the message in its channel: both ends count them
 * from 1, since the process of either one was replaced. `peer_boot` is the process of the other end with which they
 * are counted, as REDUCE says (0 in REQUEST: none of them has begun); in DROP `sum_id` repeats REQUEST's. In REQUEST,
 * `have` is the oldest message of the channel that has not ended at this end, `root` the sender. CHANNEL from the
 * controller asks a worker for its end of the channel, and from the worker answers: it has called the messages up to
 * `called`, of which those before `from` have ended, and those from there on of which `open` has no bit (bit i: from +
 * i); a receiver has the messages `newest`, and newest - 1 - i for each bit i of `had`.
 */
static inline uint32_t hd_channel(uint16_t from, uint16_t to) {
	return (uint32_t)(from + 1) << 16 | (uint32_t)(to + 1);
}

static inline uint16_t hd_channel_from(uint32_t channel) {
	return (uint16_t)((channel >> 16) - 1);
}

static inline uint16_t hd_channel_to(uint32_t channel) {
	return (uint16_t)((channel & 0xffff) - 1);
}

/* A server's part in a job (REPLICA). */
enum hd_replica_order {
	HD_REPLICA_ALONE = 0, /* no replica (any more): durable means in a checkpoint */
	HD_REPLICA_KEEP = 1, /* `peer` is its replica from now on: send a state and the log */
	HD_REPLICA_SERVE = 2, /* be the job's server, with the copy that you hold */
	HD_REPLICA_RETIRE = 3, /* another node is the job's server or replica: forget the job */
	HD_REPLICA_END
		= 4, /* the job has no workers: write its last checkpoint, forget it, send LEAVE */
	HD_REPLICA_EVICT = 5, /* the same, even if it has workers */
	HD_REPLICA_ORDER_COUNT
};

/* The state of a replica. */
enum hd_follow_state {
	HD_FOLLOW_NONE = 0, /* it has no copy */
	HD_FOLLOW_SEEDING = 1, /* its first state is in transfer */
	HD_FOLLOW_CAUGHT_UP = 2, /* it has a state and applies the log */
	HD_FOLLOW_HOLE = 3, /* likewise, but an update will not come: it needs a newer state */
	HD_FOLLOW_FENCED = 4, /* it is the job's server itself: the sender no longer is */
	HD_FOLLOW_STATE_COUNT
};

/* The contents of a LOG. */
enum hd_log_of {
	HD_LOG_COMMITS = 0,
	HD_LOG_ROUNDS = 1, /* those in the state that the last SEED announced */
	HD_LOG_ROUNDS_END
		= 2, /* the same, and the last of them: the state's chunks may arrive earlier */
	HD_LOG_COUNT
};

#endif
