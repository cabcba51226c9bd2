/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of the server and the controller about the outcome of pushes and pulls, and applied pushes until they are
 * durable. */
#include "worker_ask.h"
#include "worker_push.h"
#include "worker_session.h"

static void push_took(struct hd_worker *worker, hd_ns took) {
	worker->push_took = hd_ns_max(took, worker->push_took - worker->push_took / 8);
}

void worker_fail_all(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum hd_reason reason
) {
	struct worker_ticket *ticket;

	worker_trim_kept(worker, ctx, 0);
	TAILQ_FOREACH (ticket, &worker->tickets, link)
		worker_end(worker, ctx, ticket, HD_TICKET_FAILED, reason);
}

void worker_trim_kept(struct hd_worker *worker, const struct worker_context *ctx, uint64_t bytes) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		if (worker->kept_bytes <= bytes)
			return;
		if (!worker_unkeep(worker, ticket))
			continue;
		worker_copy_gone(worker, ctx, ticket);
		worker_retire(worker, ticket);
	}
}

/* Applied: ended, unless its bytes are kept until they are durable. */
static void push_applied(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	ticket->pub.reason = HD_REASON_NONE;
	ticket->cancelling = false; /* too late: it was complete, and is in the model */
	if (!ticket->counted) {
		push_took(worker, ctx->now - ticket->pub.asked);
		worker_time_end(worker, ctx, ticket);
	}
	worker_count_outcome(worker, ctx, ticket, HD_TICKET_APPLIED);
	if (!worker_stream_tail(ctx, ticket))
		worker_off_wire(worker, ticket);
	worker_keep(worker, ticket);
	worker_set_state(worker, ticket, HD_TICKET_APPLIED);
	if (worker->config.keep_bytes_max == 0)
		worker_retire(worker, ticket);
	else
		worker_trim_kept(worker, ctx, worker->config.keep_bytes_max);
	worker_step_ended(worker, ctx, ticket);
}

void worker_on_outcome(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_outcome *outcome
) {
	struct worker_ticket *ticket = worker_find(worker, HD_PUSH, outcome->round);

	if (outcome->job != worker->job || outcome->worker != worker->config.rank || !ticket
	    || ticket->pub.state == HD_TICKET_APPLIED) {
		worker->stats.late_messages++;
		return;
	}
	ticket->pub.version = outcome->version;
	ticket->pub.delay = outcome->delay;
	worker_newest(worker, outcome->version, false);
	if (outcome->outcome == HD_OUTCOME_APPLIED)
		push_applied(worker, ctx, ticket);
	else
		worker_end(
			worker,
			ctx,
			ticket,
			outcome->outcome == HD_OUTCOME_DROPPED ? HD_TICKET_DROPPED :
								 HD_TICKET_FAILED,
			outcome->reason
		);
	worker_on_durable(worker, ctx, outcome->durable);
}

/* Only applied pushes are checked, and a new process of the server begins with none of them: their versions are of the
 * present history. */
void worker_on_durable(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	hd_version durable
) {
	struct worker_ticket *ticket;

	worker->durable = durable;
	if (worker->kept_bytes == 0)
		return;
	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		if (ticket->ended || ticket->pub.direction != HD_PUSH
		    || ticket->pub.state != HD_TICKET_APPLIED || ticket->pub.version > durable)
			continue;
		/* In a checkpoint, while a new replica still needs it: it gets a state instead. */
		worker_copy_gone(worker, ctx, ticket);
		worker_end(worker, ctx, ticket, HD_TICKET_DURABLE, HD_REASON_NONE);
	}
}

/* A drop by a policy is DROPPED; a push that could not be carried out has FAILED. */
static enum hd_ticket_state state_of_drop(uint8_t reason) {
	switch (reason) {
	case HD_REASON_REFUSED:
	case HD_REASON_NO_MEMORY:
	case HD_REASON_NO_SERVER:
	case HD_REASON_CLOSED:
	case HD_REASON_TIMEOUT:
	case HD_REASON_LEASE:
	case HD_REASON_LEFT:
	case HD_REASON_CANCELLED:
		return HD_TICKET_FAILED;
	default:
		return HD_TICKET_DROPPED;
	}
}

void worker_on_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_drop *drop
) {
	struct worker_ticket *ticket = worker_find(worker, drop->direction, drop->round);

	if (drop->job != worker->job || drop->worker != worker->config.rank || !ticket
	    || ticket->attempt != drop->attempt || ticket->pub.state != HD_TICKET_REQUESTED) {
		worker->stats.late_messages++;
		return;
	}
	/* A push that was granted may be in the model: the server knows its outcome. */
	if (ticket->pub.direction == HD_PUSH && ticket->weight != 0
	    && ticket->asked == WORKER_ASKED_CONTROLLER) {
		ticket->ask_server = true;
		worker_ask_again(worker, ctx, ticket);
		return;
	}
	worker_end(
		worker,
		ctx,
		ticket,
		state_of_drop(drop->reason),
		drop->reason < HD_REASON_COUNT ? drop->reason : HD_REASON_REFUSED
	);
}
