/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small transfers need no request. The controller grants the next push in advance, and permits the worker to ask the
 * server itself for one small pull. A transfer that does not fit, is too late or takes another path is requested as
 * usual.
 */
#include "worker_ask.h"
#include "worker_push.h"

#include <math.h>

void worker_on_credit(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_credit *message
) {
	hd_ns until = hd_ns_add(ctx->now, message->expires_us * HD_US);

	if (message->job != worker->job || message->worker != worker->config.rank
	    || !isfinite(message->weight) || message->weight < 0.0f) {
		worker->stats.late_messages++;
		return;
	}
	worker->pull_credit = (struct worker_pull_credit){message->pull_bytes, until};
	/* For a pull only; or the round was requested meanwhile, or the server has taken it back already. */
	if (message->token == 0 || message->attempt == 0
	    || message->round < worker->next_round[HD_PUSH]
	    || worker_take_early(worker, message->token, true))
		return;
	worker->credit = *message;
	worker->credit_until = until;
}

bool worker_credit_void(struct hd_worker *worker, uint64_t token) {
	if (token == 0 || worker->credit.token != token)
		return false;
	worker->credit.token = 0;
	return true;
}

void worker_credit_clear(struct hd_worker *worker) {
	worker->credit.token = 0;
	worker->pull_credit.bytes = 0;
}

static bool
fits(const struct hd_worker *worker,
     const struct worker_context *ctx,
     const struct worker_ticket *ticket) {
	return worker->credit.token != 0 && ctx->now < worker->credit_until
		&& ticket->pub.direction == HD_PUSH && ticket->pub.round == worker->credit.round
		&& ticket->pub.bytes <= worker->credit.bytes && ticket->attempt == 0
		&& ticket->weight == 0.0f && worker_ask_target(worker) == WORKER_ASKED_CONTROLLER;
}

bool worker_spend(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	const struct hd_msg_credit credit = worker->credit;
	struct hd_msg_grant grant = {
		.job = credit.job,
		.worker = credit.worker,
		.round = credit.round,
		.direction = HD_PUSH,
		.attempt = credit.attempt,
		.epoch = credit.epoch,
		.token = credit.token,
		.position = credit.position,
		.weight = credit.weight,
		.cc_weight = 1.0f,
		.peer_ipv4 = credit.peer_ipv4,
		.peer_port = credit.peer_port,
		.bytes = ticket->pub.bytes,
		.dtype = ticket->dtype,
		.exponent = (uint16_t)worker_exponent(ticket, credit.weight),
	};

	if (!fits(worker, ctx, ticket))
		return false;
	worker->credit.token = 0;
	ticket->attempt = credit.attempt;
	ticket->asked = WORKER_ASKED_CONTROLLER;
	ticket->credited = true;
	if (worker_begin_push(worker, ctx, worker->controller, &grant, ticket) == 0)
		return true;
	/* A request for it fails for the same reason, with an error. */
	ticket->attempt = 0;
	ticket->asked = WORKER_ASKED_NONE;
	ticket->credited = ticket->pub.granted = false;
	ticket->token = ticket->position = 0;
	return false;
}

bool worker_spend_pull(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
) {
	if (ticket->pub.direction != HD_PULL || ticket->attempt > 0
	    || ctx->now >= worker->pull_credit.until
	    || ticket->pub.bytes > worker->pull_credit.bytes)
		return false;
	worker->pull_credit.bytes = 0;
	return true;
}
