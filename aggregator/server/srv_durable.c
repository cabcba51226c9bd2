/* SPDX-License-Identifier: BSD-3-Clause */
/* Which versions of a job are durable: in a checkpoint, or on its replica. */
#include "srv_job.h"

/* A job that was begun while the controller was unreachable may have another server: then everything done here is lost,
 * checkpoints too. So is a checkpoint that is still being written when the job moved. */
static bool job_is_ours(const struct hd_server *server, const struct srv_job *job) {
	return job->phase != SRV_JOB_RETIRED
		&& (job->confirmed || hd_addr_is_none(server->config.controller));
}

static void durable_tell(struct srv_turn *turn, const struct srv_job *job) {
	struct hd_message message = {.kind = HD_MSG_DURABLE};
	struct srv_peer *peer;

	message.durable = (struct hd_msg_durable){.job = job->id, .version = job->durable};
	TAILQ_FOREACH (peer, &turn->server->peers, link)
		if (peer->job == job && peer->joined)
			srv_peer_send(turn, peer, &message);
}

void srv_durable_update(struct srv_turn *turn, struct srv_job *job) {
	hd_version durable = job->replicated ? job->replicated_to : job->saved;
	struct hd_event event = {.kind = HD_EVENT_DURABLE, .job = job->id};

	if (durable <= job->durable || !job_is_ours(turn->server, job))
		return;
	job->durable = durable;
	event.version = durable;
	event.bytes = 2 * job->bytes;
	srv_turn_event(turn, &event);
	durable_tell(turn, job);
}
