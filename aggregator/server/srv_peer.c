/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: bound to a worker of a job, or to the sums of an aggregator, and what ends with them. */
#include "srv_peer.h"
#include "srv_pull.h"
#include "srv_replica.h"
#include "srv_roster.h"
#include "srv_step.h"

#include <assert.h>

void srv_aggregator_attach(struct srv_turn *turn, struct srv_peer *peer) {
	struct hd_addr address = hd_session_peer(peer->session);
	struct srv_incoming *in;
	struct srv_job *job;

	peer->aggregates = true;
	LIST_INSERT_HEAD(&turn->server->aggregators, peer, aggregator_link);
	/* Sums of the aggregator's former process belong to its older session, which ends next. */
	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		TAILQ_FOREACH (in, &job->open, open_link) {
			if (in->kind != SRV_SUM || in->aggregator
			    || !hd_addr_equal(in->sender, address))
				continue;
			srv_sum_bind(in, peer);
			if (in->went && in->state < SRV_COMING)
				srv_incoming_go(turn, in);
		}
	}
	srv_pull_relays(turn, peer);
}

static void aggregator_detach(struct srv_turn *turn, struct srv_peer *peer) {
	struct srv_incoming *in;

	if (!peer->aggregates)
		return;
	peer->aggregates = false;
	LIST_REMOVE(peer, aggregator_link);
	while ((in = LIST_FIRST(&peer->sums))) {
		LIST_REMOVE(in, aggregator_link);
		in->aggregator = NULL;
		if (!srv_incoming_is_whole(in)) /* the sum was in the aggregator's memory */
			srv_incoming_fail(turn, in, HD_REASON_LEASE, NULL);
	}
}

/* --- workers ---------------------------------------------------------------------------------- */

static void peer_joined(struct srv_turn *turn, struct srv_peer *peer) {
	struct hd_message message = {.kind = HD_MSG_JOINED};
	const struct srv_job *job = peer->job;
	const struct srv_part *part;
	uint32_t last_round = peer->member->newest_round;

	LIST_FOREACH (part, &peer->member->parts, member_link)
		last_round = part->round > last_round ? part->round : last_round;
	message.joined = (struct hd_msg_joined){
		.job = job->id,
		.version = job->version,
		.durable = job->durable,
		.last_round = last_round,
		.tau_max = job->spec.tau_max,
	};
	peer->joined = true;
	srv_step_joined(turn->server, peer->job);
	srv_peer_send(turn, peer, &message);
	srv_roster_change(turn, peer->job, peer->member->rank, !peer->member->observer);
}

void srv_job_joined(struct srv_turn *turn, struct srv_job *job) {
	struct srv_peer *peer;

	if (srv_job_away(job))
		return;
	TAILQ_FOREACH (peer, &turn->server->peers, link)
		if (peer->job == job && !peer->joined)
			peer_joined(turn, peer);
}

void srv_peer_detach(struct srv_turn *turn, struct srv_peer *peer, enum hd_reason reason) {
	struct srv_member *member = peer->member;
	struct srv_part *part, *next;
	struct srv_outgoing *out;

	while ((out = LIST_FIRST(&peer->outgoing)))
		srv_pull_end(turn, out, reason);
	aggregator_detach(turn, peer);
	if (!member)
		return;
	peer->job->emptied = true;
	peer->job->left = member->left;
	srv_job_idle(turn, peer->job);
	srv_roster_change(turn, peer->job, member->rank, false);
	peer->job->dirty = true; /* a step may have waited for this worker only */
	member->peer = NULL;
	peer->member = NULL;
	peer->job = NULL;
	peer->joined = false;
	/* Complete updates are still committed. Sums stay too: only the aggregator knows whether this worker's part is
	 * in one; if not, it gives the sum up. */
	for (part = LIST_FIRST(&member->parts); part; part = next) {
		next = LIST_NEXT(part, member_link);
		if (!srv_incoming_is_whole(part->in) && part->in->kind != SRV_SUM) {
			reason = reason == HD_REASON_LEFT ? reason : HD_REASON_LEASE;
			srv_incoming_fail(turn, part->in, reason, NULL);
		}
	}
}

/* Binds the session to its worker. A newer session of the same rank replaces the older one. */
void srv_peer_attach(
	struct srv_turn *turn,
	struct srv_peer *peer,
	struct srv_job *job,
	struct srv_member *member
) {
	struct srv_peer *older = member->peer;

	assert(!peer->job || (peer->job == job && peer->member == member));
	if (older && older != peer) {
		srv_peer_detach(turn, older, HD_REASON_DUPLICATE);
		srv_peer_break(turn->server, older, "a newer session joined as this worker");
	}
	member->peer = peer;
	member->left = false;
	member->done = false;
	if (!member->joined) {
		member->joined = true;
		member->first_round = member->newest_round;
	}
	if (job->summary.begun == 0)
		job->summary.begun = turn->now;
	peer->job = job;
	peer->member = member;
	if (!srv_job_away(job))
		peer_joined(turn, peer);
}

/* --- the controller's confirmation ------------------------------------------------------------ */

void srv_job_confirm(struct srv_turn *turn, struct srv_job *job) {
	job->confirmed = true;
	job->asking = false;
	srv_durable_update(turn, job);
	srv_job_joined(turn, job);
}

void srv_job_alone(struct srv_turn *turn, struct srv_job *job) {
	struct hd_event event = {.kind = HD_EVENT_FALLBACK, .version = job->version};

	job->asking = false;
	turn->server->stats.begun_alone++;
	srv_job_event(turn, job, &event);
}

void srv_jobs_alone(struct srv_turn *turn) {
	struct srv_job *job;

	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		if (job->asking) {
			srv_job_alone(turn, job);
			srv_job_joined(turn, job);
		}
	}
}

void srv_peer_destroy(struct hd_server *server, struct srv_peer *peer) {
	rep_ops.detach(server, peer);
	srv_peer_free(server, peer);
}
