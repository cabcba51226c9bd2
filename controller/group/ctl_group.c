/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: granted whole, reported by their aggregator and the server, voided whole. */
#include "ctl_core.h"
#include "hd_group.h"
#include "hd_kernels.h"
#include "hd_reduce.h"
#include "hd_runs.h"
#include "hd_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(CTL_GROUP_WINDOW <= HD_MERGE_MEMBERS_MAX, "an aggregator would refuse it");

/* --- sparse updates --- */

double ctl_group_room(const struct ctl_job *job) {
	double most = fmin((double)job->model_bytes, UINT32_MAX);

	/* hd_runs_merged_bytes() of so much is not more than that; 1: none may be merged. */
	return fmax((most - 64) * 15 / 16 - 1, 1);
}

void ctl_group_learn(struct ctl_transfer *sum, const struct hd_msg_report *report) {
	const struct ctl_group *group = sum->group;
	double most = 0, all = 0, apart;

	if (group->dtype != HD_DTYPE_SPARSE32 || group->direction != HD_PUSH
	    || group->alive < group->count || report->bytes == 0)
		return;
	for (uint32_t m = 0; m < group->count; m++) {
		most = fmax(most, (double)group->members[m]->bytes);
		all += (double)group->members[m]->bytes;
	}
	if (all <= most)
		return;
	apart = fmin(fmax(((double)report->bytes - most) / (all - most), 0), 1);
	sum->job->apart += CTL_APART_LEARN * (apart - sum->job->apart);
}

static uint64_t memory_of(
	const struct hd_controller *c,
	const struct ctl_transfer *t,
	uint64_t bytes,
	uint32_t count
) {
	const struct hd_reduce_config config = {
		.dtype = t->dtype,
		.order = c->ranked_sums ? HD_GROUP_RANKED : HD_GROUP_ARRIVAL,
		.bytes = bytes,
		.input_count = t->direction == HD_PUSH ? count : 1,
	};

	return bytes > 0 ? hd_reduce_memory_bytes(&config) : 0;
}

uint64_t
ctl_group_memory(const struct hd_controller *c, const struct ctl_transfer *t, uint32_t count) {
	return memory_of(c, t, t->bytes, count);
}

static uint64_t held_by_groups(const struct hd_controller *c, const struct ctl_node *aggregator) {
	const struct ctl_group *group;
	uint64_t bytes = 0;

	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->aggregator == aggregator)
			bytes += group->memory;
	return bytes;
}

uint64_t ctl_memory_left(const struct hd_controller *c, const struct ctl_node *aggregator) {
	uint64_t held;

	if (aggregator->role == HD_ROLE_SWITCH) /* slots are all that it has */
		return UINT64_MAX;
	held = held_by_groups(c, aggregator) + ctl_reduce_held_bytes(c, aggregator);

	return aggregator->memory_bytes > held ? aggregator->memory_bytes - held : 0;
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

void ctl_group_ended(
	struct hd_controller *c,
	const struct ctl_group *group,
	enum hd_reason reason
) {
	struct ctl_group_past *past = &c->grouping.past[c->grouping.past_count++ % CTL_GROUPS_KEPT];

	*past = (struct ctl_group_past){
		.number = group->number,
		.count = group->count,
		.direction = group->direction,
		.reason = reason,
		.bytes = group->bytes,
		.made = group->made,
		.ended = c->now,
		.collected_s = group->collected_s,
		.limit_s = group->limit_s,
		.direct_s = group->direct_s,
		.finish_s = group->finish_s,
	};
	hd_text_copy(past->job, sizeof(past->job), group->job->name);
	hd_text_copy(
		past->aggregator,
		sizeof(past->aggregator),
		group->aggregator ? group->aggregator->host : ""
	);
	/* Of no worker: its decision, of the same number, has what was planned. */
	ctl_record(
		c,
		(struct hd_record){
			.kind = HD_RECORD_COMPLETION,
			.what = hd_outcome_name(
				reason == HD_REASON_NONE ? HD_OUTCOME_APPLIED : HD_OUTCOME_FAILED
			),
			.reason = hd_reason_name(reason),
			.job = group->job->id,
			.direction = group->direction,
			.round = group->number,
			.bytes = group->bytes,
			.duration_s = (double)(c->now - group->made) / 1e9,
		}
	);
}

/* --- making one --- */

static void group_free(struct hd_controller *c, struct ctl_group *group) {
	TAILQ_REMOVE(&c->groups, group, entry);
	c->group_count--;
	ctl_slots_end(c, group);
	free(group->members);
	free(group);
}

/* Nobody hears of it yet. NULL: limit or memory. */
static struct ctl_group *
group_make(struct hd_controller *c, const struct hd_plan_group *plan, struct ctl_job *job) {
	struct ctl_group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->members = calloc(plan->count, sizeof(struct ctl_transfer *));
	if (!group->members) {
		free(group);
		return NULL;
	}
	group->number = ++c->group_number;
	group->job = job;
	group->aggregator = c->grouping.aggregator[plan->aggregator];
	group->direction = plan->direction;
	group->made = c->now;
	group->collected_s = plan->collected;
	group->limit_s = plan->limit;
	group->direct_s = plan->direct;
	TAILQ_INSERT_TAIL(&c->groups, group, entry);
	c->group_count++;
	group->sum = ctl_transfer_add(c, job, HD_GROUP_WORKER, plan->direction, group->number);
	if (!group->sum) {
		group_free(c, group);
		return NULL;
	}
	group->sum->is_sum = true;
	group->sum->attempt = 1;
	group->sum->group = group;
	return group;
}

static struct ctl_transfer *
planned_member(const struct hd_controller *c, const struct hd_plan_group *plan, uint32_t index) {
	const uint32_t entry = c->grouping.plan.members[plan->first + index];

	return c->scratch.item_transfer[c->scratch.entries[entry].item];
}

/* The most that its sum may have. */
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

/* Whether everybody is there, and room. The planner counts with updates; an earlier group of the same round may have
 * taken more than that. */
static bool may_grant(const struct hd_controller *c, const struct hd_plan_group *plan) {
	const struct ctl_node *aggregator = c->grouping.aggregator[plan->aggregator];
	const struct ctl_transfer *first = planned_member(c, plan, 0);

	if (!ctl_may_group(c, aggregator) || c->open_count + plan->count >= HD_TRANSFERS_MAX
	    || !first
	    || ctl_memory_left(c, aggregator)
		    < memory_of(c, first, most_bytes(c, plan), plan->count))
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

/* The transfer between aggregator and server, in the books. */
static void open_sum(
	struct hd_controller *c,
	struct ctl_group *group,
	const struct hd_plan_group *plan,
	uint32_t index
) {
	struct ctl_transfer *sum = group->sum;

	sum->dtype = group->dtype;
	sum->bytes = (uint64_t)plan->amount;
	sum->position = group->direction == HD_PUSH ? group->members[0]->position : 0;
	sum->weight = 0;
	for (uint32_t m = 0; m < group->count; m++)
		sum->weight += group->members[m]->weight;
	sum->after = ctl_entry_after(c, &plan->sum, index);
	sum->cc_weight = 1 + (float)fmin(c->grouping.sum_behind[index], CTL_CC_WEIGHT_MAX);
	ctl_transfer_reroute(c, sum, &plan->trunk);
	ctl_transfer_open(c, sum, ctl_token(c, sum->job, !group->slots));
	ctl_grant_book(c, sum, &plan->sum);
	c->grouping.sum_token[index] = sum->token;
}

/* What a lane of fixed point is worth: nothing that the members can hold overflows their sum. */
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
	group->count = group->alive = plan->count;
	for (uint32_t m = 0; m < plan->count; m++) {
		const uint32_t e = c->grouping.plan.members[plan->first + m];
		const struct hd_plan_entry *entry = &c->scratch.entries[e];
		struct ctl_transfer *t = planned_member(c, plan, m);

		group->members[m] = t;
		t->group = group;
		t->group_slot = m;
		ctl_transfer_reroute(c, t, &c->grouping.plan.member_ways[plan->first + m]);
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
	group = group_make(c, plan, first->job);
	if (!group) {
		free(slots);
		return -ENOMEM;
	}
	group->slots = slots;
	group->token = hd_entropy_u64(&c->entropy);
	group->dtype = first->dtype;
	group->bytes = most_bytes(c, plan);
	group->memory = by_switch ? 0 : memory_of(c, first, group->bytes, plan->count);
	open_members(c, group, plan, sink);
	set_exponent(group);
	open_sum(c, group, plan, index);
	if (by_switch)
		ctl_slots_book(group);
	c->counters.groups++;
	c->counters.switched += by_switch;
	if (group->direction == HD_PUSH)
		c->counters.grouped += group->count;
	else
		c->counters.relayed += group->count;
	ctl_copy_sum(c, group);
	record_group(c, group, "granted", HD_REASON_NONE);
	/* Receivers first. What they do not hear of is void, members' grants and all, at the end of the call. */
	if (ctl_group_say(c, group, sink) < 0)
		ctl_group_fail(c, group, HD_REASON_NO_MEMORY);
	group->second = NULL;
	for (uint32_t m = 0; m < group->count && !by_switch; m++)
		ctl_grant_say(c, group->members[m], sink);
	return 0;
}

/* --- ends --- */

void ctl_group_fail(struct hd_controller *c, struct ctl_group *group, enum hd_reason reason) {
	if (group->failed)
		return;
	group->failed = true;
	group->reason = reason;
	c->groups_failed = true;
}

void ctl_group_detach(struct hd_controller *c, struct ctl_transfer *t) {
	struct ctl_group *group = t->group;

	t->group = NULL;
	if (t == group->sum) {
		group->sum = NULL;
	} else {
		group->members[t->group_slot] = NULL;
		group->alive--;
	}
	if (group->failed)
		return; /* ctl_groups_settle() has more to say */
	if (!group->alive && !group->sum) {
		if (group->direction == HD_PULL)
			ctl_group_ended(c, group, HD_REASON_NONE);
		group_free(c, group);
	} else if (!group->alive)
		ctl_group_fail(c, group, HD_REASON_CANCELLED);
}

static void settle(struct hd_controller *c, struct ctl_group *group, struct hd_sink *sink) {
	c->counters.groups_voided++;
	record_group(c, group, "voided", group->reason);
	ctl_group_ended(
		c, group, group->reason == HD_REASON_NONE ? HD_REASON_CLOSED : group->reason
	);
	for (uint32_t m = 0; m < group->count; m++)
		if (group->members[m])
			ctl_slots_untold(c, group->members[m], sink);
	ctl_group_say_void(c, group, group->reason, sink);
	ctl_copy_sum_end(c, group, HD_REASON_CLOSED, sink);
	if (group->sum)
		ctl_void_quietly(c, group->sum, HD_REASON_CLOSED, sink);
	for (uint32_t m = 0; m < group->count; m++)
		if (group->members[m])
			ctl_void_quietly(c, group->members[m], HD_REASON_CLOSED, sink);
	group_free(c, group);
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

void ctl_group_aggregator_down(struct hd_controller *c, const struct ctl_node *aggregator) {
	struct ctl_group *group;

	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->aggregator == aggregator) {
			group->aggregator = NULL;
			ctl_group_fail(c, group, HD_REASON_LEASE);
		}
}

void ctl_groups_fini(struct hd_controller *c) {
	struct ctl_group *group;

	while ((group = TAILQ_FIRST(&c->groups)))
		group_free(c, group);
}

/* --- reports --- */

/* It would not take the job's next one either. */
void ctl_group_refused(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct ctl_job *job,
	uint8_t reason
) {
	struct ctl_refusal *slot = &aggregator->refusals[0];

	if (reason != HD_REASON_NO_MEMORY && reason != HD_REASON_REFUSED
	    && reason != HD_REASON_CLOSED)
		return;
	for (size_t i = 1; i < CTL_REFUSALS_KEPT && slot->job != job->id; i++) {
		struct ctl_refusal *other = &aggregator->refusals[i];

		if (other->job == job->id || other->until < slot->until)
			slot = other;
	}
	*slot = (struct ctl_refusal){job->id, hd_ns_add(c->now, CTL_GROUP_BACKOFF_NS)};
}

bool ctl_group_refuses(
	const struct hd_controller *c,
	const struct ctl_node *aggregator,
	const struct ctl_job *job
) {
	for (size_t i = 0; i < CTL_REFUSALS_KEPT; i++)
		if (aggregator->refusals[i].job == job->id
		    && c->now < aggregator->refusals[i].until)
			return true;
	return false;
}

/* A sum's copy may outlive its group, which nobody else can speak of while it is there. */
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
	/* Of updates an aggregator cannot say more; a model it has for good. */
	bool held = m->outcome == HD_OUTCOME_PENDING || m->outcome == HD_OUTCOME_APPLIED;
	struct ctl_group *group;

	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->token == m->token && group->aggregator == aggregator)
			break;
	/* It gave the replica up, or lost it: the group goes on. */
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
		return true; /* its receivers say how it ends */
	if (!held) {
		/* Of a member that failed it says so before. */
		if (group)
			ctl_group_refused(c, aggregator, group->job, (uint8_t)reason);
		group = group ? group : t->group;
		ctl_group_fail(c, group, reason == HD_REASON_NONE ? HD_REASON_CLOSED : reason);
		return true;
	}
	/* It holds this one whole: the way to it is free again. */
	ctl_report_held(c, t, m, sink);
	/* Its aggregator has the model: the rest is between it and the workers. */
	if (t->is_sum)
		ctl_transfer_free(c, t);
	return true;
}
