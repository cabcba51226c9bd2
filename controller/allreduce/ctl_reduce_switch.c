/* SPDX-License-Identifier: BSD-3-Clause */
/* A switch's reports about a lease of slots, or its loss: the rounds that use them. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_slots.h"

#include <assert.h>

void ctl_lease_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_lease *lease = ctl_lease_find(c, node, m->token);
	enum hd_reason reason = m->reason < HD_REASON_COUNT ? m->reason : HD_REASON_REFUSED;
	struct ctl_job *job;

	assert(node->role == HD_ROLE_SWITCH);
	if (!lease || !lease->job) {
		c->counters.reports_unknown++;
		return;
	}
	c->counters.reports++;
	job = lease->job;
	if (m->outcome == HD_OUTCOME_APPLIED) {
		c->counters.leases += !lease->held;
		job->leases_begun[CTL_LEASE_REDUCE] += !lease->held;
		lease->held = true;
	} else {
		/* It would refuse the next one as well. */
		c->counters.leases_refused++;
		ctl_switch_rests(c, node);
		ctl_reduce_lease_lost(c, lease, reason, sink);
	}
	ctl_reduce_joined(c, job, sink);
}

void ctl_lease_switch_down(
	struct hd_controller *c,
	const struct ctl_node *node,
	struct hd_sink *sink
) {
	struct ctl_lease *lease, *next;

	for (lease = TAILQ_FIRST(&c->leases); lease; lease = next) {
		next = TAILQ_NEXT(lease, entry);
		if (lease->node == node)
			ctl_reduce_lease_lost(c, lease, HD_REASON_LEASE, sink);
	}
}
