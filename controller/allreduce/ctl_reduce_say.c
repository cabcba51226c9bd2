/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of an all-reduce that begins: GROUP to its aggregators, REDUCE to its workers. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_transfers.h"
#include "hd_group.h"

#include <stdlib.h>

/* GROUP names each worker twice, in a message of at most HD_MESSAGE_BYTES_MAX. */
#define WORKERS_MAX ((HD_MESSAGE_BYTES_MAX - 256) / (HD_GROUP_INPUT_BYTES + HD_GROUP_OUTPUT_BYTES))

/* The two tokens of each worker for each shard. */
static struct hd_group_shard *
draw_tokens(struct hd_controller *c, const struct ctl_job *job, const struct ctl_reduce *r) {
	uint32_t workers = r->count[CTL_PART_ASKED];
	struct hd_group_shard *tokens = calloc((size_t)workers * r->shard_count, sizeof *tokens);

	for (size_t i = 0; tokens && i < (size_t)workers * r->shard_count; i++) {
		const struct ctl_shard *shard = &r->shards[i % r->shard_count];

		tokens[i] = (struct hd_group_shard){
			.out_token = ctl_token(c, job, true),
			.in_token = ctl_token(c, job, true),
			.bytes = shard->bytes,
			.ipv4 = shard->aggregator->data.ipv4,
			.port = shard->aggregator->data.port,
			.cc_weight = 1,
		};
	}
	return tokens;
}

/* What a round is told with. */
struct telling {
	struct hd_controller *c;
	const struct ctl_job *job;
	struct ctl_reduce *r;
	const struct ctl_reduce_words *words;
	struct hd_sink *sink;
};

static void say_group(const struct telling *t, uint32_t which) {
	const struct ctl_reduce *r = t->r;
	const struct hd_group_shard *token = t->words->tokens + which;
	struct hd_message message = {.kind = HD_MSG_GROUP};
	struct hd_msg_group *m = &message.group;

	m->inputs.data = t->words->blob[0];
	m->outputs.data = t->words->blob[1];
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
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

		if (r->part[i] != CTL_PART_TOLD)
			continue;
		input.token = token->out_token;
		output.token = token->in_token;
		output.ipv4 = worker->data.ipv4;
		output.port = worker->data.port;
		m->inputs.bytes += (uint32_t)hd_group_put_inputs(
			&input, 1, t->words->blob[0] + m->inputs.bytes, HD_GROUP_INPUT_BYTES
		);
		m->outputs.bytes += (uint32_t)hd_group_put_outputs(
			&output, 1, t->words->blob[1] + m->outputs.bytes, HD_GROUP_OUTPUT_BYTES
		);
		token += r->shard_count;
	}
	m->job = t->job->id;
	m->group = r->shards[which].group;
	m->epoch = t->c->config.epoch;
	m->dtype = r->dtype;
	m->order = r->order;
	m->bytes = r->shards[which].bytes;
	m->origin_ns = t->c->now;
	(void)ctl_send(t->c, r->shards[which].aggregator, &message, t->sink);
}

static void
say_reduce(const struct telling *t, const struct hd_group_shard *shards, uint16_t worker) {
	const struct ctl_reduce *r = t->r;
	struct hd_message message = {.kind = HD_MSG_REDUCE};
	struct hd_msg_reduce *m = &message.reduce;

	m->job = t->job->id;
	m->worker = worker;
	m->round = r->round;
	m->attempt = r->attempt[worker];
	m->epoch = t->c->config.epoch;
	m->dtype = r->dtype;
	m->bytes = r->bytes;
	m->workers = (uint16_t)r->count[CTL_PART_TOLD];
	m->making = r->making;
	m->scale = r->scale;
	m->shards.data = t->words->blob[0];
	m->shards.bytes = (uint32_t
	)hd_group_put_shards(shards, r->shard_count, t->words->blob[0], HD_MESSAGE_BYTES_MAX);
	(void)ctl_send(t->c, t->job->workers[worker], &message, t->sink);
}

/* Aggregators first: chunks that overtake their GROUP are repaired as loss. */
static void say_all(const struct telling *t) {
	const struct hd_group_shard *tokens = t->words->tokens;

	for (uint32_t i = 0; i < t->r->shard_count; i++)
		say_group(t, i);
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (t->r->part[i] != CTL_PART_TOLD)
			continue;
		t->r->token[i] = tokens->out_token;
		say_reduce(t, tokens, i);
		tokens += t->r->shard_count;
	}
}

enum hd_reason ctl_reduce_prepare(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	struct ctl_reduce_words *words
) {
	if (r->count[CTL_PART_ASKED] > WORKERS_MAX)
		return HD_REASON_REFUSED;
	words->tokens = draw_tokens(c, job, r);
	words->blob[0] = malloc((size_t)2 * HD_MESSAGE_BYTES_MAX);
	if (!words->tokens || !words->blob[0]) {
		free(words->tokens);
		free(words->blob[0]);
		return HD_REASON_NO_MEMORY;
	}
	words->blob[1] = words->blob[0] + HD_MESSAGE_BYTES_MAX;
	return HD_REASON_NONE;
}

void ctl_reduce_say(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	struct ctl_reduce_words *words,
	struct hd_sink *sink
) {
	const struct telling telling = {c, job, r, words, sink};

	say_all(&telling);
	free(words->tokens);
	free(words->blob[0]);
}
