/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs without workers, and how they end here.
 *
 *   idle --(END of the controller; no worker came for job_idle_us)--> ending --(last checkpoint is written)--> gone
 *   idle --(a new job needs its place or its memory, and no durable state is lost)--> gone
 *   ending --(SERVE: a worker came meanwhile)--> goes on
 *
 * LEAVE reports the end to the controller, with reason none if a checkpoint remains.
 */
#include "srv_assignment.h"
#include "srv_create.h"
#include "srv_end.h"
#include "srv_keep.h"
#include "srv_peer.h"
#include "srv_replica.h"

static bool server_keeps(const struct hd_server *server) {
	return server->config.ops && server->config.ops->checkpoint;
}

static void send_leave(struct srv_turn *turn, uint32_t job) {
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	message.leave.job = job;
	message.leave.reason
		= (uint8_t)(server_keeps(turn->server) ? HD_REASON_NONE : HD_REASON_LEFT);
	if (turn->server->upstream.registered)
		srv_controller_send(turn, &message);
}

/* Frees it and tells the controller. */
static void job_gone(struct srv_turn *turn, struct srv_job *job) {
	struct hd_server *server = turn->server;
	uint32_t id = job->id;

	if (job->emptied)
		srv_summary_tell(turn, job);
	srv_job_destroy(server, job);
	server->stats.ended++;
	server->freed = true;
	send_leave(turn, id);
	srv_assignment_forget(server, id);
	if (srv_assignment_may_begin(server, id))
		srv_assignment_ask_joins(server, id); /* workers that came while it was ending */
}

void srv_job_end(struct srv_turn *turn, struct srv_job *job) {
	struct srv_peer *peer;

	srv_job_enter_phase(job, SRV_JOB_ENDING);
	job->dirty = true; /* complete updates are still committed */
	turn->server->retiring = true;
	rep_ops.leave(turn, job);
	TAILQ_FOREACH (peer, &turn->server->peers, link) {
		if (peer->job == job) {
			srv_peer_detach(turn, peer, HD_REASON_LEFT);
			srv_peer_break(turn->server, peer, "the job has ended");
		}
	}
	srv_checkpoint_consider(turn, job, true);
}

void srv_job_goes_on(struct srv_turn *turn, struct srv_job *job) {
	if (job->phase == SRV_JOB_ENDING) {
		srv_job_enter_phase(job, SRV_JOB_OPEN);
		srv_job_idle(turn, job); /* until a worker joins */
		srv_assignment_ask_joins(turn->server, job->id);
	}
	srv_job_confirm(turn, job);
	if (job->unlisted) {
		job->unlisted = false;
		srv_announce(turn, job);
	}
}

void srv_job_end_order(struct srv_turn *turn, uint32_t id, bool evict) {
	struct srv_job *job = srv_job_find(turn->server, id);

	if (!evict && job && !job->replica && !srv_job_empty(job, &turn->server->peers)) {
		job->unlisted = true; /* workers that cannot reach the controller continue */
		return;
	}
	srv_assignment_forget(turn->server, id);
	if (!job)
		send_leave(turn, id);
	else if (job->replica)
		srv_job_retire(turn, job);
	else if (job->phase == SRV_JOB_OPEN)
		srv_job_end(turn, job);
}

void srv_job_idle_check(struct srv_turn *turn, struct srv_job *job) {
	hd_ns at = hd_ns_add(job->idle_since, turn->server->config.job_idle_us * HD_US);

	if (job->replica || job->phase != SRV_JOB_OPEN || turn->server->draining
	    || !srv_job_empty(job, &turn->server->peers))
		return; /* set again by the next worker that leaves */
	if (turn->now < at)
		hd_timer_set(&turn->server->timers, &job->idle, at);
	else
		srv_job_end(turn, job);
}

/* No worker is here and nothing is pending. The state is in a checkpoint; or, without checkpoints, it was kept for as
 * long as lost workers may need to come back. */
static bool job_may_be_removed(const struct srv_turn *turn, const struct srv_job *job) {
	const struct hd_server *server = turn->server;

	if (job->replica || job->phase != SRV_JOB_OPEN || job->checkpointing || job->restoring
	    || job->apply.in || !TAILQ_EMPTY(&job->open)
	    || (job->primary && !server->upstream.registered)
	    || !srv_job_empty(job, &server->peers))
		return false;
	if (server_keeps(server))
		return job->saved == job->version;
	return job->left || turn->now >= hd_ns_add(job->idle_since, HD_JOB_AWAY_US * HD_US);
}

bool srv_job_make_room(struct srv_turn *turn, const struct srv_job *keep) {
	struct srv_job *job, *found = NULL;

	TAILQ_FOREACH (job, &turn->server->jobs, link)
		if (job != keep && (!found || job->idle_since < found->idle_since)
		    && job_may_be_removed(turn, job))
			found = job;
	if (!found)
		return false;
	job_gone(turn, found);
	return true;
}

static bool job_has_ended(const struct hd_server *server, const struct srv_job *job) {
	return TAILQ_EMPTY(&job->open) && !job->emptied && srv_checkpoint_settled(server, job);
}

static void job_retired(struct hd_server *server, struct srv_job *job) {
	uint32_t id = job->id;

	server->stats.retired++;
	srv_job_destroy(server, job);
	server->freed = true;
	if (srv_assignment_may_begin(server, id))
		srv_assignment_ask_joins(server, id); /* this node is its server again */
}

void srv_forget(struct srv_turn *turn) {
	struct hd_server *server = turn->server;
	struct srv_job *job, *next;

	if (!server->retiring)
		return;
	server->retiring = false;
	for (job = TAILQ_FIRST(&server->jobs); job; job = next) {
		next = TAILQ_NEXT(job, link);
		if (job->phase == SRV_JOB_RETIRED && !job->checkpointing)
			job_retired(server, job);
		else if (job->phase == SRV_JOB_ENDING && job_has_ended(server, job))
			job_gone(turn, job);
		else if (job->phase != SRV_JOB_OPEN)
			server->retiring = true;
	}
}

/* --- another node's --------------------------------------------------------------------------- */

/* Another node is the job's server: the workers' sessions end. */
void srv_job_retire(struct srv_turn *turn, struct srv_job *job) {
	struct srv_peer *peer;

	rep_ops.leave(turn, job);
	/* A worker that joins nevertheless must not start it from an old checkpoint. */
	srv_assignment_set(turn->server, job->id, false, job->generation);
	srv_job_enter_phase(job, SRV_JOB_RETIRED);
	turn->server->retiring = true;
	TAILQ_FOREACH (peer, &turn->server->peers, link) {
		if (peer->job == job) {
			srv_peer_detach(turn, peer, HD_REASON_CLOSED);
			srv_peer_break(turn->server, peer, "another node is the job's server");
		}
	}
	job->emptied = false;
}

/* --- the summary ------------------------------------------------------------------------------ */

void srv_summary_consider(struct srv_turn *turn, struct srv_job *job) {
	if (!job->emptied || job->replica || job->phase == SRV_JOB_RETIRED)
		return;
	if (!srv_job_empty(job, &turn->server->peers)) {
		job->emptied = false;
		return;
	}
	if (!TAILQ_EMPTY(&job->open))
		return; /* complete: it is still committed */
	if (job->saved != job->version)
		srv_checkpoint_consider(turn, job, true);
	if (!job->checkpointing)
		srv_summary_tell(turn, job);
}
