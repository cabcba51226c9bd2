/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers join with a JOIN that describes their job, and leave. */
#include "srv_assignment.h"
#include "srv_create.h"
#include "srv_peer.h"
#include "srv_rank.h"
#include "srv_step.h"

#include <stdio.h>

static void
peer_refuse(struct srv_turn *turn, struct srv_peer *peer, uint32_t job, const char *text) {
	struct hd_message message = {.kind = HD_MSG_REFUSE};

	message.refuse.reason = HD_REASON_REFUSED;
	message.refuse.wire_version = HD_WIRE_VERSION;
	message.refuse.job = job;
	(void)snprintf(message.refuse.text, sizeof message.refuse.text, "%s", text);
	turn->server->stats.refused_messages++;
	srv_peer_send(turn, peer, &message);
}

/* As at the controller (ctl_registry.c): many workers come at once without a controller, or after a server was lost. */
static bool
has_to_wait(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_join *join) {
	struct hd_server *server = turn->server;
	struct hd_message message
		= {.kind = HD_MSG_WAIT, .wait = {.job = join->job, .worker = join->worker}};
	hd_ns wait = 0;

	if (!peer->job)
		wait = hd_admission_ask(
			&server->admission,
			&peer->place,
			hd_endpoint_stretch(server->endpoint, turn->now),
			turn->now
		);
	if (wait == 0)
		return false;
	message.wait.wait_us = (uint32_t)hd_ns_min(wait / HD_US + 1, HD_JOIN_WAIT_US);
	server->stats.joins_delayed++;
	srv_peer_send(turn, peer, &message);
	return true;
}

/* The described job if it exists and is equal, or a new one. NULL with text: refused. */
static struct srv_job *job_agree(
	struct srv_turn *turn,
	const struct hd_msg_join *join,
	struct hd_jobspec *spec,
	char *text
) {
	struct srv_job *job;
	int used;

	if (hd_job_id(spec->tenant, spec->name) != join->job) {
		(void)snprintf(
			text, HD_TEXT_BYTES_MAX, "job: its id is not that of its tenant and name"
		);
		return NULL;
	}
	job = srv_job_find(turn->server, join->job);
	if (!job)
		return srv_job_create(turn, spec, text);
	used = snprintf(text, HD_TEXT_BYTES_MAX, "description: ");
	if (!hd_jobspec_equal(spec, &job->spec, text + used, (size_t)(HD_TEXT_BYTES_MAX - used)))
		return NULL;
	return job;
}

void srv_job_join(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_join *join) {
	char text[HD_TEXT_BYTES_MAX + 1] = "";
	struct hd_jobspec spec = {0};
	struct srv_member *member;
	struct srv_job *job;

	/* A JOIN without a description is from a worker that has copies for us: its packets identify it. A refusal
	 * would be final; a worker whose session ends with this server asks the restarted one. */
	if (turn->server->draining || join->spec.bytes == 0
	    || srv_assignment_waits(turn->server, peer, join->job))
		return;
	if (peer->job && (peer->job->id != join->job || peer->member->rank != join->worker)) {
		peer_refuse(turn, peer, join->job, "this session has joined another job or rank");
		return;
	}
	if (join->worker >= HD_WORKERS_MAX) {
		peer_refuse(turn, peer, join->job, "worker: rank beyond 4095 (HD_WORKERS_MAX)");
		return;
	}
	if (has_to_wait(turn, peer, join))
		return;
	if (hd_jobspec_decode(join->spec.data, join->spec.bytes, &spec) < 0) {
		peer_refuse(turn, peer, join->job, "spec: malformed or beyond a limit");
		return;
	}
	job = job_agree(turn, join, &spec, text);
	hd_jobspec_fini(&spec);
	if (!job) {
		peer_refuse(turn, peer, join->job, text);
		return;
	}
	if (srv_rank_is_held(turn, peer, job, join->worker))
		return;
	member = srv_job_enter(job, join->worker);
	if (!member) {
		peer_refuse(turn, peer, join->job, "memory: none left for another worker");
		return;
	}
	member->observer = join->observer != 0;
	if (join->last_round == 0 && !member->observer)
		srv_step_restart_member(turn->server, job, member);
	srv_peer_attach(turn, peer, job, member);
}

/* With reason NONE it is about to leave: no step waits for it. */
void srv_job_leave(struct srv_turn *turn, struct srv_peer *peer, uint8_t reason) {
	if (reason == HD_REASON_NONE && peer->job->spec.sync != HD_SYNC_NONE) {
		peer->member->done = true;
		peer->job->dirty = true; /* a step may have waited for it */
		return;
	}
	peer->member->left = true;
	srv_peer_detach(turn, peer, HD_REASON_LEFT);
}
