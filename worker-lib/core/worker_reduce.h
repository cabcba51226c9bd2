/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of all-reduces share: worker_reduce.c (asked for, void, ended), worker_shards.c (on the
 * wire, by aggregators), worker_slots.c (through the slots of a switch). */
#ifndef WORKER_REDUCE_H
#define WORKER_REDUCE_H

#include "hd_slots.h"
#include "worker_core.h"

struct worker_reduce;
struct worker_reduce_shard;

/* How the values of a shard are added. */
struct worker_reduce_means {
	hd_ns stall; /* without progress for so long: it is asked for again */
	void (*close)(struct worker_reduce_shard *shard);
	/* The path was dead for too long. */
	bool (*is_dead)(const struct worker_reduce_shard *shard);
	/* Grows with everything that gets through, either way. */
	uint64_t (*progress)(const struct worker_reduce_shard *shard);
	void (*pump
	)(struct hd_worker *worker,
	  const struct worker_context *ctx,
	  const struct worker_reduce *r,
	  struct worker_reduce_shard *shard);
	hd_ns (*deadline
	)(const struct hd_worker *worker,
	  const struct worker_reduce *r,
	  const struct worker_reduce_shard *shard);
};

struct worker_reduce_shard {
	const struct worker_reduce_means *means; /* NULL: not open */
	struct worker_way *way;
	uint64_t out_token, in_token;
	/* by an aggregator */
	struct hd_send *send; /* NULL: acknowledged */
	struct hd_recv *recv; /* NULL: held */
	struct hd_seal seal; /* of what comes */
	/* by a switch */
	struct hd_slots *slots;
	uint32_t turn; /* rounds of one lease have the same tokens */
};

struct worker_reduce {
	struct hd_ticket pub;
	TAILQ_ENTRY(worker_reduce) link;
	struct hd_reduce_args args;
	bool ended;
	uint8_t attempt;
	uint16_t epoch;
	uint64_t making; /* of its sum */
	uint8_t avoid; /* slots of a switch: enum hd_group_avoid, the worse of what befell it */
	float peak; /* greatest absolute value: should they be of fixed point */
	float scale; /* of the sum: 1, or one by the number of workers */
	hd_ns began, progress_at;
	uint64_t progress_bytes;
	uint16_t *half; /* 16 bits: what is sent, then what is received */
	uint32_t shard_count, held;
	struct worker_reduce_shard *shards;
};

/* --- worker_reduce.c ---------------------------------------------------------------------- */
void worker_on_reduce(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_reduce *message
);
void worker_reduce_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_drop *drop
);
/* Each: true when the token is an all-reduce's. */
bool worker_reduce_void(struct hd_worker *worker, const struct worker_context *ctx, uint64_t token);
bool worker_reduce_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_sack *sack
);
bool worker_reduce_chunk(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet,
	const struct hd_chunk_header *header,
	const uint8_t *payload
);
/* A packet of type RESULT: of an all-reduce, or of a push through slots. */
void worker_reduce_result(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet
);
/* 0, -ENOENT, -EALREADY. */
int worker_reduce_cancel(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	uint32_t round
);
void worker_reduce_way_closed(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_way *way
);
/* Whether chunks of one go this way. */
bool worker_reduce_uses(const struct hd_worker *worker, const struct worker_way *way);
void worker_reduce_ask_queued(struct hd_worker *worker, const struct worker_context *ctx);
void worker_reduce_requeue(struct hd_worker *worker);
/* The oldest round that has not ended, or the next one. */
uint32_t worker_reduce_from(const struct hd_worker *worker);
void worker_reduce_fail_all(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum hd_reason reason
);
void worker_reduce_collect(struct hd_worker *worker, const struct worker_context *ctx);
/* True while there is something to watch. */
bool worker_reduce_stalls(struct hd_worker *worker, const struct worker_context *ctx);
void worker_reduce_pump(struct hd_worker *worker, const struct worker_context *ctx);
hd_ns worker_reduce_deadline(const struct hd_worker *worker);
/* Nothing of any is under way any more. */
void worker_reduce_off_wire(struct hd_worker *worker);
void worker_reduce_destroy(struct hd_worker *worker);

/* The all-reduce and its shard that have this token; NULL: none. */
struct worker_reduce_shard *
worker_reduce_find_shard(struct hd_worker *worker, uint64_t token, struct worker_reduce **of);
void worker_reduce_emit(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_reduce *r,
	struct hd_event event
);
/* Every sum is there. */
void worker_reduce_applied(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
);
/* Off the wire, and asked for once more. */
void worker_reduce_again(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
);

/* --- worker_shards.c ---------------------------------------------------------------------- */
/* 0, -EINVAL (the shards are not the values), -ENOBUFS (too many ways), -ENOMEM; shards may be half open. */
int worker_reduce_open_shards(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
);
void worker_reduce_drop_shards(struct hd_worker *worker, struct worker_reduce *r);
/* The path to an aggregator was dead for too long. */
bool worker_reduce_is_dead(const struct worker_reduce *r);
/* Bytes that got through, either way. */
uint64_t worker_reduce_progress(const struct worker_reduce *r);

/* --- worker_slots.c ----------------------------------------------------------------------- */
/* The one shard of a round that goes through a switch. As worker_reduce_open_shards(). */
int worker_reduce_open_slots(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
);
/* Whether it has to wait until the lease's round before has ended. */
bool worker_reduce_is_held(const struct hd_worker *worker, const struct worker_reduce *r);
bool worker_reduce_by_slots(const struct worker_reduce *r);

#endif
