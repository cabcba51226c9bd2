/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests for pushes and pulls, and their repetition: after no answer, a lost session, or a stall. */
#include "hd_assert.h"
#include "worker_ask.h"

static struct hd_message
request_of(const struct hd_worker *worker, const struct worker_ticket *ticket) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};
	struct hd_msg_request *request = &message.request;

	request->job = worker->job;
	request->worker = worker->config.rank;
	request->round = ticket->pub.round;
	request->direction = ticket->pub.direction;
	request->attempt = ticket->attempt;
	request->dtype = ticket->dtype;
	request->bytes = ticket->pub.bytes;
	request->norm = ticket->norm;
	request->peak = ticket->peak;
	request->base = ticket->pub.base;
	/* Of a push: the version that it made, as this worker was told; the server confirms or denies it. */
	request->have = ticket->pub.direction == HD_PUSH ? ticket->pub.version : ticket->have;
	request->conditional = ticket->conditional;
	request->weight = ticket->share;
	return message;
}

/* A push that was granted before may be in the model by now. Only the server knows, and a controller that plans it
 * again might drop an applied update. */
static enum worker_asked
ask_target_of(const struct hd_worker *worker, const struct worker_ticket *ticket) {
	enum worker_asked target = worker_ask_target(worker);

	if (target == WORKER_ASKED_CONTROLLER && ticket->ask_server)
		return WORKER_ASKED_SERVER;
	return target;
}

void worker_ask(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	enum worker_asked target = ask_target_of(worker, ticket);
	struct hd_event event = {.kind = HD_EVENT_REQUESTED, .aux = ticket->attempt + 1u};
	struct hd_message message;

	if (target == WORKER_ASKED_NONE || ticket->ended || ticket->pub.state != HD_TICKET_QUEUED)
		return;
	if (worker_waits_for_step(worker, ticket))
		return;
	if (worker_spend(worker, ctx, ticket))
		return;
	ticket->credited
		= target == WORKER_ASKED_CONTROLLER && worker_spend_pull(worker, ctx, ticket);
	if (ticket->credited)
		target = WORKER_ASKED_SERVER;
	if (ticket->attempt == WORKER_ATTEMPTS_MAX) {
		worker_end(worker, ctx, ticket, HD_TICKET_FAILED, HD_REASON_TIMEOUT);
		return;
	}
	hd_assert(!ticket->send && !ticket->slots && !ticket->recv);
	ticket->attempt++;
	message = request_of(worker, ticket);
	if (worker_tell(
		    worker,
		    target == WORKER_ASKED_CONTROLLER ? worker->controller : worker->server,
		    ctx,
		    &message
	    )
	    < 0) {
		ticket->attempt--;
		worker->retry_at = hd_ns_add(ctx->now, WORKER_RETRY_US * HD_US);
		return;
	}
	worker->stats.asked_again += ticket->attempt > 1;
	ticket->asked = (uint8_t)target;
	ticket->token = 0;
	ticket->position = 0;
	ticket->requested_at = ticket->progress_at = ctx->now;
	ticket->progress_bytes = 0;
	worker_emit_ticket(worker, ctx, ticket, event);
	worker_set_state(worker, ticket, HD_TICKET_REQUESTED);
	worker_watch_stalls(worker, ctx);
}

void worker_ask_queued(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link)
		worker_ask(worker, ctx, ticket);
}

void worker_requeue(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	if (ticket->ended)
		return;
	worker_off_wire(worker, ticket);
	/* A push that was withdrawn too late may be in the model: the server is asked, as for any other. When it grants
	 * instead of reporting the outcome, it never had the whole push. */
	(void)worker_unkeep(worker, ticket);
	ticket->asked = WORKER_ASKED_NONE;
	ticket->path = NULL;
	worker_to_queue(ticket);
}

void worker_requeue_asked(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum worker_asked target
) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link)
		if (ticket->pub.state == HD_TICKET_REQUESTED && ticket->asked == target)
			worker_requeue(worker, ctx, ticket);
}

void worker_requeue_wire(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	bool server_restarted
) {
	struct worker_ticket *ticket;

	(void)worker_credit_void(worker, worker->credit.token);
	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		bool asked_server = ticket->pub.state == HD_TICKET_REQUESTED
			&& ticket->asked == WORKER_ASKED_SERVER;
		bool on_wire = ticket->pub.state == HD_TICKET_GRANTED
			|| ticket->pub.state == HD_TICKET_SENDING
			|| ticket->pub.state == HD_TICKET_HELD;

		if (asked_server || on_wire
		    || (server_restarted && ticket->pub.state == HD_TICKET_APPLIED))
			worker_requeue(worker, ctx, ticket);
	}
}

/* --- stalls --------------------------------------------------------------------------------- */

void worker_requeue_unproven(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		bool in_flight = ticket->pub.state == HD_TICKET_GRANTED
			|| ticket->pub.state == HD_TICKET_SENDING;

		if (in_flight && ticket->asked == WORKER_ASKED_CONTROLLER
		    && worker_progress(ticket) == 0)
			worker_requeue(worker, ctx, ticket);
	}
}

/* The controller may not know that this worker and that aggregator cannot reach each other. */
static void report_unreached(
	struct hd_worker *worker,
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
	(void)worker_tell(worker, worker->controller, ctx, &message);
}

void worker_leave_path(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_reason reason
) {
	report_unreached(worker, ctx, ticket, reason);
	worker->stats.paths_lost++;
	ticket->ask_server = true;
	worker_requeue(worker, ctx, ticket);
	worker_ask(worker, ctx, ticket);
}

void worker_ask_again(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	worker_requeue(worker, ctx, ticket);
	worker_ask(worker, ctx, ticket);
}
