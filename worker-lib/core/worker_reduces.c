/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of all-reduces: lookups, states, functions for all kinds of shards. */
#include "hd_assert.h"
#include "worker_reduce.h"
#include "worker_shared.h"

#include <stdlib.h>
#include <string.h>

static bool may_become(enum hd_ticket_state from, enum hd_ticket_state to) {
	switch (from) {
	case HD_TICKET_QUEUED:
		return to == HD_TICKET_QUEUED || to == HD_TICKET_REQUESTED
			|| to == HD_TICKET_APPLIED || to == HD_TICKET_FAILED;
	case HD_TICKET_REQUESTED:
		return to == HD_TICKET_QUEUED || to == HD_TICKET_SENDING || to == HD_TICKET_APPLIED
			|| to == HD_TICKET_FAILED;
	case HD_TICKET_SENDING:
		return to == HD_TICKET_QUEUED || to == HD_TICKET_APPLIED || to == HD_TICKET_FAILED;
	default:
		return false;
	}
}

void worker_reduce_to_queue(struct worker_reduce *r) {
	hd_assert(may_become(r->pub.state, HD_TICKET_QUEUED));
	r->pub.state = HD_TICKET_QUEUED;
}

void worker_reduce_set_state(
	struct hd_worker *worker,
	struct worker_reduce *r,
	enum hd_ticket_state state
) {
	hd_assert(may_become(r->pub.state, state));
	r->pub.state = state;
	if (worker->config.ops && worker->config.ops->ticket)
		worker->config.ops->ticket(worker->config.owner, &r->pub);
}

void worker_reduce_emit(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_reduce *r,
	struct hd_event event
) {
	event.direction = HD_REDUCE;
	event.round = r->pub.round;
	event.bytes = r->pub.bytes;
	worker_emit(worker, ctx, &event);
}

struct worker_reduce *
worker_reduce_find(const struct hd_worker *worker, uint32_t channel, uint32_t round) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		if (r->pub.round == round && r->args.channel == channel && !r->ended)
			return r;
	return NULL;
}

bool worker_reduce_uses(const struct hd_worker *worker, const struct worker_path *path) {
	const struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		for (uint32_t i = 0; i < r->shard_count; i++)
			if (r->shards[i].path == path && !r->ended)
				return true;
	}
	return false;
}

/* The controller does not wait for this worker in lower rounds, even if it missed messages. */
uint32_t worker_reduce_from(const struct hd_worker *worker) {
	const struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		if (!r->ended && r->args.channel == 0)
			return r->pub.round;
	return worker->reduce_round + 1;
}

static struct worker_shard *
look_for_shard(const struct hd_worker *worker, uint64_t token, struct worker_reduce **of) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		for (uint32_t i = 0; i < r->shard_count; i++) {
			*of = r;
			if (r->shards[i].out_token == token || r->shards[i].in_token == token)
				return &r->shards[i];
		}
	}
	return NULL;
}

struct worker_shard *
worker_reduce_find_shard(struct hd_worker *worker, uint64_t token, struct worker_reduce **of) {
	struct worker_reduce_found *found = &worker->reduce_found[token % WORKER_REDUCE_FOUND_MAX];
	struct worker_shard *shard;

	if (token == 0)
		return NULL;
	if (found->token == token) {
		hd_assert((size_t)(found->shard - found->of->shards) < found->of->shard_count);
		*of = found->of;
		return found->shard;
	}
	shard = look_for_shard(worker, token, of);
	if (shard)
		*found = (struct worker_reduce_found){token, *of, shard};
	return shard;
}

bool worker_reduce_unshare(struct hd_worker *worker, struct worker_reduce *r, bool force) {
	const struct hd_worker_config *config = &worker->config;

	if (r->shared == 0)
		return true;
	if (!config->shared_ops->stop(config->shared_owner, r->shared, r->turn, force))
		return false;
	r->shared = 0;
	return true;
}

void worker_reduce_drop_shards(struct hd_worker *worker, struct worker_reduce *r) {
	(void)worker_reduce_unshare(worker, r, true);
	if (r->shard_count > 0)
		memset(worker->reduce_found, 0, sizeof worker->reduce_found);
	for (uint32_t i = 0; i < r->shard_count; i++) {
		hd_send_destroy(r->shards[i].send);
		hd_recv_destroy(r->shards[i].recv);
		hd_slots_destroy(r->shards[i].slots);
	}
	free(r->shards);
	r->shards = NULL;
	r->shard_count = r->held = r->due = 0;
}

bool worker_reduce_is_dead(const struct worker_reduce *r) {
	for (uint32_t i = 0; i < r->shard_count; i++) {
		const struct worker_shard *shard = &r->shards[i];

		if (shard->send && hd_send_stats(shard->send)->state == HD_SEND_FAILED)
			return true;
		if (shard->slots && hd_slots_stats(shard->slots)->state == HD_SLOTS_FAILED)
			return true;
	}
	return false;
}

bool worker_reduce_waits(const struct worker_reduce *r) {
	if (r->ended || r->pub.state != HD_TICKET_SENDING || r->due > 0
	    || worker_reduce_by_slots(r))
		return false;
	for (uint32_t i = 0; i < r->shard_count; i++)
		if (r->shards[i].send)
			return false;
	return true;
}

static uint64_t shard_progress(const struct worker_shard *shard) {
	uint64_t bytes;

	switch (shard->kind) {
	case WORKER_SHARD_BY_AGGREGATOR:
		bytes = shard->send ? hd_send_stats(shard->send)->bytes_acked : 1;
		return bytes + (shard->recv ? hd_recv_stats(shard->recv)->bytes_held : 1);
	case WORKER_SHARD_BY_SLOTS:
		return shard->slots ? hd_slots_stats(shard->slots)->sums : 0;
	default:
		return 0;
	}
}

uint64_t worker_reduce_progress(const struct worker_reduce *r) {
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < r->shard_count; i++)
		bytes += shard_progress(&r->shards[i]);
	return bytes;
}

bool worker_reduce_by_slots(const struct worker_reduce *r) {
	return r->shard_count > 0 && r->shards[0].slots;
}

bool worker_reduce_may_use_slots(const struct hd_reduce_args *args) {
	return args->collective == HD_COLLECTIVE_ALLREDUCE && args->dtype == HD_DTYPE_FP32
		&& (args->op == HD_REDUCE_OP_SUM || args->op == HD_REDUCE_OP_AVERAGE);
}
