/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous jobs (docs/protocol/commit.md): a worker's view of the server's steps.
 *
 *   push (base 8) ..... held ..... | step: version 12 | OUTCOME applied, of a straggler DROPPED late
 *   pull ............ waits ..........................| requested: version 12
 *
 * The pull waits for the ends of earlier pushes, so anything that ends a push (a lost server, a void) lets the worker
 * continue: there is no separate barrier.
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

void worker_send_done(struct hd_worker *worker, const struct worker_context *ctx) {
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	if (worker->spec.sync == HD_SYNC_NONE || worker->sent_done)
		return;
	message.leave.job = worker->job;
	message.leave.worker = worker->config.rank;
	message.leave.reason = HD_REASON_NONE;
	worker->sent_done = worker_tell(worker, worker->server, ctx, &message) == 0;
}

void worker_newest(struct hd_worker *worker, hd_version version, bool server_restarted) {
	if (worker->spec.sync == HD_SYNC_NONE || (version <= worker->newest && !server_restarted))
		return;
	worker->newest = version;
	if (worker->config.ops && worker->config.ops->stepped)
		worker->config.ops->stepped(worker->config.owner, version);
}
