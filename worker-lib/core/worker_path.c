/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths to the nodes that chunks go to and come from: the server, and the aggregators in grants and expectations.
 *
 *   grant, peer = server ------> the session with the server, which worker_session.c keeps
 *   grant, peer = aggregator --> a session of its own, opened at first use, closed after a long idle time
 *
 * A path keeps its round-trip time and congestion window, which outlive transfers. Messages of an aggregator's session
 * apply to the transfers on its path; when the session ends, or cannot be opened in time, these are requested again.
 */
#include "hd_assert.h"
#include "worker_reduce.h"
#include "worker_ticket.h"

bool worker_path_is_free(const struct worker_path *path) {
	return hd_addr_is_none(path->address);
}

/* Transfers on this path, also those that an aggregator holds completely; and those that continue for a replica. */
bool worker_path_is_used(const struct hd_worker *worker, const struct worker_path *path) {
	const struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link)
		if ((ticket->path == path || ticket->copy_path == path)
		    && (!ticket->ended || ticket->slots))
			return true;
	return worker_reduce_uses(worker, path);
}

void worker_path_clear(struct worker_path *path, const struct worker_context *ctx) {
	hd_assert(path->cc.transfers == 0);
	if (path->session)
		hd_session_close(
			path->session, HD_REASON_CLOSED, "no longer needed", ctx->now, ctx->sink
		);
	*path = (struct worker_path){0};
}

/* A free entry, or the one that was idle for the longest time. */
static struct worker_path *take_place(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_path *oldest = NULL;

	for (uint32_t i = 0; i < worker->path_count; i++) {
		struct worker_path *path = &worker->paths[i];

		if (worker_path_is_free(path))
			return path;
		if ((!oldest || path->used_at < oldest->used_at)
		    && !worker_path_is_used(worker, path))
			oldest = path;
	}
	if (worker->path_count < HD_PATHS_MAX)
		return &worker->paths[worker->path_count++];
	if (oldest)
		worker_path_clear(oldest, ctx);
	return oldest;
}

/* The entry for a node, or a new one without a session. */
static struct worker_path *find_or_place(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_path *wanted
) {
	struct worker_path *path;

	for (uint32_t i = 0; i < worker->path_count; i++) {
		path = &worker->paths[i];
		if (hd_addr_equal(path->address, wanted->address) && path->server == wanted->server
		    && path->plain == wanted->plain) {
			path->used_at = ctx->now;
			return path;
		}
	}
	path = take_place(worker, ctx);
	if (!path)
		return NULL;
	*path = *wanted;
	path->used_at = ctx->now;
	hd_path_init(
		&path->cc,
		worker->config.chunk_bytes + HD_CHUNK_HEADER_BYTES + WORKER_PACKET_OVERHEAD
	);
	path->cc.totals = &worker->transfers;
	return path;
}

struct worker_path *worker_path_to(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address,
	bool server
) {
	const struct worker_path wanted = {.address = address, .server = server};
	struct worker_path *path = find_or_place(worker, ctx, &wanted);
	struct hd_session *session = path ? worker_path_session(worker, path) : NULL;

	if (session)
		hd_path_hear_rtt(&path->cc, hd_session_rtt_least(session));
	if (!path || server || path->session)
		return path;
	if (hd_endpoint_connect(worker->endpoint, address, ctx->now, &path->session) < 0) {
		*path = (struct worker_path){0};
		return NULL;
	}
	return path;
}

struct worker_path *worker_path_plain(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address
) {
	const struct worker_path wanted = {.address = address, .plain = true};

	return find_or_place(worker, ctx, &wanted);
}

bool worker_is_server(const struct hd_worker *worker, struct hd_addr address) {
	return hd_addr_is_none(address) || hd_addr_equal(address, worker->server_addr)
		|| (worker->server && hd_addr_equal(address, hd_session_peer(worker->server)));
}

struct hd_session *
worker_path_session(const struct hd_worker *worker, const struct worker_path *path) {
	struct hd_session *session = !path || path->server ? worker->server : path->session;

	return session && hd_session_is_open(session) ? session : NULL;
}

bool worker_path_is_at(
	const struct hd_worker *worker,
	const struct worker_path *path,
	struct hd_addr address
) {
	const struct hd_session *session = worker_path_session(worker, path);

	return session && hd_addr_equal(hd_session_peer(session), address);
}

struct worker_path *worker_path_of(struct hd_worker *worker, const struct hd_session *session) {
	for (uint32_t i = 0; i < worker->path_count; i++)
		if (worker->paths[i].session == session && session)
			return &worker->paths[i];
	return NULL;
}

struct worker_path *worker_path_at(struct hd_worker *worker, struct hd_addr address) {
	for (uint32_t i = 0; i < worker->path_count; i++) {
		struct worker_path *path = &worker->paths[i];

		if (!worker_path_is_free(path) && !path->server && !path->plain
		    && hd_addr_equal(path->address, address))
			return path;
	}
	return NULL;
}

void worker_path_send_once(
	const struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_path *path,
	const struct hd_message *message
) {
	struct hd_session *session = worker_path_session(worker, path);

	if (session)
		(void)hd_session_send_once(session, message, ctx->now, ctx->sink);
}

bool worker_path_takes(
	struct hd_worker *worker,
	const struct worker_path *path,
	struct hd_seal *seal,
	const struct hd_chunk_header *header,
	const struct hd_packet *packet
) {
	if (!worker_path_is_at(worker, path, packet->peer)) {
		worker->stats.drop_source++;
		return false;
	}
	if (!hd_seal_check(seal, worker->config.keys, header, packet->data, packet->bytes)) {
		worker->stats.drop_mac++;
		return false;
	}
	return true;
}
