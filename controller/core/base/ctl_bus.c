/* SPDX-License-Identifier: BSD-3-Clause */
/* Output of all rooms: messages to nodes, events, records for the journal, and the time of the next check. It depends
 * on no room. */
#include "ctl_base.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

void ctl_event(struct hd_sink *sink, struct hd_event event) {
	if (sink->event)
		sink->event(sink, &event);
}

void ctl_event_of(
	const struct ctl_node *node,
	const struct ctl_job *job,
	struct hd_event event,
	struct hd_sink *sink
) {
	struct hd_who who = hd_session_who(node->session);

	who.host = node->host;
	who.tenant = job ? job->tenant_name : NULL;
	who.job = job ? job->name : NULL;
	event.who = &who;
	ctl_event(sink, event);
}

uint32_t ctl_link_count(const struct hd_controller *c) {
	return hd_topology_link_count(c->config.topology) + 1;
}

const char *ctl_link_name(const struct hd_controller *c, uint32_t link) {
	if (link == CTL_LINK_LOCAL)
		return "local";
	return hd_topology_link_name(c->config.topology, link - 1);
}

int ctl_send(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_message *message,
	struct hd_sink *sink
) {
	int status;

	assert(node->session);
	if (node->doomed)
		return -ENOBUFS;
	status = hd_session_send(node->session, message, c->now, sink);
	if (status == -ENOBUFS) {
		/* The node does not acknowledge: messages that it missed can no longer be sent in order. */
		node->doomed = true;
		c->doomed_count++;
		c->counters.queue_overflow++;
	}
	return status;
}

void ctl_refuse(
	struct hd_controller *c,
	struct ctl_node *node,
	uint32_t job,
	const char *text,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_REFUSE};

	message.refuse.reason = HD_REASON_REFUSED;
	message.refuse.job = job;
	(void)snprintf(message.refuse.text, sizeof message.refuse.text, "%s", text);
	ctl_send(c, node, &message, sink);
}

void ctl_record(const struct hd_controller *c, struct hd_record record) {
	if (!c->config.ops || !c->config.ops->record)
		return;
	record.at = c->now;
	c->config.ops->record(c->config.owner, &record);
}

hd_ns ctl_interval(const struct hd_controller *c) {
	hd_ns cost = c->pending_count * CTL_ITEM_NS;

	if (ctl_groups_possible(c))
		cost += hd_ns_min(c->pending_count, CTL_GROUP_WINDOW) * CTL_GROUP_ITEM_NS;
	return c->config.interval_us * HD_US + cost;
}

void ctl_plan_soon(struct hd_controller *c) {
	hd_ns at = c->scratch.planned_at ? c->last_plan + ctl_interval(c) : c->now;

	c->plan_at = hd_ns_min(c->plan_at, hd_ns_max(at, c->now));
}

void ctl_plan_now(struct hd_controller *c) {
	c->plan_at = c->now;
}

void ctl_check_by(struct hd_controller *c, hd_ns at) {
	c->check_at = hd_ns_min(c->check_at, at);
}

void ctl_record_node(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const char *what,
	enum hd_reason reason
) {
	ctl_record(
		c,
		(struct hd_record){
			.kind = HD_RECORD_NODE,
			.what = what,
			.reason = hd_reason_name(reason),
			.rule = hd_role_name(node->role),
			.text = node->host,
			.job = node->job ? node->job->id : 0,
			.worker = node->worker,
			.worker_known = node->role == HD_ROLE_WORKER,
		}
	);
}

void ctl_kept_changed(struct hd_controller *c) {
	c->kept.changed = true;
}

void ctl_kept_soon(struct hd_controller *c) {
	c->kept.due = hd_ns_min(c->kept.due, hd_ns_add(c->now, CTL_KEEP_SOON_NS));
	ctl_check_by(c, c->kept.due);
}

static hd_ns due_at(const struct hd_controller *c, const struct ctl_job *job) {
	hd_ns gap = (HD_ROSTER_US + (hd_ns)job->roster.count * HD_ROSTER_WORKER_US) * HD_US;
	hd_ns at = hd_ns_max(
		c->now,
		job->roster_sent_at ? hd_ns_add(job->roster_sent_at, gap) :
				      c->now + HD_ROSTER_US * HD_US
	);

	if (c->config.epoch > 1)
		at = hd_ns_max(at, hd_ns_add(c->started, ctl_silence(c)));
	return at;
}

void ctl_roster_due(struct hd_controller *c, struct ctl_job *job) {
	if (job->roster_due)
		return;
	job->roster_due = true;
	job->roster_at = due_at(c, job);
	ctl_check_by(c, job->roster_at);
}
