/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that nobody is in, and how they end here.
 *
 *   idle --(END of the controller; nobody came for job_idle_us)--> ending --(last checkpoint is written)--> gone
 *   idle --(a new job needs its place or its memory, and nothing is lost that is kept)--> gone
 *   ending --(SERVE: somebody came meanwhile)--> goes on
 *
 * The controller hears of the end by LEAVE, with reason none if a checkpoint stays.
 */
#include "hd_replica.h"
#include "hd_server_end.h"

static bool hd_server_keeps(const struct hd_server *server) {
	return server->config.ops != NULL && server->config.ops->checkpoint != NULL;
}

static void hd_told_forget(struct hd_server *server, uint32_t job) {
	for (uint32_t i = 0; i < server->told_count; i++) {
		if (server->told[i].job == job) {
			server->told_count--;
			memmove(&server->told[i],
				&server->told[i + 1],
				(server->told_count - i) * sizeof(server->told[0]));
			return;
		}
	}
}

static void hd_say_leave(struct hd_turn *turn, uint32_t job) {
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	message.leave.job = job;
	message.leave.reason
		= (uint8_t)(hd_server_keeps(turn->server) ? HD_REASON_NONE : HD_REASON_LEFT);
	if (turn->server->registered) {
		hd_controller_send(turn, &message);
	}
}

/* Its memory is free, and the controller told. */
static void hd_job_gone(struct hd_turn *turn, struct hd_job *job) {
	struct hd_server *server = turn->server;
	uint32_t id = job->id;

	if (job->emptied) {
		hd_report_tell(turn, job);
	}
	hd_job_destroy(server, job);
	server->stats.ended++;
	server->freed = true;
	hd_say_leave(turn, id);
	hd_told_forget(server, id);
	if (hd_mirror_may_begin(server, id)) {
		hd_mirror_ask_joins(server, id); /* who came while it was ending */
	}
}

void hd_job_idle(struct hd_turn *turn, struct hd_job *job) {
	job->idle_since = turn->now;
	hd_timer_set(
		&turn->server->timers,
		&job->idle,
		hd_ns_add(turn->now, turn->server->config.job_idle_us * HD_US)
	);
}

void hd_job_end(struct hd_turn *turn, struct hd_job *job) {
	struct hd_peer *peer;

	job->ending = true;
	job->dirty = true; /* what is held whole is still committed */
	turn->server->retiring = true;
	hd_follow_fini(turn, job);
	TAILQ_FOREACH (peer, &turn->server->peers, link) {
		if (peer->job == job) {
			hd_peer_detach(turn, peer, HD_REASON_LEFT);
			hd_peer_break(turn->server, peer, "the job has ended");
		}
	}
	hd_checkpoint_consider(turn, job, true);
}

void hd_job_goes_on(struct hd_turn *turn, struct hd_job *job) {
	if (job->ending) {
		job->ending = false;
		hd_job_idle(turn, job); /* until somebody has joined */
		hd_mirror_ask_joins(turn->server, job->id);
	}
	hd_job_confirm(turn, job);
	if (job->unlisted) {
		job->unlisted = false;
		hd_server_announce(turn, job);
	}
}

void hd_job_end_order(struct hd_turn *turn, uint32_t id, bool evict) {
	struct hd_job *job = hd_job_find(turn->server, id);

	if (!evict && job != NULL && job->mirror == NULL
	    && !hd_job_empty(job, &turn->server->peers)) {
		job->unlisted = true; /* workers that do not reach the controller go on */
		return;
	}
	hd_told_forget(turn->server, id);
	if (job == NULL) {
		hd_say_leave(turn, id);
	} else if (job->mirror != NULL) {
		hd_job_retire(turn, job);
	} else if (!job->retired && !job->ending) {
		hd_job_end(turn, job);
	}
}

void hd_job_idle_check(struct hd_turn *turn, struct hd_job *job) {
	hd_ns at = hd_ns_add(job->idle_since, turn->server->config.job_idle_us * HD_US);

	if (job->mirror != NULL || job->retired || job->ending || turn->server->draining
	    || !hd_job_empty(job, &turn->server->peers)) {
		return; /* whoever leaves sets the timer again */
	}
	if (turn->now < at) {
		hd_timer_set(&turn->server->timers, &job->idle, at);
	} else {
		hd_job_end(turn, job);
	}
}

/* Nobody is here, and nothing is under way. What is to be kept is in a checkpoint; without checkpoints it is not kept
 * for longer than workers that were lost may take to come back. */
static bool hd_job_may_give_way(const struct hd_turn *turn, const struct hd_job *job) {
	const struct hd_server *server = turn->server;

	if (job->mirror != NULL || job->retired || job->ending || job->checkpointing
	    || job->restoring || job->apply.in != NULL || !TAILQ_EMPTY(&job->open)
	    || (job->follow != NULL && !server->registered) || !hd_job_empty(job, &server->peers)) {
		return false;
	}
	if (hd_server_keeps(server)) {
		return job->saved == job->version;
	}
	return job->left || turn->now >= hd_ns_add(job->idle_since, HD_JOB_AWAY_US * HD_US);
}

bool hd_job_give_way(struct hd_turn *turn, const struct hd_job *keep) {
	struct hd_job *job, *found = NULL;

	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		if (job != keep && (found == NULL || job->idle_since < found->idle_since)
		    && hd_job_may_give_way(turn, job)) {
			found = job;
		}
	}
	if (found == NULL) {
		return false;
	}
	hd_job_gone(turn, found);
	return true;
}

static bool hd_job_has_ended(const struct hd_server *server, const struct hd_job *job) {
	return TAILQ_EMPTY(&job->open) && !job->emptied && hd_checkpoint_settled(server, job);
}

static void hd_job_retired(struct hd_server *server, struct hd_job *job) {
	uint32_t id = job->id;

	server->stats.retired++;
	hd_job_destroy(server, job);
	server->freed = true;
	if (hd_mirror_may_begin(server, id)) {
		hd_mirror_ask_joins(server, id); /* this node is to be its server again */
	}
}

void hd_server_forget(struct hd_turn *turn) {
	struct hd_server *server = turn->server;
	struct hd_job *job, *next;

	if (!server->retiring) {
		return;
	}
	server->retiring = false;
	for (job = TAILQ_FIRST(&server->jobs); job != NULL; job = next) {
		next = TAILQ_NEXT(job, link);
		if (job->retired && !job->checkpointing) {
			hd_job_retired(server, job);
		} else if (job->ending && !job->retired && hd_job_has_ended(server, job)) {
			hd_job_gone(turn, job);
		} else if (job->retired || job->ending) {
			server->retiring = true;
		}
	}
}
