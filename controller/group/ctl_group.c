/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: granted as a whole, reported by their aggregator and the server, voided as a whole. */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_grouping.h"
#include "ctl_transfers.h"
#include "hd_group.h"
#include "hd_kernels.h"
#include "hd_reduce.h"
#include "hd_runs.h"
#include "hd_text.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

_Static_assert(CTL_GROUP_WINDOW <= HD_MERGE_MEMBERS_MAX, "an aggregator would refuse it");

/* --- sparse updates --- */

double ctl_group_room(const struct ctl_job *job) {
	double most = fmin((double)job->model_bytes, UINT32_MAX);

	/* hd_runs_merged_bytes() of this many bytes is at most `most`; 1: no updates may be merged. */
	return fmax((most - 64) * 15 / 16 - 1, 1);
}

/* --- for the journal and the shell --- */

static void record_group(
	const struct hd_controller *c,
	const struct ctl_group *group,
	const char *what,
	enum hd_reason reason
) {
	ctl_record(
		c,
		(struct hd_record){
			.kind = HD_RECORD_DECISION,
			.what = what,
			.reason = hd_reason_name(reason),
			.rule = "group",
			.text = group->aggregator ? group->aggregator->host : "",
			.job = group->job->id,
			.direction = group->direction,
			.round = group->number,
			.count = group->count,
			.bytes = group->bytes,
			.position = group->sum ? group->sum->position : 0,
			.start_s = group->collected_s,
			.finish_s = group->finish_s,
			.runner_up_s = group->direct_s,
		}
	);
}

/* --- making a group --- */

/* No message is sent yet. NULL: limit or memory. */
static struct ctl_group *group_make(
	struct hd_controller *c,
	const struct hd_plan_group *plan,
	const struct ctl_transfer *first
) {
	struct ctl_group *group = calloc(1, sizeof *group);

	if (!group)
		return NULL;
	group->members = calloc(plan->count, sizeof(struct ctl_transfer *));
	if (!group->members) {
		free(group);
		return NULL;
	}
	group->number = ++c->group_number;
	group->job = first->job;
	group->aggregator = c->grouping.aggregator[plan->aggregator];
	group->direction = plan->direction;
	group->made = c->now;
	group->collected_s = plan->collected;
	group->limit_s = plan->limit;
	group->direct_s = plan->direct;
	TAILQ_INSERT_TAIL(&c->groups, group, entry);
	c->group_count++;
	group->sum = ctl_transfer_add(
		c,
		&(struct ctl_transfer){
			.job = group->job,
			.worker = HD_GROUP_WORKER,
			.direction = plan->direction,
			.round = group->number,
			.attempt = 1,
			.dtype = first->dtype,
			.bytes = (uint64_t)plan->amount,
			.group = group,
			.is_sum = true,
		}
	);
	if (!group->sum) {
		ctl_group_free(c, group);
		return NULL;
	}
	return group;
}

static struct ctl_transfer *
planned_member(const struct hd_controller *c, const struct hd_plan_group *plan, uint32_t index) {
	const uint32_t entry = c->grouping.plan.members[plan->first + index];

	return c->scratch.item_transfer[c->scratch.entries[entry].item];
}

/* The largest size of its sum. */
static uint64_t most_bytes(const struct hd_controller *c, const struct hd_plan_group *plan) {
	const struct ctl_transfer *first = planned_member(c, plan, 0);
	uint64_t bytes = 0;

	if (first->dtype != HD_DTYPE_SPARSE32)
		return first->bytes;
	for (uint32_t m = 0; m < plan->count; m++) {
		const struct ctl_transfer *t = planned_member(c, plan, m);

		bytes += t ? t->bytes : 0;
	}
	return hd_runs_merged_bytes(bytes);
}

/* Whether all members are ready, and memory is free. The planner counts updates; an earlier group of the same pass may
 * have taken more than planned. */
static bool may_grant(const struct hd_controller *c, const struct hd_plan_group *plan) {
	const struct ctl_node *aggregator = c->grouping.aggregator[plan->aggregator];
	const struct ctl_transfer *first = planned_member(c, plan, 0);

	if (!ctl_may_group(c, aggregator) || c->open_count + plan->count >= HD_TRANSFERS_MAX
	    || !first
	    || ctl_memory_left(c, aggregator)
		    < ctl_group_memory_of(c, first, most_bytes(c, plan), plan->count))
		return false;
	for (uint32_t m = 0; m < plan->count; m++) {
		const struct ctl_transfer *t = planned_member(c, plan, m);
		const struct ctl_node *worker = t ? ctl_worker(t->job, t->worker) : NULL;

		if (!worker || worker->doomed || !t->job->server || t->job->server->doomed
		    || t->state != CTL_PENDING)
			return false;
	}
	return true;
}

/* Opens the transfer between aggregator and server, with its reservation. */
static void open_sum(
	struct hd_controller *c,
	const struct ctl_group *group,
	const struct hd_plan_group *plan,
	uint32_t index
) {
	struct ctl_transfer *sum = group->sum;

	ctl_transfer_reroute(c, sum, &plan->trunk);
	ctl_grant_sum(
		c,
		sum,
		&plan->sum,
		&(struct ctl_grant_with){
			.after = ctl_entry_after(c, &plan->sum, index),
			.behind = c->grouping.sum_behind[index],
		}
	);
	c->grouping.sum_token[index] = sum->token;
}

/* Sets the unit of fixed-point values so that the sum of the members cannot overflow. */
static void set_exponent(struct ctl_group *group) {
	double peaks = 0;

	if (group->dtype != HD_DTYPE_FIXED32 || group->direction != HD_PUSH)
		return;
	for (uint32_t m = 0; m < group->count; m++)
		peaks += fabs((double)group->members[m]->weight * group->members[m]->peak);
	group->exponent = (uint16_t)(int16_t)hd_fixed_exponent(peaks, group->count);
}

static void open_members(
	struct hd_controller *c,
	struct ctl_group *group,
	const struct hd_plan_group *plan,
	struct hd_sink *sink
) {
	group->count = plan->count;
	for (uint32_t m = 0; m < plan->count; m++) {
		const uint32_t e = c->grouping.plan.members[plan->first + m];
		const struct hd_plan_entry *entry = &c->scratch.entries[e];
		struct ctl_transfer *t = planned_member(c, plan, m);

		ctl_group_attach(group, m, t);
		ctl_transfer_reroute(c, t, &c->grouping.plan.member_paths[plan->first + m]);
		ctl_grant_open(
			c,
			t,
			entry,
			&(struct ctl_grant_with){
				.after = ctl_entry_after(c, entry, HD_PLAN_NONE),
				.behind = c->scratch.behind[e],
			},
			sink
		);
		group->finish_s = fmax(group->finish_s, entry->commit);
	}
}

/* NULL: there are none. */
static struct ctl_group_slots *
take_slots(struct hd_controller *c, const struct hd_plan_group *plan, struct hd_sink *sink) {
	struct ctl_transfer *members[CTL_GROUP_WINDOW];

	for (uint32_t m = 0; m < plan->count; m++)
		members[m] = planned_member(c, plan, m);
	return ctl_slots_take(
		c, c->grouping.aggregator[plan->aggregator], members, plan->count, sink
	);
}

int ctl_group_grant(struct hd_controller *c, uint32_t index, struct hd_sink *sink) {
	const struct hd_plan_group *plan = &c->grouping.plan.groups[index];
	const struct ctl_transfer *first = planned_member(c, plan, 0);
	struct ctl_group_slots *slots = NULL;
	struct ctl_group *group;
	bool by_switch;

	if (!may_grant(c, plan))
		return -ENOTCONN;
	by_switch = c->grouping.aggregator[plan->aggregator]->role == HD_ROLE_SWITCH;
	if (by_switch && !(slots = take_slots(c, plan, sink)))
		return -ENOSPC;
	group = group_make(c, plan, first);
	if (!group) {
		free(slots);
		return -ENOMEM;
	}
	group->slots = slots;
	group->token = hd_entropy_u64(&c->entropy);
	group->dtype = first->dtype;
	group->bytes = most_bytes(c, plan);
	group->memory = by_switch ? 0 : ctl_group_memory_of(c, first, group->bytes, plan->count);
	open_members(c, group, plan, sink);
	set_exponent(group);
	open_sum(c, group, plan, index);
	if (by_switch)
		ctl_reserve_slots(group);
	c->counters.groups++;
	c->counters.switched += by_switch;
	if (group->direction == HD_PUSH)
		c->counters.grouped += group->count;
	else
		c->counters.relayed += group->count;
	group->second = ctl_copy_sum(c, group);
	record_group(c, group, "granted", HD_REASON_NONE);
	/* Receivers first. When a message cannot be sent, the group with its members' grants is void at the end of the
	 * call. */
	if (ctl_group_send(c, group, sink) < 0)
		ctl_group_fail(c, group, HD_REASON_NO_MEMORY);
	group->second = NULL;
	for (uint32_t m = 0; m < group->count && !by_switch; m++)
		ctl_grant_send(c, group->members[m], sink);
	return 0;
}

/* --- ends --- */

static void settle(struct hd_controller *c, struct ctl_group *group, struct hd_sink *sink) {
	c->counters.groups_voided++;
	record_group(c, group, "voided", group->reason);
	ctl_group_ended(
		c, group, group->reason == HD_REASON_NONE ? HD_REASON_CLOSED : group->reason
	);
	for (uint32_t m = 0; m < group->count; m++)
		if (group->members[m])
			ctl_slots_unsent(c, group->members[m], sink);
	ctl_group_send_void(c, group, group->reason, sink);
	ctl_copy_sum_end(c, group, HD_REASON_CLOSED, sink);
	if (group->sum)
		ctl_void_quietly(c, group->sum, HD_REASON_CLOSED, sink);
	for (uint32_t m = 0; m < group->count; m++)
		if (group->members[m])
			ctl_void_quietly(c, group->members[m], HD_REASON_CLOSED, sink);
	ctl_group_free(c, group);
}

void ctl_groups_settle(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_group *group, *next;

	while (c->groups_failed) {
		c->groups_failed = false;
		for (group = TAILQ_FIRST(&c->groups); group; group = next) {
			next = TAILQ_NEXT(group, entry);
			if (group->failed)
				settle(c, group, sink);
		}
		if (c->pending_count)
			ctl_plan_soon(c);
	}
}

/* --- reports --- */

/* A sum's copy may outlive its group; only the group's aggregator may report it. */
static bool may_end_copy(
	const struct hd_controller *c,
	const struct ctl_node *aggregator,
	const struct ctl_transfer *copy
) {
	const struct ctl_group *group;

	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->job == copy->job && group->number == copy->round)
			return group->aggregator == aggregator;
	return true;
}

bool ctl_group_report(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	enum hd_reason reason = m->reason < HD_REASON_COUNT ? m->reason : HD_REASON_NONE;
	struct ctl_transfer *t = ctl_transfer_by_token(c, m->token);
	/* An aggregator cannot report more of updates; a model it has delivered for good. */
	bool held = m->outcome == HD_OUTCOME_PENDING || m->outcome == HD_OUTCOME_APPLIED;
	struct ctl_group *group;

	assert(aggregator->role == HD_ROLE_AGGREGATOR);
	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->token == m->token && group->aggregator == aggregator)
			break;
	/* The aggregator gave the replica up, or lost it: the group goes on. */
	if (t && t->is_sum && t->direction == HD_COPY) {
		if (!may_end_copy(c, aggregator, t))
			return false;
		c->counters.reports++;
		if (!held)
			ctl_copy_end(c, t, HD_REASON_CLOSED, sink);
		return true;
	}
	if (!group && (!t || !t->group || t->group->aggregator != aggregator))
		return false;
	c->counters.reports++;
	if (group && held)
		return true; /* its receivers report the end */
	if (!held) {
		/* The failure of a member is reported before, so this is the aggregator's own. */
		if (group)
			ctl_group_refused(c, aggregator, group->job, (uint8_t)reason);
		group = group ? group : t->group;
		ctl_group_fail(c, group, reason == HD_REASON_NONE ? HD_REASON_CLOSED : reason);
		return true;
	}
	/* The aggregator holds all of this update: the path to it is free again. */
	ctl_report_held(c, t, m, sink);
	/* The aggregator has the model; it delivers it to the workers without the server. */
	if (t->is_sum)
		ctl_transfer_free(c, t);
	return true;
}
