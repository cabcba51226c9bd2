/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulls on the wire. The server's PULL_STATE names the version that comes under a token, and only chunks of that token
 * and version are accepted, so one version is delivered. EXPECT, from the controller, may come before or after it.
 */
#include "hd_assert.h"
#include "hd_kernels.h"
#include "worker_ask.h"
#include "worker_pull.h"

#include <errno.h>
#include <string.h>

#define WIDEN_BLOCK 2048 /* values */

static bool
is_ours(struct hd_worker *worker,
	const struct worker_ticket *ticket,
	uint32_t job,
	uint16_t rank,
	uint8_t attempt) {
	if (job == worker->job && rank == worker->config.rank && ticket
	    && ticket->attempt == attempt
	    && (ticket->pub.state == HD_TICKET_REQUESTED || ticket->pub.state == HD_TICKET_GRANTED))
		return true;
	worker->stats.late_messages++;
	return false;
}

/* After a repeated message of another attempt it is granted again. */
static void
granted(struct hd_worker *worker, const struct worker_context *ctx, struct worker_ticket *ticket) {
	if (ticket->pub.state == HD_TICKET_REQUESTED)
		worker_time_grant(worker, ctx, ticket);
	worker_set_state(worker, ticket, HD_TICKET_GRANTED);
}

void worker_on_expect(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_expect *expect
) {
	struct worker_ticket *ticket = worker_find(worker, HD_PULL, expect->round);
	struct hd_addr peer = {expect->peer_ipv4, expect->peer_port};

	if (expect->direction != HD_PULL) {
		worker->stats.late_messages++;
		return;
	}
	/* PULL_STATE came first, with the same fields and more. */
	if (ticket && ticket->recv && ticket->token == expect->token)
		return;
	if (!is_ours(worker, ticket, expect->job, expect->worker, expect->attempt))
		return;
	ticket->token = expect->token;
	ticket->epoch = expect->epoch;
	ticket->pub.granted = true;
	ticket->progress_at = ctx->now;
	if (worker_is_server(worker, peer)) {
		granted(worker, ctx, ticket);
		return;
	}
	ticket->path = worker_path_to(worker, ctx, peer, false);
	if (ticket->path)
		granted(worker, ctx, ticket);
	else
		worker_leave_path(worker, ctx, ticket, HD_REASON_TIMEOUT);
}

static void report_pull(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket,
	enum hd_outcome outcome,
	enum hd_reason reason
) {
	struct hd_message message = {.kind = HD_MSG_REPORT};
	struct hd_msg_report *report = &message.report;

	if (ticket->asked != WORKER_ASKED_CONTROLLER && !ticket->credited)
		return;
	report->job = worker->job;
	report->worker = worker->config.rank;
	report->round = ticket->pub.round;
	report->direction = HD_PULL;
	report->attempt = ticket->attempt;
	report->token = ticket->token;
	report->outcome = (uint8_t)outcome;
	report->reason = (uint8_t)reason;
	report->version = ticket->pub.version;
	report->credited = ticket->credited;
	if (ticket->recv) {
		const struct hd_recv_stats *stats = hd_recv_stats(ticket->recv);

		report->bytes = stats->bytes_held;
		report->duration_ns = stats->last - stats->first;
		report->rate_bps = (uint64_t)hd_recv_rate_bps(ticket->recv);
		report->limited_permille = hd_recv_limited_permille(ticket->recv);
	}
	(void)worker_tell(worker, worker->controller, ctx, &message);
}

static void end_pull(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_ticket_state state,
	enum hd_reason reason
) {
	enum hd_outcome outcome = state == HD_TICKET_APPLIED ? HD_OUTCOME_APPLIED :
		state == HD_TICKET_DROPPED                   ? HD_OUTCOME_DROPPED :
							       HD_OUTCOME_FAILED;

	report_pull(worker, ctx, ticket, outcome, reason);
	worker_end(worker, ctx, ticket, state, reason);
}

/* Values of 16 bits are received into the second half of their final place in fp32. */
static void *landing(const struct worker_ticket *ticket) {
	uint64_t bytes = ticket->values * sizeof(float);

	if (ticket->raw)
		return ticket->into;
	return (uint8_t *)ticket->into + (bytes - ticket->pub.bytes);
}

/* Widens from there to the front: written values never reach those that are still to be read, except in the present
 * block, which is copied first. */
static void widen(const struct worker_ticket *ticket) {
	const uint8_t *from = landing(ticket);
	uint16_t block[WIDEN_BLOCK];

	for (uint64_t at = 0; at < ticket->values; at += WIDEN_BLOCK) {
		uint64_t left = ticket->values - at;
		size_t count = left < WIDEN_BLOCK ? (size_t)left : WIDEN_BLOCK;

		memcpy(block, from + at * sizeof *block, count * sizeof *block);
		hd_half_to_f32(ticket->dtype, ticket->into + at, block, count);
	}
}

void worker_on_pull_state(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_path *path,
	const struct hd_msg_pull_state *state
) {
	struct worker_ticket *ticket = worker_find(worker, HD_PULL, state->round);
	struct hd_recv_config config = {
		.token = state->token,
		.job = worker->job,
		.round = state->round,
		.worker = worker->config.rank,
		.attempt = state->attempt,
	};
	int rc;

	if (!is_ours(worker, ticket, state->job, state->worker, state->attempt) || ticket->recv)
		return;
	if (ticket->pub.state == HD_TICKET_GRANTED && ticket->path != path) {
		worker->stats.late_messages++;
		return;
	}
	ticket->path = path;
	ticket->token = state->token;
	ticket->pub.granted = ticket->asked == WORKER_ASKED_CONTROLLER || ticket->credited;
	ticket->pub.version = state->version;
	worker_newest(worker, state->version, false);
	if (path && state->reason != HD_REASON_NONE && state->reason != HD_REASON_NOT_MODIFIED) {
		worker_leave_path(worker, ctx, ticket, HD_REASON_CLOSED);
		return;
	}
	if (state->reason != HD_REASON_NONE) {
		end_pull(
			worker,
			ctx,
			ticket,
			state->reason == HD_REASON_NOT_MODIFIED ? HD_TICKET_DROPPED :
								  HD_TICKET_FAILED,
			state->reason < HD_REASON_COUNT ? state->reason : HD_REASON_REFUSED
		);
		return;
	}
	hd_assert(ticket->pub.bytes <= ticket->values * sizeof(float));
	config.dtype = ticket->dtype;
	config.bytes = ticket->pub.bytes;
	config.data = landing(ticket);
	rc = state->bytes == config.bytes ? hd_recv_create(&config, &ticket->recv) : -EINVAL;
	if (rc < 0) {
		end_pull(
			worker,
			ctx,
			ticket,
			HD_TICKET_FAILED,
			rc == -ENOMEM ? HD_REASON_NO_MEMORY : HD_REASON_REFUSED
		);
		return;
	}
	ticket->progress_at = ctx->now;
	ticket->progress_bytes = 0;
	worker_activate(worker, ticket);
	if (ticket->pub.state == HD_TICKET_REQUESTED)
		granted(worker, ctx, ticket);
}

/* --- chunks --------------------------------------------------------------------------------- */

/* Returns the chunks held without a gap. */
static uint32_t send_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	struct hd_message message = {.kind = HD_MSG_SACK};

	hd_recv_sack(ticket->recv, ctx->now, worker->config.receive_window_bytes, &message.sack);
	worker_path_send_once(worker, ctx, ticket->path, &message);
	return message.sack.held;
}

static struct worker_ticket *find_recv(const struct hd_worker *worker, uint64_t token) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->active, active_link)
		if (ticket->recv && ticket->token == token)
			return ticket;
	return NULL;
}

static void delivered(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	struct hd_event event = {.kind = HD_EVENT_RECV_END};

	hd_assert(ticket->pub.state == HD_TICKET_SENDING);
	event.value = hd_recv_rate_bps(ticket->recv);
	worker_emit_ticket(worker, ctx, ticket, event);
	worker_add_tombstone(
		worker,
		worker_by_aggregator(ticket) ? ticket->path->address : (struct hd_addr){0},
		ticket->token,
		send_sack(worker, ctx, ticket)
	);
	if (hd_dtype_is_half(ticket->dtype) && !ticket->raw)
		widen(ticket);
	worker_time_end(worker, ctx, ticket);
	end_pull(worker, ctx, ticket, HD_TICKET_APPLIED, HD_REASON_NONE);
}

bool worker_pull_chunk(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet,
	const struct hd_chunk_header *header,
	const uint8_t *payload
) {
	size_t payload_bytes = packet->bytes - (size_t)(payload - packet->data);
	struct worker_ticket *ticket = find_recv(worker, header->token);
	struct hd_event start = {.kind = HD_EVENT_RECV_START};
	enum hd_recv_result result;

	if (!ticket)
		return false;
	if (!worker_path_takes(worker, ticket->path, &ticket->seal, header, packet))
		return true;
	if (header->version != ticket->pub.version) {
		worker->stats.drop_mismatch++;
		return true;
	}
	result = hd_recv_chunk(ticket->recv, ctx->now, header, payload, payload_bytes);
	if (result == HD_RECV_MISMATCH) {
		worker->stats.drop_mismatch++;
		return true;
	}
	hd_sink_expect(ctx->sink, hd_recv_whole_at(ticket->recv));
	if (ticket->pub.state == HD_TICKET_GRANTED) {
		worker_time_first_chunk(worker, ticket, ctx->now);
		worker_emit_ticket(worker, ctx, ticket, start);
		worker_set_state(worker, ticket, HD_TICKET_SENDING);
	}
	if (result == HD_RECV_DONE && ticket->recv)
		delivered(worker, ctx, ticket);
	return true;
}

void worker_pump_sacks(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->active, active_link)
		if (ticket->recv && hd_recv_sack_due(ticket->recv, ctx->now))
			(void)send_sack(worker, ctx, ticket);
}
