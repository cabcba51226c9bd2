/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages that begin an all-reduce: GROUP to its aggregators, REDUCE to its workers. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_inline.h"
#include "ctl_reduces.h"
#include "ctl_transfers.h"
#include "hd_group.h"
#include "hd_roster.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* GROUP names each worker twice, in a message of at most HD_MESSAGE_BYTES_MAX. */
#define WORKERS_MAX ((HD_MESSAGE_BYTES_MAX - 256) / (HD_GROUP_INPUT_BYTES + HD_GROUP_OUTPUT_BYTES))

/* The two tokens of each worker for each shard; 0: it does not give to it, or does not receive it. */
static struct hd_group_shard *
draw_tokens(struct hd_controller *c, const struct ctl_job *job, const struct ctl_reduce *r) {
	uint32_t workers = r->count[CTL_PART_ASKED];
	const size_t count = (size_t)workers * r->shard_count;
	struct hd_group_shard *tokens = calloc(count > 0 ? count : 1, sizeof *tokens);
	uint16_t worker = 0;

	for (size_t i = 0; tokens && i < count; i++) {
		const struct ctl_shard *shard = &r->shards[i % r->shard_count];

		while (i % r->shard_count == 0 && r->part[worker] != CTL_PART_ASKED)
			worker++;
		tokens[i] = (struct hd_group_shard){
			.bytes = shard->bytes,
			.ipv4 = shard->aggregator->data.ipv4,
			.port = shard->aggregator->data.port,
			.cc_weight = 1,
			.first = shard->first,
		};
		if (ctl_shard_gives(r, shard, worker))
			tokens[i].out_token = ctl_token(c, job, true);
		if (ctl_shard_takes(r, shard, worker))
			tokens[i].in_token = ctl_token(c, job, true);
		worker = (uint16_t)(worker + ((i + 1) % r->shard_count == 0));
	}
	return tokens;
}

/* The arguments of these messages. */
struct sending {
	struct hd_controller *c;
	const struct ctl_job *job;
	struct ctl_reduce *r;
	const struct ctl_reduce_buffers *buffers;
	const struct hd_roster *members;
	struct hd_sink *sink;
	uint16_t started[WORKERS_MAX]; /* ranks of those that it begins for */
	uint32_t count;
};

static void send_group(const struct sending *t, uint32_t which) {
	const struct ctl_reduce *r = t->r;
	const struct hd_group_shard *token = t->buffers->tokens + which;
	struct hd_message message = {.kind = HD_MSG_GROUP};
	struct hd_msg_group *m = &message.group;

	m->inputs.data = t->buffers->blob[0];
	m->outputs.data = t->buffers->blob[1];
	for (uint32_t k = 0; k < t->count; k++) {
		const uint16_t i = t->started[k];
		const struct ctl_node *worker = t->job->workers[i];
		struct hd_group_input input = {
			.worker = i,
			.round = r->round,
			.attempt = r->attempt[i],
		};
		struct hd_group_output output = {
			.role = HD_ROLE_WORKER,
			.worker = i,
			.round = r->round,
			.attempt = r->attempt[i],
			.cc_weight = 1,
		};

		input.token = token->out_token;
		output.token = token->in_token;
		output.ipv4 = worker->data.ipv4;
		output.port = worker->data.port;
		if (input.token != 0)
			m->inputs.bytes += (uint32_t)hd_group_put_inputs(
				&input,
				1,
				t->buffers->blob[0] + m->inputs.bytes,
				HD_GROUP_INPUT_BYTES
			);
		if (output.token != 0)
			m->outputs.bytes += (uint32_t)hd_group_put_outputs(
				&output,
				1,
				t->buffers->blob[1] + m->outputs.bytes,
				HD_GROUP_OUTPUT_BYTES
			);
		token += r->shard_count;
	}
	m->job = t->job->id;
	m->group = r->shards[which].group;
	m->epoch = t->c->config.epoch;
	m->dtype = r->dtype;
	m->op = r->op;
	m->order = r->order;
	m->bytes = r->shards[which].bytes;
	m->origin_ns = t->c->now;
	(void)ctl_send(t->c, r->shards[which].aggregator, &message, t->sink);
}

/* The shards to which the worker gives, or that it receives. Sets one of their tokens, or that of the shared memory, by
 * which it knows the round. */
static uint32_t put_shards(
	const struct ctl_reduce *r,
	const struct hd_group_shard *shards,
	uint8_t *data,
	uint64_t *token
) {
	uint32_t bytes = 0;

	assert(shards || r->shard_count == 0);
	*token = r->shared;
	for (uint32_t i = 0; i < r->shard_count; i++) {
		if (shards[i].out_token == 0 && shards[i].in_token == 0)
			continue;
		*token = shards[i].out_token != 0 ? shards[i].out_token : shards[i].in_token;
		bytes += (uint32_t
		)hd_group_put_shards(&shards[i], 1, data + bytes, HD_MESSAGE_BYTES_MAX - bytes);
	}
	return bytes;
}

static void
send_reduce(const struct sending *t, const struct hd_group_shard *shards, uint16_t worker) {
	struct ctl_reduce *r = t->r;
	struct hd_message message = {.kind = HD_MSG_REDUCE};
	struct hd_msg_reduce *m = &message.reduce;

	m->job = t->job->id;
	m->worker = worker;
	m->round = r->round;
	m->attempt = r->attempt[worker];
	m->epoch = t->c->config.epoch;
	m->dtype = r->dtype;
	m->op = r->op;
	m->bytes = r->bytes;
	m->workers = t->members->count;
	m->sum_id = r->sum_id;
	m->scale = r->scale;
	m->waiting = r->waiting;
	m->shards.data = t->buffers->blob[0];
	m->shards.bytes = put_shards(r, shards, t->buffers->blob[0], &r->token[worker]);
	if (r->shared != 0) {
		m->shared = r->shared;
		m->turn = r->turn;
	}
	m->members.data = t->members->ranks;
	m->members.bytes = (uint32_t)hd_roster_bytes(t->members);
	m->inline_bytes = (uint32_t)t->c->inline_bytes;
	m->inlined = r->inlined;
	if (r->inlined)
		m->values = ctl_inline_part(r, worker, t->buffers->blob[1]);
	(void)ctl_send(t->c, t->job->workers[worker], &message, t->sink);
}

/* Aggregators first: chunks that overtake their GROUP are dropped there and retransmitted. */
static void send_all(const struct sending *t) {
	const struct hd_group_shard *tokens = t->buffers->tokens;

	for (uint32_t i = 0; i < t->r->shard_count; i++)
		send_group(t, i);
	for (uint32_t k = 0; k < t->count; k++) {
		send_reduce(t, tokens, t->started[k]);
		tokens += t->r->shard_count;
	}
}

enum hd_reason ctl_reduce_prepare(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	struct ctl_reduce_buffers *buffers
) {
	if (r->count[CTL_PART_ASKED] > WORKERS_MAX)
		return HD_REASON_REFUSED;
	buffers->tokens = draw_tokens(c, job, r);
	buffers->blob[0] = malloc((size_t)2 * HD_MESSAGE_BYTES_MAX);
	if (!buffers->tokens || !buffers->blob[0]) {
		free(buffers->tokens);
		free(buffers->blob[0]);
		return HD_REASON_NO_MEMORY;
	}
	buffers->blob[1] = buffers->blob[0] + HD_MESSAGE_BYTES_MAX;
	return HD_REASON_NONE;
}

void ctl_reduce_send(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	struct ctl_reduce_buffers *buffers,
	struct hd_sink *sink
) {
	struct hd_roster members = {0};
	struct sending sending = {c, job, r, buffers, &members, sink, {0}, 0};

	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] == CTL_PART_STARTED || r->part[i] == CTL_PART_DONE)
			hd_roster_set(&members, i, true);
		if (r->part[i] != CTL_PART_STARTED)
			continue;
		assert(sending.count < WORKERS_MAX);
		sending.started[sending.count++] = i;
	}
	send_all(&sending);
	free(buffers->tokens);
	free(buffers->blob[0]);
}

int ctl_reduce_send_again(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	uint16_t worker,
	struct hd_sink *sink
) {
	struct ctl_reduce_buffers buffers = {0};
	const struct sending sending = {
		.c = c,
		.job = job,
		.r = r,
		.buffers = &buffers,
		.members = ctl_inline_members(r),
		.sink = sink,
	};

	buffers.blob[0] = malloc((size_t)2 * HD_MESSAGE_BYTES_MAX);
	if (!buffers.blob[0])
		return -ENOMEM;
	buffers.blob[1] = buffers.blob[0] + HD_MESSAGE_BYTES_MAX;
	send_reduce(&sending, NULL, worker);
	free(buffers.blob[0]);
	return 0;
}
