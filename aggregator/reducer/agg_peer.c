/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: one for each session. A session that we opened serves current groups only: if it ends, or does not open in
 * time, it is forgotten, and opened again when a group needs it. Otherwise we would send HELLO for ever to a server
 * that is gone for good.
 */
#include "agg_core.h"
#include "hd_assert.h"

static void take_addr(struct hd_aggregator *aggregator, struct agg_peer *peer) {
	struct agg_peer *older = agg_peer_at(aggregator, peer->addr);

	if (older) { /* the session of the worker's former process ends next */
		HASH_DELETE(addr_hh, aggregator->peers_by_addr, older);
		older->by_addr = false;
	}
	peer->addr_hh.tbl = NULL;
	HASH_ADD(addr_hh, aggregator->peers_by_addr, addr, sizeof peer->addr, peer);
	peer->by_addr = peer->addr_hh.tbl != NULL;
}

struct agg_peer *
agg_peer_create(struct hd_aggregator *aggregator, struct hd_session *session, struct hd_addr addr) {
	struct agg_peer *peer = calloc(1, sizeof *peer);

	if (!peer)
		return NULL;
	peer->session = session;
	peer->addr = agg_addr_key(addr);
	hd_path_init(
		&peer->path, HD_CHUNK_BYTES_DEFAULT + HD_CHUNK_HEADER_BYTES + AGG_PACKET_OVERHEAD
	);
	peer->path.totals = &aggregator->transfers;
	hd_session_set_user(session, peer);
	TAILQ_INSERT_TAIL(&aggregator->peers, peer, link);
	take_addr(aggregator, peer);
	return peer;
}

void agg_peer_forget(struct hd_aggregator *aggregator, struct agg_peer *peer) {
	struct agg_job *job = peer->job;

	if (peer->by_who) {
		HASH_DELETE(who_hh, aggregator->peers_by_who, peer);
		peer->by_who = false;
	}
	if (job) {
		peer->job = NULL;
		hd_assert(job->peers > 0);
		job->peers--;
		agg_job_put(aggregator, job);
	}
}

void agg_peer_destroy(struct hd_aggregator *aggregator, struct agg_peer *peer) {
	agg_peer_forget(aggregator, peer);
	if (peer->by_addr)
		HASH_DELETE(addr_hh, aggregator->peers_by_addr, peer);
	if (peer->ours)
		hd_timers_release(&aggregator->timers, &peer->timer);
	TAILQ_REMOVE(&aggregator->peers, peer, link);
	free(peer);
}

struct agg_peer *agg_peer_connect(struct agg_turn *turn, struct hd_addr addr) {
	struct hd_aggregator *aggregator = turn->aggregator;
	struct agg_peer *peer = agg_peer_at(aggregator, agg_addr_key(addr));
	struct hd_session *session;

	if (peer)
		return peer;
	if (hd_timers_reserve(&aggregator->timers) < 0)
		return NULL;
	if (hd_endpoint_connect(aggregator->endpoint, addr, turn->now, &session) < 0)
		goto fail_timer;
	peer = agg_peer_create(aggregator, session, addr);
	if (!peer) {
		hd_session_close(session, HD_REASON_NO_MEMORY, "no memory", turn->now, turn->sink);
		goto fail_timer;
	}
	peer->ours = true;
	peer->timer.kind = AGG_TIMER_PEER;
	hd_timer_set(
		&aggregator->timers,
		&peer->timer,
		turn->now + (hd_ns)AGG_PATIENCE_HOLDS * aggregator->config.hold_us * HD_US
	);
	return peer;
fail_timer:
	hd_timers_release(&aggregator->timers, &(struct hd_timer){0});
	return NULL;
}
