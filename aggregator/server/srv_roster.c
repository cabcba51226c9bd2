/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The membership of a job. With a controller the server follows its ROSTER. Without one the server sends ROSTER to its
 * workers: those that have joined and whose session has not ended. Simultaneous changes are sent together.
 */
#include "srv_roster.h"
#include "srv_step.h"

static bool roster_is_ours(const struct hd_server *server) {
	return hd_addr_is_none(server->config.controller);
}

static void roster_due(struct srv_turn *turn, struct srv_job *job) {
	hd_ns gap = (HD_ROSTER_US + (hd_ns)job->roster.count * HD_ROSTER_WORKER_US) * HD_US;

	if (job->roster_timer.place != 0)
		return;
	/* Gives a restored job's workers time to come back: no data shares move meanwhile. */
	if (job->prior_count > 0 && job->roster.change == 0)
		gap = HD_SILENCE_US * HD_US;
	hd_timer_set(&turn->server->timers, &job->roster_timer, hd_ns_add(turn->now, gap));
}

void srv_roster_change(struct srv_turn *turn, struct srv_job *job, uint16_t rank, bool present) {
	if (!roster_is_ours(turn->server))
		return;
	(void)hd_roster_set(&job->roster, rank, present);
	roster_due(turn, job);
}

static void roster_event(struct srv_turn *turn, const struct srv_job *job) {
	struct hd_event event = {
		.kind = HD_EVENT_ROSTER,
		.aux = job->roster.count,
		.version = job->roster.change,
		.position = job->roster.target,
		.round = job->roster.sync_count,
		.bytes = job->roster.tau_max,
		.value = (double)job->roster.scale,
	};

	srv_job_event(turn, job, &event);
}

void srv_roster_send(struct srv_turn *turn, struct srv_job *job) {
	struct hd_message message = {.kind = HD_MSG_ROSTER};
	struct srv_peer *peer;

	/* A different set gets a new number. */
	if (job->roster.change == 0
	    || memcmp(job->roster_ranks, job->roster.ranks, sizeof job->roster_ranks) != 0) {
		memcpy(job->roster_ranks, job->roster.ranks, sizeof job->roster_ranks);
		job->roster.change = hd_version_make(
			hd_version_incarnation(job->version), ++job->roster_changes
		);
		roster_event(turn, job);
	}
	message.roster = (struct hd_msg_roster){
		.job = job->id,
		.scale = job->roster.scale,
		.change = job->roster.change,
		.count = job->roster.count,
		.ranks = {job->roster.ranks, (uint32_t)hd_roster_bytes(&job->roster)},
	};
	TAILQ_FOREACH (peer, &turn->server->peers, link) {
		if (peer->job == job && peer->joined && peer->roster_sent != job->roster.change) {
			peer->roster_sent = job->roster.change;
			srv_peer_send(turn, peer, &message);
		}
	}
}

void srv_roster_receive(struct srv_turn *turn, const struct hd_msg_roster *message) {
	struct srv_job *job = srv_job_find(turn->server, message->job);
	struct hd_roster roster = {
		.change = message->change,
		.target = message->target,
		.sync_count = message->sync_count,
		.tau_max = message->tau_max,
		.scale = message->scale,
	};

	if (!job || !hd_roster_valid(&roster)
	    || hd_roster_read(&roster, message->count, message->ranks.data, message->ranks.bytes)
		    < 0) {
		turn->server->stats.refused_messages++;
		return;
	}
	job->roster = roster;
	/* A step may be complete now, or an update late. */
	job->dirty = true;
	srv_step_joined(turn->server, job);
	roster_event(turn, job);
}

void srv_roster_notice(
	struct srv_turn *turn,
	const struct srv_peer *peer,
	const struct hd_msg_notice *notice
) {
	const struct hd_who who = hd_session_who(peer->session);
	struct hd_event event = {
		.kind = HD_EVENT_NOTICE,
		.worker = peer->member->rank,
		.value = notice->left_us * 1e-6,
		.who = &who,
	};

	turn->server->stats.notices++;
	srv_job_event(turn, peer->job, &event);
}
