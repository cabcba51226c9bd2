/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers whose machine is taken away soon, as a cloud does with spot instances: NOTICE says in how long.
 *
 *   NOTICE --> its pushes go first within its job, and directly, since a sum waits for its members
 *          --> a push that cannot arrive in time is dropped (preempted): sending it would only waste capacity
 *   LEAVE  --> it flushed its updates and left, as any worker does
 *   its time is over --> it is lost at once: the others do not wait for the detection time
 */
#include "ctl_base.h"

#include <assert.h>
#include <math.h>

double ctl_urgency(const struct hd_controller *c, const struct ctl_transfer *t) {
	const struct ctl_node *node = ctl_worker(t->job, t->worker);

	if (!node || !node->preempted_at || t->direction != HD_PUSH || isinf(c->config.ageing_s))
		return 0;
	return 1 + HD_NOTICE_US_MAX * 1e-6 - ctl_time_left(c, node);
}

double ctl_waited(const struct hd_controller *c, const struct ctl_transfer *t) {
	double ahead = t->direction == HD_COPY && t->job->replica.held ? 1 : ctl_urgency(c, t);

	double waited = (double)(c->now - t->asked) / 1e9;

	if (ahead > 0)
		return c->config.ageing_s + ahead;
	/* Copies let other transfers pass until the ageing bound. */
	return t->direction == HD_COPY && waited <= c->config.ageing_s ? 0 : waited;
}

uint64_t ctl_drops(const struct hd_controller *c) {
	return c->counters.drops_bound + c->counters.drops_idles + c->counters.drops_preempted;
}

double ctl_time_left(const struct hd_controller *c, const struct ctl_node *node) {
	if (!node->preempted_at)
		return INFINITY;
	return node->preempted_at > c->now ? (double)(node->preempted_at - c->now) * 1e-9 : 0;
}

bool ctl_too_late(
	const struct hd_controller *c,
	const struct ctl_transfer *t,
	const struct hd_plan_entry *entry
) {
	const struct ctl_node *node = ctl_worker(t->job, t->worker);

	return node && t->direction == HD_PUSH && entry->finish > ctl_time_left(c, node);
}

void ctl_notice(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_notice *m,
	struct hd_sink *sink
) {
	hd_ns at = c->now + (hd_ns)m->left_us * HD_US;

	assert(node->role == HD_ROLE_WORKER);
	if (!node->job || m->job != node->job->id || m->worker != node->worker) {
		c->counters.hostile_owner++;
		return;
	}
	if (m->left_us == 0 || m->left_us > HD_NOTICE_US_MAX) {
		c->counters.hostile_value++;
		return;
	}
	/* A repeated notice, or one with less time. */
	if (node->preempted_at && node->preempted_at <= at)
		return;
	if (!node->preempted_at) {
		c->noticed++;
		node->job->noticed++;
		c->counters.notices++;
		ctl_record_node(c, node, "notice", HD_REASON_NONE);
	}
	node->preempted_at = at;
	ctl_event_of(
		node,
		node->job,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_NOTICE,
			.job = m->job,
			.worker = m->worker,
			.value = m->left_us * 1e-6,
		},
		sink
	);
	ctl_check_by(c, at);
	if (c->pending_count)
		ctl_plan_soon(c);
}

void ctl_notice_over(struct hd_controller *c, struct ctl_node *node) {
	if (!node->preempted_at)
		return;
	node->preempted_at = 0;
	c->noticed--;
	node->job->noticed--;
}
