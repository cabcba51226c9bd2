/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of groups: their state, their end, and their slots of switches. group/ sends their messages and makes
 * groups from a plan. */
#include "ctl_base.h"
#include "hd_group.h"
#include "hd_text.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

uint32_t ctl_slots_leased(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_job *job
) {
	const struct ctl_slots_over *over;
	const struct ctl_group *group;
	uint32_t slots = 0;

	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->slots && group->slots->node == node && (!job || group->job == job))
			slots += group->slots->slots;
	TAILQ_FOREACH (over, &c->slots_over, entry)
		if (over->node == node && (!job || (over->copy != 0 && over->job == job->id)))
			slots += over->slots;
	return slots;
}

void ctl_slots_of(
	const struct hd_controller *c,
	const struct ctl_job *job,
	uint32_t *leases,
	uint32_t *slots
) {
	const struct ctl_slots_over *over;
	const struct ctl_group *group;

	*leases = *slots = 0;
	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->job == job && group->slots) {
			++*leases;
			*slots += group->slots->slots;
		}
	TAILQ_FOREACH (over, &c->slots_over, entry)
		if (over->job == job->id) {
			++*leases;
			*slots += over->slots;
		}
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
	hd_text_copy(past->job, sizeof past->job, group->job->name);
	hd_text_copy(
		past->aggregator,
		sizeof past->aggregator,
		group->aggregator ? group->aggregator->host : ""
	);
	/* The sum belongs to no worker; the decision with the same number has the planned values. */
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

void ctl_slots_end(struct hd_controller *c, struct ctl_group *group) {
	const struct ctl_transfer *copy;
	struct ctl_slots_over *over;

	if (!group->slots)
		return;
	copy = ctl_transfer_find(c, group->job, HD_GROUP_WORKER, HD_COPY, group->number);
	over = calloc(1, sizeof *over);
	if (over && group->slots->node) {
		*over = (struct ctl_slots_over){
			.name = group->slots->name,
			.node = group->slots->node,
			.slots = group->slots->slots,
			.job = group->job->id,
			.copy = copy ? copy->token : 0,
			.until = hd_ns_add(c->now, HD_SUM_TAIL_US * HD_US),
		};
		TAILQ_INSERT_TAIL(&c->slots_over, over, entry);
		ctl_check_by(c, c->now);
	} else {
		free(over); /* it expires, or was lost with its switch */
	}
	free(group->slots);
	group->slots = NULL;
}

void ctl_group_free(struct hd_controller *c, struct ctl_group *group) {
	assert(!group->sum && !group->alive);
	TAILQ_REMOVE(&c->groups, group, entry);
	c->group_count--;
	ctl_slots_end(c, group);
	free(group->members);
	free(group);
}

void ctl_group_fail(struct hd_controller *c, struct ctl_group *group, enum hd_reason reason) {
	if (group->failed)
		return;
	group->failed = true;
	group->reason = reason;
	c->groups_failed = true;
}

void ctl_group_attach(struct ctl_group *group, uint32_t slot, struct ctl_transfer *t) {
	assert(!t->group && slot < group->count && !group->members[slot]);
	group->members[slot] = t;
	group->alive++;
	t->group = group;
	t->group_slot = slot;
}

void ctl_group_part(struct ctl_transfer *t) {
	struct ctl_group *group = t->group;

	assert(t->group && (t == group->sum || t == group->members[t->group_slot]));
	t->group = NULL;
	if (t == group->sum) {
		group->sum = NULL;
	} else {
		group->members[t->group_slot] = NULL;
		group->alive--;
	}
}

void ctl_group_detach(struct hd_controller *c, struct ctl_transfer *t) {
	struct ctl_group *group = t->group;

	ctl_group_part(t);
	if (group->failed)
		return; /* ctl_groups_settle() sends more about it */
	if (!group->alive && !group->sum) {
		if (group->direction == HD_PULL)
			ctl_group_ended(c, group, HD_REASON_NONE);
		ctl_group_free(c, group);
	} else if (!group->alive)
		ctl_group_fail(c, group, HD_REASON_CANCELLED);
}

void ctl_group_aggregator_down(struct hd_controller *c, const struct ctl_node *aggregator) {
	struct ctl_group *group;

	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->aggregator == aggregator) {
			group->aggregator = NULL;
			ctl_group_fail(c, group, HD_REASON_LEASE);
		}
}

void ctl_slots_switch_down(struct hd_controller *c, const struct ctl_node *node) {
	struct ctl_slots_over *over, *next;
	struct ctl_group *group;

	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->slots && group->slots->node == node)
			group->slots->node = NULL;
	for (over = TAILQ_FIRST(&c->slots_over); over; over = next) {
		next = TAILQ_NEXT(over, entry);
		if (over->node != node)
			continue;
		TAILQ_REMOVE(&c->slots_over, over, entry);
		free(over);
	}
}

void ctl_slots_copy_lost(struct hd_controller *c, const struct ctl_transfer *copy) {
	struct ctl_group *group;

	assert(copy->direction == HD_COPY && copy->is_sum);
	TAILQ_FOREACH (group, &c->groups, entry)
		if (group->job == copy->job && group->number == copy->round)
			break;
	/* Its members wait for the replica's report. */
	if (!group || group->failed || !group->slots || group->slots->receivers < 2 || !group->sum
	    || group->sum->state == CTL_HELD)
		return;
	if (group->slots->node)
		ctl_group_refused(c, group->slots->node, group->job, HD_REASON_REFUSED);
	ctl_group_fail(c, group, HD_REASON_CLOSED);
}

void ctl_slots_fini(struct hd_controller *c) {
	struct ctl_slots_over *over;

	while ((over = TAILQ_FIRST(&c->slots_over))) {
		TAILQ_REMOVE(&c->slots_over, over, entry);
		free(over);
	}
}

void ctl_groups_fini(struct hd_controller *c) {
	struct ctl_group *next;

	for (struct ctl_group *group = TAILQ_FIRST(&c->groups); group; group = next) {
		next = TAILQ_NEXT(group, entry);
		ctl_group_free(c, group);
	}
}
