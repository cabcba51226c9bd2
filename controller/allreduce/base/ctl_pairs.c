/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of pairs, what their ends call, and which aggregator the values cross. */
#include "ctl_base.h"
#include "ctl_pairs.h"
#include "hd_group.h"
#include "hd_reduce.h"
#include "hd_text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t bucket_of(uint32_t channel) {
	return (channel * UINT32_C(2654435761)) >> 24;
}

static_assert(CTL_PAIR_BUCKETS == 256, "a bucket is 8 bits of a hash");

struct ctl_pair *ctl_pair_find(const struct ctl_job *job, uint32_t channel, uint32_t number) {
	struct ctl_pair *pair;

	LIST_FOREACH (pair, &job->pair_buckets[bucket_of(channel)], same)
		if (pair->channel == channel && pair->number == number)
			return pair;
	return NULL;
}

static uint64_t memory_of(const struct ctl_pair *pair) {
	const struct hd_reduce_config config = {
		.dtype = pair->call.dtype,
		.order = HD_GROUP_ARRIVAL,
		.bytes = pair->call.bytes,
		.input_count = 1,
	};

	return hd_reduce_memory_bytes(&config);
}

struct ctl_pair *
ctl_pair_add(struct ctl_job *job, const struct hd_msg_request *m, enum ctl_end end) {
	struct ctl_pair *pair;

	if (job->pair_count >= CTL_PAIRS_MAX)
		return NULL;
	pair = calloc(1, sizeof *pair);
	if (!pair)
		return NULL;
	pair->channel = m->channel;
	pair->number = m->round;
	pair->worker[CTL_END_SENDER] = hd_channel_from(m->channel);
	pair->worker[CTL_END_RECEIVER] = hd_channel_to(m->channel);
	pair->caller = (uint8_t)end;
	pair->call = (struct ctl_call){
		.collective = m->collective,
		.dtype = m->dtype,
		.bytes = m->bytes,
	};
	hd_text_copy(pair->call.tag, sizeof pair->call.tag, m->tag);
	pair->memory = memory_of(pair);
	pair->ask_at = HD_NEVER;
	TAILQ_INSERT_TAIL(&job->pairs, pair, entry);
	LIST_INSERT_HEAD(&job->pair_buckets[bucket_of(m->channel)], pair, same);
	job->pair_count++;
	return pair;
}

/* ctl_pair_begin.c has the picture. An end asks again with a new attempt, in whatever state it waits. */
static bool may_become(enum ctl_part from, enum ctl_part to) {
	switch (from) {
	case CTL_PART_NONE:
	case CTL_PART_VOID:
		return to == CTL_PART_ASKED;
	case CTL_PART_ASKED:
		return to == CTL_PART_ASKED || to == CTL_PART_STARTED || to == CTL_PART_NONE;
	case CTL_PART_STARTED:
		return to == CTL_PART_VOID || to == CTL_PART_GONE;
	case CTL_PART_GONE:
		return to == CTL_PART_GIVEN || to == CTL_PART_NONE;
	case CTL_PART_GIVEN:
		return to == CTL_PART_GIVEN || to == CTL_PART_GONE || to == CTL_PART_ASKED;
	default:
		return false;
	}
}

static bool is_in_progress(enum ctl_part part) {
	return part == CTL_PART_STARTED || part == CTL_PART_GONE || part == CTL_PART_GIVEN;
}

void ctl_pair_enter(struct ctl_pair *pair, enum ctl_end end, enum ctl_part part) {
	assert(may_become((enum ctl_part)pair->part[end], part));
	assert(is_in_progress(part) == pair->begun);
	pair->part[end] = (uint8_t)part;
}

void ctl_pair_occupy(struct ctl_job *job, struct ctl_pair *pair, struct ctl_node *aggregator) {
	assert(!pair->begun && !pair->aggregator);
	pair->begun = true;
	pair->aggregator = aggregator;
	aggregator->pairs++;
	aggregator->pair_bytes += pair->memory;
	for (int end = 0; end < CTL_ENDS; end++)
		job->pairs_of[pair->worker[end]]++;
}

void ctl_pair_vacate(struct hd_controller *c, struct ctl_job *job, struct ctl_pair *pair) {
	if (pair->aggregator) {
		assert(pair->aggregator->pairs > 0);
		assert(pair->aggregator->pair_bytes >= pair->memory);
		pair->aggregator->pairs--;
		pair->aggregator->pair_bytes -= pair->memory;
	}
	pair->aggregator = NULL;
	if (!pair->begun)
		return;
	pair->begun = false;
	for (int end = 0; end < CTL_ENDS; end++) {
		assert(job->pairs_of[pair->worker[end]] > 0);
		job->pairs_of[pair->worker[end]]--;
	}
	if (job->pairs_held)
		ctl_check_by(c, c->now + 1);
}

void ctl_pair_forget_aggregator(struct ctl_pair *pair) {
	pair->aggregator = NULL;
}

void ctl_pair_forget(struct hd_controller *c, struct ctl_job *job, struct ctl_pair *pair) {
	ctl_pair_vacate(c, job, pair);
	TAILQ_REMOVE(&job->pairs, pair, entry);
	LIST_REMOVE(pair, same);
	job->pair_count--;
	free(pair);
}

void ctl_pair_fini(struct hd_controller *c, struct ctl_job *job) {
	struct ctl_pair *pair, *next;

	for (pair = TAILQ_FIRST(&job->pairs); pair; pair = next) {
		next = TAILQ_NEXT(pair, entry);
		ctl_pair_forget(c, job, pair);
	}
	assert(job->pair_count == 0);
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		assert(job->pairs_of[i] == 0);
}

/* --- calls ---------------------------------------------------------------------------------- */

enum ctl_end ctl_pair_end(uint32_t channel, uint16_t worker) {
	if (hd_channel_from(channel) == worker)
		return CTL_END_SENDER;
	return hd_channel_to(channel) == worker ? CTL_END_RECEIVER : CTL_ENDS;
}

bool ctl_pair_is_valid(const struct hd_msg_request *m) {
	const uint16_t from = hd_channel_from(m->channel), to = hd_channel_to(m->channel);

	return m->collective == HD_COLLECTIVE_SEND && from < HD_WORKERS_MAX && to < HD_WORKERS_MAX
		&& from != to && (m->worker == from || m->worker == to) && m->root == from
		&& m->round > 0 && m->attempt > 0 && m->exact == 0 && m->order == HD_GROUP_ARRIVAL
		&& m->op == HD_REDUCE_OP_SUM && hd_dtype_is_element(m->dtype) && m->bytes > 0
		&& m->bytes <= HD_MODEL_BYTES_MAX && m->bytes % hd_dtype_bytes(m->dtype) == 0;
}

#define CALL_WORDS 180

/* As `rank 1 sends 4096 bytes of fp32, tag "layer 3"`. */
static void describe(
	char words[CALL_WORDS],
	const struct ctl_pair *pair,
	enum ctl_end end,
	const struct ctl_call *call
) {
	static const char *const types[HD_DTYPE_COUNT] = {
		[HD_DTYPE_FP32] = "fp32",
		[HD_DTYPE_FP16] = "fp16",
		[HD_DTYPE_BF16] = "bf16",
		[HD_DTYPE_FP64] = "fp64",
		[HD_DTYPE_INT8] = "int8",
		[HD_DTYPE_UINT8] = "uint8",
		[HD_DTYPE_INT32] = "int32",
		[HD_DTYPE_INT64] = "int64",
	};

	(void)snprintf(
		words,
		CALL_WORDS,
		"rank %u %s %llu bytes of %s, tag \"%s\"",
		pair->worker[end],
		end == CTL_END_SENDER ? "sends" : "receives",
		(unsigned long long)call->bytes,
		types[call->dtype],
		call->tag
	);
}

bool ctl_pair_differs(
	const struct ctl_pair *pair,
	const struct hd_msg_request *m,
	char words[HD_TEXT_BYTES_MAX + 1]
) {
	const struct ctl_call call = {.dtype = m->dtype, .bytes = m->bytes};
	struct ctl_call other = call;
	char first[CALL_WORDS], second[CALL_WORDS];

	if (m->dtype == pair->call.dtype && m->bytes == pair->call.bytes
	    && strcmp(m->tag, pair->call.tag) == 0)
		return false;
	hd_text_copy(other.tag, sizeof other.tag, m->tag);
	describe(first, pair, pair->caller, &pair->call);
	describe(second, pair, ctl_pair_end(m->channel, m->worker), &other);
	(void
	)snprintf(words, HD_TEXT_BYTES_MAX + 1, "pair %u: %s; %s", pair->number, first, second);
	return true;
}

/* --- aggregators ---------------------------------------------------------------------------- */

/* The greater, the better: its values then cross the fewest links. */
static int
rate(const struct ctl_node *node, const struct ctl_job *job, const struct ctl_pair *pair) {
	for (int end = CTL_END_RECEIVER; end >= CTL_END_SENDER; end--) {
		const struct ctl_node *worker = job->workers[pair->worker[end]];
		const bool here = worker && worker->host_index == node->host_index;

		if (here && node->host_job == job->id && node->worker == pair->worker[end])
			return 2 * end + 2;
		if (here)
			return 2 * end + 1;
	}
	return 0;
}

enum hd_reason ctl_pair_choose(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	struct ctl_node **aggregator,
	bool *any
) {
	const uint64_t memory = pair->memory;
	const bool stands = ctl_any_stands(c);
	int best = -1, rated;
	bool fits = false;
	struct ctl_node *node;

	*any = false;
	TAILQ_FOREACH (node, &c->nodes, entry) {
		if (stands ? !ctl_stands(node) : !ctl_is_hosted_for(node, job))
			continue;
		*any = true;
		fits = fits || memory <= node->memory_bytes;
		if (memory > ctl_memory_left(c, node) || node->pairs >= CTL_PAIRS_AT_AGGREGATOR
		    || ctl_group_refuses(c, node, job))
			continue;
		rated = rate(node, job, pair);
		if (rated < best || (rated == best && node->pairs >= (*aggregator)->pairs))
			continue;
		best = rated;
		*aggregator = node;
	}
	if (best >= 0)
		return HD_REASON_NONE;
	return fits ? HD_REASON_HOLD : HD_REASON_NO_SERVER;
}
