/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions that a server opens with its replicas' nodes. One that ends opens again by itself (hd_endpoint.h); one that
 * was refused, or that we gave up, is gone, and is opened anew after a while as long as a job needs it.
 */
#include "hd_replica.h"

static void hd_link_connect(struct hd_turn *turn, struct hd_link *link) {
	if (hd_endpoint_connect(turn->server->endpoint, link->addr, turn->now, &link->session)
	    < 0) {
		link->session = NULL;
		link->again_at = hd_ns_add(turn->now, HD_LINK_AGAIN_US * HD_US);
	}
}

struct hd_link *hd_link_get(struct hd_turn *turn, struct hd_addr addr) {
	struct hd_server *server = turn->server;
	struct hd_link *link;

	TAILQ_FOREACH (link, &server->links, link) {
		if (hd_addr_equal(link->addr, addr)) {
			link->users++;
			return link;
		}
	}
	link = calloc(1, sizeof(*link));
	if (link == NULL) {
		return NULL;
	}
	link->addr = addr;
	link->users = 1;
	TAILQ_INSERT_TAIL(&server->links, link, link);
	hd_link_connect(turn, link);
	return link;
}

/* Without a turn (at the server's end) the endpoint closes the session by itself. */
void hd_link_put(struct hd_server *server, struct hd_turn *turn, struct hd_link *link) {
	if (--link->users > 0) {
		return;
	}
	TAILQ_REMOVE(&server->links, link, link);
	if (turn != NULL && link->session != NULL) {
		hd_session_set_user(link->session, NULL);
		hd_session_close(
			link->session, HD_REASON_LEFT, "no replica any more", turn->now, turn->sink
		);
		if (link->peer != NULL) {
			hd_peer_detach(turn, link->peer, HD_REASON_LEFT);
			hd_peer_destroy(server, link->peer);
		}
	}
	free(link);
}

static struct hd_link *
hd_link_of(const struct hd_server *server, const struct hd_session *session) {
	struct hd_link *link;

	TAILQ_FOREACH (link, &server->links, link) {
		if (link->session == session) {
			return link;
		}
	}
	return NULL;
}

void hd_link_opened(struct hd_turn *turn, struct hd_peer *peer) {
	struct hd_link *link = hd_link_of(turn->server, peer->session);
	struct hd_job *job;

	if (link == NULL) {
		return;
	}
	link->peer = peer;
	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		if (job->follow != NULL && job->follow->link == link) {
			job->follow->due = true;
			hd_follow_consider(turn, job);
		}
	}
}

void hd_link_closed(struct hd_turn *turn, const struct hd_peer *peer) {
	struct hd_link *link = hd_link_of(turn->server, peer->session);
	struct hd_job *job;

	if (link == NULL) {
		return;
	}
	link->peer = NULL;
	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		if (job->follow == NULL || job->follow->link != link) {
			continue;
		}
		hd_seed_end(turn->server, job->follow);
		job->follow->logs = false;
		if (!job->follow->active && job->follow->stepping) {
			job->follow->stepping
				= false; /* nobody waits for one that was never near */
			job->dirty = true;
		}
	}
}

void hd_link_lost(struct hd_turn *turn, const struct hd_session *session) {
	struct hd_link *link = hd_link_of(turn->server, session);
	struct hd_job *job;

	if (link == NULL) {
		return;
	}
	link->session = NULL;
	link->again_at = hd_ns_add(turn->now, HD_LINK_AGAIN_US * HD_US);
	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		if (job->follow != NULL && job->follow->link == link) {
			hd_timer_set(&turn->server->timers, &job->follow->timer, link->again_at);
		}
	}
}

hd_ns hd_link_again(struct hd_turn *turn, struct hd_link *link) {
	if (link->session != NULL) {
		return HD_NEVER;
	}
	if (turn->now >= link->again_at) {
		hd_link_connect(turn, link);
	}
	return link->session != NULL ? HD_NEVER : link->again_at;
}
