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
#include "hd_assert.h"
#include "worker_reduce.h"
#include "worker_ticket.h"

bool worker_way_is_free(const struct worker_way *way) {
	return hd_addr_is_none(way->address);
}

/* Transfers that go this way, also those that an aggregator holds whole; and what goes on for a replica. */
bool worker_way_is_used(const struct hd_worker *worker, const struct worker_way *way) {
	const struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link)
		if ((ticket->way == way || ticket->copy_way == way)
		    && (!ticket->ended || ticket->slots))
			return true;
	return worker_reduce_uses(worker, way);
}

void worker_way_clear(struct worker_way *way, const struct worker_context *ctx) {
	hd_assert(way->path.transfers == 0);
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

		if (worker_way_is_free(way))
			return way;
		if ((!oldest || way->used_at < oldest->used_at) && !worker_way_is_used(worker, way))
			oldest = way;
	}
	if (worker->way_count < HD_WAYS_MAX)
		return &worker->ways[worker->way_count++];
	if (oldest)
		worker_way_clear(oldest, ctx);
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
	way->path.totals = &worker->transfers;
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
	for (uint32_t i = 0; i < worker->way_count; i++)
		if (worker->ways[i].session == session && session)
			return &worker->ways[i];
	return NULL;
}

struct worker_way *worker_way_at(struct hd_worker *worker, struct hd_addr address) {
	for (uint32_t i = 0; i < worker->way_count; i++) {
		struct worker_way *way = &worker->ways[i];

		if (!worker_way_is_free(way) && !way->server && !way->plain
		    && hd_addr_equal(way->address, address))
			return way;
	}
	return NULL;
}

void worker_way_say_once(
	const struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_way *way,
	const struct hd_message *message
) {
	struct hd_session *session = worker_way_session(worker, way);

	if (session)
		(void)hd_session_send_once(session, message, ctx->now, ctx->sink);
}

bool worker_way_takes(
	struct hd_worker *worker,
	const struct worker_way *way,
	struct hd_seal *seal,
	const struct hd_chunk_header *header,
	const struct hd_packet *packet
) {
	if (!worker_way_is_at(worker, way, packet->peer)) {
		worker->stats.drop_source++;
		return false;
	}
	if (!hd_seal_check(seal, worker->config.keys, header, packet->data, packet->bytes)) {
		worker->stats.drop_mac++;
		return false;
	}
	return true;
}
