/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests for all-reduces, their repetition, and their ends. */
#include "hd_assert.h"
#include "hd_text.h"
#include "worker_blocks.h"
#include "worker_channel.h"
#include "worker_inline.h"
#include "worker_reduce.h"
#include "worker_shared.h"

#include <stdlib.h>

/* A round that told places besides its values says nothing of what its links carry. */
static bool says_how_fast(const struct worker_reduce *r) {
	return !worker_reduce_by_slots(r) || hd_slots_stats(r->shards[0].slots)->places == 0;
}

void worker_reduce_report(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_reduce *r,
	enum hd_outcome outcome,
	enum hd_reason reason
) {
	struct hd_message message = {.kind = HD_MSG_REPORT};
	struct hd_msg_report *body = &message.report;

	body->job = worker->job;
	body->worker = worker->config.rank;
	body->round = r->pub.round;
	body->direction = HD_REDUCE;
	body->attempt = r->attempt;
	body->token = r->sum_id;
	body->channel = r->args.channel;
	body->base = r->args.channel ? worker_channel_peer_boot(worker, r->args.channel) : 0;
	body->outcome = (uint8_t)outcome;
	body->reason = (uint8_t)reason;
	body->bytes = r->pub.bytes;
	body->duration_ns = says_how_fast(r) ? ctx->now - r->began : 0;
	(void)worker_tell(worker, worker->controller, ctx, &message);
}

/* Rounds may end in another order than they begin. */
static void note_had(struct hd_worker *worker, uint32_t round) {
	uint32_t done = worker->reduce_done, by;

	if (round > done) {
		by = round - done;
		worker->reduce_had = by < 64 ? worker->reduce_had << by : 0;
		if (done > 0 && by <= 64)
			worker->reduce_had |= UINT64_C(1) << (by - 1);
	} else if (round < done && done - round <= 64) {
		worker->reduce_had |= UINT64_C(1) << (done - round - 1);
	}
}

static void note_end(struct hd_worker *worker, const struct worker_reduce *r) {
	if (r->args.channel != 0) {
		worker_channel_has(worker, r->args.channel, r->pub.round);
		return;
	}
	note_had(worker, r->pub.round);
	if (r->pub.round <= worker->reduce_done)
		return;
	worker->reduce_done = r->pub.round;
	worker->reduce_members = (uint16_t)r->pub.delay;
	worker->reduce_sum_id = r->sum_id;
}

/* Its callbacks may begin others: the rest of its memory is freed at the next collect. */
void worker_reduce_end(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r,
	enum hd_ticket_state state,
	enum hd_reason reason
) {
	bool applied = state == HD_TICKET_APPLIED;

	if (r->ended)
		return;
	worker_reduce_drop_shards(worker, r); /* neither in nor out is used after their release */
	r->ended = true;
	r->pub.reason = reason;
	r->pub.ended = ctx->now;
	hd_assert(worker->reduce_count > 0);
	worker->reduce_count--;
	worker->pair_count -= r->args.channel != 0;
	worker->pairs_due |= r->args.channel != 0;
	hd_assert(worker->pair_count <= worker->reduce_count);
	if (applied)
		note_end(worker, r);
	worker->stats.reduced += applied;
	worker->stats.reduce_failed += !applied;
	worker_reduce_emit(
		worker,
		ctx,
		r,
		(struct hd_event){
			.kind = HD_EVENT_OUTCOME,
			.reason = reason,
			.aux = applied ? HD_OUTCOME_APPLIED : HD_OUTCOME_FAILED,
		}
	);
	worker_reduce_set_state(worker, r, state);
	if (worker->config.ops && worker->config.ops->released)
		worker->config.ops->released(worker->config.owner, r->pub.round, r->pub.user);
}

void worker_reduce_fail_all(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum hd_reason reason
) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		worker_reduce_end(worker, ctx, r, HD_TICKET_FAILED, reason);
}

void worker_reduce_applied(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
) {
	worker_reduce_emit(worker, ctx, r, (struct hd_event){.kind = HD_EVENT_RECV_END});
	worker_reduce_report(worker, ctx, r, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	worker_reduce_end(worker, ctx, r, HD_TICKET_APPLIED, HD_REASON_NONE);
}

void worker_reduce_ask(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};
	struct hd_msg_request *request = &message.request;

	if (r->ended || r->pub.state != HD_TICKET_QUEUED || !worker_is_registered(worker)
	    || worker->refused)
		return;
	if (r->args.channel != 0 && !worker_channel_may_ask(worker, r->args.channel, r->pub.round))
		return;
	if (r->attempt == WORKER_ATTEMPTS_MAX) {
		if (r->args.channel != 0) /* the other end would wait for it */
			worker_reduce_report(worker, ctx, r, HD_OUTCOME_FAILED, HD_REASON_TIMEOUT);
		worker_reduce_end(worker, ctx, r, HD_TICKET_FAILED, HD_REASON_TIMEOUT);
		return;
	}
	request->job = worker->job;
	request->worker = worker->config.rank;
	request->round = r->pub.round;
	request->direction = HD_REDUCE;
	request->attempt = r->attempt + 1;
	request->dtype = r->args.dtype;
	request->op = r->args.op;
	request->bytes = r->pub.bytes;
	request->order = r->args.order;
	if (r->args.channel != 0)
		worker_channel_fill(worker, r->args.channel, request);
	else
		request->have = worker_reduce_from(worker);
	r->peer_boot = request->peer_boot;
	request->peak = r->peak;
	request->avoid = r->avoid;
	request->collective = r->args.collective;
	request->root = r->args.root;
	request->exact = r->args.exact;
	request->state = r->args.state;
	request->by_network = r->by_network || worker->unshared;
	request->least = r->args.least;
	request->wait_ms = r->args.wait_ms;
	request->room = r->args.room * hd_dtype_bytes(r->args.dtype);
	hd_text_copy(request->tag, sizeof request->tag, r->args.tag);
	request->values = worker_inline_given(worker, r);
	if (worker_tell(worker, worker->controller, ctx, &message) < 0) {
		worker->retry_at = hd_ns_add(ctx->now, WORKER_RETRY_US * HD_US);
		return;
	}
	r->attempt++;
	worker->stats.asked_again += r->attempt > 1;
	worker_reduce_set_state(worker, r, HD_TICKET_REQUESTED);
}

void worker_reduce_ask_queued(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		worker_reduce_ask(worker, ctx, r);
}

/* Rounds that waited at a lost controller are requested again; those in progress go on without it. */
void worker_reduce_requeue(struct hd_worker *worker) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		if (!r->ended && r->pub.state == HD_TICKET_REQUESTED)
			worker_reduce_to_queue(r);
		else if (!r->ended && r->pub.state == HD_TICKET_SENDING && r->due == 0)
			r->lone = !worker_reduce_by_slots(r);
}

void worker_reduce_again(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
) {
	if (!worker_reduce_unshare(worker, r, false))
		return;
	r->given = worker_reduce_waits(r) ? r->sum_id : 0;
	r->lone = false;
	worker_reduce_drop_shards(worker, r);
	worker_reduce_to_queue(r);
	worker_reduce_ask(worker, ctx, r);
}

void worker_reduce_registered(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		if (r->lone && worker_reduce_waits(r))
			worker_reduce_again(worker, ctx, r);
}

void worker_reduce_finish(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
) {
	worker_blocks_copy(worker, r);
	worker_reduce_end(worker, ctx, r, HD_TICKET_APPLIED, HD_REASON_NONE);
}

static void forget(struct hd_worker *worker, struct worker_reduce *r) {
	hd_assert(r->shared == 0 && !r->shards); /* neither uses its memory any more */
	TAILQ_REMOVE(&worker->reduces, r, link);
	free(r->half);
	free(r);
}

void worker_reduce_collect(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_reduce *r, *next;

	for (r = TAILQ_FIRST(&worker->reduces); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (!r->ended && worker_reduce_is_dead(r))
			worker_reduce_again(worker, ctx, r);
		if (r->ended)
			forget(worker, r);
	}
	hd_assert(
		!TAILQ_EMPTY(&worker->reduces)
		|| (worker->reduce_count == 0 && worker->pair_count == 0)
	);
}

void worker_reduce_off_wire(struct hd_worker *worker) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		worker_reduce_drop_shards(worker, r);
}

void worker_reduce_destroy(struct hd_worker *worker) {
	struct worker_reduce *r;

	while ((r = TAILQ_FIRST(&worker->reduces))) {
		worker_reduce_drop_shards(worker, r);
		forget(worker, r);
	}
}
