/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of all-reduces share: hd_worker_reduce.c (asked for, void, ended), hd_worker_shards.c (on the
 * wire). */
#ifndef HD_WORKER_REDUCE_H
#define HD_WORKER_REDUCE_H

#include "hd_worker_core.h"

struct reduce_shard {
	struct way *way;
	uint64_t out_token, in_token;
	struct hd_send *send; /* NULL: acknowledged */
	struct hd_recv *recv; /* NULL: held */
};

struct reduce {
	struct hd_ticket pub;
	TAILQ_ENTRY(reduce) link;
	struct hd_reduce_args args;
	bool ended;
	uint8_t attempt;
	uint16_t epoch;
	float scale; /* of the sum: 1, or one by the number of workers */
	hd_ns began, progress_at;
	uint64_t progress_bytes;
	uint16_t *half; /* 16 bits: what is sent, then what is received */
	uint32_t shard_count, held;
	struct reduce_shard *shards;
};

/* The all-reduce and its shard that have this token; NULL: none. */
struct reduce_shard *
reduce_find_shard(const struct hd_worker *worker, uint64_t token, struct reduce **of);
void reduce_emit(
	struct hd_worker *worker,
	const struct context *ctx,
	const struct reduce *r,
	struct hd_event event
);
/* Every sum is there. */
void reduce_applied(struct hd_worker *worker, const struct context *ctx, struct reduce *r);

/* --- hd_worker_shards.c ---------------------------------------------------------------------- */
/* 0, -EINVAL (the shards are not the values), -ENOBUFS (too many ways), -ENOMEM; shards may be half open. */
int reduce_open_shards(
	struct hd_worker *worker,
	const struct context *ctx,
	struct reduce *r,
	const struct hd_msg_reduce *message
);
void reduce_drop_shards(struct reduce *r);
/* The path to an aggregator was dead for too long. */
bool reduce_is_dead(const struct reduce *r);
/* Bytes that got through, either way. */
uint64_t reduce_progress(const struct reduce *r);

#endif
