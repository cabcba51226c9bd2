/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of all-reduces share: hd_worker_reduce.c (asked for, void, ended), hd_worker_shards.c (on the
 * wire, by aggregators), hd_worker_slots.c (through the slots of a switch). */
#ifndef HD_WORKER_REDUCE_H
#define HD_WORKER_REDUCE_H

#include "hd_slots.h"
#include "hd_worker_core.h"

struct reduce;
struct reduce_shard;

/* How the values of a shard are added. */
struct reduce_means {
	hd_ns stall; /* without progress for so long: it is asked for again */
	void (*close)(struct reduce_shard *shard);
	/* The path was dead for too long. */
	bool (*is_dead)(const struct reduce_shard *shard);
	/* Grows with everything that gets through, either way. */
	uint64_t (*progress)(const struct reduce_shard *shard);
	void (*pump
	)(struct hd_worker *worker,
	  const struct context *ctx,
	  const struct reduce *r,
	  struct reduce_shard *shard);
	hd_ns (*deadline
	)(const struct hd_worker *worker, const struct reduce *r, const struct reduce_shard *shard);
};

struct reduce_shard {
	const struct reduce_means *means; /* NULL: not open */
	struct way *way;
	uint64_t out_token, in_token;
	/* by an aggregator */
	struct hd_send *send; /* NULL: acknowledged */
	struct hd_recv *recv; /* NULL: held */
	struct hd_seal seal; /* of what comes */
	/* by a switch */
	struct hd_slots *slots;
	uint32_t turn; /* rounds of one lease have the same tokens */
};

struct reduce {
	struct hd_ticket pub;
	TAILQ_ENTRY(reduce) link;
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
	struct reduce_shard *shards;
};

/* The all-reduce and its shard that have this token; NULL: none. */
struct reduce_shard *
reduce_find_shard(struct hd_worker *worker, uint64_t token, struct reduce **of);
void reduce_emit(
	struct hd_worker *worker,
	const struct context *ctx,
	const struct reduce *r,
	struct hd_event event
);
/* Every sum is there. */
void reduce_applied(struct hd_worker *worker, const struct context *ctx, struct reduce *r);
/* Off the wire, and asked for once more. */
void reduce_again(struct hd_worker *worker, const struct context *ctx, struct reduce *r);

/* --- hd_worker_shards.c ---------------------------------------------------------------------- */
/* 0, -EINVAL (the shards are not the values), -ENOBUFS (too many ways), -ENOMEM; shards may be half open. */
int reduce_open_shards(
	struct hd_worker *worker,
	const struct context *ctx,
	struct reduce *r,
	const struct hd_msg_reduce *message
);
void reduce_drop_shards(struct hd_worker *worker, struct reduce *r);
/* The path to an aggregator was dead for too long. */
bool reduce_is_dead(const struct reduce *r);
/* Bytes that got through, either way. */
uint64_t reduce_progress(const struct reduce *r);

/* --- hd_worker_slots.c ----------------------------------------------------------------------- */
/* The one shard of a round that goes through a switch. As reduce_open_shards(). */
int reduce_open_slots(
	struct hd_worker *worker,
	const struct context *ctx,
	struct reduce *r,
	const struct hd_msg_reduce *message
);
/* Whether it has to wait until the lease's round before has ended. */
bool reduce_is_held(const struct hd_worker *worker, const struct reduce *r);
bool reduce_by_slots(const struct reduce *r);

#endif
