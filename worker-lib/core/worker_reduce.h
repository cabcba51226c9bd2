/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces.
 *
 *   worker_reduces.c     their list, states, lookups
 *   worker_blocks.c      which values are whose
 *   worker_channel.c     numbers of sends and receives
 *   worker_reduce_ask.c  requests and ends
 *   worker_shards.c      on the wire, by aggregators
 *   worker_slots.c       on the wire, through the slots of a switch
 *   worker_reduce.c      the owner's call, and messages about rounds
 *
 * Each file calls those above it in this list only.
 */
#ifndef WORKER_REDUCE_H
#define WORKER_REDUCE_H

#include "hd_recv.h"
#include "hd_roster.h"
#include "hd_send.h"
#include "hd_slots.h"
#include "worker_core.h"

/* By which node the values of a shard are added. */
enum worker_shard_kind {
	WORKER_SHARD_CLOSED,
	WORKER_SHARD_BY_AGGREGATOR,
	WORKER_SHARD_BY_SLOTS
};

struct worker_shard {
	enum worker_shard_kind kind;
	struct worker_path *path;
	uint64_t out_token, in_token;
	/* by an aggregator */
	struct hd_send *send; /* NULL: acknowledged */
	struct hd_recv *recv; /* NULL: held */
	struct hd_seal seal; /* of the received chunks */
	/* by a switch */
	struct hd_slots *slots;
	uint32_t turn; /* rounds of one lease have the same tokens */
};

struct worker_range {
	uint64_t first, end; /* values from first to end - 1 */
};

struct worker_reduce {
	struct hd_ticket pub;
	TAILQ_ENTRY(worker_reduce) link;
	struct hd_reduce_args args;
	bool ended, by_network; /* by_network: not through shared memory again */
	uint8_t attempt, avoid; /* avoid: enum hd_group_avoid, the most serious reason so far */
	uint16_t epoch;
	uint64_t sum_id, shared, peer_boot; /* shared: token of the memory, 0: not used */
	float peak; /* largest absolute value: for fixed point */
	hd_ns began, progress_at;
	uint64_t progress_bytes;
	uint16_t *half; /* fp32 that travels as 16 bits: what is sent, then what came; or NULL */
	struct hd_roster members; /* from here on, of the attempt on the wire; empty: unknown */
	uint32_t index; /* this worker's place among the members */
	uint64_t total, given; /* values; the attempt for which it had given when it asked, or 0 */
	struct worker_range block, gives, takes; /* this worker's block, what it gives and takes */
	uint32_t shard_count, held, due, turn; /* due: to be received; turn: in `shared` */
	struct worker_shard *shards;
	bool lone; /* receives nothing, and the controller's session was lost: asks when all has arrived */
};

/* --- worker_reduces.c ----------------------------------------------------------------------- */
/* The round that has not ended, of this channel (0: of the job). */
struct worker_reduce *
worker_reduce_find(const struct hd_worker *worker, uint32_t channel, uint32_t round);
/* The all-reduce and its shard that have this token; NULL: none. */
struct worker_shard *
worker_reduce_find_shard(struct hd_worker *worker, uint64_t token, struct worker_reduce **of);
void worker_reduce_set_state(
	struct hd_worker *worker,
	struct worker_reduce *r,
	enum hd_ticket_state state
);
/* Back to QUEUED, without an event for the owner. */
void worker_reduce_to_queue(struct worker_reduce *r);
void worker_reduce_emit(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_reduce *r,
	struct hd_event event
);
/* Whether chunks of an all-reduce take this path. */
bool worker_reduce_uses(const struct hd_worker *worker, const struct worker_path *path);
/* The oldest round that has not ended, or the next one. */
uint32_t worker_reduce_from(const struct hd_worker *worker);
void worker_reduce_drop_shards(struct hd_worker *worker, struct worker_reduce *r);
/* The path was dead for too long. */
bool worker_reduce_is_dead(const struct worker_reduce *r);
/* Grows with every acknowledged or received byte. */
uint64_t worker_reduce_progress(const struct worker_reduce *r);
bool worker_reduce_by_slots(const struct worker_reduce *r);
/* Switches only add fp32. */
bool worker_reduce_may_use_slots(const struct hd_reduce_args *args);
/* It receives nothing, all that it gives has arrived, and others may still need it. */
bool worker_reduce_waits(const struct worker_reduce *r);

/* --- worker_reduce_ask.c -------------------------------------------------------------------- */
void worker_reduce_ask(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
);
void worker_reduce_ask_queued(struct hd_worker *worker, const struct worker_context *ctx);
void worker_reduce_requeue(struct hd_worker *worker);
/* Takes it off the wire, and requests it once more; nothing, when it is complete in shared memory. */
void worker_reduce_again(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
);
void worker_reduce_report(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_reduce *r,
	enum hd_outcome outcome,
	enum hd_reason reason
);
void worker_reduce_end(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r,
	enum hd_ticket_state state,
	enum hd_reason reason
);
/* All sums have arrived. */
void worker_reduce_applied(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
);
void worker_reduce_fail_all(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum hd_reason reason
);
void worker_reduce_collect(struct hd_worker *worker, const struct worker_context *ctx);
void worker_reduce_off_wire(struct hd_worker *worker);
void worker_reduce_destroy(struct hd_worker *worker);
/* Under a new session with the controller, what the old one would have said is asked for. */
void worker_reduce_registered(struct hd_worker *worker, const struct worker_context *ctx);
/* It has nothing more to receive or to give: APPLIED, with its own block. */
void worker_reduce_finish(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
);

/* --- worker_shards.c ------------------------------------------------------------------------ */
/* 0, -EINVAL (the shards do not cover the values), -ENOBUFS (no free path), -ENOMEM; some shards may be open then. */
int worker_shards_open(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
);
/* Both: true when the token is an all-reduce's. */
bool worker_shards_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_sack *sack
);
bool worker_shards_chunk(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet,
	const struct hd_chunk_header *header,
	const uint8_t *payload
);
/* Whether the shard's values have not all arrived at its aggregator, or its result not here. */
bool worker_shard_is_open(const struct worker_reduce *r, const struct worker_shard *shard);
void worker_shard_pump(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_shard *shard
);
hd_ns worker_shard_deadline(const struct hd_worker *worker, const struct worker_shard *shard);

/* --- worker_slots.c ------------------------------------------------------------------------- */
/* The one shard of a round that goes through a switch. As worker_shards_open(). */
int worker_slots_open(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
);
/* Whether it has to wait until the lease's round before has ended. */
bool worker_slots_held(const struct hd_worker *worker, const struct worker_reduce *r);
/* A packet of type RESULT. False: of no all-reduce. */
bool worker_slots_result(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);
void worker_slots_pump(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_reduce *r,
	struct worker_shard *shard
);
hd_ns worker_slots_deadline(
	const struct hd_worker *worker,
	const struct worker_reduce *r,
	const struct worker_shard *shard
);

/* --- worker_reduce.c ------------------------------------------------------------------------ */
void worker_on_reduce(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_reduce *message
);
void worker_on_reduced(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_reduced *message
);
void worker_reduce_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_drop *drop
);
/* True when the token is an all-reduce's. */
bool worker_reduce_void(struct hd_worker *worker, const struct worker_context *ctx, uint64_t token);
/* 0, -ENOENT, -EALREADY. */
int worker_reduce_cancel(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	uint32_t channel,
	uint32_t round
);
void worker_reduce_path_closed(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_path *path
);
/* True while there is something to watch. */
bool worker_reduce_stalls(struct hd_worker *worker, const struct worker_context *ctx);
void worker_reduce_pump(struct hd_worker *worker, const struct worker_context *ctx);
hd_ns worker_reduce_deadline(const struct hd_worker *worker);

#endif
