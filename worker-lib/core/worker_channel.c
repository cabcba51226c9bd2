/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of sends and receives, by channel. */
#include "hd_assert.h"
#include "hd_group.h"
#include "worker_channel.h"

#include <errno.h>
#include <stdlib.h>

/* One end of a channel. */
struct worker_channel {
	uint64_t
		peer_boot; /* process of the other end with which they are counted; 0: no pair has begun */
	uint32_t called; /* the newest */
	uint32_t newest; /* of a receiver: the newest that it has, */
	uint64_t had; /* and bit i: it has newest - 1 - i */
};

static bool is_sender(const struct hd_worker *worker, uint32_t channel) {
	return hd_channel_from(channel) == worker->config.rank;
}

/* By the other end's rank: those that this worker sends on, then those that it receives on. */
static struct worker_channel *find(const struct hd_worker *worker, uint32_t channel) {
	if (!worker->channels)
		return NULL;
	return is_sender(worker, channel) ?
		&worker->channels[hd_channel_to(channel)] :
		&worker->channels[HD_WORKERS_MAX + hd_channel_from(channel)];
}

bool worker_channel_is_possible(const struct hd_worker *worker, const struct hd_reduce_args *args) {
	const uint16_t from = hd_channel_from(args->channel), to = hd_channel_to(args->channel);
	const bool sends = from == worker->config.rank;

	return from < HD_WORKERS_MAX && to < HD_WORKERS_MAX && from != to && args->root == from
		&& (sends ? args->in && !args->out : args->out && !args->in)
		&& (sends || to == worker->config.rank) && args->type == args->dtype
		&& args->op == HD_REDUCE_OP_SUM && args->order == HD_GROUP_ARRIVAL
		&& args->exact == 0;
}

uint32_t worker_channel_next(const struct hd_worker *worker, uint32_t channel) {
	const struct worker_channel *at = find(worker, channel);

	return at ? at->called + 1 : 1;
}

/* The oldest call of the channel that has not ended, or the next one. */
static uint32_t oldest(const struct hd_worker *worker, uint32_t channel) {
	const struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		if (!r->ended && r->args.channel == channel)
			return r->pub.round;
	return worker_channel_next(worker, channel);
}

int worker_channel_call(struct hd_worker *worker, uint32_t channel, uint32_t *number) {
	if (!worker->channels)
		worker->channels = calloc((size_t)2 * HD_WORKERS_MAX, sizeof *worker->channels);
	if (!worker->channels)
		return -ENOMEM;
	if (worker->pair_count == HD_PAIRS_MAX)
		return -ENOBUFS;
	worker->pair_count++;
	*number = ++find(worker, channel)->called;
	return 0;
}

bool worker_channel_may_ask(const struct hd_worker *worker, uint32_t channel, uint32_t number) {
	hd_assert(number > 0 && number < worker_channel_next(worker, channel));
	return number - oldest(worker, channel) < HD_CHANNEL_PAIRS_MAX;
}

void worker_channel_fill(
	const struct hd_worker *worker,
	uint32_t channel,
	struct hd_msg_request *request
) {
	request->channel = channel;
	request->peer_boot = find(worker, channel)->peer_boot;
	request->have = oldest(worker, channel);
}

bool worker_channel_begins(
	struct hd_worker *worker,
	const struct worker_reduce *r,
	uint64_t peer_boot
) {
	struct worker_channel *at = find(worker, r->args.channel);

	if (peer_boot == 0 || (at->peer_boot != 0 && at->peer_boot != peer_boot))
		return false;
	at->peer_boot = peer_boot;
	return true;
}

uint64_t worker_channel_peer_boot(const struct hd_worker *worker, uint32_t channel) {
	const struct worker_channel *at = find(worker, channel);

	return at ? at->peer_boot : 0;
}

/* A receiver's calls may end in another order than they begin. */
void worker_channel_has(struct hd_worker *worker, uint32_t channel, uint32_t number) {
	struct worker_channel *at = find(worker, channel);
	const uint32_t newest = at->newest, by = number - newest;

	if (is_sender(worker, channel))
		return;
	if (number > newest) {
		at->had = by < 64 ? at->had << by : 0;
		if (newest > 0 && by <= 64)
			at->had |= UINT64_C(1) << (by - 1);
		at->newest = number;
	} else if (number < newest && newest - number <= 64) {
		at->had |= UINT64_C(1) << (newest - number - 1);
	}
}

void worker_channel_restart(struct hd_worker *worker, uint32_t channel) {
	struct worker_channel *at = find(worker, channel);

	if (at)
		*at = (struct worker_channel){0};
}

void worker_channel_describe(
	const struct hd_worker *worker,
	uint32_t channel,
	struct hd_msg_channel *answer
) {
	const struct worker_channel *at = find(worker, channel);
	const struct worker_reduce *r;

	answer->channel = channel;
	answer->from = oldest(worker, channel);
	if (!at)
		return;
	answer->peer_boot = at->peer_boot;
	answer->called = at->called;
	if (at->called - answer->from >= HD_CHANNEL_PAIRS_MAX && at->called > answer->from)
		answer->called = answer->from + HD_CHANNEL_PAIRS_MAX - 1; /* not requested yet */
	answer->newest = at->newest;
	answer->had = at->had;
	TAILQ_FOREACH (r, &worker->reduces, link)
		if (!r->ended && r->args.channel == channel
		    && r->pub.round - answer->from < HD_CHANNEL_PAIRS_MAX)
			answer->open |= UINT64_C(1) << (r->pub.round - answer->from);
}

void worker_channel_destroy(struct hd_worker *worker) {
	free(worker->channels);
	worker->channels = NULL;
}
