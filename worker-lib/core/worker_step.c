/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous jobs (docs/protocol/commit.md): what a worker knows of the server's steps.
 *
 *   push (base 8) ..... held ..... | step: version 12 | OUTCOME applied, of a laggard DROPPED late
 *   pull ............ waits ..........................| asked for: version 12
 *
 * The pull waits for the ends of the pushes before it, so whatever ends a push (a death of the server, a void) lets
 * the worker go on: there is no barrier that could be forgotten.
 */
#include "worker_ask.h"

bool worker_waits_for_step(const struct hd_worker *worker, const struct worker_ticket *pull) {
	const struct worker_ticket *ticket;

	if (pull->pub.direction != HD_PULL
	    || (worker->spec.sync != HD_SYNC_ALL && worker->spec.sync != HD_SYNC_N))
		return false;
	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		if (ticket == pull)
			return false;
		if (ticket->pub.direction == HD_PUSH && !ticket->ended
		    && ticket->pub.state < HD_TICKET_APPLIED)
			return true;
	}
	return false;
}

void worker_say_done(struct hd_worker *worker, const struct worker_context *ctx) {
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	if (worker->spec.sync == HD_SYNC_NONE || worker->said_done)
		return;
	message.leave.job = worker->job;
	message.leave.worker = worker->config.rank;
	message.leave.reason = HD_REASON_NONE;
	worker->said_done = worker_tell(worker, worker->server, ctx, &message) == 0;
}

void worker_newest(struct hd_worker *worker, hd_version version, bool new_life) {
	if (worker->spec.sync == HD_SYNC_NONE || (version <= worker->newest && !new_life))
		return;
	worker->newest = version;
	if (worker->config.ops && worker->config.ops->stepped)
		worker->config.ops->stepped(worker->config.owner, version);
}
