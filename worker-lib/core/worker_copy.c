/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies: the bytes of a push, sent once more to the replica of the job's server. The server has applied the push by
 * then; the ticket keeps the bytes until they are durable. A copy has no state of its own in the ticket: the replica
 * reports its end to the controller.
 *
 *   push  ... SENDING -> HELD -> APPLIED ------------------> DURABLE
 *   copy                    GRANT(copy) ~~~~ chunks ~~~~ whole
 */
#include "hd_assert.h"
#include "worker_push.h"

static void send_gone(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	uint32_t round,
	uint8_t attempt,
	enum hd_reason reason
) {
	struct hd_message message = {.kind = HD_MSG_CANCEL};

	message.cancel.job = worker->job;
	message.cancel.worker = worker->config.rank;
	message.cancel.round = round;
	message.cancel.direction = HD_COPY;
	message.cancel.attempt = attempt;
	message.cancel.reason = (uint8_t)reason;
	(void)worker_tell(worker, worker->controller, ctx, &message);
}

/* The copy ends here, and its replica does not know yet. */
static void copy_stop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_reason reason
) {
	send_gone(worker, ctx, ticket->pub.round, ticket->copy_attempt, reason);
	worker_copy_end(ticket);
}

void worker_copy_gone(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	if (ticket->copy)
		copy_stop(worker, ctx, ticket, HD_REASON_CANCELLED);
}

static int copy_begin(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
) {
	struct hd_send_config config = {
		.peer = { grant->peer_ipv4, grant->peer_port },
		.header = {
			.attempt = grant->attempt,
			.dtype = ticket->dtype,
			.exponent = ticket->exponent,
			.job = worker->job,
			.epoch = grant->epoch,
			.worker = worker->config.rank,
			.round = ticket->pub.round,
			.version = ticket->pub.base,
			.token = grant->token,
		},
		.data = worker_bytes(ticket),
		.bytes = ticket->pub.bytes,
		.chunk_bytes = worker->config.chunk_bytes,
		.cc_weight = grant->cc_weight >= 1.0f ? grant->cc_weight : 1.0f,
		.segments = worker_segments(worker->controller, ctx, grant),
	};
	int rc;

	hd_assert(!ticket->copy && !ticket->ended);
	if (ticket->packing) /* packed again, for another grant of the push */
		return -1;
	ticket->copy_path
		= worker_path_to(worker, ctx, config.peer, worker_is_server(worker, config.peer));
	if (!ticket->copy_path)
		return -1;
	config.path = &ticket->copy_path->cc;
	config.keys = worker->config.keys;
	config.key_id = worker->config.key_id;
	rc = hd_send_create(&config, ctx->now, &ticket->copy);
	if (rc < 0) {
		ticket->copy = NULL;
		ticket->copy_path = NULL;
		return rc;
	}
	ticket->copy_token = grant->token;
	ticket->copy_attempt = grant->attempt;
	worker_activate(worker, ticket);
	return 0;
}

void worker_on_copy_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_grant *grant
) {
	struct worker_ticket *ticket = worker_find(worker, HD_PUSH, grant->round);
	bool same = ticket && !ticket->ended && ticket->weight >= grant->weight
		&& ticket->weight <= grant->weight && ticket->pub.bytes == grant->bytes
		&& ticket->dtype == grant->dtype && !ticket->recast;

	if (grant->job != worker->job || grant->worker != worker->config.rank || grant->token == 0
	    || (grant->peer_ipv4 == 0 && grant->peer_port == 0)) {
		worker->stats.late_messages++;
		return;
	}
	if (same && ticket->copy && ticket->copy_token == grant->token)
		return; /* repeated */
	if (same)
		worker_copy_end(ticket);
	/* Those bytes are gone: released, or packed again for another grant. */
	if (!same || copy_begin(worker, ctx, grant, ticket) < 0)
		send_gone(
			worker,
			ctx,
			grant->round,
			grant->attempt,
			same ? HD_REASON_TIMEOUT : HD_REASON_CANCELLED
		);
	else
		worker->stats.copies++;
}

static struct worker_ticket *find_copy(const struct hd_worker *worker, uint64_t token) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->active, active_link)
		if (ticket->copy && ticket->copy_token == token)
			return ticket;
	return NULL;
}

bool worker_copy_void(struct hd_worker *worker, uint64_t token) {
	struct worker_ticket *ticket = find_copy(worker, token);

	if (ticket)
		worker_copy_end(ticket);
	return ticket;
}

bool worker_copy_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_session *session,
	const struct hd_msg_sack *sack
) {
	struct worker_ticket *ticket = find_copy(worker, sack->token);

	if (!ticket || session != worker_path_session(worker, ticket->copy_path))
		return false;
	hd_send_sack(ticket->copy, ctx->now, sack);
	worker_observe_copy(worker, ctx, ticket);
	return true;
}

void worker_observe_copy(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	enum hd_send_state state = hd_send_stats(ticket->copy)->state;

	if (state == HD_SEND_DONE)
		worker_copy_end(ticket);
	else if (state == HD_SEND_FAILED)
		copy_stop(worker, ctx, ticket, HD_REASON_TIMEOUT);
}

void worker_copies_leave(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_path *path
) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->active, active_link)
		if (ticket->copy && ticket->copy_path == path)
			copy_stop(worker, ctx, ticket, HD_REASON_CLOSED);
}
