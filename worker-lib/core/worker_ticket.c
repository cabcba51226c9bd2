/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes and pulls: their state, and how they end exactly once. */
#include "hd_assert.h"
#include "hd_slots.h"
#include "worker_ticket.h"

#include <stdlib.h>

struct worker_ticket *
worker_find(const struct hd_worker *worker, uint8_t direction, uint32_t round) {
	struct worker_ticket *ticket;

	if (direction > HD_PULL)
		return NULL;
	ticket = worker->ring[direction][round % HD_TICKETS_MAX];
	return ticket && ticket->pub.round == round ? ticket : NULL;
}

void worker_emit_ticket(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket,
	struct hd_event event
) {
	event.direction = ticket->pub.direction;
	event.round = ticket->pub.round;
	event.token = ticket->token;
	event.position = ticket->position;
	event.version = ticket->pub.version;
	event.base = ticket->pub.direction == HD_PUSH ? ticket->pub.base : ticket->have;
	event.bytes = ticket->pub.bytes;
	worker_emit(worker, ctx, &event);
}

#define BIT(state) (1U << (state))
#define ENDS (BIT(HD_TICKET_APPLIED) | BIT(HD_TICKET_DROPPED) | BIT(HD_TICKET_FAILED))

/* The server may report the end of a push at any time, and of an applied one that it is durable, or that a restart lost
 * it. */
static bool may_become(enum hd_ticket_state from, enum hd_ticket_state to) {
	static const unsigned next[] = {
		[HD_TICKET_QUEUED]
		= BIT(HD_TICKET_QUEUED) | BIT(HD_TICKET_REQUESTED) | BIT(HD_TICKET_GRANTED) | ENDS,
		[HD_TICKET_REQUESTED] = BIT(HD_TICKET_QUEUED) | BIT(HD_TICKET_GRANTED) | ENDS,
		[HD_TICKET_GRANTED] = BIT(HD_TICKET_QUEUED) | BIT(HD_TICKET_GRANTED)
			| BIT(HD_TICKET_SENDING) | BIT(HD_TICKET_HELD) | ENDS,
		[HD_TICKET_SENDING] = BIT(HD_TICKET_QUEUED) | BIT(HD_TICKET_HELD) | ENDS,
		[HD_TICKET_HELD] = BIT(HD_TICKET_QUEUED) | ENDS,
		[HD_TICKET_APPLIED] = BIT(HD_TICKET_QUEUED) | BIT(HD_TICKET_DURABLE),
		[HD_TICKET_DURABLE] = 0,
		[HD_TICKET_DROPPED] = 0,
		[HD_TICKET_FAILED] = 0,
	};

	return next[from] & BIT(to);
}

void worker_to_queue(struct worker_ticket *ticket) {
	hd_assert(may_become(ticket->pub.state, HD_TICKET_QUEUED));
	ticket->pub.state = HD_TICKET_QUEUED;
}

void worker_set_state(
	struct hd_worker *worker,
	struct worker_ticket *ticket,
	enum hd_ticket_state state
) {
	hd_assert(may_become(ticket->pub.state, state));
	hd_assert(state != HD_TICKET_SENDING || ticket->send || ticket->slots || ticket->recv);
	hd_assert(state != HD_TICKET_HELD || (!ticket->send && !ticket->slots));
	ticket->pub.state = state;
	if (worker->config.ops && worker->config.ops->ticket)
		worker->config.ops->ticket(worker->config.owner, &ticket->pub);
}

void worker_activate(struct hd_worker *worker, struct worker_ticket *ticket) {
	hd_assert(!ticket->ended);
	if (!ticket->active)
		TAILQ_INSERT_TAIL(&worker->active, ticket, active_link);
	ticket->active = true;
	worker->observe_due = true;
}

void worker_watch_stalls(struct hd_worker *worker, const struct worker_context *ctx) {
	if (worker->stall_at == HD_NEVER)
		worker->stall_at = hd_ns_add(ctx->now, HD_STALL_US * HD_US / 4);
}

/* Acknowledged or received bytes; grows while a transfer lives. */
uint64_t worker_progress(const struct worker_ticket *ticket) {
	if (ticket->send)
		return hd_send_stats(ticket->send)->bytes_acked;
	if (ticket->slots)
		return hd_slots_stats(ticket->slots)->sums;
	return ticket->recv ? hd_recv_stats(ticket->recv)->bytes_held : 0;
}

bool worker_by_aggregator(const struct worker_ticket *ticket) {
	return ticket->path && !ticket->path->server;
}

/* The list itself is updated at the next collect: a caller may be iterating over it. */
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

void worker_copy_end(struct worker_ticket *ticket) {
	if (!ticket->copy)
		return;
	hd_send_destroy(ticket->copy);
	ticket->copy = NULL;
	ticket->copy_path = NULL;
}

/* With no ticket left, every push was counted once, and nothing is kept. */
static void check_counts(const struct hd_worker *worker) {
	const struct hd_worker_stats *stats = &worker->stats;

	if (!TAILQ_EMPTY(&worker->tickets))
		return;
	hd_assert(TAILQ_EMPTY(&worker->active) && worker->kept_bytes == 0);
	hd_assert(stats->pushed == stats->applied + stats->dropped + stats->failed);
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
		hd_assert(!ticket->active);
		hd_assert(worker_find(worker, ticket->pub.direction, ticket->pub.round) != ticket);
		TAILQ_REMOVE(&worker->tickets, ticket, link);
		free(ticket->payload);
		free(ticket);
	}
	check_counts(worker);
}

/* --- ends ----------------------------------------------------------------------------------- */

void worker_retire(struct hd_worker *worker, struct worker_ticket *ticket) {
	if (ticket->ended)
		return;
	ticket->ended = true;
	if (!ticket->tail_until) /* otherwise its payload is needed longer */
		worker_off_wire(worker, ticket);
	worker_copy_end(ticket);
	hd_assert(worker_find(worker, ticket->pub.direction, ticket->pub.round) == ticket);
	worker->ring[ticket->pub.direction][ticket->pub.round % HD_TICKETS_MAX] = NULL;
	if (ticket->pub.direction == HD_PUSH && worker->config.ops && worker->config.ops->released)
		worker->config.ops->released(
			worker->config.owner, ticket->pub.round, ticket->pub.user
		);
}

/* Memory of the program that a push holds while it is kept. */
static uint64_t kept_by(const struct worker_ticket *ticket) {
	return ticket->values * sizeof(float) + ticket->run_count * sizeof(struct hd_run);
}

void worker_keep(struct hd_worker *worker, const struct worker_ticket *ticket) {
	if (worker->config.keep_bytes_max > 0)
		worker->kept_bytes += kept_by(ticket);
}

bool worker_unkeep(struct hd_worker *worker, const struct worker_ticket *ticket) {
	if (ticket->ended || ticket->pub.direction != HD_PUSH
	    || ticket->pub.state != HD_TICKET_APPLIED)
		return false;
	hd_assert(worker->kept_bytes >= kept_by(ticket));
	worker->kept_bytes -= kept_by(ticket);
	return true;
}

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

/* Reports and counts the outcome: once, unless a restart of the server turned APPLIED into another. */
void worker_count_outcome(
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
	if (outcome == HD_OUTCOME_APPLIED && ticket->pub.reason == HD_REASON_NONE)
		worker->silent_stalls = 0; /* its chunks have arrived */
	ticket->counted = true;
	ticket->pub.ended = ctx->now;
	worker_emit_ticket(worker, ctx, ticket, event);
}

void worker_step_ended(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
) {
	if (worker->spec.sync != HD_SYNC_NONE && ticket->pub.direction == HD_PUSH)
		worker->retry_at = ctx->now; /* a pull may wait for it */
}

void worker_end(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_ticket_state state,
	enum hd_reason reason
) {
	hd_assert(state >= HD_TICKET_APPLIED);
	if (ticket->ended)
		return;
	(void)worker_unkeep(worker, ticket);
	ticket->pub.reason = reason;
	worker_count_outcome(worker, ctx, ticket, state);
	worker_off_wire(worker, ticket);
	worker_set_state(worker, ticket, state);
	worker_retire(worker, ticket);
	worker_step_ended(worker, ctx, ticket);
}
