/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aggregators that this worker talks to. A session is opened the first time one is named and kept while it is
 * used; it says who we are (JOIN without a description), as an aggregator knows members by job and rank.
 */
#include "hd_text.h"
#include "hd_worker_core.h"

struct peer *worker_peer_of(struct hd_worker *worker, const struct hd_session *session) {
	for (uint32_t i = 0; session && i < worker->peers_used; i++) {
		if (worker->peers[i].session == session)
			return &worker->peers[i];
	}
	return NULL;
}

static void close_peer(struct peer *peer, const struct context *ctx) {
	if (peer->session)
		hd_session_close(peer->session, HD_REASON_LEFT, "not needed", ctx->now, ctx->sink);
	*peer = (struct peer){0};
}

/* A free place, else that of the one which is unused for the longest time. */
static struct peer *find_place(struct hd_worker *worker, const struct context *ctx) {
	struct peer *oldest = NULL;

	for (uint32_t i = 0; i < worker->peers_used; i++) {
		struct peer *peer = &worker->peers[i];

		if (hd_addr_is_none(peer->addr))
			return peer;
		if (peer->users == 0 && (!oldest || peer->used < oldest->used))
			oldest = peer;
	}
	if (worker->peers_used < PEERS_MAX)
		return &worker->peers[worker->peers_used++];
	if (oldest)
		close_peer(oldest, ctx);
	return oldest;
}

struct peer *
worker_peer_get(struct hd_worker *worker, const struct context *ctx, struct hd_addr addr) {
	struct peer *peer = NULL;

	for (uint32_t i = 0; i < worker->peers_used && !hd_addr_is_none(addr); i++) {
		if (hd_addr_equal(worker->peers[i].addr, addr))
			peer = &worker->peers[i];
	}
	if (!peer && !hd_addr_is_none(addr)) {
		peer = find_place(worker, ctx);
		if (!peer)
			return NULL;
		peer->addr = addr;
		hd_path_init(
			&peer->path,
			worker->config.chunk_bytes + HD_CHUNK_HEADER_BYTES + PACKET_OVERHEAD
		);
	}
	if (!peer)
		return NULL;
	if (!peer->session
	    && hd_endpoint_connect(worker->endpoint, addr, ctx->now, &peer->session) < 0) {
		peer->session = NULL;
		if (peer->users == 0)
			*peer = (struct peer){0};
		return NULL;
	}
	peer->used = ctx->now;
	peer->users++;
	return peer;
}

void worker_peer_put(struct peer *peer, const struct context *ctx) {
	peer->users--;
	peer->used = ctx->now;
}

bool worker_peer_is_open(const struct peer *peer) {
	return peer->session && hd_session_is_open(peer->session);
}

void worker_peer_opened(
	struct hd_worker *worker,
	const struct context *ctx,
	const struct peer *peer
) {
	struct hd_message message = {.kind = HD_MSG_JOIN};

	message.join.job = worker->job;
	message.join.worker = worker->config.rank;
	hd_text_copy(message.join.host, sizeof message.join.host, worker->host);
	(void)worker_tell(worker, peer->session, ctx, &message);
}

void worker_peer_closed(struct peer *peer, enum hd_reason reason) {
	/* Others open again by themselves. */
	if (reason == HD_REASON_REFUSED)
		peer->session = NULL;
}

void worker_peers_tick(struct hd_worker *worker, const struct context *ctx) {
	for (uint32_t i = 0; i < worker->peers_used; i++) {
		struct peer *peer = &worker->peers[i];

		if (!hd_addr_is_none(peer->addr) && peer->users == 0
		    && ctx->now >= hd_ns_add(peer->used, PEER_IDLE_US * HD_US))
			close_peer(peer, ctx);
	}
}

hd_ns worker_peers_deadline(const struct hd_worker *worker) {
	hd_ns deadline = HD_NEVER;

	for (uint32_t i = 0; i < worker->peers_used; i++) {
		const struct peer *peer = &worker->peers[i];

		if (!hd_addr_is_none(peer->addr) && peer->users == 0)
			deadline = hd_ns_min(deadline, hd_ns_add(peer->used, PEER_IDLE_US * HD_US));
	}
	return deadline;
}

void worker_peers_close(struct hd_worker *worker, const struct context *ctx) {
	for (uint32_t i = 0; i < worker->peers_used; i++)
		close_peer(&worker->peers[i], ctx);
}
