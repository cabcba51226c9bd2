/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes with one rank. On one host the newer process gets the rank: it is a restart. A process on another host
 * must wait, as the older one may be alive:
 *
 *   REGISTER of a rank whose worker is on another host --> REFUSE rank-held, the worker asks again
 *   the older one left, its session ended, or it has notice of preemption --> the newer one gets the rank
 *   the older one is still there after RANK_WAIT_TIMES --> REFUSE for good: a configuration error
 *
 * Hosts are distinguished by the address of the session, which only a node on the path can forge.
 */
#include "ctl_base.h"
#include "ctl_registry.h"

#include <stdio.h>

#define RANK_WAIT_TIMES UINT64_C(2)

static bool is_living_elsewhere(const struct ctl_node *older, const struct ctl_node *newer) {
	return older && older != newer && !older->doomed && !older->preempted_at
		&& hd_session_peer(older->session).ipv4 != hd_session_peer(newer->session).ipv4;
}

bool ctl_rank_is_held(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
) {
	const struct ctl_job *job = ctl_job_find(c, m->job);
	const struct ctl_node *older = job ? ctl_worker(job, m->worker) : NULL;
	struct hd_message message = {.kind = HD_MSG_REFUSE};
	hd_ns until;

	if (!is_living_elsewhere(older, node)) {
		node->rank_refused = 0;
		return false;
	}
	if (!node->rank_refused)
		node->rank_refused = c->now;
	until = hd_ns_add(node->rank_refused, RANK_WAIT_TIMES * c->config.detection_us * HD_US);
	message.refuse.reason = c->now < until ? HD_REASON_RANK_HELD : HD_REASON_REFUSED;
	message.refuse.job = m->job;
	(void)snprintf(
		message.refuse.text,
		sizeof message.refuse.text,
		"worker: rank %u of job %s is alive on host %s",
		m->worker,
		job->name,
		older->host
	);
	c->counters.rank_held++;
	ctl_send(c, node, &message, sink);
	return true;
}
