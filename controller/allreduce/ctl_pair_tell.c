/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to the ends of a pair, and to its aggregator. */
#include "ctl_base.h"
#include "ctl_pair_ends.h"
#include "ctl_transfers.h"
#include "hd_group.h"
#include "hd_roster.h"

static void send_group(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	struct hd_sink *sink
) {
	const struct ctl_node *receiver = job->workers[pair->worker[CTL_END_RECEIVER]];
	const struct hd_group_input input = {
		.token = pair->token[CTL_END_SENDER],
		.worker = pair->worker[CTL_END_SENDER],
		.round = pair->number,
		.attempt = pair->attempt[CTL_END_SENDER],
	};
	const struct hd_group_output output = {
		.token = pair->token[CTL_END_RECEIVER],
		.role = HD_ROLE_WORKER,
		.worker = pair->worker[CTL_END_RECEIVER],
		.round = pair->number,
		.attempt = pair->attempt[CTL_END_RECEIVER],
		.ipv4 = receiver->data.ipv4,
		.port = receiver->data.port,
		.cc_weight = 1,
	};
	uint8_t inputs[HD_GROUP_INPUT_BYTES], outputs[HD_GROUP_OUTPUT_BYTES];
	struct hd_message message = {.kind = HD_MSG_GROUP};
	struct hd_msg_group *m = &message.group;

	m->job = job->id;
	m->group = pair->group;
	m->epoch = c->config.epoch;
	m->dtype = pair->call.dtype;
	m->op = HD_REDUCE_OP_SUM;
	m->order = HD_GROUP_ARRIVAL;
	m->bytes = pair->call.bytes;
	m->origin_ns = c->now;
	m->inputs.data = inputs;
	m->inputs.bytes = (uint32_t)hd_group_put_inputs(&input, 1, inputs, sizeof inputs);
	m->outputs.data = outputs;
	m->outputs.bytes = (uint32_t)hd_group_put_outputs(&output, 1, outputs, sizeof outputs);
	(void)ctl_send(c, pair->aggregator, &message, sink);
}

static void send_reduce(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	enum ctl_end end,
	struct hd_sink *sink
) {
	const struct ctl_node *other = job->workers[pair->worker[ctl_other_end(end)]];
	struct hd_group_shard shard = {
		.bytes = pair->call.bytes,
		.ipv4 = pair->aggregator->data.ipv4,
		.port = pair->aggregator->data.port,
		.cc_weight = 1,
	};
	uint8_t shards[HD_GROUP_SHARD_BYTES];
	struct hd_roster members = {0};
	struct hd_message message = {.kind = HD_MSG_REDUCE};
	struct hd_msg_reduce *m = &message.reduce;

	if (end == CTL_END_SENDER)
		shard.out_token = pair->token[end];
	else
		shard.in_token = pair->token[end];
	for (int i = 0; i < CTL_ENDS; i++)
		hd_roster_set(&members, pair->worker[i], true);
	m->job = job->id;
	m->worker = pair->worker[end];
	m->channel = pair->channel;
	m->round = pair->number;
	m->attempt = pair->attempt[end];
	m->peer_boot = hd_session_peer_boot(other->session);
	m->epoch = c->config.epoch;
	m->dtype = pair->call.dtype;
	m->op = HD_REDUCE_OP_SUM;
	m->bytes = pair->call.bytes;
	m->workers = CTL_ENDS;
	m->sum_id = pair->sum_id;
	m->scale = 1;
	m->shards.data = shards;
	m->shards.bytes = (uint32_t)hd_group_put_shards(&shard, 1, shards, sizeof shards);
	m->members.data = members.ranks;
	m->members.bytes = (uint32_t)hd_roster_bytes(&members);
	(void)ctl_send(c, job->workers[pair->worker[end]], &message, sink);
}

/* The aggregator first: chunks that overtake their GROUP are dropped there and retransmitted. */
void ctl_pair_send(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_pair *pair,
	struct hd_sink *sink
) {
	pair->sum_id = (uint64_t)c->config.epoch << 48 | ++c->sum_ids;
	pair->group = hd_entropy_u64(&c->entropy);
	for (int end = 0; end < CTL_ENDS; end++)
		pair->token[end] = ctl_token(c, job, true);
	send_group(c, job, pair, sink);
	send_reduce(c, job, pair, CTL_END_RECEIVER, sink);
	send_reduce(c, job, pair, CTL_END_SENDER, sink);
}

static void send_void(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *node,
	const struct hd_msg_void_ *void_,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_VOID, .void_ = *void_};

	message.void_.job = job->id;
	(void)ctl_send(c, node, &message, sink);
}

void ctl_pair_void_group(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	const struct hd_msg_void_ message = {.token = pair->group, .reason = (uint8_t)reason};

	if (pair->aggregator && pair->aggregator->role == HD_ROLE_AGGREGATOR)
		send_void(c, job, pair->aggregator, &message, sink);
}

void ctl_pair_send_void(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	enum ctl_end end,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	const struct hd_msg_void_ message = {.token = pair->token[end], .reason = (uint8_t)reason};

	if (job->workers[pair->worker[end]])
		send_void(c, job, job->workers[pair->worker[end]], &message, sink);
}

void ctl_pair_send_reduced(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	struct hd_sink *sink
) {
	const uint16_t sender = pair->worker[CTL_END_SENDER];
	struct hd_message message = {.kind = HD_MSG_REDUCED};

	message.reduced = (struct hd_msg_reduced
	){job->id, sender, pair->number, pair->sum_id, pair->channel};
	if (job->workers[sender])
		(void)ctl_send(c, job->workers[sender], &message, sink);
}

void ctl_pair_send_drop(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	enum ctl_end end,
	const struct ctl_denial *denial,
	struct hd_sink *sink
) {
	const struct hd_msg_request request = {
		.job = job->id,
		.worker = pair->worker[end],
		.round = pair->number,
		.direction = HD_REDUCE,
		.attempt = pair->attempt[end],
		.bytes = pair->call.bytes,
		.channel = pair->channel,
	};
	struct ctl_denial whole = *denial;

	whole.sum_id = pair->peer_boot[end];
	c->counters.requests_refused++;
	if (job->workers[pair->worker[end]])
		ctl_refuse_request(c, job->workers[pair->worker[end]], &request, &whole, sink);
}

void ctl_pair_send_question(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	enum ctl_end end,
	struct hd_sink *sink
) {
	const uint16_t worker = pair->worker[end];
	struct hd_message message = {.kind = HD_MSG_CHANNEL};

	message.channel.job = job->id;
	message.channel.worker = worker;
	message.channel.channel = pair->channel;
	if (job->workers[worker])
		(void)ctl_send(c, job->workers[worker], &message, sink);
}
