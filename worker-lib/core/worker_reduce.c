/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces: requested, begun, void, ended. Sent and received values have separate memory, so that a void round can
 * be requested again. A round ends with its last sum: every aggregator has our values then, even if acknowledgements
 * are still in flight.
 */
#include "hd_group.h"
#include "hd_kernels.h"
#include "hd_limits.h"
#include "worker_blocks.h"
#include "worker_channel.h"
#include "worker_inline.h"
#include "worker_reduce.h"
#include "worker_shared.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

bool hd_worker_is_direct(const struct hd_worker *worker) {
	return hd_addr_is_none(worker->config.controller);
}

static bool is_possible(const struct hd_worker *worker, const struct hd_reduce_args *args) {
	const bool rounded = args->type == HD_DTYPE_FP32 && hd_dtype_is_half(args->dtype);
	const bool barrier = args->collective == HD_COLLECTIVE_BARRIER;

	if ((args->collective == HD_COLLECTIVE_SEND) != (args->channel != 0)
	    || (args->channel != 0 && !worker_channel_is_possible(worker, args)))
		return false;
	if (!hd_dtype_is_element(args->type) || (args->type != args->dtype && !rounded))
		return false;
	return args->collective < HD_COLLECTIVE_COUNT && (args->values == 0) == barrier
		&& (barrier || args->in != args->out)
		&& args->values <= HD_MODEL_BYTES_MAX / hd_dtype_bytes(args->type)
		&& args->op < HD_REDUCE_OP_COUNT && args->order <= HD_GROUP_RANKED
		&& args->exact <= HD_WORKERS_MAX && args->root < HD_WORKERS_MAX
		&& args->least <= HD_WORKERS_MAX && (args->least == 0 || args->exact == 0);
}

int hd_worker_reduce(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_reduce_args *args,
	struct hd_sink *sink,
	uint32_t *round
) {
	struct worker_context ctx = {now, sink};
	struct worker_reduce *r;
	int rc = 0;

	if (worker->refused || worker->stage >= WORKER_LEAVING)
		return -ESHUTDOWN;
	if (hd_worker_is_direct(worker))
		return -EDESTADDRREQ;
	if (!is_possible(worker, args))
		return -EINVAL;
	if (!worker->registered_once)
		return -EAGAIN;
	if (args->channel == 0 && worker->reduce_count - worker->pair_count == HD_REDUCES_MAX)
		return -ENOBUFS;
	r = calloc(1, sizeof *r);
	if (r && args->type != args->dtype)
		r->half = malloc(2 * args->values * sizeof *r->half);
	if (!r || (args->type != args->dtype && !r->half))
		rc = -ENOMEM;
	else if (args->channel != 0)
		rc = worker_channel_call(worker, args->channel, &r->pub.round);
	else
		r->pub.round = ++worker->reduce_round;
	if (rc < 0) {
		free(r);
		return rc;
	}
	r->args = *args;
	r->pub.direction = HD_REDUCE;
	r->pub.bytes = args->values * hd_dtype_bytes(args->dtype);
	r->pub.user = args->user;
	r->pub.asked = now;
	r->pub.granted = true;
	if (worker_reduce_may_use_slots(args))
		r->peak = hd_peak_finite_f32(args->in, args->values);
	if (r->half && args->in)
		hd_half_from_f32(args->dtype, r->half, args->in, args->values, 1);
	TAILQ_INSERT_TAIL(&worker->reduces, r, link);
	worker->reduce_count++;
	*round = r->pub.round;
	worker_reduce_ask(worker, &ctx, r);
	return 0;
}

/* --- messages about rounds ------------------------------------------------------------------ */

/* Of an attempt in which it had nothing to give or to receive, this worker does not know that it was void. */
static bool may_begin(const struct worker_reduce *r, const struct hd_msg_reduce *message) {
	return r->pub.state == HD_TICKET_REQUESTED
		|| (r->pub.state == HD_TICKET_SENDING && r->shard_count == 0 && r->shared == 0
		    && message->sum_id > r->sum_id);
}

void worker_on_reduce(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_reduce *message
) {
	struct worker_reduce *r = worker_reduce_find(worker, message->channel, message->round);
	int rc;

	if (message->job != worker->job || message->worker != worker->config.rank || !r
	    || r->attempt != message->attempt || !may_begin(r, message) || message->workers == 0
	    || !(message->scale > 0) || isinf(message->scale)
	    || (r->args.channel != 0 && !worker_channel_begins(worker, r, message->peer_boot))) {
		worker->stats.late_messages++;
		return;
	}
	if (message->channel == 0)
		worker->inline_bytes = message->inline_bytes;
	r->epoch = message->epoch;
	r->sum_id = message->sum_id;
	r->given = 0;
	r->pub.delay = message->workers;
	r->pub.scale = message->scale;
	r->pub.waiting = message->waiting;
	r->began = r->progress_at = ctx->now;
	r->progress_bytes = 0;
	rc = message->op == r->args.op ? worker_blocks_begin(worker, r, message) : -EINVAL;
	if (rc == 0 && message->inlined)
		rc = worker_inline_begin(worker, r, message);
	else if (rc == 0 && message->shared != 0)
		rc = worker_shared_open(worker, r, message);
	else if (rc == 0 && message->slots > 0)
		rc = worker_slots_open(worker, ctx, r, message);
	else if (rc == 0)
		rc = worker_shards_open(worker, ctx, r, message);
	if (rc == -EAGAIN) {
		worker_reduce_again(worker, ctx, r);
		return;
	}
	if (rc < 0) {
		enum hd_reason reason = rc == -EINVAL ? HD_REASON_REFUSED : HD_REASON_NO_MEMORY;

		worker_reduce_report(worker, ctx, r, HD_OUTCOME_FAILED, reason);
		worker_reduce_end(worker, ctx, r, HD_TICKET_FAILED, reason);
		return;
	}
	if (worker->stall_at == HD_NEVER)
		worker->stall_at = hd_ns_add(ctx->now, HD_STALL_US * HD_US / 4);
	worker_reduce_emit(worker, ctx, r, (struct hd_event){.kind = HD_EVENT_SEND_START});
	if (r->pub.state == HD_TICKET_REQUESTED)
		worker_reduce_set_state(worker, r, HD_TICKET_SENDING);
	if (message->inlined && message->values.bytes > 0) {
		worker_inline_deliver(worker, r, &message->values);
		worker_reduce_applied(worker, ctx, r);
	}
}

/* The attempt that REDUCED names began without this worker's knowledge: REDUCE was lost with its session, and it has
 * asked again since. */
static bool has_missed(const struct worker_reduce *r, const struct hd_msg_reduced *message) {
	return r->args.channel == 0 && r->pub.state == HD_TICKET_REQUESTED && r->attempt > 1
		&& message->sum_id != 0 && message->sum_id != r->sum_id;
}

/* All that receive something of this round have it: this worker's values are not needed any more. */
void worker_on_reduced(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_reduced *message
) {
	struct worker_reduce *r = worker_reduce_find(worker, message->channel, message->round);
	const bool ours = message->job == worker->job && message->worker == worker->config.rank;

	if (ours && r && has_missed(r, message)) {
		worker_reduce_again(worker, ctx, r); /* the answer says what became of it */
		return;
	}
	/* Also when it has asked again since: its values had arrived, even if it did not see that. A send has no other
	 * values in another attempt. */
	if (!ours || !r
	    || (r->args.channel == 0 && (message->sum_id == 0 || message->sum_id != r->sum_id))
	    || r->due > 0 || (r->args.channel != 0 && r->args.out)) {
		worker->stats.late_messages++;
		return;
	}
	worker_reduce_finish(worker, ctx, r);
}

/* The controller refuses the round, or reports that the others have the sum and their values are gone. */
void worker_reduce_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_drop *drop
) {
	struct worker_reduce *r = worker_reduce_find(worker, 0, drop->round);

	if (drop->channel != 0) {
		worker_channel_drop(worker, ctx, drop);
		return;
	}
	if (drop->job != worker->job || drop->worker != worker->config.rank || !r
	    || r->attempt != drop->attempt) {
		worker->stats.late_messages++;
		return;
	}
	/* It is in the result that the others have, and asked only whether they have it. */
	if (drop->reason == HD_REASON_LATE && drop->sum_id != 0 && drop->sum_id == r->given) {
		worker_reduce_finish(worker, ctx, r);
		return;
	}
	if (drop->reason == HD_REASON_LATE)
		worker->reduce_sum_id = 0; /* the attempt of our sum is not compared any more */
	if (drop->deadline > worker->reduce_round) /* the others continued meanwhile */
		worker->reduce_round = drop->deadline;
	r->pub.words = drop->text[0] ? drop->text : NULL;
	worker_reduce_end(
		worker,
		ctx,
		r,
		HD_TICKET_FAILED,
		drop->reason < HD_REASON_COUNT ? drop->reason : HD_REASON_REFUSED
	);
	r->pub.words = NULL;
}

int worker_reduce_cancel(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	uint32_t channel,
	uint32_t round
) {
	struct hd_message message = {.kind = HD_MSG_CANCEL};
	struct worker_reduce *r = worker_reduce_find(worker, channel, round);

	if (!r)
		return -ENOENT;
	/* Others depend on it; or the receiver may have the values of a pair that has begun once. */
	if (r->pub.state == HD_TICKET_SENDING || (channel != 0 && r->sum_id != 0))
		return -EALREADY;
	message.cancel.job = worker->job;
	message.cancel.worker = worker->config.rank;
	message.cancel.channel = channel;
	message.cancel.round = round;
	message.cancel.direction = HD_REDUCE;
	message.cancel.attempt = r->attempt;
	message.cancel.reason = HD_REASON_CANCELLED;
	(void)worker_tell(worker, worker->controller, ctx, &message);
	worker_reduce_end(worker, ctx, r, HD_TICKET_FAILED, HD_REASON_CANCELLED);
	return 0;
}

bool worker_reduce_void(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	uint64_t token
) {
	struct worker_reduce *r;
	bool found = false;

	/* Rounds of one lease have the same tokens. */
	TAILQ_FOREACH (r, &worker->reduces, link) {
		bool has = token != 0 && r->shared == token;

		for (uint32_t i = 0; token != 0 && i < r->shard_count; i++)
			has |= r->shards[i].out_token == token || r->shards[i].in_token == token;
		found |= has;
		if (has && !r->ended)
			worker_reduce_again(worker, ctx, r);
	}
	return found;
}

void worker_reduce_path_closed(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_path *path
) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		bool uses = false;

		for (uint32_t i = 0; i < r->shard_count; i++)
			uses |= r->shards[i].path == path && worker_shard_is_open(r, &r->shards[i]);
		if (uses && !r->ended)
			worker_reduce_again(worker, ctx, r);
	}
}

/* A silent member is removed from a lease within this time: after it the switch itself is lost. */
static hd_ns stall_span(const struct worker_reduce *r) {
	return worker_reduce_by_slots(r) ? HD_DETECTION_US * HD_US : HD_STALL_US * HD_US;
}

bool worker_reduce_stalls(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_reduce *r;
	bool watch = false;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		uint64_t bytes = worker_reduce_progress(r);

		if (!r->ended && r->shared != 0) {
			watch = true;
			worker_shared_stalls(worker, ctx, r);
			continue;
		}
		if (r->ended || r->pub.state != HD_TICKET_SENDING || r->shard_count == 0
		    || worker_reduce_waits(r))
			continue;
		watch = true;
		if (bytes != r->progress_bytes || worker_slots_held(worker, r)) {
			r->progress_bytes = bytes;
			r->progress_at = ctx->now;
		} else if (ctx->now >= hd_ns_add(r->progress_at, stall_span(r))) {
			if (worker_reduce_by_slots(r) && r->avoid == HD_GROUP_AVOID_NOT)
				r->avoid = HD_GROUP_AVOID_STILL;
			worker_reduce_again(worker, ctx, r);
		}
	}
	return watch;
}

void worker_reduce_pump(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_reduce *r;

	if (worker->pairs_due)
		worker_reduce_ask_queued(worker, ctx);
	worker->pairs_due = false;
	TAILQ_FOREACH (r, &worker->reduces, link) {
		for (uint32_t i = 0; i < r->shard_count; i++) {
			struct worker_shard *shard = &r->shards[i];

			if (shard->kind == WORKER_SHARD_BY_AGGREGATOR)
				worker_shard_pump(worker, ctx, shard);
			else if (shard->kind == WORKER_SHARD_BY_SLOTS)
				worker_slots_pump(worker, ctx, r, shard);
		}
	}
}

hd_ns worker_reduce_deadline(const struct hd_worker *worker) {
	const struct worker_reduce *r;
	hd_ns deadline = HD_NEVER;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		for (uint32_t i = 0; i < r->shard_count; i++) {
			const struct worker_shard *shard = &r->shards[i];

			if (shard->kind == WORKER_SHARD_BY_AGGREGATOR)
				deadline
					= hd_ns_min(deadline, worker_shard_deadline(worker, shard));
			else if (shard->kind == WORKER_SHARD_BY_SLOTS)
				deadline = hd_ns_min(
					deadline, worker_slots_deadline(worker, r, shard)
				);
		}
	}
	return deadline;
}
