/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups of pushes whose aggregator is a switch on the path: they lease slots of it during their grant.
 *
 *   granted --SLOTS--> switch --REPORT(applied)--> GRANT to each member --> server's REPORT of the sum --> VOID
 *      \--MEMBERS--> server,    | REPORT(failed), or no answer in CTL_LEASE_WAIT_NS
 *                    replica    +--> the group is void: its members ask again, the switch gets no groups for a while
 *
 * The replica may lack a part of a sum that is applied: its members go on sending, and the VOID waits for the replica's
 * REPORT, at most HD_SUM_TAIL_US.
 *
 * A lease belongs to one group and ends with it, so a job holds no more than its share of the slots, and no longer than
 * its sum takes. When no slots are free, the planner may not use the switch.
 */
#include "ctl_base.h"
#include "ctl_estimate.h"
#include "ctl_grouping.h"
#include "ctl_slots.h"
#include "ctl_transfers.h"
#include "hd_group.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* --- slots ------------------------------------------------------------------------------------ */

/* Slots that the job may still lease there. */
static uint32_t
slots_left(const struct hd_controller *c, const struct ctl_node *node, const struct ctl_job *job) {
	uint32_t share = ctl_lease_share(c, node, job);
	uint32_t has = ctl_slots_leased(c, node, job);

	return share > has ? ctl_lease_free(c, node, share - has) : 0;
}

/* Values of a chunk that all of them can send and the switch can add; 0: none. */
static uint16_t count_for(const struct ctl_node *worker, const struct ctl_node *node) {
	uint16_t count = worker->count_max < node->count_max ? worker->count_max : node->count_max;

	if ((worker->slot_dtypes >> HD_DTYPE_FIXED32 & 1) == 0)
		return 0;
	return count >= node->count_min ? count : 0;
}

bool ctl_slots_may(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_transfer *t,
	const struct ctl_node *worker
) {
	if (t->direction != HD_PUSH || t->dtype != HD_DTYPE_FIXED32 || !isfinite(t->peak)
	    || count_for(worker, node) == 0)
		return false;
	if (slots_left(c, node, t->job) >= CTL_LEASE_SLOTS_LEAST)
		return true;
	/* The job counts among those that need slots, so other jobs' shares are smaller. */
	t->job->slots_short_until = hd_ns_add(c->now, CTL_LEASE_REST_NS);
	return false;
}

struct ctl_group_slots *ctl_slots_take(
	struct hd_controller *c,
	struct ctl_node *node,
	struct ctl_transfer *const *members,
	uint32_t count,
	struct hd_sink *sink
) {
	struct ctl_job *job = members[0]->job;
	struct ctl_group_slots *slots = calloc(1, sizeof *slots);
	uint32_t left = slots_left(c, node, job), want = 0;
	double rate = INFINITY;
	hd_ns rtt = 0;

	assert(count > 0 && count <= CTL_GROUP_WINDOW);
	if (!slots)
		return NULL;
	slots->count = UINT16_MAX;
	for (uint32_t m = 0; m < count; m++) {
		const struct ctl_transfer *t = members[m];
		const struct ctl_node *worker = ctl_worker(t->job, t->worker);
		uint16_t values = count_for(worker, node);

		slots->count = values < slots->count ? values : slots->count;
		rtt = hd_ns_max(rtt, worker->rtt_least);
		for (uint8_t i = 0; i < t->path_count; i++)
			rate = fmin(rate, ctl_estimate_bytes(c, t->path[i]));
		slots->results[m] = hd_token_draw(&c->entropy, false);
	}
	if (slots->count > 0 && count <= HD_SWITCH_MEMBERS_MAX && left >= CTL_LEASE_SLOTS_LEAST) {
		slots->rate = isinf(rate) ? 0 : rate;
		want = slots->wanted = ctl_lease_want(rtt, slots->rate, slots->count);
		want = ctl_lease_take(c, node, want < left ? want : left, sink);
	}
	if (want == 0) {
		job->slots_short_until = hd_ns_add(c->now, CTL_LEASE_REST_NS);
		free(slots);
		return NULL;
	}
	slots->slots = (uint16_t)want;
	slots->node = node;
	slots->name = hd_entropy_u64(&c->entropy);
	slots->asked = c->now;
	ctl_check_by(c, hd_ns_add(c->now, CTL_LEASE_WAIT_NS));
	return slots;
}

/* --- messages --------------------------------------------------------------------------------- */

static struct hd_group_receiver
receiver_of(const struct ctl_transfer *t, const struct ctl_node *node) {
	return (struct hd_group_receiver){
		.token = t->token,
		.ipv4 = node->data.ipv4,
		.port = node->data.port,
	};
}

int ctl_slots_send(struct hd_controller *c, struct ctl_group *group, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_SLOTS};
	uint8_t seats[HD_GROUP_SEAT_BYTES * HD_SWITCH_MEMBERS_MAX];
	uint8_t list[HD_GROUP_RECEIVER_BYTES * HD_SWITCH_RECEIVERS_MAX];
	struct hd_group_receiver receivers[2] = {receiver_of(group->sum, group->job->server)};
	struct ctl_group_slots *slots = group->slots;
	struct hd_msg_slots *m = &message.slots;

	slots->receivers = 1;
	if (group->second)
		receivers[slots->receivers++]
			= receiver_of(group->second, group->job->replica.node);
	for (uint32_t i = 0; i < group->count; i++) {
		const struct ctl_transfer *t = group->members[i];
		const struct ctl_node *worker = ctl_worker(t->job, t->worker);
		const struct hd_group_seat seat = {
			.worker = t->worker,
			.token = t->token,
			.result_token = slots->results[i],
			.ipv4 = worker ? worker->data.ipv4 : 0,
			.port = worker ? worker->data.port : 0,
		};

		hd_group_put_seats(
			&seat, 1, seats + (size_t)i * HD_GROUP_SEAT_BYTES, HD_GROUP_SEAT_BYTES
		);
	}
	hd_group_put_receivers(receivers, slots->receivers, list, sizeof list);
	m->members = (struct hd_blob){seats, group->count * HD_GROUP_SEAT_BYTES};
	m->receivers = (struct hd_blob){list, slots->receivers * HD_GROUP_RECEIVER_BYTES};
	m->job = group->job->id;
	m->lease = slots->name;
	m->epoch = c->config.epoch;
	m->attempt = 1;
	m->dtype = HD_DTYPE_FIXED32;
	m->count = slots->count;
	m->slots = slots->slots;
	m->waits = group->count > 0 ? UINT64_MAX >> (64 - group->count) : 0;
	m->expires_us = CTL_LEASE_EXPIRES_US;
	return ctl_send(c, slots->node, &message, sink);
}

/* The members were not granted before: transfers that were to begin meanwhile begin now. */
static void tell_members(struct hd_controller *c, struct ctl_group *group, struct hd_sink *sink) {
	if (group->sum)
		ctl_reserve_from(group->sum, c->now);
	for (uint32_t m = 0; m < group->count; m++)
		if (group->members[m]) {
			ctl_reserve_from(group->members[m], c->now);
			ctl_grant_send(c, group->members[m], sink);
		}
}

bool ctl_slots_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_group *group;

	assert(node->role == HD_ROLE_SWITCH);
	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->slots && group->slots->name == m->token && group->slots->node == node)
			break;
	if (!group)
		return false;
	c->counters.reports++;
	if (m->outcome == HD_OUTCOME_APPLIED) {
		if (group->slots->held || group->failed)
			return true;
		c->counters.leases++;
		group->job->leases_begun[CTL_LEASE_PUSH]++;
		group->slots->held = true;
		tell_members(c, group, sink);
		return true;
	}
	c->counters.leases_refused++;
	ctl_switch_rests(c, node);
	ctl_group_fail(
		c,
		group,
		m->reason > HD_REASON_NONE && m->reason < HD_REASON_COUNT ? m->reason :
									    HD_REASON_REFUSED
	);
	return true;
}

/* --- ends ------------------------------------------------------------------------------------- */

void ctl_slots_unsent(struct hd_controller *c, struct ctl_transfer *t, struct hd_sink *sink) {
	const struct ctl_group_slots *slots = t->group ? t->group->slots : NULL;
	struct ctl_node *worker = ctl_worker(t->job, t->worker);
	struct hd_message message = {.kind = HD_MSG_VOID};

	if (!slots || slots->held || t->is_sum || !worker)
		return;
	message.void_.job = t->job->id;
	message.void_.position = t->position;
	message.void_.token = t->token;
	message.void_.reason = HD_REASON_CLOSED;
	ctl_grant_send(c, t, sink);
	(void)ctl_send(c, worker, &message, sink);
}

/* Returns the time of the next end. */
static hd_ns send_ends(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_slots_over *over = TAILQ_FIRST(&c->slots_over), *next;
	hd_ns at = HD_NEVER;

	for (; over; over = next) {
		struct hd_message message = {.kind = HD_MSG_VOID};

		next = TAILQ_NEXT(over, entry);
		if (over->copy != 0 && c->now < over->until
		    && ctl_transfer_by_token(c, over->copy)) {
			at = hd_ns_min(at, over->until);
			continue;
		}
		TAILQ_REMOVE(&c->slots_over, over, entry);
		message.void_.job = over->job;
		message.void_.token = over->name;
		message.void_.reason = HD_REASON_CLOSED;
		(void)ctl_send(c, over->node, &message, sink);
		free(over);
	}
	return at;
}

hd_ns ctl_slots_check(struct hd_controller *c, struct hd_sink *sink) {
	hd_ns at = send_ends(c, sink);
	struct ctl_group *group;

	TAILQ_FOREACH (group, &c->groups, entry) {
		hd_ns due;

		if (!group->slots || group->slots->held || group->failed)
			continue;
		due = hd_ns_add(group->slots->asked, CTL_LEASE_WAIT_NS);
		if (c->now < due) {
			at = hd_ns_min(at, due);
			continue;
		}
		c->counters.leases_refused++;
		if (group->slots->node)
			ctl_switch_rests(c, group->slots->node);
		ctl_group_fail(c, group, HD_REASON_TIMEOUT);
	}
	return at;
}

void ctl_slots_spoilt(struct hd_controller *c, const struct ctl_group *group, uint8_t reason) {
	if (!group->slots || !group->slots->node || reason != HD_REASON_NOT_FINITE)
		return;
	c->counters.sums_saturated++;
	ctl_group_refused(c, group->slots->node, group->job, HD_REASON_REFUSED);
}
