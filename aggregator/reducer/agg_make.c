/* SPDX-License-Identifier: BSD-3-Clause */
/* GROUP: admission, and creating a group. */
#include "agg_group.h"

#include <errno.h>

struct lists {
	struct hd_group_input *inputs;
	struct hd_group_output *outputs;
	struct hd_reduce_input *ranks;
	uint32_t input_count, output_count;
};

static void lists_fini(struct lists *lists) {
	free(lists->inputs);
	free(lists->outputs);
	free(lists->ranks);
}

static int lists_decode(const struct hd_msg_group *message, struct lists *lists) {
	int inputs = hd_group_count(&message->inputs, HD_GROUP_INPUT_BYTES);
	int outputs = hd_group_count(&message->outputs, HD_GROUP_OUTPUT_BYTES);

	if (inputs < 0 || outputs < 0)
		return -EBADMSG;
	lists->inputs = calloc((size_t)inputs, sizeof *lists->inputs);
	lists->ranks = calloc((size_t)inputs, sizeof *lists->ranks);
	lists->outputs = calloc((size_t)outputs, sizeof *lists->outputs);
	if (!lists->inputs || !lists->ranks || !lists->outputs)
		return -ENOMEM;
	lists->input_count = (uint32_t)inputs;
	lists->output_count = (uint32_t)outputs;
	for (uint32_t i = 0; i < lists->input_count; i++) {
		struct hd_group_input in = hd_group_get_input(&message->inputs, i);

		lists->inputs[i] = in;
		lists->ranks[i] = (struct hd_reduce_input
		){in.token, in.round, in.worker, in.attempt, in.bytes};
	}
	for (uint32_t i = 0; i < lists->output_count; i++)
		lists->outputs[i] = hd_group_get_output(&message->outputs, i);
	return 0;
}

static enum hd_reason
check(struct agg_turn *turn, const struct hd_msg_group *message, const struct lists *lists) {
	struct hd_aggregator *aggregator = turn->aggregator;

	if (message->epoch < aggregator->epoch)
		return HD_REASON_EPOCH;
	if (aggregator->retiring)
		return HD_REASON_CLOSED;
	if (message->group == 0
	    || (aggregator->config.job != 0 && message->job != aggregator->config.job))
		return HD_REASON_REFUSED;
	for (uint32_t i = 0; i < lists->input_count; i++)
		if (lists->inputs[i].token == 0
		    || agg_handle_find(aggregator, lists->inputs[i].token))
			return HD_REASON_REFUSED;
	for (uint32_t i = 0; i < lists->output_count; i++)
		if (lists->outputs[i].token == 0 || lists->outputs[i].port == 0)
			return HD_REASON_REFUSED;
	if (aggregator->transfer_count + lists->input_count + lists->output_count
	    > HD_TRANSFERS_MAX)
		return HD_REASON_NO_MEMORY;
	return HD_REASON_NONE;
}

/* Early chunks get memory only if there is some: without it, a member has room for one chunk. */
static bool admit(struct agg_turn *turn, struct agg_group *group, struct hd_reduce_config *config) {
	const struct hd_aggregator *aggregator = turn->aggregator;
	uint64_t early = config->early_bytes, most;

	config->early_bytes = 0;
	group->charged = hd_reduce_memory_bytes(config);
	while (!agg_memory_admits(aggregator, group->job, group->charged)) {
		if (group->charged <= agg_memory_sums(aggregator) && agg_outputs_yield(turn))
			continue;
		group->charged = 0;
		return false;
	}
	config->early_bytes = early;
	most = hd_reduce_memory_bytes(config) - group->charged;
	if (most <= agg_memory_early(aggregator) - aggregator->early)
		group->early = most;
	else
		config->early_bytes = 0;
	return true;
}

/* Allocates its lists, sum and combiner. */
static enum hd_reason
allocate(struct agg_turn *turn, struct agg_group *group, const struct lists *lists) {
	struct hd_aggregator *aggregator = turn->aggregator;
	struct hd_reduce_config config = {
		.job = group->job->id,
		.dtype = group->dtype,
		.op = group->op,
		.order = group->order,
		.exponent = group->exponent,
		.bytes = group->bytes,
		.input_count = lists->input_count,
		.inputs = lists->ranks,
		.early_bytes = aggregator->config.early_bytes,
	};
	int rc;

	if (group->bytes == 0 || group->bytes > HD_MODEL_BYTES_MAX)
		return HD_REASON_REFUSED;
	if (!admit(turn, group, &config))
		return HD_REASON_NO_MEMORY;
	agg_memory_take(aggregator, group);
	group->inputs = calloc(lists->input_count, sizeof *group->inputs);
	group->outputs = calloc(lists->output_count, sizeof *group->outputs);
	group->buffer = agg_buffer_get(
		aggregator, hd_reduce_buffer_bytes(group->dtype, group->bytes, lists->input_count)
	);
	if (!group->inputs || !group->outputs || !group->buffer)
		return HD_REASON_NO_MEMORY;
	config.sum = group->buffer->data;
	rc = hd_reduce_create(&config, &group->reduce);
	if (rc < 0)
		return rc == -ENOMEM ? HD_REASON_NO_MEMORY : HD_REASON_REFUSED;
	return HD_REASON_NONE;
}

static int
add_input(struct hd_aggregator *aggregator, struct agg_group *group, const struct lists *lists) {
	uint32_t index = group->input_count;
	struct agg_input *in = &group->inputs[index];
	int rc = hd_timers_reserve(&aggregator->timers);

	if (rc < 0)
		return rc;
	in->handle.token = lists->inputs[index].token;
	in->handle.kind = AGG_HANDLE_INPUT;
	in->timer.kind = AGG_TIMER_INPUT;
	in->group = group;
	in->index = index;
	in->is = lists->ranks[index];
	in->active = group->active;
	LIST_INIT(&in->successors);
	rc = agg_handle_add(aggregator, &in->handle);
	if (rc < 0) {
		hd_timers_release(&aggregator->timers, &in->timer);
		return rc;
	}
	group->input_count++;
	aggregator->transfer_count++;
	return 0;
}

/* Converts a time of the plan to our clock. */
static hd_ns local_time(const struct agg_turn *turn, hd_ns origin, hd_ns after) {
	const struct hd_session *controller = turn->aggregator->upstream.session;
	hd_ns fallback = hd_ns_add(turn->now, after);

	return !controller ?
		fallback :
		hd_session_from_peer_time(controller, hd_ns_add(origin, after), fallback);
}

/* Undone by agg_group_destroy(). */
static int
fill(struct agg_turn *turn,
     struct agg_group *group,
     const struct hd_msg_group *message,
     const struct lists *lists) {
	struct hd_aggregator *aggregator = turn->aggregator;
	int rc = 0;

	while (rc == 0 && group->input_count < lists->input_count)
		rc = add_input(aggregator, group, lists);
	while (rc == 0 && group->output_count < lists->output_count) {
		struct agg_output *out = &group->outputs[group->output_count];

		rc = hd_timers_reserve(&aggregator->sends);
		if (rc < 0)
			break;
		out->group = group;
		out->is = lists->outputs[group->output_count++];
		out->active = turn->now;
		out->start = local_time(turn, message->origin_ns, out->is.start_ns);
		aggregator->transfer_count++;
		rc = agg_output_bind(turn, out);
	}
	return rc;
}

static struct agg_group *
group_create(struct agg_turn *turn, const struct hd_msg_group *message, const struct lists *lists) {
	struct hd_aggregator *aggregator = turn->aggregator;
	struct agg_group *group = calloc(1, sizeof *group);

	if (!group)
		return NULL;
	group->job = agg_job_get(aggregator, message->job);
	if (!group->job || hd_timers_reserve(&aggregator->timers) < 0) {
		if (group->job)
			agg_job_put(aggregator, group->job);
		free(group);
		return NULL;
	}
	group->job->groups++;
	group->token = message->group;
	group->epoch = message->epoch;
	group->dtype = message->dtype;
	group->op = message->op;
	group->order = message->order;
	group->exponent = (int16_t)message->exponent;
	group->bytes = message->bytes;
	group->version = message->version;
	group->source = (struct hd_addr){message->peer_ipv4, message->peer_port};
	group->relay = lists->input_count == 1 && lists->inputs[0].worker == HD_GROUP_WORKER;
	group->made = group->active = turn->now;
	group->watch.kind = AGG_TIMER_WATCH;
	HASH_ADD(hh, aggregator->groups, token, sizeof group->token, group);
	TAILQ_INSERT_TAIL(&aggregator->group_list, group, link);
	aggregator->stats.groups_open++;
	return group;
}

/* Sets predecessors and sessions, once the group is complete. */
static void begin(struct agg_turn *turn, struct agg_group *group, const struct lists *lists) {
	for (uint32_t i = 0; i < group->input_count; i++) {
		struct agg_input *in = &group->inputs[i];
		struct agg_peer *peer
			= agg_peer_of(turn->aggregator, group->job->id, in->is.worker);

		if (peer)
			agg_input_bind(turn, in, peer);
		if (lists->inputs[i].after != 0)
			agg_input_follow(turn, in, lists->inputs[i].after);
	}
	if (group->relay && group->source.port != 0) {
		struct agg_peer *peer = agg_peer_connect(turn, group->source);

		if (!peer) {
			agg_group_fail(turn, group, HD_REASON_NO_MEMORY, NULL);
			return;
		}
		agg_input_bind(turn, &group->inputs[0], peer);
	}
	for (uint32_t i = 0; group->relay && group->version != 0 && i < group->output_count; i++)
		agg_output_state(turn, &group->outputs[i], HD_REASON_NONE);
	hd_timer_set(
		&turn->aggregator->timers,
		&group->watch,
		turn->now + turn->aggregator->config.hold_us * HD_US
	);
}

static enum hd_reason
make(struct agg_turn *turn, const struct hd_msg_group *message, struct lists *lists) {
	struct agg_group *group;
	enum hd_reason reason;
	int rc = lists_decode(message, lists);

	if (rc < 0)
		return rc == -ENOMEM ? HD_REASON_NO_MEMORY : HD_REASON_REFUSED;
	reason = check(turn, message, lists);
	if (reason != HD_REASON_NONE)
		return reason;
	group = group_create(turn, message, lists);
	if (!group)
		return HD_REASON_NO_MEMORY;
	reason = group->hh.tbl ? allocate(turn, group, lists) : HD_REASON_NO_MEMORY;
	if (reason == HD_REASON_NONE) {
		rc = fill(turn, group, message, lists);
		reason = rc == 0      ? HD_REASON_NONE :
			rc == -EEXIST ? HD_REASON_REFUSED :
					HD_REASON_NO_MEMORY;
	}
	if (reason != HD_REASON_NONE) {
		agg_group_destroy(turn->aggregator, group);
		return reason;
	}
	turn->aggregator->epoch = message->epoch;
	turn->aggregator->stats.groups++;
	begin(turn, group, lists);
	return HD_REASON_NONE;
}

void agg_group_make(struct agg_turn *turn, const struct hd_msg_group *message) {
	struct lists lists = {0};
	struct agg_group *known;
	enum hd_reason reason;

	HASH_FIND(hh, turn->aggregator->groups, &message->group, sizeof message->group, known);
	if (known)
		return; /* a repeated GROUP */
	reason = make(turn, message, &lists);
	if (reason != HD_REASON_NONE) {
		turn->aggregator->stats.groups_refused++;
		agg_report_failure(turn, message->job, message->group, reason);
	}
	lists_fini(&lists);
}
