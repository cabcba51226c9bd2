/* SPDX-License-Identifier: BSD-3-Clause */
/* Stalled transfers are requested again. */
#include "worker_ask.h"
#include "worker_reduce.h"

#include <stdio.h>

#define SILENT_STALLS_REPORTED 2 /* a power of two */

/*
 * Whether a message of another node is overdue. A request at the controller waits by its policy; a push that the server
 * holds waits for its commit. Others make progress or are requested again: a grant whose EXPECT was lost with a
 * controller, a pull whose grant was.
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

static bool waits_for_path(const struct hd_worker *worker, const struct worker_ticket *ticket) {
	return worker_by_aggregator(ticket) && !ticket->path->plain
		&& !worker_path_session(worker, ticket->path);
}

/* A path with a smaller MTU than the hosts' links drops packets silently: short ones pass in both directions, but no
 * chunk. This looks the same when the other side does not send: so only repeated stalls are reported, and at increasing
 * intervals. */
static void note_silence(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
) {
	const struct hd_session *session = worker_path_session(worker, ticket->path);
	bool moves = ticket->send || ticket->recv;
	struct hd_addr peer;
	char text[HD_TEXT_BYTES_MAX];

	if (!moves || ticket->progress_bytes > 0 || !session
	    || hd_session_heard(session) <= ticket->progress_at)
		return;
	worker->silent_stalls++;
	if (worker->silent_stalls < SILENT_STALLS_REPORTED
	    || (worker->silent_stalls & (worker->silent_stalls - 1)) != 0 || !worker->config.ops
	    || !worker->config.ops->trouble)
		return;
	peer = hd_session_peer(session);
	(void)snprintf(
		text,
		sizeof text,
		"%u.%u.%u.%u:%u is heard, but no chunk (%u bytes of UDP) has come through in %u tries: is an "
		"MTU between smaller than the hosts'? (chunk_bytes is %u)",
		peer.ipv4 >> 24,
		peer.ipv4 >> 16 & 255,
		peer.ipv4 >> 8 & 255,
		peer.ipv4 & 255,
		peer.port,
		worker->config.chunk_bytes + HD_CHUNK_HEADER_BYTES,
		worker->silent_stalls,
		worker->config.chunk_bytes
	);
	worker->config.ops->trouble(worker->config.owner, HD_REASON_TIMEOUT, text);
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
			if (bytes > ticket->progress_bytes)
				worker->silent_stalls = 0;
			ticket->progress_bytes = bytes;
			ticket->progress_at = ctx->now;
			continue;
		}
		if (waits_for_path(worker, ticket)
		    && ctx->now >= hd_ns_add(ticket->progress_at, HD_PATH_OPEN_US * HD_US)) {
			worker_leave_path(worker, ctx, ticket, HD_REASON_TIMEOUT);
			continue;
		}
		if (ctx->now < hd_ns_add(ticket->progress_at, HD_STALL_US * HD_US))
			continue;
		note_silence(worker, ctx, ticket);
		ticket->ask_server |= worker_by_aggregator(ticket);
		worker_ask_again(worker, ctx, ticket);
	}
	worker->stall_at = watch ? hd_ns_add(ctx->now, HD_STALL_US * HD_US / 4) : HD_NEVER;
}
