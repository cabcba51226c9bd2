/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes and pulls: their state, and how they end exactly once. */
#include "hd_slots.h"
#include "worker_core.h"
#include "worker_stream.h"

#include <stdlib.h>

struct worker_ticket *
worker_find(const struct hd_worker *worker, uint8_t direction, uint32_t round) {
	struct worker_ticket *ticket;

	if (direction > HD_PULL)
		return NULL;
	ticket = worker->ring[direction][round % HD_TICKETS_MAX];
	return ticket && ticket->pub.round == round ? ticket : NULL;
}

void worker_set_state(
	struct hd_worker *worker,
	struct worker_ticket *ticket,
	enum hd_ticket_state state
) {
	ticket->pub.state = state;
	if (worker->config.ops && worker->config.ops->ticket)
		worker->config.ops->ticket(worker->config.owner, &ticket->pub);
}

void worker_activate(struct hd_worker *worker, struct worker_ticket *ticket) {
	if (!ticket->active)
		TAILQ_INSERT_TAIL(&worker->active, ticket, active_link);
	ticket->active = true;
	worker->observe_due = true;
}

/* The list itself is mended at the next collect: somebody may be walking it. */
void worker_off_wire(struct hd_worker *worker, struct worker_ticket *ticket) {
	if (ticket->send)
		hd_send_destroy(ticket->send);
	if (ticket->recv)
		hd_recv_destroy(ticket->recv);
	hd_slots_destroy(ticket->slots);
	ticket->slots = NULL;
	ticket->tail_until = 0;
	ticket->send = NULL;
	ticket->recv = NULL;
}

void worker_collect(struct hd_worker *worker) {
	struct worker_ticket *ticket, *next;

	for (ticket = TAILQ_FIRST(&worker->active); ticket; ticket = next) {
		next = TAILQ_NEXT(ticket, active_link);
		if (ticket->send || ticket->slots || ticket->recv || ticket->copy)
			continue;
		TAILQ_REMOVE(&worker->active, ticket, active_link);
		ticket->active = false;
	}
	for (ticket = TAILQ_FIRST(&worker->tickets); ticket; ticket = next) {
		next = TAILQ_NEXT(ticket, link);
		if (!ticket->ended || ticket->slots)
			continue;
		TAILQ_REMOVE(&worker->tickets, ticket, link);
		free(ticket->payload);
		free(ticket);
	}
}

/* --- ends ----------------------------------------------------------------------------------- */

static enum hd_outcome outcome_of(enum hd_ticket_state state) {
	switch (state) {
	case HD_TICKET_APPLIED:
	case HD_TICKET_DURABLE:
		return HD_OUTCOME_APPLIED;
	case HD_TICKET_DROPPED:
		return HD_OUTCOME_DROPPED;
	default:
		return HD_OUTCOME_FAILED;
	}
}

static uint64_t *push_counter(struct hd_worker *worker, enum hd_outcome outcome) {
	if (outcome == HD_OUTCOME_APPLIED)
		return &worker->stats.applied;
	return outcome == HD_OUTCOME_DROPPED ? &worker->stats.dropped : &worker->stats.failed;
}

/* Tells and counts the outcome: once, unless a restart of the server turned APPLIED into another. */
static void count_outcome(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_ticket_state state
) {
	enum hd_outcome outcome = outcome_of(state);
	struct hd_event event = {
		.kind = HD_EVENT_OUTCOME,
		.reason = ticket->pub.reason,
		.aux = outcome,
		.value = ticket->counted ? 1.0 : 0.0,
	};

	if (ticket->counted && outcome == HD_OUTCOME_APPLIED)
		return;
	if (ticket->pub.direction == HD_PUSH) {
		if (ticket->counted)
			worker->stats.applied--;
		(*push_counter(worker, outcome))++;
	} else if (outcome == HD_OUTCOME_APPLIED) {
		worker->stats.delivered++;
	}
	if (outcome == HD_OUTCOME_APPLIED && ticket->pub.granted)
		worker->stats.granted_bytes += ticket->pub.bytes;
	else if (outcome == HD_OUTCOME_APPLIED)
		worker->stats.direct_bytes += ticket->pub.bytes;
	if (outcome == HD_OUTCOME_APPLIED && ticket->credited)
		worker->stats.credited_bytes += ticket->pub.bytes;
	if (outcome == HD_OUTCOME_APPLIED && worker_by_aggregator(ticket))
		worker->stats.aggregated_bytes += ticket->pub.bytes;
	ticket->counted = true;
	ticket->pub.ended = ctx->now;
	worker_emit_ticket(worker, ctx, ticket, event);
}

void worker_retire(struct hd_worker *worker, struct worker_ticket *ticket) {
	if (ticket->ended)
		return;
	ticket->ended = true;
	if (!ticket->tail_until) /* its payload is its own */
		worker_off_wire(worker, ticket);
	worker_copy_end(ticket);
	worker->ring[ticket->pub.direction][ticket->pub.round % HD_TICKETS_MAX] = NULL;
	if (ticket->pub.direction == HD_PUSH && worker->config.ops && worker->config.ops->released)
		worker->config.ops->released(
			worker->config.owner, ticket->pub.round, ticket->pub.user
		);
}

/* What a push costs the program's memory while it is kept. */
static uint64_t kept_by(const struct worker_ticket *ticket) {
	return ticket->values * sizeof(float) + ticket->run_count * sizeof(struct hd_run);
}

bool worker_unkeep(struct hd_worker *worker, const struct worker_ticket *ticket) {
	if (ticket->ended || ticket->pub.direction != HD_PUSH
	    || ticket->pub.state != HD_TICKET_APPLIED)
		return false;
	worker->kept_bytes -= kept_by(ticket);
	return true;
}

void worker_end(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_ticket_state state,
	enum hd_reason reason
) {
	if (ticket->ended)
		return;
	(void)worker_unkeep(worker, ticket);
	ticket->pub.reason = reason;
	count_outcome(worker, ctx, ticket, state);
	worker_off_wire(worker, ticket);
	worker_set_state(worker, ticket, state);
	worker_retire(worker, ticket);
	worker_step_ended(worker, ctx, ticket);
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
	ticket->cancelling = false; /* too late: it was whole, and is in the model */
	if (!ticket->counted)
		worker_push_took(worker, ctx->now - ticket->pub.asked);
	count_outcome(worker, ctx, ticket, HD_TICKET_APPLIED);
	if (!worker_stream_tail(ctx, ticket))
		worker_off_wire(worker, ticket);
	if (worker->config.keep_bytes_max > 0)
		worker->kept_bytes += kept_by(ticket);
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

/* Only applied pushes are asked about, and a new life of the server begins with none of them: their
 * versions are of the present history. */
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
		/* In a checkpoint, while a new replica still wants it: a state must bring it. */
		worker_copy_gone(worker, ctx, ticket);
		worker_end(worker, ctx, ticket, HD_TICKET_DURABLE, HD_REASON_NONE);
	}
}

/* A drop decided by policy is DROPPED; what could not be carried out at all has FAILED. */
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
	/* One that was granted may be in the model: what became of it the server knows. */
	if (ticket->pub.direction == HD_PUSH && ticket->weight != 0
	    && ticket->asked == WORKER_ASKED_CONTROLLER) {
		ticket->ask_server = true;
		worker_requeue(worker, ctx, ticket);
		worker_ask(worker, ctx, ticket);
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
