/* SPDX-License-Identifier: BSD-3-Clause */
/* After a restart of either side: STATE and INFLIGHT of servers restore the servers of jobs, positions,
 * reservations. */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_estimate.h"
#include "ctl_possible.h"
#include "ctl_registry.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"

#include <assert.h>

/* A new incarnation of the server begins after the last version that the old one had reported. */
static void tell_rolled_back(
	struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_job *job,
	hd_version version,
	struct hd_sink *sink
) {
	uint64_t had = hd_version_counter(job->newest), has = hd_version_counter(version);

	if (hd_version_incarnation(version) == hd_version_incarnation(job->newest) || has >= had)
		return;
	c->counters.rolled_back += had - has;
	ctl_event_of(
		node,
		job,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_ROLLED_BACK,
			.job = job->id,
			.version = version,
			.base = job->newest,
			.aux = had - has,
		},
		sink
	);
}

void ctl_state(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_state *m,
	struct hd_sink *sink
) {
	char text[HD_TEXT_BYTES_MAX];
	uint64_t generation;
	struct ctl_job *job;

	assert(node->role == HD_ROLE_SERVER || node->role == HD_ROLE_REPLICA);
	if (!ctl_state_is_possible(m)) {
		c->counters.hostile_value++;
		return;
	}
	job = ctl_job_get(c, m->job, sink);
	if (!job) {
		ctl_refuse(c, node, m->job, ctl_jobs_full(c, text, sizeof text), sink);
		return;
	}
	generation = ctl_generation_believed(c, m->generation);
	if (ctl_replica_fence(c, job, node, generation, sink)
	    || (generation == 0 && ctl_replica_prefer(c, job, node, m->version, sink)))
		return;
	if (!job->model_bytes)
		job->model_bytes = m->model_bytes;
	if (!job->tau_max)
		job->tau_max = m->tau_max;
	if (job->server != node)
		ctl_job_claim(c, job, node, generation, sink);
	else if (generation == 0) /* the node waits for this */
		ctl_replica_serve(c, job, job->serving, sink);
	job->begun = true;
	job->recalled = false;
	ctl_check_by(c, c->now); /* for its replica */
	tell_rolled_back(c, node, job, m->version, sink);
	ctl_job_version(job, m->version);
	if (m->position > job->position)
		job->position = m->position;
	job->inflight_expected = m->inflight;
	if (!m->inflight && job->state == CTL_JOB_SETTLING)
		ctl_job_ready(c, job, sink);
}

static void restore(struct hd_controller *c, struct ctl_job *job, const struct hd_msg_inflight *m) {
	uint64_t left = m->held_bytes < m->bytes ? m->bytes - m->held_bytes : 0;
	struct ctl_transfer *t = ctl_transfer_find(c, job, m->worker, m->direction, m->round);

	/* A request that came first: it has been granted already. */
	if (t && t->state == CTL_PENDING && t->attempt <= m->attempt)
		ctl_transfer_free(c, t);
	else if (t)
		return;
	t = ctl_transfer_add(
		c,
		&(struct ctl_transfer){
			.job = job,
			.worker = m->worker,
			.direction = m->direction,
			.round = m->round,
			.attempt = m->attempt,
			.bytes = m->bytes,
			.base = m->base,
			.position = m->position,
			.weight = 1,
			.restored = true,
		}
	);
	if (!t)
		return;
	ctl_transfer_open(c, t, m->token);
	/* Its end will be counted, so its grant is, too: an earlier controller process granted it, or it was sent
	 * directly, or it was given up here when its server was lost. */
	ctl_job_granted(job, t->direction, t->bytes);
	ctl_transfer_route(c, t);
	ctl_reserve_restored(c, t, left);
	c->counters.restored++;
}

void ctl_inflight(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_inflight *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = ctl_job_find(c, m->job);

	assert(node->role == HD_ROLE_SERVER || node->role == HD_ROLE_REPLICA);
	if (!job || job->server != node) {
		c->counters.hostile_owner++;
		return;
	}
	if (!ctl_inflight_is_possible(m)) {
		c->counters.hostile_value++;
		return;
	}
	if (!ctl_transfer_by_token(c, m->token))
		restore(c, job, m);
	if (m->position > job->position)
		job->position = m->position;
	if (job->inflight_expected && --job->inflight_expected == 0
	    && job->state == CTL_JOB_SETTLING)
		ctl_job_ready(c, job, sink);
}
