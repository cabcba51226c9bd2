/* SPDX-License-Identifier: BSD-3-Clause */
/* Leaving the job: transfers in progress end first, then both sides are told, then the sessions are closed. */
#include "worker_ask.h"
#include "worker_session.h"

static void close_session(struct hd_session **session, const struct worker_context *ctx) {
	if (*session)
		hd_session_close(*session, HD_REASON_LEFT, "left", ctx->now, ctx->sink);
	*session = NULL;
}

/* Long enough for one retransmission of a lost LEAVE; CLOSE has the same effect if both are lost. */
static hd_ns linger(const struct hd_worker *worker, hd_ns now) {
	hd_ns rtt = worker->server ? hd_session_rtt(worker->server) : 0;

	if (now >= worker_leave_at(worker))
		return hd_ns_min(now + 10 * HD_MS, worker->preempted_at);
	if (worker->controller)
		rtt = hd_ns_max(rtt, hd_session_rtt(worker->controller));
	return hd_ns_add(now, hd_ns_min(hd_ns_max(4 * rtt, 10 * HD_MS), 200 * HD_MS));
}

static bool in_flight(const struct hd_worker *worker) {
	const struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		if (!ticket->ended && ticket->pub.state != HD_TICKET_APPLIED)
			return true;
		if (ticket->tail_until)
			return true;
	}
	return worker->reduce_count > 0;
}

bool hd_worker_leave(struct hd_worker *worker, hd_ns now, struct hd_sink *sink) {
	struct worker_context ctx = {now, sink};
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	if (worker->stage == WORKER_LEFT)
		return true;
	if (worker->stage == WORKER_MEMBER)
		worker_set_stage(worker, WORKER_LEAVING);
	if (worker->stage < WORKER_LINGERING && in_flight(worker) && !worker->refused
	    && now < worker_leave_at(worker)) {
		worker_send_done(worker, &ctx);
		return false;
	}
	if (worker->stage < WORKER_LINGERING) {
		message.leave.job = worker->job;
		message.leave.worker = worker->config.rank;
		message.leave.reason = HD_REASON_LEFT;
		(void)worker_tell(worker, worker->server, &ctx, &message);
		(void)worker_tell(worker, worker->controller, &ctx, &message);
		worker_set_stage(worker, WORKER_LINGERING);
		worker->linger_until = linger(worker, now);
		return false;
	}
	if (now < worker->linger_until)
		return false;
	worker_set_stage(worker, WORKER_LEFT);
	worker->stats.joined = false;
	worker->refused = true;
	worker_trim_kept(worker, &ctx, 0);
	worker_paths_close(worker, &ctx);
	close_session(&worker->server, &ctx);
	close_session(&worker->controller, &ctx);
	return true;
}

hd_ns worker_leave_deadline(const struct hd_worker *worker) {
	return worker->stage == WORKER_LINGERING ? worker->linger_until : HD_NEVER;
}
