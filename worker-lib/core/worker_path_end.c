/* SPDX-License-Identifier: BSD-3-Clause */
/* Begin and end of a path's copies, transfers and all-reduces. */
#include "hd_text.h"
#include "worker_ask.h"
#include "worker_push.h"
#include "worker_reduce.h"

/* An aggregator identifies members by job and rank, so it is told whose session this is. */
void worker_path_opened(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_path *path
) {
	struct hd_message message = {.kind = HD_MSG_JOIN};

	path->opened = true; /* its waiting transfers are sent in this call */
	message.join.job = worker->job;
	message.join.worker = worker->config.rank;
	hd_text_copy(message.join.host, sizeof message.join.host, worker->host);
	(void)worker_tell(worker, path->session, ctx, &message);
}

void worker_path_closed(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_path *path,
	enum hd_reason reason
) {
	bool refused = reason == HD_REASON_REFUSED;
	/* Before the session was open this is a hint, while HELLO continues. */
	bool lost = path->opened || refused;
	struct worker_ticket *ticket;

	path->opened = false;
	if (lost)
		worker_copies_leave(worker, ctx, path);
	if (refused) /* the endpoint frees it */
		path->session = NULL;
	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		/* An applied push is only kept: it has used this path, and no longer needs it. */
		if (lost && ticket->path == path && !ticket->ended
		    && ticket->pub.state < HD_TICKET_APPLIED)
			worker_leave_path(worker, ctx, ticket, HD_REASON_CLOSED);
	}
	if (lost)
		worker_reduce_path_closed(worker, ctx, path);
	if (refused)
		worker_path_clear(path, ctx);
}

void worker_paths_forget_server(struct hd_worker *worker, const struct worker_context *ctx) {
	for (uint32_t i = 0; i < worker->path_count; i++) {
		if (!worker->paths[i].server)
			continue;
		worker_copies_leave(worker, ctx, &worker->paths[i]);
		worker_path_clear(&worker->paths[i], ctx);
	}
}

void worker_path_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address
) {
	struct worker_path *path = worker_path_at(worker, address);

	if (!path)
		return;
	worker_copies_leave(worker, ctx, path);
	if (!worker_path_is_used(worker, path))
		worker_path_clear(path, ctx);
}

/* Every sender refers to its path, which ends here: so senders are destroyed first. */
void worker_paths_close(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		worker_off_wire(worker, ticket);
		worker_copy_end(ticket);
	}
	worker_reduce_off_wire(worker);
	for (uint32_t i = 0; i < worker->path_count; i++)
		if (!worker_path_is_free(&worker->paths[i]))
			worker_path_clear(&worker->paths[i], ctx);
}

void worker_path_tick(struct hd_worker *worker, const struct worker_context *ctx) {
	for (uint32_t i = 0; i < worker->path_count; i++) {
		struct worker_path *path = &worker->paths[i];

		if (worker_path_is_free(path) || path->server
		    || ctx->now < hd_ns_add(path->used_at, HD_PATH_IDLE_US * HD_US))
			continue;
		if (worker_path_is_used(worker, path))
			path->used_at = ctx->now;
		else
			worker_path_clear(path, ctx);
	}
}

hd_ns worker_path_deadline(const struct hd_worker *worker) {
	hd_ns deadline = HD_NEVER;

	for (uint32_t i = 0; i < worker->path_count; i++) {
		const struct worker_path *path = &worker->paths[i];

		if (!worker_path_is_free(path) && !path->server)
			deadline = hd_ns_min(
				deadline, hd_ns_add(path->used_at, HD_PATH_IDLE_US * HD_US)
			);
	}
	return deadline;
}
