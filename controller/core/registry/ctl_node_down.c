/* SPDX-License-Identifier: BSD-3-Clause */
/* A node is lost: ends all state that refers to it, room by room. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_grouping.h"
#include "ctl_registry.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"

#include <assert.h>

static void worker_down(
	struct hd_controller *c,
	struct ctl_node *node,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct ctl_job *job = node->job;
	struct ctl_transfer *t, *next;

	assert(job && job->workers[node->worker] == node && job->worker_count > 0);
	for (t = TAILQ_FIRST(&c->pending); t && node->tracked; t = next) {
		next = TAILQ_NEXT(t, entry);
		if (t->job != job || t->worker != node->worker)
			continue;
		if (t->direction == HD_COPY)
			ctl_copy_end(c, t, reason, sink);
		else
			ctl_transfer_free(c, t);
	}
	for (t = TAILQ_FIRST(&c->open); t; t = next) {
		next = TAILQ_NEXT(t, entry);
		if (t->job == job && t->worker == node->worker)
			ctl_void(c, t, reason, sink);
	}
	job->workers[node->worker] = NULL;
	job->worker_count--;
	ctl_job_left(c, job, node, reason);
	ctl_notice_over(c, node);
	ctl_roster_set(c, job, node->worker, false);
	node->job = NULL;
	ctl_reduce_worker_down(c, job, node->worker, sink);
}

void ctl_node_down(
	struct hd_controller *c,
	struct ctl_node *node,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	enum hd_reason why = reason == HD_REASON_TIMEOUT ? HD_REASON_LEASE : reason;
	uint8_t role = node->role;
	struct hd_event event = {
		.at = c->now,
		.kind = HD_EVENT_NODE_DOWN,
		.reason = why,
		.worker = node->worker,
		.aux = role,
	};

	if (role == HD_ROLE_NONE)
		return;
	c->counters.leases_ended++;
	event.job = node->job ? node->job->id : node->host_job;
	ctl_event_of(node, node->job, event, sink);
	ctl_record_node(c, node, "down", why);
	/* The server takes these for the end of a transfer; the round may be requested again. */
	if (role == HD_ROLE_WORKER)
		worker_down(
			c,
			node,
			why == HD_REASON_LEASE || why == HD_REASON_LEFT ? why : HD_REASON_CLOSED,
			sink
		);
	node->role = HD_ROLE_NONE;
	if (role != HD_ROLE_SWITCH)
		(void)hd_topology_host(c->config.topology, node->host); /* last use of the host */
	if (role == HD_ROLE_AGGREGATOR) {
		c->aggregator_count--;
		c->hosted_count -= node->host_job != 0;
		ctl_group_aggregator_down(c, node);
		ctl_reduce_aggregator_down(c, node, sink);
	}
	if (role == HD_ROLE_SWITCH) {
		c->switch_count--;
		ctl_group_aggregator_down(c, node);
		ctl_slots_switch_down(c, node);
		ctl_lease_switch_down(c, node, sink);
	}
	for (uint32_t i = 0;
	     (role == HD_ROLE_SERVER || role == HD_ROLE_REPLICA) && i < c->job_count;
	     i++)
		if (c->jobs[i]->server == node && !ctl_replica_promote(c, c->jobs[i], reason, sink))
			ctl_job_lose_server(c, c->jobs[i], HD_REASON_NO_SERVER, sink);
	ctl_replica_lost(c, node, sink);
	ctl_groups_settle(c, sink);
}
