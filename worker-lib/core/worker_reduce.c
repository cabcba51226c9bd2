/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces: asked for, begun, void, ended. What is sent and what is received are apart, so that a round that
 * is void can be asked for again. A round ends with its last sum: every aggregator has our values then, whatever
 * acknowledgements are still under way.
 */
#include "hd_group.h"
#include "hd_kernels.h"
#include "worker_reduce.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static void
set_state(struct hd_worker *worker, struct worker_reduce *r, enum hd_ticket_state state) {
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

static struct worker_reduce *find_round(const struct hd_worker *worker, uint32_t round) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		if (r->pub.round == round && !r->ended)
			return r;
	}
	return NULL;
}

static void
report(struct hd_worker *worker,
       const struct worker_context *ctx,
       const struct worker_reduce *r,
       enum hd_outcome outcome,
       enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_REPORT};
	struct hd_msg_report *body = &message.report;

	body->job = worker->job;
	body->worker = worker->config.rank;
	body->round = r->pub.round;
	body->direction = HD_REDUCE;
	body->attempt = r->attempt;
	body->token = r->making;
	body->outcome = (uint8_t)outcome;
	body->reason = (uint8_t)reason;
	body->bytes = r->pub.bytes;
	body->duration_ns = ctx->now - r->began;
	(void)worker_tell(worker, worker->controller, ctx, &message);
}

/* Rounds may end in another order than that in which they began. */
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

/* Its callbacks may begin others: the rest of its memory goes at the next collect. */
static void
end(struct hd_worker *worker,
    const struct worker_context *ctx,
    struct worker_reduce *r,
    enum hd_ticket_state state,
    enum hd_reason reason) {
	bool applied = state == HD_TICKET_APPLIED;

	if (r->ended)
		return;
	worker_reduce_drop_shards(
		worker, r
	); /* nothing reads in or writes out once they are released */
	r->ended = true;
	r->pub.reason = reason;
	r->pub.ended = ctx->now;
	worker->reduce_count--;
	if (applied)
		note_had(worker, r->pub.round);
	if (applied && r->pub.round > worker->reduce_done) {
		worker->reduce_done = r->pub.round;
		worker->reduce_members = (uint16_t)r->pub.delay;
		worker->reduce_making = r->making;
	}
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
	set_state(worker, r, state);
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
		end(worker, ctx, r, HD_TICKET_FAILED, reason);
}

void worker_reduce_applied(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
) {
	worker_reduce_emit(worker, ctx, r, (struct hd_event){.kind = HD_EVENT_RECV_END});
	report(worker, ctx, r, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	end(worker, ctx, r, HD_TICKET_APPLIED, HD_REASON_NONE);
}

/* --- asking --------------------------------------------------------------------------------- */

/* The controller does not wait for us in rounds below it, whatever it missed. */
uint32_t worker_reduce_from(const struct hd_worker *worker) {
	const struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		if (!r->ended)
			return r->pub.round;
	}
	return worker->reduce_round + 1;
}

static void
ask(struct hd_worker *worker, const struct worker_context *ctx, struct worker_reduce *r) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};
	struct hd_msg_request *request = &message.request;

	if (r->ended || r->pub.state != HD_TICKET_QUEUED || !worker->registered || worker->refused)
		return;
	if (r->attempt == WORKER_ATTEMPTS_MAX) {
		end(worker, ctx, r, HD_TICKET_FAILED, HD_REASON_TIMEOUT);
		return;
	}
	request->job = worker->job;
	request->worker = worker->config.rank;
	request->round = r->pub.round;
	request->direction = HD_REDUCE;
	request->attempt = r->attempt + 1;
	request->dtype = r->args.dtype;
	request->bytes = r->pub.bytes;
	request->order = r->args.order;
	request->have = worker_reduce_from(worker);
	request->peak = r->peak;
	request->avoid = r->avoid;
	if (worker_tell(worker, worker->controller, ctx, &message) < 0) {
		worker->retry_at = hd_ns_add(ctx->now, WORKER_RETRY_US * HD_US);
		return;
	}
	r->attempt++;
	worker->stats.asked_again += r->attempt > 1;
	set_state(worker, r, HD_TICKET_REQUESTED);
}

void worker_reduce_ask_queued(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		ask(worker, ctx, r);
}

/* What waited at a controller that is gone is asked for anew; what is under way goes on without it. */
void worker_reduce_requeue(struct hd_worker *worker) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		if (!r->ended && r->pub.state == HD_TICKET_REQUESTED)
			r->pub.state = HD_TICKET_QUEUED;
	}
}

void worker_reduce_again(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
) {
	worker_reduce_drop_shards(worker, r);
	r->pub.state = HD_TICKET_QUEUED;
	ask(worker, ctx, r);
}

void worker_reduce_collect(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_reduce *r, *next;

	for (r = TAILQ_FIRST(&worker->reduces); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (!r->ended && worker_reduce_is_dead(r))
			worker_reduce_again(worker, ctx, r);
		if (!r->ended)
			continue;
		TAILQ_REMOVE(&worker->reduces, r, link);
		free(r->half);
		free(r);
	}
}

bool hd_worker_is_direct(const struct hd_worker *worker) {
	return hd_addr_is_none(worker->config.controller);
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

	if (worker->refused || worker->leaving)
		return -ESHUTDOWN;
	if (hd_worker_is_direct(worker))
		return -EDESTADDRREQ;
	if (!hd_dtype_is_model(args->dtype) || args->values == 0 || args->in == args->out
	    || args->values > HD_MODEL_BYTES_MAX / sizeof(float) || args->order > HD_GROUP_RANKED)
		return -EINVAL;
	if (!worker->registered_once)
		return -EAGAIN;
	if (worker->reduce_count == HD_REDUCES_MAX)
		return -ENOBUFS;
	r = calloc(1, sizeof *r);
	if (r && hd_dtype_is_half(args->dtype))
		r->half = malloc(2 * args->values * sizeof(*r->half));
	if (!r || (hd_dtype_is_half(args->dtype) && !r->half)) {
		free(r);
		return -ENOMEM;
	}
	r->args = *args;
	r->pub.round = ++worker->reduce_round;
	r->pub.direction = HD_REDUCE;
	r->pub.bytes = args->values * hd_dtype_bytes(args->dtype);
	r->pub.user = args->user;
	r->pub.asked = now;
	r->pub.granted = true;
	r->peak = args->dtype == HD_DTYPE_FP32 ? hd_peak_f32(args->in, args->values) : 0;
	if (!isfinite(r->peak))
		r->avoid = HD_GROUP_AVOID_VALUES;
	if (r->half)
		hd_half_from_f32(args->dtype, r->half, args->in, args->values, 1);
	TAILQ_INSERT_TAIL(&worker->reduces, r, link);
	worker->reduce_count++;
	*round = r->pub.round;
	ask(worker, &ctx, r);
	return 0;
}

/* --- what others say ------------------------------------------------------------------------ */

void worker_on_reduce(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_reduce *message
) {
	struct worker_reduce *r = find_round(worker, message->round);
	int rc;

	if (message->job != worker->job || message->worker != worker->config.rank || !r
	    || r->attempt != message->attempt || r->pub.state != HD_TICKET_REQUESTED
	    || message->workers == 0 || !(message->scale > 0) || isinf(message->scale)) {
		worker->stats.late_messages++;
		return;
	}
	r->epoch = message->epoch;
	r->making = message->making;
	r->scale = r->args.average ? 1.0F / (float)message->workers : 1;
	r->pub.delay = message->workers;
	r->pub.scale = message->scale;
	r->began = r->progress_at = ctx->now;
	r->progress_bytes = 0;
	if (message->bytes != r->pub.bytes)
		rc = -EINVAL;
	else if (message->slots > 0)
		rc = worker_reduce_open_slots(worker, ctx, r, message);
	else
		rc = worker_reduce_open_shards(worker, ctx, r, message);
	if (rc < 0) {
		enum hd_reason reason = rc == -EINVAL ? HD_REASON_REFUSED : HD_REASON_NO_MEMORY;

		report(worker, ctx, r, HD_OUTCOME_FAILED, reason);
		end(worker, ctx, r, HD_TICKET_FAILED, reason);
		return;
	}
	if (worker->stall_at == HD_NEVER)
		worker->stall_at = hd_ns_add(ctx->now, HD_STALL_US * HD_US / 4);
	worker_reduce_emit(worker, ctx, r, (struct hd_event){.kind = HD_EVENT_SEND_START});
	set_state(worker, r, HD_TICKET_SENDING);
}

/* The controller refuses, or says that the others have the sum and their values are gone. */
void worker_reduce_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_drop *drop
) {
	struct worker_reduce *r = find_round(worker, drop->round);

	if (drop->job != worker->job || drop->worker != worker->config.rank || !r
	    || r->attempt != drop->attempt) {
		worker->stats.late_messages++;
		return;
	}
	if (drop->reason == HD_REASON_LATE)
		worker->reduce_making = 0; /* what we had is compared with nothing any more */
	if (drop->deadline > worker->reduce_round) /* the others went on meanwhile */
		worker->reduce_round = drop->deadline;
	end(worker,
	    ctx,
	    r,
	    HD_TICKET_FAILED,
	    drop->reason < HD_REASON_COUNT ? drop->reason : HD_REASON_REFUSED);
}

int worker_reduce_cancel(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	uint32_t round
) {
	struct hd_message message = {.kind = HD_MSG_CANCEL};
	struct worker_reduce *r = find_round(worker, round);

	if (!r)
		return -ENOENT;
	if (r->pub.state == HD_TICKET_SENDING)
		return -EALREADY; /* others count on it */
	message.cancel.job = worker->job;
	message.cancel.worker = worker->config.rank;
	message.cancel.round = round;
	message.cancel.direction = HD_REDUCE;
	message.cancel.attempt = r->attempt;
	message.cancel.reason = HD_REASON_CANCELLED;
	(void)worker_tell(worker, worker->controller, ctx, &message);
	end(worker, ctx, r, HD_TICKET_FAILED, HD_REASON_CANCELLED);
	return 0;
}

bool worker_reduce_void(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	uint64_t token
) {
	struct worker_reduce *r;
	bool found = false;

	/* Rounds that go through one lease have the same tokens. */
	TAILQ_FOREACH (r, &worker->reduces, link) {
		bool has = false;

		for (uint32_t i = 0; token != 0 && i < r->shard_count; i++)
			has |= r->shards[i].out_token == token || r->shards[i].in_token == token;
		found |= has;
		if (has && !r->ended)
			worker_reduce_again(worker, ctx, r);
	}
	return found;
}

bool worker_reduce_uses(const struct hd_worker *worker, const struct worker_way *way) {
	const struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		for (uint32_t i = 0; i < r->shard_count; i++) {
			if (r->shards[i].way == way && !r->ended)
				return true;
		}
	}
	return false;
}

void worker_reduce_way_closed(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_way *way
) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		bool uses = false;

		for (uint32_t i = 0; i < r->shard_count; i++)
			uses |= r->shards[i].way == way;
		if (uses && !r->ended)
			worker_reduce_again(worker, ctx, r);
	}
}

/* --- time and end ---------------------------------------------------------------------------- */

bool worker_reduce_stalls(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_reduce *r;
	bool watch = false;

	TAILQ_FOREACH (r, &worker->reduces, link) {
		uint64_t bytes = worker_reduce_progress(r);

		if (r->ended || r->pub.state != HD_TICKET_SENDING || r->shard_count == 0)
			continue;
		watch = true;
		if (bytes != r->progress_bytes || worker_reduce_is_held(worker, r)) {
			r->progress_bytes = bytes;
			r->progress_at = ctx->now;
		} else if (ctx->now >= hd_ns_add(r->progress_at, r->shards[0].means->stall)) {
			if (worker_reduce_by_slots(r) && r->avoid == HD_GROUP_AVOID_NOT)
				r->avoid = HD_GROUP_AVOID_STILL;
			worker_reduce_again(worker, ctx, r);
		}
	}
	return watch;
}

void worker_reduce_off_wire(struct hd_worker *worker) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		worker_reduce_drop_shards(worker, r);
}

void worker_reduce_destroy(struct hd_worker *worker) {
	struct worker_reduce *r;

	while ((r = TAILQ_FIRST(&worker->reduces))) {
		TAILQ_REMOVE(&worker->reduces, r, link);
		worker_reduce_drop_shards(worker, r);
		free(r->half);
		free(r);
	}
}
