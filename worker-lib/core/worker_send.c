/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes on the wire: grant -> (go or start time) -> chunks -> held by the server. */
#include "hd_slots.h"
#include "worker_ask.h"
#include "worker_push.h"

#include <errno.h>

#define POLL_BUDGET 64 /* packets of one transfer in one call */
#define FEED_US 50 /* how often the packer's progress is checked */

static struct worker_ticket *find_send(const struct hd_worker *worker, uint64_t token) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->active, active_link)
		if (ticket->send && ticket->token == token)
			return ticket;
	return NULL;
}

static enum hd_reason reason_of(int code) {
	if (code == -EDOM)
		return HD_REASON_NOT_FINITE;
	if (code == -EIO)
		return HD_REASON_DEVICE;
	return code == -ENOMEM ? HD_REASON_NO_MEMORY : HD_REASON_REFUSED;
}

static void send_cancel(
	struct hd_worker *worker,
	struct hd_session *session,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket,
	enum hd_reason reason
) {
	struct hd_message message = {.kind = HD_MSG_CANCEL};

	message.cancel.job = worker->job;
	message.cancel.worker = worker->config.rank;
	message.cancel.round = ticket->pub.round;
	message.cancel.direction = ticket->pub.direction;
	message.cancel.attempt = ticket->attempt;
	message.cancel.token = ticket->token;
	message.cancel.reason = (uint8_t)reason;
	(void)worker_tell(worker, session, ctx, &message);
}

/* Reports why a grant cannot be used: the reservation and the position become free. */
static void
give_up(struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_reason reason) {
	send_cancel(worker, worker->controller, ctx, ticket, reason);
	send_cancel(worker, worker->server, ctx, ticket, reason);
	worker_end(worker, ctx, ticket, HD_TICKET_FAILED, reason);
}

void worker_on_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant
) {
	struct worker_ticket *ticket = worker_find(worker, grant->direction, grant->round);
	int rc;

	/* The server grants a pull; without a controller, it may send the GRANT to the worker as well. */
	if (grant->job != worker->job || grant->worker != worker->config.rank || !ticket
	    || grant->attempt != ticket->attempt || ticket->pub.state != HD_TICKET_REQUESTED
	    || grant->direction != HD_PUSH || !worker->server) {
		worker->stats.late_messages += grant->direction == HD_PUSH;
		return;
	}
	if (ticket->cancelling) {
		ticket->token = grant->token;
		give_up(worker, ctx, ticket, HD_REASON_CANCELLED);
		return;
	}
	rc = worker_begin_push(worker, ctx, session, grant, ticket);
	if (rc == -EMFILE) {
		worker_leave_path(worker, ctx, ticket, HD_REASON_TIMEOUT);
		return;
	}
	if (rc < 0) {
		give_up(worker, ctx, ticket, reason_of(rc));
		return;
	}
	if (worker_take_early(worker, grant->token, true))
		worker_ask_again(worker, ctx, ticket);
}

/* GO and GRANT come in different sessions: GO may be first. */
void worker_on_go(struct hd_worker *worker, const struct worker_context *ctx, uint64_t token) {
	struct worker_ticket *ticket = find_send(worker, token);

	if (ticket) {
		hd_send_go(ticket->send, ctx->now);
		return;
	}
	if (worker_stream_go(worker, ctx, token))
		return;
	worker_remember_early(worker, token, false);
}

/* A granted transfer that has not ended, wherever its bytes are. */
static struct worker_ticket *find_granted(const struct hd_worker *worker, uint64_t token) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link)
		if (!ticket->ended && ticket->token == token && token != 0
		    && ticket->pub.state >= HD_TICKET_GRANTED
		    && ticket->pub.state <= HD_TICKET_HELD)
			return ticket;
	return NULL;
}

/* The controller's grant may come after this, and the worker need not wait for the stall timeout. The server commits a
 * push that it holds; an aggregator may lose one. */
void worker_on_void(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_void_ *void_
) {
	struct worker_ticket *ticket = find_granted(worker, void_->token);

	if (!ticket && worker_credit_void(worker, void_->token))
		return;
	if (!ticket || (!ticket->send && !worker_by_aggregator(ticket))) {
		worker_remember_early(worker, void_->token, true);
		return;
	}
	/* The controller may plan the other members of a sum again. If the update is in the model after all, the server
	 * reports that when it gets the next grant, or when the controller would drop it: worker_on_drop(). */
	if (worker_by_aggregator(ticket))
		ticket->ask_server = false;
	worker_ask_again(worker, ctx, ticket);
}

/* The controller has lost the server for a moment. A transfer with acknowledged bytes goes on, as the server knows it;
 * but not one to an aggregator, whose other members may be lost. */
void worker_on_controller_void(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	uint64_t token
) {
	struct worker_ticket *ticket = find_granted(worker, token);

	if (worker_copy_void(worker, token))
		return;
	(void)worker_credit_void(worker, token);
	if (!ticket)
		return;
	if (worker_by_aggregator(ticket)
	    || (ticket->send && hd_send_stats(ticket->send)->bytes_acked == 0))
		worker_ask_again(worker, ctx, ticket);
}

void worker_on_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_session *session,
	const struct hd_msg_sack *sack
) {
	struct worker_ticket *ticket = find_send(worker, sack->token);

	if (!ticket && worker_copy_sack(worker, ctx, session, sack))
		return;
	if (!ticket || session != worker_path_session(worker, ticket->path)) {
		worker->stats.late_messages++;
		return;
	}
	hd_send_sack(ticket->send, ctx->now, sack);
	worker_observe_send(worker, ctx, ticket);
}

void worker_observe_send(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	const struct hd_send_stats *stats = hd_send_stats(ticket->send);
	enum hd_send_state state = stats->state;
	struct hd_event start = {.kind = HD_EVENT_SEND_START, .at = stats->started};
	struct hd_event end = {.kind = HD_EVENT_SEND_END, .reason = stats->reason};

	end.aux = stats->packets_resent;
	if (state != HD_SEND_WAITING && ticket->pub.state == HD_TICKET_GRANTED
	    && stats->packets_sent > 0) {
		worker_time_first_chunk(worker, ticket, stats->started);
		worker_emit_ticket(worker, ctx, ticket, start);
		worker_set_state(worker, ticket, HD_TICKET_SENDING);
	}
	if (ticket->ended || !ticket->send || state < HD_SEND_DONE || ticket->cancelling)
		return;
	worker_emit_ticket(worker, ctx, ticket, end);
	worker_off_wire(worker, ticket);
	if (state == HD_SEND_DONE) {
		worker_set_state(worker, ticket, HD_TICKET_HELD);
		return;
	}
	/* The path was dead for too long: tries again, with a new token. */
	worker_ask_again(worker, ctx, ticket);
}

/* Passes the bytes that the packer has written since the last call to the sender. */
static void
feed(struct hd_worker *worker, const struct worker_context *ctx, struct worker_ticket *ticket) {
	int64_t bytes = ticket->ready(ticket->pub.user);

	ticket->feed_at = hd_ns_add(ctx->now, FEED_US * HD_US);
	if (bytes < 0) {
		ticket->pack_error = (int)bytes;
		worker->observe_due = true;
		return;
	}
	hd_send_available(ticket->send, ctx->now, (uint64_t)bytes);
	ticket->packing = (uint64_t)bytes < ticket->pub.bytes;
}

hd_ns worker_send_deadline(const struct worker_ticket *ticket) {
	hd_ns at = hd_send_deadline(ticket->send);

	if (!ticket->packing || hd_send_stats(ticket->send)->state != HD_SEND_ACTIVE)
		return at;
	return hd_ns_min(at, ticket->feed_at);
}

/* The receiver does not have all of it and never will. */
void worker_observe_packing(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	if (ticket->pack_error == 0 || ticket->ended)
		return;
	if (worker_by_aggregator(ticket) && !ticket->path->plain)
		send_cancel(
			worker,
			worker_path_session(worker, ticket->path),
			ctx,
			ticket,
			reason_of(ticket->pack_error)
		);
	give_up(worker, ctx, ticket, reason_of(ticket->pack_error));
}

void worker_pump_sends(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->active, active_link) {
		worker_stream_pump(worker, ctx, ticket);
		if (ticket->copy && worker_path_session(worker, ticket->copy_path)) {
			(void)hd_send_poll(ticket->copy, ctx->now, POLL_BUDGET, ctx->sink);
			worker->observe_due |= hd_send_stats(ticket->copy)->state == HD_SEND_FAILED;
		}
		if (!ticket->send || ticket->cancelling
		    || !worker_path_session(worker, ticket->path))
			continue;
		if (ticket->packing && ctx->now >= ticket->feed_at)
			feed(worker, ctx, ticket);
		(void)hd_send_poll(ticket->send, ctx->now, POLL_BUDGET, ctx->sink);
		/* A begin or a failure here is reported in the next call, which is due at once. */
		if (hd_send_stats(ticket->send)->state == HD_SEND_FAILED
		    || (ticket->pub.state == HD_TICKET_GRANTED
			&& hd_send_stats(ticket->send)->packets_sent > 0))
			worker->observe_due = true;
	}
}

static void observe_tail(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	enum hd_slots_state state = hd_slots_stats(ticket->slots)->state;

	if (state == HD_SLOTS_ACTIVE && ctx->now < ticket->tail_until)
		return;
	worker->stats.streamed += state == HD_SLOTS_DONE;
	worker_off_wire(worker, ticket);
}

void worker_observe_stream(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	struct hd_event start = {.kind = HD_EVENT_SEND_START, .at = ctx->now};
	struct hd_event end = {.kind = HD_EVENT_SEND_END};
	enum hd_slots_state state;

	if (ticket->slots && ticket->tail_until) {
		observe_tail(worker, ctx, ticket);
		return;
	}
	if (!ticket->slots || ticket->ended)
		return;
	state = hd_slots_stats(ticket->slots)->state;
	end.reason = hd_slots_stats(ticket->slots)->reason;
	end.aux = hd_slots_stats(ticket->slots)->packets_resent;
	if (ticket->pub.state == HD_TICKET_GRANTED
	    && hd_slots_stats(ticket->slots)->packets_sent > 0) {
		worker_time_first_chunk(worker, ticket, ctx->now);
		worker_emit_ticket(worker, ctx, ticket, start);
		worker_set_state(worker, ticket, HD_TICKET_SENDING);
	}
	if (ticket->ended || !ticket->slots || state == HD_SLOTS_ACTIVE || ticket->cancelling)
		return;
	worker_emit_ticket(worker, ctx, ticket, end);
	worker_off_wire(worker, ticket);
	if (state == HD_SLOTS_DONE) {
		worker->stats.streamed++;
		worker_set_state(worker, ticket, HD_TICKET_HELD);
		return;
	}
	worker_ask_again(worker, ctx, ticket);
}
