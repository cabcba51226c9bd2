/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions that a server opens with the nodes of its replicas. A session that ends opens again by itself
 * (hd_endpoint.h). One that was refused or closed by us is opened again after REP_LINK_AGAIN_US while a job needs it.
 */
#include "rep_job.h"
#include "rep_primary.h"

#include <assert.h>

static void link_connect(struct srv_turn *turn, struct rep_link *link) {
	if (hd_endpoint_connect(turn->server->endpoint, link->addr, turn->now, &link->session)
	    < 0) {
		link->session = NULL;
		link->again_at = hd_ns_add(turn->now, REP_LINK_AGAIN_US * HD_US);
	}
}

struct rep_link *rep_link_get(struct srv_turn *turn, struct hd_addr addr) {
	struct hd_server *server = turn->server;
	struct rep_link *link;

	TAILQ_FOREACH (link, &server->links, link) {
		if (hd_addr_equal(link->addr, addr)) {
			link->users++;
			return link;
		}
	}
	link = calloc(1, sizeof *link);
	if (!link)
		return NULL;
	link->addr = addr;
	link->users = 1;
	TAILQ_INSERT_TAIL(&server->links, link, link);
	link_connect(turn, link);
	return link;
}

/* Without a turn (the server is being destroyed) the endpoint closes the session by itself. */
void rep_link_put(struct hd_server *server, struct srv_turn *turn, struct rep_link *link) {
	assert(link->users > 0);
	if (--link->users > 0)
		return;
	TAILQ_REMOVE(&server->links, link, link);
	if (turn && link->session) {
		hd_session_set_user(link->session, NULL);
		hd_session_close(
			link->session, HD_REASON_LEFT, "no replica any more", turn->now, turn->sink
		);
		if (link->peer) {
			/* A replica's node has no member, pull or sum that would end with its session. */
			assert(!link->peer->member && LIST_EMPTY(&link->peer->outgoing));
			rep_copies_detach(server, link->peer);
			srv_peer_free(server, link->peer);
		}
	}
	free(link);
}

struct rep_link *rep_link_of(const struct hd_server *server, const struct hd_session *session) {
	struct rep_link *link;

	TAILQ_FOREACH (link, &server->links, link)
		if (link->session == session)
			return link;
	return NULL;
}

hd_ns rep_link_again(struct srv_turn *turn, struct rep_link *link) {
	if (link->session)
		return HD_NEVER;
	if (turn->now >= link->again_at)
		link_connect(turn, link);
	return link->session ? HD_NEVER : link->again_at;
}
