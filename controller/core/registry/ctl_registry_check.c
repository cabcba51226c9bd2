/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow timers of nodes and jobs, and the end of all of them. */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_registry.h"
#include "ctl_slots.h"
#include "ctl_transfers.h"

#include <stdlib.h>

hd_ns ctl_notice_check(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_node *node;
	hd_ns next = HD_NEVER;

	if (!c->noticed)
		return next;
	TAILQ_FOREACH (node, &c->nodes, entry) {
		if (!node->preempted_at)
			continue;
		if (node->preempted_at > c->now) {
			next = hd_ns_min(next, node->preempted_at);
			continue;
		}
		c->counters.preempted++;
		ctl_node_down(c, node, HD_REASON_PREEMPTED, sink);
	}
	return next;
}

hd_ns ctl_registry_check(struct hd_controller *c, struct hd_sink *sink) {
	hd_ns next = ctl_ended_check(c, sink);

	for (uint32_t i = 0; i < c->job_count; i++) {
		struct ctl_job *job = c->jobs[i];

		next = hd_ns_min(next, ctl_replica_awaits(c, job, sink));
		if (job->state == CTL_JOB_WAITING)
			ctl_job_place(c, job, sink);
		else if (job->state == CTL_JOB_SETTLING && c->now >= job->settled_at)
			ctl_job_ready(c, job, sink);
		if (job->state == CTL_JOB_SETTLING)
			next = hd_ns_min(next, job->settled_at);
	}
	return hd_ns_min(next, ctl_replica_check(c, sink));
}

void ctl_registry_fini(struct hd_controller *c) {
	struct ctl_transfer *t, *next;

	for (t = TAILQ_FIRST(&c->pending); t; t = next) {
		next = TAILQ_NEXT(t, entry);
		ctl_transfer_free(c, t);
	}
	for (t = TAILQ_FIRST(&c->open); t; t = next) {
		next = TAILQ_NEXT(t, entry);
		ctl_transfer_free(c, t);
	}
	ctl_groups_fini(c);
	ctl_slots_fini(c);
	while (c->job_count)
		ctl_job_free(c, c->jobs[c->job_count - 1]);
	ctl_lease_fini(c);
	for (uint32_t i = 0; i < c->tenant_count; i++)
		free(c->tenants[i]);
	c->tenant_count = 0;
}
