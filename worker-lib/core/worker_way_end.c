/* SPDX-License-Identifier: BSD-3-Clause */
/* What begins and ends with a way: copies, transfers and all-reduces that go it. */
#include "hd_text.h"
#include "worker_ask.h"
#include "worker_push.h"
#include "worker_reduce.h"

/* It knows members by job and rank: it is told whose session this is. */
void worker_way_opened(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_way *way
) {
	struct hd_message message = {.kind = HD_MSG_JOIN};

	way->opened = true; /* what waited for it leaves in this call */
	message.join.job = worker->job;
	message.join.worker = worker->config.rank;
	hd_text_copy(message.join.host, sizeof message.join.host, worker->host);
	(void)worker_tell(worker, way->session, ctx, &message);
}

void worker_way_closed(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_way *way,
	enum hd_reason reason
) {
	bool refused = reason == HD_REASON_REFUSED;
	/* Before it was open this is a hint, while HELLO goes on. */
	bool lost = way->opened || refused;
	struct worker_ticket *ticket;

	way->opened = false;
	if (lost)
		worker_copies_leave(worker, ctx, way);
	if (refused) /* the endpoint frees it */
		way->session = NULL;
	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		/* An applied one is only kept: it went this way, and needs it no more. */
		if (lost && ticket->way == way && !ticket->ended
		    && ticket->pub.state < HD_TICKET_APPLIED)
			worker_leave_way(worker, ctx, ticket, HD_REASON_CLOSED);
	}
	if (lost)
		worker_reduce_way_closed(worker, ctx, way);
	if (refused)
		worker_way_clear(way, ctx);
}

void worker_ways_forget_server(struct hd_worker *worker, const struct worker_context *ctx) {
	for (uint32_t i = 0; i < worker->way_count; i++) {
		if (!worker->ways[i].server)
			continue;
		worker_copies_leave(worker, ctx, &worker->ways[i]);
		worker_way_clear(&worker->ways[i], ctx);
	}
}

void worker_way_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address
) {
	struct worker_way *way = worker_way_at(worker, address);

	if (!way)
		return;
	worker_copies_leave(worker, ctx, way);
	if (!worker_way_is_used(worker, way))
		worker_way_clear(way, ctx);
}

/* Whatever is sent counts in the memory of its path, which goes with the way: it ends first. */
void worker_ways_close(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		worker_off_wire(worker, ticket);
		worker_copy_end(ticket);
	}
	worker_reduce_off_wire(worker);
	for (uint32_t i = 0; i < worker->way_count; i++)
		if (!worker_way_is_free(&worker->ways[i]))
			worker_way_clear(&worker->ways[i], ctx);
}

void worker_way_tick(struct hd_worker *worker, const struct worker_context *ctx) {
	for (uint32_t i = 0; i < worker->way_count; i++) {
		struct worker_way *way = &worker->ways[i];

		if (worker_way_is_free(way) || way->server
		    || ctx->now < hd_ns_add(way->used_at, HD_WAY_IDLE_US * HD_US))
			continue;
		if (worker_way_is_used(worker, way))
			way->used_at = ctx->now;
		else
			worker_way_clear(way, ctx);
	}
}

hd_ns worker_way_deadline(const struct hd_worker *worker) {
	hd_ns deadline = HD_NEVER;

	for (uint32_t i = 0; i < worker->way_count; i++) {
		const struct worker_way *way = &worker->ways[i];

		if (!worker_way_is_free(way) && !way->server)
			deadline = hd_ns_min(
				deadline, hd_ns_add(way->used_at, HD_WAY_IDLE_US * HD_US)
			);
	}
	return deadline;
}
