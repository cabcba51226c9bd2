/* SPDX-License-Identifier: BSD-3-Clause */
/* The server of a job: reports of servers and replicas, and promotions. */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_possible.h"
#include "ctl_registry.h"

#include <assert.h>
#include <string.h>

#define SERVE_WAIT_NS (500 * HD_MS) /* how long a promoted replica may take to send STATE */

/* A replica's own report of the version that it holds; the controller keeps the highest. False: it is no replica. */
static bool note_held(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_follow *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = m->job && !m->peer_port && hd_version_counter(m->version) > 0 ?
		ctl_job_get(c, m->job, sink) :
		NULL;

	if (!job || job->server == node)
		return false;
	if (job->begun && job->replica.node && job->replica.node != node) {
		/* Another node is the replica by now. */
		ctl_replica_send(c, job, node, HD_REPLICA_RETIRE, ctl_generation_next(c), sink);
		return true;
	}
	if (!job->replica.holder || job->replica.holder == node || m->version > job->replica.holds)
		ctl_replica_holds(&job->replica, node, m->version);
	return true;
}

void ctl_replica_follow(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_follow *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = ctl_job_find(c, m->job);
	struct ctl_replica *replica;

	assert(node->role == HD_ROLE_SERVER || node->role == HD_ROLE_REPLICA);
	if (!job || job->server != node) {
		if (!note_held(c, node, m, sink))
			c->counters.hostile_owner++;
		return;
	}
	replica = &job->replica;
	if (replica->generation != m->generation || !replica->node) {
		if (!ctl_replica_adopt(c, job, m)) {
			/* Of an assignment that has ended, or of a node that has not registered yet: it may
			 * register. */
			replica->assign_at = c->now + CTL_SETTLE_NS;
			ctl_check_by(c, replica->assign_at);
			return;
		}
	}
	ctl_replica_reported(c, replica, m);
}

static void tell_promoted(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_node *node,
	struct hd_sink *sink
) {
	ctl_event_of(
		node,
		job,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_PROMOTED,
			.job = job->id,
			.base = job->replica.version,
			.version = job->replica.version,
			.aux = job->replica.behind,
			.value = job->replica.divergence,
			.position = (uint64_t)node->host_index + 1,
		},
		sink
	);
	ctl_record(
		c,
		(struct hd_record){
			.kind = HD_RECORD_NODE,
			.what = "promoted",
			.reason = hd_reason_name(HD_REASON_NO_SERVER),
			.rule = hd_role_name(node->role),
			.text = node->host,
			.job = job->id,
		}
	);
}

static void
promote(struct hd_controller *c, struct ctl_job *job, struct ctl_node *node, struct hd_sink *sink) {
	tell_promoted(c, job, node, sink);
	c->counters.promotions++;
	ctl_replica_promoted(c, job, sink);
	ctl_job_lose_server(c, job, HD_REASON_NO_SERVER, sink);
	job->replica.settles_at = c->now + SERVE_WAIT_NS;
	ctl_job_claim(c, job, node, 0, sink);
	job->replica.generation = job->serving;
}

static bool can_serve(const struct ctl_node *node) {
	return node && !node->doomed && node->role != HD_ROLE_NONE;
}

bool ctl_replica_promote(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	if (!can_serve(job->replica.node) || !job->replica.caught_up)
		return false;
	if (ctl_replica_await(c, job, job->server, reason)) {
		c->counters.promotions_held++;
		return false;
	}
	promote(c, job, job->replica.node, sink);
	return true;
}

hd_ns ctl_replica_awaits(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	if (c->now < job->replica.promote_at || !can_serve(job->replica.node))
		return job->replica.promote_at;
	promote(c, job, job->replica.node, sink);
	return HD_NEVER;
}

void ctl_replica_returned(
	struct hd_controller *c,
	const struct ctl_node *node,
	struct hd_sink *sink
) {
	for (uint32_t i = 0; i < c->job_count; i++) {
		struct ctl_job *job = c->jobs[i];

		if (ctl_replica_is_awaiting(job) && strcmp(job->server_host, node->host) == 0
		    && !ctl_replica_is_awaited(job, node) && can_serve(job->replica.node))
			promote(c, job, job->replica.node, sink);
	}
}

bool ctl_replica_prefer(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *node,
	hd_version begun,
	struct hd_sink *sink
) {
	const struct ctl_replica *replica = &job->replica;

	/* The counter of a restored incarnation continues from its checkpoint, that of a new one from 0. */
	if (!can_serve(replica->holder) || replica->holder == node
	    || hd_version_counter(replica->holds) <= hd_version_counter(begun)
	    || hd_version_incarnation(replica->holds) == hd_version_incarnation(begun))
		return false;
	ctl_replica_stand_in(job);
	promote(c, job, replica->holder, sink);
	ctl_replica_send(c, job, node, HD_REPLICA_RETIRE, ctl_generation_next(c), sink);
	return true;
}

/*
 * Whether the node's assignment is older than the present one, or it has none (it began the job while it could not
 * reach the controller). Then it must retire, unless nothing has been committed elsewhere yet (unknown for an
 * assignment of an earlier controller process), or the node that had the job has lost it. A generation that is newer
 * than all known ones is from such a process, which promoted the node.
 */
static bool is_stale(
	const struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_node *node,
	uint64_t generation
) {
	bool elsewhere = job->server_host[0] && strcmp(job->server_host, node->host) != 0;

	if (generation > job->serving)
		return false;
	if (job->recalled)
		return elsewhere && !ctl_job_is_lost(c, job);
	return job->position > 0 || hd_version_counter(job->newest) > 0
		|| job->replica.promotions > 0;
}

bool ctl_replica_fence(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *node,
	uint64_t generation,
	struct hd_sink *sink
) {
	struct ctl_node *other = job->server;

	if (other == node)
		return false;
	if (is_stale(c, job, node, generation)) {
		ctl_replica_send(c, job, node, HD_REPLICA_RETIRE, ctl_generation_next(c), sink);
		return true;
	}
	if (!other)
		return false;
	ctl_replica_forget(c, job, sink);
	ctl_job_claim(c, job, node, generation, sink);
	ctl_replica_send(c, job, other, HD_REPLICA_RETIRE, ctl_generation_next(c), sink);
	return false;
}
