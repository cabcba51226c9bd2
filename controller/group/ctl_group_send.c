/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a group: GROUP to its aggregator, MEMBERS to the server, VOID at its end. */
#include "ctl_base.h"
#include "ctl_grouping.h"
#include "hd_group.h"

#include <errno.h>
#include <stdlib.h>

static double rate_bps(const struct ctl_transfer *t) {
	hd_ns span = t->finish - t->start;

	return span > 0 ? (double)t->bytes * 8e9 / (double)span : 0;
}

static struct hd_group_output
output_of(const struct ctl_transfer *t, const struct ctl_node *receiver, uint8_t role) {
	return (struct hd_group_output){
		.token = t->token,
		.after = t->after,
		.start_ns = t->start - t->granted,
		.rate_bps = (uint64_t)rate_bps(t),
		.role = role,
		.worker = t->worker,
		.round = t->round,
		.attempt = t->attempt,
		.ipv4 = receiver->data.ipv4,
		.port = receiver->data.port,
		.cc_weight = t->cc_weight,
	};
}

static struct hd_group_input input_of(const struct ctl_transfer *t) {
	return (struct hd_group_input){
		.token = t->token,
		.after = t->after,
		.worker = t->worker,
		.round = t->round,
		.attempt = t->attempt,
		.bytes = t->bytes,
	};
}

/* The lists of GROUP, in `room` bytes. Returns 0, or -ENOTCONN when a member is lost. */
static int fill_lists(
	const struct ctl_group *group,
	struct hd_msg_group *m,
	uint8_t *inputs,
	uint8_t *outputs
) {
	const bool push = group->direction == HD_PUSH;

	m->inputs.data = inputs;
	m->outputs.data = outputs;
	for (uint32_t i = 0; i <= group->count; i++) {
		const bool is_sum = i == group->count;
		const struct ctl_transfer *t = is_sum ? group->sum : group->members[i];
		const struct ctl_node *receiver
			= push ? group->job->server : ctl_worker(group->job, t->worker);
		const struct hd_group_input input = input_of(t);

		if (is_sum != push) {
			hd_group_put_inputs(
				&input, 1, inputs + m->inputs.bytes, HD_GROUP_INPUT_BYTES
			);
			m->inputs.bytes += HD_GROUP_INPUT_BYTES;
			continue;
		}
		if (!receiver)
			return -ENOTCONN;
		const struct hd_group_output output
			= output_of(t, receiver, push ? HD_ROLE_SERVER : HD_ROLE_WORKER);
		hd_group_put_outputs(&output, 1, outputs + m->outputs.bytes, HD_GROUP_OUTPUT_BYTES);
		m->outputs.bytes += HD_GROUP_OUTPUT_BYTES;
	}
	if (group->second) {
		const struct hd_group_output output
			= output_of(group->second, group->job->replica.node, HD_ROLE_REPLICA);

		hd_group_put_outputs(&output, 1, outputs + m->outputs.bytes, HD_GROUP_OUTPUT_BYTES);
		m->outputs.bytes += HD_GROUP_OUTPUT_BYTES;
	}
	return 0;
}

static int
send_group(struct hd_controller *c, const struct ctl_group *group, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_GROUP};
	struct hd_msg_group *m = &message.group;
	uint8_t *lists = malloc(
		(size_t)(group->count + 2) * (HD_GROUP_INPUT_BYTES + HD_GROUP_OUTPUT_BYTES)
	);
	int status;

	if (!lists)
		return -ENOMEM;
	m->job = group->job->id;
	m->group = group->token;
	m->epoch = c->config.epoch;
	m->dtype = group->dtype;
	m->order = c->ranked_sums ? HD_GROUP_RANKED : HD_GROUP_ARRIVAL;
	m->exponent = group->exponent;
	m->bytes = group->bytes;
	m->origin_ns = group->made;
	if (group->direction == HD_PULL) {
		m->peer_ipv4 = group->job->server->data.ipv4;
		m->peer_port = group->job->server->data.port;
	}
	status = fill_lists(
		group, m, lists, lists + (size_t)(group->count + 2) * HD_GROUP_INPUT_BYTES
	);
	if (!status)
		status = ctl_send(c, group->aggregator, &message, sink);
	free(lists);
	return status;
}

/* MEMBERS to the node that receives the sum as transfer t. */
static int send_members(
	struct hd_controller *c,
	const struct ctl_group *group,
	const struct ctl_transfer *t,
	struct ctl_node *to,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_MEMBERS};
	struct hd_msg_members *m = &message.members;
	uint8_t *list = malloc((size_t)group->count * HD_GROUP_MEMBER_BYTES);
	int status;

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < group->count; i++) {
		const struct ctl_transfer *one = group->members[i];
		const struct hd_group_member member = {
			.token = one->token,
			.base = one->base,
			.worker = one->worker,
			.round = one->round,
			.attempt = one->attempt,
			.weight = one->weight,
			.norm = one->norm,
		};

		hd_group_put_members(
			&member, 1, list + (size_t)i * HD_GROUP_MEMBER_BYTES, HD_GROUP_MEMBER_BYTES
		);
	}
	m->job = group->job->id;
	m->token = t->token;
	m->epoch = c->config.epoch;
	m->position = group->sum->position;
	m->bytes = group->bytes;
	m->weight = group->sum->weight;
	m->dtype = group->dtype;
	m->after = t->after;
	m->peer_ipv4 = group->aggregator->data.ipv4;
	m->peer_port = group->aggregator->data.port;
	if (group->slots) {
		m->count = group->slots->count;
		m->receiver = t != group->sum;
	}
	m->members.data = list;
	m->members.bytes = group->count * HD_GROUP_MEMBER_BYTES;
	status = ctl_send(c, to, &message, sink);
	free(list);
	return status;
}

/* A GRANT to the server, which sends the model to the aggregator. */
static int send_copy(struct hd_controller *c, const struct ctl_group *group, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_GRANT};
	struct hd_msg_grant *m = &message.grant;
	const struct ctl_transfer *t = group->sum;

	m->job = group->job->id;
	m->worker = t->worker;
	m->round = t->round;
	m->direction = HD_PULL;
	m->attempt = 1;
	m->epoch = c->config.epoch;
	m->token = t->token;
	m->weight = 1;
	m->cc_weight = t->cc_weight;
	m->after = t->after;
	m->origin_ns = t->granted;
	m->segments = t->segments;
	m->peer_ipv4 = group->aggregator->data.ipv4;
	m->peer_port = group->aggregator->data.port;
	m->bytes = t->bytes;
	m->dtype = t->dtype;
	return ctl_send(c, group->job->server, &message, sink);
}

int ctl_group_send(struct hd_controller *c, struct ctl_group *group, struct hd_sink *sink) {
	int status;

	if (!group->aggregator || !group->job->server || !group->sum)
		return -ENOTCONN;
	if (group->direction == HD_PUSH) {
		status = send_members(c, group, group->sum, group->job->server, sink);
		/* Without this message the replica refuses the sum, and gets a state. */
		if (!status && group->second)
			(void)send_members(c, group, group->second, group->job->replica.node, sink);
		if (status)
			return status;
		return group->slots ? ctl_slots_send(c, group, sink) : send_group(c, group, sink);
	}
	status = send_group(c, group, sink);
	return status ? status : send_copy(c, group, sink);
}

void ctl_group_send_void(
	struct hd_controller *c,
	const struct ctl_group *group,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	if (!group->aggregator || group->aggregator->role != HD_ROLE_AGGREGATOR)
		return;
	message.void_.job = group->job->id;
	message.void_.position = 0;
	message.void_.token = group->token;
	message.void_.reason = (uint8_t)reason;
	ctl_send(c, group->aggregator, &message, sink);
}
