/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller's orders: a job gets a replica, is served, retired or ended here. */
#include "srv_assignment.h"
#include "srv_create.h"
#include "srv_end.h"
#include "srv_order.h"
#include "srv_replica.h"

static void order_serve(struct srv_turn *turn, const struct hd_msg_replica *order) {
	struct hd_server *server = turn->server;
	struct srv_job *job = srv_job_find(server, order->job);

	/* Without a replica the job begins with a checkpoint, if there is one: there is no other source. */
	srv_assignment_set(server, order->job, true, order->generation);
	if (!job) {
		srv_assignment_ask_joins(server, order->job);
		return;
	}
	if (!job->replica) {
		srv_job_saw_generation(job, order->generation);
		if (job->phase != SRV_JOB_RETIRED)
			srv_job_goes_on(turn, job);
		return;
	}
	if (rep_ops.serve(turn, job, order) == REP_RETIRE) {
		srv_job_retire(turn, job);
		srv_assignment_set(server, order->job, true, order->generation);
	}
}

void srv_order(struct srv_turn *turn, const struct hd_msg_replica *order) {
	struct srv_job *job = srv_job_find(turn->server, order->job);

	if (order->epoch < turn->server->epoch || order->order >= HD_REPLICA_ORDER_COUNT) {
		turn->server->stats.refused_messages++;
		return;
	}
	srv_assignments_from(turn->server, order->epoch); /* may come before REGISTERED */
	if (order->order == HD_REPLICA_SERVE) {
		order_serve(turn, order);
		return;
	}
	if (order->order == HD_REPLICA_END || order->order == HD_REPLICA_EVICT) {
		srv_job_end_order(turn, order->job, order->order == HD_REPLICA_EVICT);
		return;
	}
	if (!job && order->order == HD_REPLICA_RETIRE) {
		srv_assignment_set(turn->server, order->job, false, order->generation);
		return;
	}
	if (!job || job->phase == SRV_JOB_RETIRED)
		return;
	if (order->order == HD_REPLICA_RETIRE) {
		/* A replica of a newer assignment than this order stays. */
		if (!job->replica || rep_ops.generation(job) <= order->generation)
			srv_job_retire(turn, job);
		return;
	}
	if (job->replica || (job->primary && rep_ops.generation(job) > order->generation))
		return;
	if (order->order == HD_REPLICA_KEEP) {
		rep_ops.keep(turn, job, order);
		return;
	}
	srv_job_saw_generation(job, order->generation);
	rep_ops.leave(turn, job);
	srv_durable_update(turn, job);
}

/* Creates the job to be kept here, without contents; false: no room, or its description is wrong. */
static bool seed_begin(struct srv_turn *turn, const struct hd_msg_seed *seed) {
	char text[HD_TEXT_BYTES_MAX + 1];
	struct hd_jobspec spec = {0};
	struct srv_job *job = NULL;

	if (hd_jobspec_decode(seed->spec.data, seed->spec.bytes, &spec) < 0)
		return false;
	if (hd_job_id(spec.tenant, spec.name) == seed->job
	    && hd_jobspec_model_bytes(&spec) == seed->bytes)
		job = srv_job_create_replica(turn, &spec, text);
	hd_jobspec_fini(&spec);
	if (job && !rep_ops.begin(turn, job)) {
		srv_job_destroy(turn->server, job);
		return false;
	}
	return job;
}

void srv_order_seed(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_seed *seed) {
	switch (rep_ops.offer(turn, peer, seed)) {
	case REP_RETIRE: /* may end the session */
		srv_job_retire(turn, srv_job_find(turn->server, seed->job));
		break;
	case REP_NEW:
		if (seed_begin(turn, seed))
			(void)rep_ops.offer(turn, peer, seed);
		else
			turn->server->stats.refused_messages++;
		break;
	default:
		break;
	}
}

void srv_order_follow(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct hd_msg_follow *follow
) {
	if (rep_ops.heard(turn, peer, follow) == REP_RETIRE)
		srv_job_retire(turn, srv_job_find(turn->server, follow->job));
}
