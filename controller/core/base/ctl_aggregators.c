/* SPDX-License-Identifier: BSD-3-Clause */
/* Aggregators and switches: which of them may get a group or a shard of an all-reduce, and how much of their memory is
 * free. */
#include "ctl_base.h"
#include "hd_reduce.h"

bool ctl_may_add(const struct ctl_node *node) {
	return node->role == HD_ROLE_AGGREGATOR && !node->doomed && !node->draining;
}

bool ctl_stands(const struct ctl_node *node) {
	return ctl_may_add(node) && node->host_job == 0;
}

bool ctl_is_hosted_for(const struct ctl_node *node, const struct ctl_job *job) {
	return ctl_may_add(node) && node->host_job == job->id && job->workers[node->worker];
}

uint64_t ctl_reduce_held_bytes(const struct hd_controller *c, const struct ctl_node *aggregator) {
	const struct ctl_reduce *r;
	uint64_t bytes = 0;

	for (uint32_t k = 0; k < c->job_count; k++)
		TAILQ_FOREACH (r, &c->jobs[k]->reduces, entry)
			for (uint32_t i = 0; r->begun && i < r->shard_count; i++)
				if (r->shards[i].aggregator == aggregator)
					bytes += r->shards[i].memory;
	return bytes;
}

bool ctl_any_stands(const struct hd_controller *c) {
	const struct ctl_node *node;

	TAILQ_FOREACH (node, &c->nodes, entry)
		if (ctl_stands(node))
			return true;
	return false;
}

bool ctl_reduce_any_aggregator(const struct hd_controller *c, const struct ctl_job *job) {
	const struct ctl_node *node;

	TAILQ_FOREACH (node, &c->nodes, entry)
		if (ctl_stands(node) || ctl_is_hosted_for(node, job))
			return true;
	return false;
}

bool ctl_may_group(const struct hd_controller *c, const struct ctl_node *node) {
	if (node->role != HD_ROLE_SWITCH)
		return ctl_stands(node);
	return c->switching && !node->doomed && !node->draining && c->now >= node->no_groups_until
		&& (node->slot_dtypes >> HD_DTYPE_FIXED32 & 1) != 0;
}

bool ctl_groups_possible(const struct hd_controller *c) {
	return c->aggregation
		&& (c->aggregator_count > c->hosted_count || (c->switching && c->switch_count > 0));
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

	if (aggregator->role == HD_ROLE_SWITCH) /* a switch has slots only */
		return UINT64_MAX;
	held = held_by_groups(c, aggregator) + ctl_reduce_held_bytes(c, aggregator)
		+ aggregator->pair_bytes;

	return aggregator->memory_bytes > held ? aggregator->memory_bytes - held : 0;
}

/* It would refuse the job's next group, too. */
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

void ctl_switch_rests(const struct hd_controller *c, struct ctl_node *node) {
	node->no_groups_until = hd_ns_add(c->now, CTL_LEASE_REST_NS);
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

uint64_t ctl_group_memory_of(
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
	return ctl_group_memory_of(c, t, t->bytes, count);
}
