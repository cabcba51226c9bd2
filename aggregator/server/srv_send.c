/* SPDX-License-Identifier: BSD-3-Clause */
/* The bottom of the server: tokens, sessions by address, sends, events. It knows nothing above. */
#include "srv_job.h"

#include <assert.h>
#include <errno.h>

/* --- tokens ----------------------------------------------------------------------------------- */

struct srv_handle *srv_handle_find(struct hd_server *server, uint64_t token) {
	struct srv_handle *handle;

	HASH_FIND(hh, server->handles, &token, sizeof token, handle);
	return handle;
}

int srv_handle_add(struct hd_server *server, struct srv_handle *handle) {
	bool transfer = handle->kind != SRV_HANDLE_TOMBSTONE;

	if (transfer && server->transfer_count >= HD_TRANSFERS_MAX)
		return -ENOBUFS;
	if (srv_handle_find(server, handle->token))
		return -EEXIST;
	handle->hh.tbl = NULL;
	HASH_ADD(hh, server->handles, token, sizeof handle->token, handle);
	if (!handle->hh.tbl)
		return -ENOMEM;
	server->transfer_count += transfer ? 1 : 0;
	return 0;
}

void srv_handle_remove(struct hd_server *server, struct srv_handle *handle) {
	HASH_DELETE(hh, server->handles, handle);
	assert(handle->kind == SRV_HANDLE_TOMBSTONE || server->transfer_count > 0);
	server->transfer_count -= handle->kind != SRV_HANDLE_TOMBSTONE ? 1 : 0;
}

/* --- sessions --------------------------------------------------------------------------------- */

struct srv_peer *srv_peer_at(const struct hd_server *server, struct hd_addr addr) {
	struct srv_peer *peer;

	TAILQ_FOREACH (peer, &server->peers, link)
		if (hd_addr_equal(hd_session_peer(peer->session), addr))
			return peer;
	return NULL;
}

struct srv_peer *srv_aggregator_find(const struct hd_server *server, struct hd_addr address) {
	struct srv_peer *peer;

	LIST_FOREACH (peer, &server->aggregators, aggregator_link)
		if (hd_addr_equal(hd_session_peer(peer->session), address))
			return peer;
	return NULL;
}

void srv_peer_free(struct hd_server *server, struct srv_peer *peer) {
	TAILQ_REMOVE(&server->peers, peer, link);
	free(peer);
}

/* --- sending ---------------------------------------------------------------------------------- */

void srv_turn_event(struct srv_turn *turn, struct hd_event *event) {
	event->at = turn->now;
	if (turn->sink->event)
		turn->sink->event(turn->sink, event);
}

void srv_job_event(struct srv_turn *turn, const struct srv_job *job, struct hd_event *event) {
	struct hd_who who = {0};

	if (event->who)
		who = *event->who;
	who.tenant = job->spec.tenant;
	who.job = job->spec.name;
	event->job = job->id;
	event->who = &who;
	srv_turn_event(turn, event);
	event->who = NULL;
}

void srv_peer_break(struct hd_server *server, struct srv_peer *peer, const char *why) {
	peer->broken = why;
	server->breaking = true;
}

void srv_peer_send(struct srv_turn *turn, struct srv_peer *peer, const struct hd_message *message) {
	if (peer->broken)
		return;
	if (hd_session_send(peer->session, message, turn->now, turn->sink) < 0) {
		srv_peer_break(turn->server, peer, "too many messages wait for an acknowledgement");
		turn->server->stats.sends_broken++;
	}
}

void srv_member_send(
	struct srv_turn *turn,
	const struct srv_member *member,
	const struct hd_message *message
) {
	if (member->peer)
		srv_peer_send(turn, member->peer, message);
}

/* The controller learns what it missed from REGISTER, STATE and INFLIGHT. */
void srv_controller_send(struct srv_turn *turn, const struct hd_message *message) {
	hd_upstream_send(&turn->server->upstream, message, turn->now, turn->sink);
}
