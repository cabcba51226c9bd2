/* SPDX-License-Identifier: BSD-3-Clause */
/* What stalls is asked for again. */
#include "worker_ask.h"
#include "worker_reduce.h"

/*
 * Whether somebody else's word is overdue. What waits at the controller waits by its policy; a push
 * that the server holds waits for its turn. The rest moves or is asked for again: a grant whose EXPECT
 * was lost with a controller, a pull whose grant was.
 */
static bool may_stall(const struct worker_ticket *ticket) {
	switch (ticket->pub.state) {
	case HD_TICKET_GRANTED:
	case HD_TICKET_SENDING:
		return true;
	case HD_TICKET_REQUESTED:
		return ticket->asked == WORKER_ASKED_SERVER;
	default:
		return false;
	}
}

static bool waits_for_way(const struct hd_worker *worker, const struct worker_ticket *ticket) {
	return worker_by_aggregator(ticket) && !ticket->way->plain
		&& !worker_way_session(worker, ticket->way);
}

void worker_stall_tick(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_ticket *ticket;
	bool watch;

	if (worker->stall_at > ctx->now)
		return;
	watch = worker_reduce_stalls(worker, ctx);
	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		uint64_t bytes = worker_progress(ticket);

		if (ticket->ended)
			continue;
		watch |= ticket->pub.state < HD_TICKET_APPLIED;
		if (!may_stall(ticket) || bytes != ticket->progress_bytes) {
			ticket->progress_bytes = bytes;
			ticket->progress_at = ctx->now;
			continue;
		}
		if (waits_for_way(worker, ticket)
		    && ctx->now >= hd_ns_add(ticket->progress_at, HD_WAY_OPEN_US * HD_US)) {
			worker_leave_way(worker, ctx, ticket, HD_REASON_TIMEOUT);
			continue;
		}
		if (ctx->now < hd_ns_add(ticket->progress_at, HD_STALL_US * HD_US))
			continue;
		ticket->ask_server |= worker_by_aggregator(ticket);
		worker_ask_anew(worker, ctx, ticket);
	}
	worker->stall_at = watch ? hd_ns_add(ctx->now, HD_STALL_US * HD_US / 4) : HD_NEVER;
}
