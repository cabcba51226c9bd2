/* SPDX-License-Identifier: BSD-3-Clause */
/* Who serves a job: what servers and replicas say of it, and a replica that takes the server's place. */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_possible.h"
#include "ctl_registry.h"

#include <assert.h>
#include <string.h>

#define SERVE_WAIT_NS (500 * HD_MS) /* how long a promoted replica may take to say STATE */

/* A replica's own word on what it holds; of several the one that holds most. False: it is none. */
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
		/* Another one has its place by now. */
		ctl_replica_say(c, job, node, HD_REPLICA_RETIRE, ctl_generation_next(c), sink);
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
			/* Of one that is over, or that has not registered with us yet: it may come. */
			replica->assign_at = c->now + CTL_SETTLE_NS;
			ctl_check_by(c, replica->assign_at);
			return;
		}
	}
	ctl_replica_told(c, replica, m);
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

	/* A restored life counts on from where its checkpoint was, one that begins anew from 0. */
	if (!can_serve(replica->holder) || replica->holder == node
	    || hd_version_counter(replica->holds) <= hd_version_counter(begun)
	    || hd_version_incarnation(replica->holds) == hd_version_incarnation(begun))
		return false;
	ctl_replica_stand_in(job);
	promote(c, job, replica->holder, sink);
	ctl_replica_say(c, job, node, HD_REPLICA_RETIRE, ctl_generation_next(c), sink);
	return true;
}

/*
 * Who has a job by an older word of ours than that by which it was given away, or by none (it began it while it
 * could not hear us), has it wrongly: unless nothing has been done elsewhere yet, which a former life's word does not
 * tell, or the node that had it has lost it. A word that is newer than all that we know of is such a life's, which
 * promoted it.
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
		ctl_replica_say(c, job, node, HD_REPLICA_RETIRE, ctl_generation_next(c), sink);
		return true;
	}
	if (!other)
		return false;
	ctl_replica_forget(c, job, sink);
	ctl_job_claim(c, job, node, generation, sink);
	ctl_replica_say(c, job, other, HD_REPLICA_RETIRE, ctl_generation_next(c), sink);
	return false;
}
