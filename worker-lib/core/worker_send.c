/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes on the wire: grant -> (go or start time) -> chunks -> held by the server. */
#include "worker_core.h"
#include "worker_stream.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POLL_BUDGET 64 /* packets of one transfer in one call */
#define GO_SLACK_MIN_MS 5
#define GO_SLACK_MAX_MS 200

static struct worker_ticket *find_send(const struct hd_worker *worker, uint64_t token) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->active, active_link) {
		if (ticket->send && ticket->token == token)
			return ticket;
	}
	return NULL;
}

/* Segments on our clock. Without a clock for the controller the grant counts from its arrival. */
struct hd_segs worker_segments(
	const struct hd_session *session,
	const struct worker_context *ctx,
	const struct hd_msg_grant *grant
) {
	struct hd_segs segments = grant->segments;
	hd_ns origin = hd_session_from_peer_time(session, grant->origin_ns, ctx->now);

	for (uint32_t i = 0; i < segments.count; i++)
		segments.item[i].start_ns = hd_ns_add(origin, segments.item[i].start_ns);
	return segments;
}

/*
 * How long to wait for go beyond the start time. Go cannot be lost, only late, when the predecessor
 * is slower than planned; starting beside it then would slow both. Half of our own length bounds what
 * the wait may cost when the server does not know the predecessor at all.
 */
hd_ns worker_go_slack(const struct hd_session *session, const struct hd_segs *segments) {
	struct hd_clock clock = hd_session_clock(session);
	double seconds = 0.0;
	hd_ns slack;

	for (uint32_t i = 0; i < segments->count; i++) {
		if (segments->item[i].rate_bps > 0)
			seconds += (double)segments->item[i].bytes * 8.0
				/ (double)segments->item[i].rate_bps;
	}
	slack = seconds < 1.0 ? (hd_ns)(seconds * 0.5e9) : GO_SLACK_MAX_MS * HD_MS;
	slack = hd_ns_min(hd_ns_max(slack, GO_SLACK_MIN_MS * HD_MS), GO_SLACK_MAX_MS * HD_MS);
	return clock.valid ? slack + hd_ns_min(clock.error_ns, GO_SLACK_MAX_MS * HD_MS) : slack;
}

static enum hd_reason reason_of(int code) {
	if (code == -EDOM)
		return HD_REASON_NOT_FINITE;
	return code == -ENOMEM ? HD_REASON_NO_MEMORY : HD_REASON_REFUSED;
}

static void remember_early(struct hd_worker *worker, uint64_t token, bool ended) {
	if (token == 0)
		return;
	worker->early[worker->early_next] = (struct worker_early){token, ended};
	worker->early_next = (worker->early_next + 1) % WORKER_EARLY_MAX;
}

bool worker_take_early(struct hd_worker *worker, uint64_t token, bool ended) {
	for (uint32_t i = 0; i < WORKER_EARLY_MAX; i++) {
		if (worker->early[i].token != token || worker->early[i].ended != ended)
			continue;
		worker->early[i].token = 0;
		return true;
	}
	return false;
}

static int begin_send(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
) {
	struct hd_send_config config = {
		.peer = { grant->peer_ipv4, grant->peer_port },
		.header = {
			.attempt = ticket->attempt,
			.dtype = ticket->dtype,
			.exponent = ticket->exponent, /* 0 but of fixed point */
			.job = worker->job,
			.epoch = grant->epoch,
			.worker = worker->config.rank,
			.round = ticket->pub.round,
			.version = ticket->pub.base,
			.total = ticket->credited ? (uint32_t)ticket->pub.bytes : 0,
			.token = grant->token,
		},
		.data = ticket->payload ? ticket->payload : ticket->data,
		.bytes = ticket->pub.bytes,
		.chunk_bytes = worker->config.chunk_bytes,
		.cc_weight = grant->cc_weight >= 1.0f ? grant->cc_weight : 1.0f,
		.segments = worker_segments(session, ctx, grant),
		.wait_go = grant->after != 0,
	};
	bool server = session == worker->server || worker_is_server(worker, config.peer);
	int rc;

	if (hd_addr_is_none(config.peer))
		config.peer = hd_session_peer(worker->server);
	ticket->way = worker_way_to(worker, ctx, config.peer, server);
	if (!ticket->way)
		return -EMFILE;
	config.go_slack = worker_go_slack(session, &config.segments);
	config.path = &ticket->way->path;
	config.keys = worker->config.keys;
	config.key_id = worker->config.key_id;
	rc = hd_send_create(&config, ctx->now, &ticket->send);
	if (rc < 0)
		ticket->way = NULL;
	ticket->ask_server |= rc == 0;
	if (rc == 0 && worker_take_early(worker, grant->token, false))
		hd_send_go(ticket->send, ctx->now);
	return rc;
}

/* Says why a grant cannot be used: the reservation and the position are free again. */
static void
give_up(struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_CANCEL};

	message.cancel.job = worker->job;
	message.cancel.worker = worker->config.rank;
	message.cancel.round = ticket->pub.round;
	message.cancel.direction = ticket->pub.direction;
	message.cancel.attempt = ticket->attempt;
	message.cancel.token = ticket->token;
	message.cancel.reason = (uint8_t)reason;
	(void)worker_tell(worker, worker->controller, ctx, &message);
	(void)worker_tell(worker, worker->server, ctx, &message);
	worker_end(worker, ctx, ticket, HD_TICKET_FAILED, reason);
}

int worker_begin_push(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
) {
	int rc = -EINVAL;

	ticket->token = grant->token;
	ticket->position = grant->position;
	ticket->epoch = grant->epoch;
	ticket->pub.granted = session == worker->controller;
	if (isfinite(grant->weight) && grant->weight > 0.0f)
		rc = worker_make_payload(worker, ticket, grant->weight, (int16_t)grant->exponent);
	if (rc == 0)
		rc = grant->slots ? worker_stream_begin(worker, ctx, session, grant, ticket) :
				    begin_send(worker, ctx, session, grant, ticket);
	if (rc < 0)
		return rc;
	ticket->progress_at = ctx->now;
	ticket->progress_bytes = 0;
	worker_activate(worker, ticket);
	worker_set_state(worker, ticket, HD_TICKET_GRANTED);
	worker_watch_stalls(worker, ctx);
	return 0;
}

void worker_on_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant
) {
	struct worker_ticket *ticket = worker_find(worker, grant->direction, grant->round);
	int rc;

	if (grant->direction == HD_COPY && session == worker->controller) {
		worker_on_copy_grant(worker, ctx, grant);
		return;
	}
	/* The grant of a pull is the server's; direct, it may tell the worker as well. */
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
		worker_leave_way(worker, ctx, ticket, HD_REASON_TIMEOUT);
		return;
	}
	if (rc < 0) {
		give_up(worker, ctx, ticket, reason_of(rc));
		return;
	}
	if (worker_take_early(worker, grant->token, true)) {
		worker_requeue(worker, ctx, ticket);
		worker_ask(worker, ctx, ticket);
	}
}

/* Go and grant come by different sessions: go may be first. */
void worker_on_go(struct hd_worker *worker, const struct worker_context *ctx, uint64_t token) {
	struct worker_ticket *ticket = find_send(worker, token);

	if (ticket) {
		hd_send_go(ticket->send, ctx->now);
		return;
	}
	if (worker_stream_go(worker, ctx, token))
		return;
	remember_early(worker, token, false);
}

/* A transfer that was granted and has not ended, wherever its bytes are. */
static struct worker_ticket *find_granted(const struct hd_worker *worker, uint64_t token) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		if (!ticket->ended && ticket->token == token && token != 0
		    && ticket->pub.state >= HD_TICKET_GRANTED
		    && ticket->pub.state <= HD_TICKET_HELD)
			return ticket;
	}
	return NULL;
}

static void
ask_anew(struct hd_worker *worker, const struct worker_context *ctx, struct worker_ticket *ticket) {
	worker_requeue(worker, ctx, ticket);
	worker_ask(worker, ctx, ticket);
}

/* So that the controller's grant may come last, and nobody waits for a stall to be noticed. What the server holds
 * whole it commits; what an aggregator does, it may lose. */
void worker_on_void(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_void_ *void_
) {
	struct worker_ticket *ticket = find_granted(worker, void_->token);

	if (!ticket && worker_credit_void(worker, void_->token))
		return;
	if (!ticket || (!ticket->send && !worker_by_aggregator(ticket))) {
		remember_early(worker, void_->token, true);
		return;
	}
	/* The controller may plan the survivors of a sum anew. Was it in the model after all, the server says so
	 * when the next grant comes to it, or when the controller would drop it: worker_on_drop(). */
	if (worker_by_aggregator(ticket))
		ticket->ask_server = false;
	ask_anew(worker, ctx, ticket);
}

/* The controller has lost the server for a moment. A transfer of which something was acknowledged goes on: the
 * server knows it; not so an aggregator, whose others may be lost. */
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
		ask_anew(worker, ctx, ticket);
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
	if (!ticket || session != worker_way_session(worker, ticket->way)) {
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
	/* The path was dead for too long: once more, with a fresh token. */
	worker_requeue(worker, ctx, ticket);
	worker_ask(worker, ctx, ticket);
}

void worker_pump_sends(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->active, active_link) {
		worker_stream_pump(worker, ctx, ticket);
		if (ticket->copy && worker_way_session(worker, ticket->copy_way)) {
			(void)hd_send_poll(ticket->copy, ctx->now, POLL_BUDGET, ctx->sink);
			worker->observe_due |= hd_send_stats(ticket->copy)->state == HD_SEND_FAILED;
		}
		if (!ticket->send || ticket->cancelling || !worker_way_session(worker, ticket->way))
			continue;
		(void)hd_send_poll(ticket->send, ctx->now, POLL_BUDGET, ctx->sink);
		/* What begins or fails here is told in the next call, which is due at once. */
		if (hd_send_stats(ticket->send)->state == HD_SEND_FAILED
		    || (ticket->pub.state == HD_TICKET_GRANTED
			&& hd_send_stats(ticket->send)->packets_sent > 0))
			worker->observe_due = true;
	}
}
