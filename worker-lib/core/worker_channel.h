/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives: a channel is an ordered pair of workers, and counts the sends of the one to the other. Both ends
 * count alike, for as long as both are the same processes (hd_message_codes.h). A send or receive is a worker_reduce of
 * two members, with the channel's number as its round.
 *
 *   worker_channel.c      the numbers: below worker_reduce_ask.c
 *   worker_channel_end.c  messages of the controller
 */
#ifndef WORKER_CHANNEL_H
#define WORKER_CHANNEL_H

#include "worker_reduce.h"

/* --- worker_channel.c ----------------------------------------------------------------------- */
/* Whether this worker may send, or receive, on the channel. */
bool worker_channel_is_possible(const struct hd_worker *worker, const struct hd_reduce_args *args);
/* The number of the next call. */
uint32_t worker_channel_next(const struct hd_worker *worker, uint32_t channel);
/* Counts one more call. 0, -ENOBUFS, -ENOMEM. */
int worker_channel_call(struct hd_worker *worker, uint32_t channel, uint32_t *number);
/* Whether the call is near enough to the oldest one of its channel. */
bool worker_channel_may_ask(const struct hd_worker *worker, uint32_t channel, uint32_t number);
/* The fields of REQUEST that a channel adds or has in its own way. */
void worker_channel_fill(
	const struct hd_worker *worker,
	uint32_t channel,
	struct hd_msg_request *request
);
/* REDUCE: with this process of the other end the pairs are counted from now on. False: with another. */
bool worker_channel_begins(
	struct hd_worker *worker,
	const struct worker_reduce *r,
	uint64_t peer_boot
);
uint64_t worker_channel_peer_boot(const struct hd_worker *worker, uint32_t channel);
/* The values of this pair are here. */
void worker_channel_has(struct hd_worker *worker, uint32_t channel, uint32_t number);
/* The next call is number 1 again. No call of the channel may be open. */
void worker_channel_restart(struct hd_worker *worker, uint32_t channel);
/* Its numbers at this end. */
void worker_channel_describe(
	const struct hd_worker *worker,
	uint32_t channel,
	struct hd_msg_channel *answer
);
void worker_channel_destroy(struct hd_worker *worker);

/* --- worker_channel_end.c ------------------------------------------------------------------- */
void worker_channel_on_question(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_channel *question
);
/* There will be no such pair. */
void worker_channel_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_drop *drop
);

#endif
