/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The nodes that chunks go to and come from: the server, and the aggregators that grants and expectations name.
 *
 *   grant, peer = server ------> the session with the server, which worker_session.c keeps
 *   grant, peer = aggregator --> a session of its own, opened the first time, closed when idle for long
 *
 * A way has the memory of its path (RTT, window), which outlives transfers. What an aggregator's session says counts
 * for the transfers that go its way; when it ends, or does not come about in time, they are asked for anew.
 */
#include "hd_slots.h"
#include "hd_text.h"
#include "worker_core.h"
#include "worker_reduce.h"

#include <assert.h>

static bool is_free(const struct worker_way *way) {
	return hd_addr_is_none(way->address);
}

/* Transfers that go this way, also those that an aggregator holds whole; and what goes on for a replica. */
static bool is_used(const struct hd_worker *worker, const struct worker_way *way) {
	const struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		if ((ticket->way == way || ticket->copy_way == way)
		    && (!ticket->ended || ticket->slots))
			return true;
	}
	return worker_reduce_uses(worker, way);
}

static void clear_way(struct worker_way *way, const struct worker_context *ctx) {
	assert(way->path.transfers == 0);
	if (way->session)
		hd_session_close(
			way->session, HD_REASON_CLOSED, "no longer needed", ctx->now, ctx->sink
		);
	*way = (struct worker_way){0};
}

/* A free place, or that of whoever was idle the longest. */
static struct worker_way *take_place(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_way *oldest = NULL;

	for (uint32_t i = 0; i < worker->way_count; i++) {
		struct worker_way *way = &worker->ways[i];

		if (is_free(way))
			return way;
		if ((!oldest || way->used_at < oldest->used_at) && !is_used(worker, way))
			oldest = way;
	}
	if (worker->way_count < HD_WAYS_MAX)
		return &worker->ways[worker->way_count++];
	if (oldest)
		clear_way(oldest, ctx);
	return oldest;
}

/* What there is of it, or a place for it, without a session. */
static struct worker_way *find_or_place(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_way *wanted
) {
	struct worker_way *way;

	for (uint32_t i = 0; i < worker->way_count; i++) {
		way = &worker->ways[i];
		if (hd_addr_equal(way->address, wanted->address) && way->server == wanted->server
		    && way->plain == wanted->plain) {
			way->used_at = ctx->now;
			return way;
		}
	}
	way = take_place(worker, ctx);
	if (!way)
		return NULL;
	*way = *wanted;
	way->used_at = ctx->now;
	hd_path_init(
		&way->path,
		worker->config.chunk_bytes + HD_CHUNK_HEADER_BYTES + WORKER_PACKET_OVERHEAD
	);
	return way;
}

struct worker_way *worker_way_to(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address,
	bool server
) {
	const struct worker_way wanted = {.address = address, .server = server};
	struct worker_way *way = find_or_place(worker, ctx, &wanted);

	if (!way || server || way->session)
		return way;
	if (hd_endpoint_connect(worker->endpoint, address, ctx->now, &way->session) < 0) {
		*way = (struct worker_way){0};
		return NULL;
	}
	return way;
}

struct worker_way *worker_way_plain(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address
) {
	const struct worker_way wanted = {.address = address, .plain = true};

	return find_or_place(worker, ctx, &wanted);
}

bool worker_is_server(const struct hd_worker *worker, struct hd_addr address) {
	return hd_addr_is_none(address) || hd_addr_equal(address, worker->server_addr)
		|| (worker->server && hd_addr_equal(address, hd_session_peer(worker->server)));
}

struct hd_session *
worker_way_session(const struct hd_worker *worker, const struct worker_way *way) {
	struct hd_session *session = !way || way->server ? worker->server : way->session;

	return session && hd_session_is_open(session) ? session : NULL;
}

bool worker_way_is_at(
	const struct hd_worker *worker,
	const struct worker_way *way,
	struct hd_addr address
) {
	const struct hd_session *session = worker_way_session(worker, way);

	return session && hd_addr_equal(hd_session_peer(session), address);
}

struct worker_way *worker_way_of(struct hd_worker *worker, const struct hd_session *session) {
	for (uint32_t i = 0; i < worker->way_count; i++) {
		if (worker->ways[i].session == session && session)
			return &worker->ways[i];
	}
	return NULL;
}

struct worker_way *worker_way_at(struct hd_worker *worker, struct hd_addr address) {
	for (uint32_t i = 0; i < worker->way_count; i++) {
		struct worker_way *way = &worker->ways[i];

		if (!is_free(way) && !way->server && !way->plain
		    && hd_addr_equal(way->address, address))
			return way;
	}
	return NULL;
}

bool worker_by_aggregator(const struct worker_ticket *ticket) {
	return ticket->way && !ticket->way->server;
}

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

/* --- ends ----------------------------------------------------------------------------------- */

/* The controller may not know that this worker and that aggregator do not reach each other. */
static void say_unreached(
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

void worker_leave_way(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_reason reason
) {
	say_unreached(worker, ctx, ticket, reason);
	worker->stats.ways_lost++;
	ticket->ask_server = true;
	worker_requeue(worker, ctx, ticket);
	worker_ask(worker, ctx, ticket);
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
		clear_way(way, ctx);
}

void worker_ways_forget_server(struct hd_worker *worker, const struct worker_context *ctx) {
	for (uint32_t i = 0; i < worker->way_count; i++) {
		if (!worker->ways[i].server)
			continue;
		worker_copies_leave(worker, ctx, &worker->ways[i]);
		clear_way(&worker->ways[i], ctx);
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
	if (!is_used(worker, way))
		clear_way(way, ctx);
}

/* Whatever is sent counts in the memory of its path, which goes with the way: it ends first. */
void worker_ways_close(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		worker_off_wire(worker, ticket);
		worker_copy_end(ticket);
	}
	worker_reduce_off_wire(worker);
	for (uint32_t i = 0; i < worker->way_count; i++) {
		if (!is_free(&worker->ways[i]))
			clear_way(&worker->ways[i], ctx);
	}
}

/* --- time ----------------------------------------------------------------------------------- */

void worker_way_tick(struct hd_worker *worker, const struct worker_context *ctx) {
	for (uint32_t i = 0; i < worker->way_count; i++) {
		struct worker_way *way = &worker->ways[i];

		if (is_free(way) || way->server
		    || ctx->now < hd_ns_add(way->used_at, HD_WAY_IDLE_US * HD_US))
			continue;
		if (is_used(worker, way))
			way->used_at = ctx->now;
		else
			clear_way(way, ctx);
	}
}

hd_ns worker_way_deadline(const struct hd_worker *worker) {
	hd_ns deadline = HD_NEVER;

	for (uint32_t i = 0; i < worker->way_count; i++) {
		const struct worker_way *way = &worker->ways[i];

		if (!is_free(way) && !way->server)
			deadline = hd_ns_min(
				deadline, hd_ns_add(way->used_at, HD_WAY_IDLE_US * HD_US)
			);
	}
	return deadline;
}
