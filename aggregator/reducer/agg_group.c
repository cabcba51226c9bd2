/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group's life:
 *
 *   GROUP --> admitted --> chunks in, sum out --> all delivered: memory free; the receivers tell
 *        \--> refused         \--> failed: VOID to members and receivers, REPORT(culprit), REPORT(group)
 */
#include "agg_internal.h"

#include <errno.h>

/* --- telling ---------------------------------------------------------------------------------- */

/* That there is no such group, or not any more. That it was delivered its receivers say. */
static void
report_failure(struct agg_turn *turn, uint32_t job, uint64_t group, enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_REPORT};

	message.report = (struct hd_msg_report){
		.job = job,
		.worker = HD_GROUP_WORKER,
		.token = group,
		.outcome = HD_OUTCOME_FAILED,
		.reason = (uint8_t)reason,
	};
	agg_controller_send(turn, &message);
}

static void
group_event(struct agg_turn *turn, const struct agg_group *group, enum hd_reason reason) {
	struct hd_event event = {
		.kind = HD_EVENT_VOIDED,
		.reason = reason,
		.job = group->job->id,
		.worker = HD_GROUP_WORKER,
		.direction = group->relay ? HD_PULL : HD_PUSH,
		.token = group->token,
		.version = group->version,
		.bytes = group->bytes,
		.aux = group->input_count,
	};

	agg_event(turn, &event);
}

/* --- making ----------------------------------------------------------------------------------- */

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

	if (inputs < 0 || outputs < 0) {
		return -EBADMSG;
	}
	lists->inputs = calloc((size_t)inputs, sizeof(*lists->inputs));
	lists->ranks = calloc((size_t)inputs, sizeof(*lists->ranks));
	lists->outputs = calloc((size_t)outputs, sizeof(*lists->outputs));
	if (lists->inputs == NULL || lists->ranks == NULL || lists->outputs == NULL) {
		return -ENOMEM;
	}
	lists->input_count = (uint32_t)inputs;
	lists->output_count = (uint32_t)outputs;
	for (uint32_t i = 0; i < lists->input_count; i++) {
		struct hd_group_input in = hd_group_get_input(&message->inputs, i);

		lists->inputs[i] = in;
		lists->ranks[i] = (struct hd_reduce_input
		){in.token, in.round, in.worker, in.attempt, in.bytes};
	}
	for (uint32_t i = 0; i < lists->output_count; i++) {
		lists->outputs[i] = hd_group_get_output(&message->outputs, i);
	}
	return 0;
}

static enum hd_reason
check(struct agg_turn *turn, const struct hd_msg_group *message, const struct lists *lists) {
	struct hd_aggregator *aggregator = turn->aggregator;

	if (message->epoch < aggregator->epoch) {
		return HD_REASON_EPOCH;
	}
	if (aggregator->draining) {
		return HD_REASON_CLOSED;
	}
	if (message->group == 0) {
		return HD_REASON_REFUSED;
	}
	for (uint32_t i = 0; i < lists->input_count; i++) {
		if (lists->inputs[i].token == 0
		    || agg_handle_find(aggregator, lists->inputs[i].token) != NULL) {
			return HD_REASON_REFUSED;
		}
	}
	for (uint32_t i = 0; i < lists->output_count; i++) {
		if (lists->outputs[i].token == 0 || lists->outputs[i].port == 0) {
			return HD_REASON_REFUSED;
		}
	}
	if (aggregator->transfer_count + lists->input_count + lists->output_count
	    > HD_TRANSFERS_MAX) {
		return HD_REASON_NO_MEMORY;
	}
	return HD_REASON_NONE;
}

/* Room for what comes before its turn is a luxury: without it, it is a chunk for each member. */
static bool admit(struct agg_turn *turn, struct agg_group *group, struct hd_reduce_config *config) {
	const struct hd_aggregator *aggregator = turn->aggregator;
	uint64_t early = config->early_bytes, most;

	config->early_bytes = 0;
	group->charged = hd_reduce_memory_bytes(config);
	while (!agg_memory_admits(aggregator, group->job, group->charged)) {
		if (group->charged <= agg_memory_sums(aggregator) && agg_outputs_yield(turn)) {
			continue;
		}
		group->charged = 0;
		return false;
	}
	config->early_bytes = early;
	most = hd_reduce_memory_bytes(config) - group->charged;
	if (most <= agg_memory_early(aggregator) - aggregator->early) {
		group->early = most;
	} else {
		config->early_bytes = 0;
	}
	return true;
}

/* Its own memory: lists, sum, combiner. */
static enum hd_reason
allocate(struct agg_turn *turn, struct agg_group *group, const struct lists *lists) {
	struct hd_aggregator *aggregator = turn->aggregator;
	struct hd_reduce_config config = {
		.job = group->job->id,
		.dtype = group->dtype,
		.order = group->order,
		.exponent = group->exponent,
		.bytes = group->bytes,
		.input_count = lists->input_count,
		.inputs = lists->ranks,
		.early_bytes = aggregator->config.early_bytes,
	};
	int rc;

	if (group->bytes == 0 || group->bytes > HD_MODEL_BYTES_MAX) {
		return HD_REASON_REFUSED;
	}
	if (!admit(turn, group, &config)) {
		return HD_REASON_NO_MEMORY;
	}
	agg_memory_take(aggregator, group);
	group->inputs = calloc(lists->input_count, sizeof(*group->inputs));
	group->outputs = calloc(lists->output_count, sizeof(*group->outputs));
	group->buffer = agg_buffer_get(
		aggregator, hd_reduce_buffer_bytes(group->dtype, group->bytes, lists->input_count)
	);
	if (group->inputs == NULL || group->outputs == NULL || group->buffer == NULL) {
		return HD_REASON_NO_MEMORY;
	}
	config.sum = group->buffer->data;
	rc = hd_reduce_create(&config, &group->reduce);
	if (rc < 0) {
		return rc == -ENOMEM ? HD_REASON_NO_MEMORY : HD_REASON_REFUSED;
	}
	return HD_REASON_NONE;
}

static int
add_input(struct hd_aggregator *aggregator, struct agg_group *group, const struct lists *lists) {
	uint32_t index = group->input_count;
	struct agg_input *in = &group->inputs[index];
	int rc = hd_timers_reserve(&aggregator->timers);

	if (rc < 0) {
		return rc;
	}
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

/* A time of the plan, on our clock. */
static hd_ns local_time(const struct agg_turn *turn, hd_ns origin, hd_ns after) {
	const struct hd_session *controller = turn->aggregator->controller;
	hd_ns fallback = hd_ns_add(turn->now, after);

	return controller == NULL ?
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

	while (rc == 0 && group->input_count < lists->input_count) {
		rc = add_input(aggregator, group, lists);
	}
	while (rc == 0 && group->output_count < lists->output_count) {
		struct agg_output *out = &group->outputs[group->output_count];

		rc = hd_timers_reserve(&aggregator->sends);
		if (rc < 0) {
			break;
		}
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
	struct agg_group *group = calloc(1, sizeof(*group));

	if (group == NULL) {
		return NULL;
	}
	group->job = agg_job_get(aggregator, message->job);
	if (group->job == NULL || hd_timers_reserve(&aggregator->timers) < 0) {
		if (group->job != NULL) {
			agg_job_put(aggregator, group->job);
		}
		free(group);
		return NULL;
	}
	group->job->groups++;
	group->token = message->group;
	group->epoch = message->epoch;
	group->dtype = message->dtype;
	group->order = message->order;
	group->exponent = (int16_t)message->exponent;
	group->bytes = message->bytes;
	group->version = message->version;
	group->source = (struct hd_addr){message->peer_ipv4, message->peer_port};
	group->relay = lists->input_count == 1 && lists->inputs[0].worker == HD_GROUP_WORKER;
	group->active = turn->now;
	group->watch.kind = AGG_TIMER_WATCH;
	HASH_ADD(hh, aggregator->groups, token, sizeof(group->token), group);
	TAILQ_INSERT_TAIL(&aggregator->group_list, group, link);
	aggregator->stats.groups_open++;
	return group;
}

void agg_group_destroy(struct hd_aggregator *aggregator, struct agg_group *group) {
	for (uint32_t i = 0; i < group->input_count; i++) {
		agg_input_drop(aggregator, &group->inputs[i]);
	}
	for (uint32_t i = 0; i < group->output_count; i++) {
		agg_output_drop(aggregator, &group->outputs[i]);
	}
	aggregator->transfer_count -= group->input_count + group->output_count;
	if (group->touched) {
		TAILQ_REMOVE(&aggregator->touched_groups, group, touched_link);
	}
	hd_timers_release(&aggregator->timers, &group->watch);
	if (group->hh.tbl != NULL) {
		HASH_DELETE(hh, aggregator->groups, group);
	}
	TAILQ_REMOVE(&aggregator->group_list, group, link);
	hd_reduce_destroy(group->reduce);
	agg_buffer_put(aggregator, group->buffer);
	agg_memory_give(aggregator, group);
	group->job->groups--;
	agg_job_put(aggregator, group->job);
	aggregator->stats.groups_open--;
	free(group->inputs);
	free(group->outputs);
	free(group);
}

/* Predecessors and sessions, once all of it is in place. */
static void begin(struct agg_turn *turn, struct agg_group *group, const struct lists *lists) {
	for (uint32_t i = 0; i < group->input_count; i++) {
		struct agg_input *in = &group->inputs[i];
		struct agg_peer *peer
			= agg_peer_of(turn->aggregator, group->job->id, in->is.worker);

		if (peer != NULL) {
			agg_input_bind(turn, in, peer);
		}
		if (lists->inputs[i].after != 0) {
			agg_input_follow(turn, in, lists->inputs[i].after);
		}
	}
	if (group->relay && group->source.port != 0) {
		struct agg_peer *peer = agg_peer_connect(turn, group->source);

		if (peer == NULL) {
			agg_group_fail(turn, group, HD_REASON_NO_MEMORY, NULL);
			return;
		}
		agg_input_bind(turn, &group->inputs[0], peer);
	}
	for (uint32_t i = 0; group->relay && group->version != 0 && i < group->output_count; i++) {
		agg_output_state(turn, &group->outputs[i], HD_REASON_NONE);
	}
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

	if (rc < 0) {
		return rc == -ENOMEM ? HD_REASON_NO_MEMORY : HD_REASON_REFUSED;
	}
	reason = check(turn, message, lists);
	if (reason != HD_REASON_NONE) {
		return reason;
	}
	group = group_create(turn, message, lists);
	if (group == NULL) {
		return HD_REASON_NO_MEMORY;
	}
	reason = group->hh.tbl != NULL ? allocate(turn, group, lists) : HD_REASON_NO_MEMORY;
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

	HASH_FIND(hh, turn->aggregator->groups, &message->group, sizeof(message->group), known);
	if (known != NULL) {
		return; /* told already */
	}
	reason = make(turn, message, &lists);
	if (reason != HD_REASON_NONE) {
		turn->aggregator->stats.groups_refused++;
		report_failure(turn, message->job, message->group, reason);
	}
	lists_fini(&lists);
}

/* --- ends ------------------------------------------------------------------------------------- */

/* What ends a transfer, not its round: whoever hears it asks again. */
static enum hd_reason transient(enum hd_reason reason) {
	switch (reason) {
	case HD_REASON_LEASE:
	case HD_REASON_LEFT:
	case HD_REASON_TIMEOUT:
	case HD_REASON_EPOCH:
	case HD_REASON_NO_MEMORY:
		return reason;
	default:
		return HD_REASON_CLOSED;
	}
}

static void say_void(
	struct agg_turn *turn,
	struct agg_peer *peer,
	uint32_t job,
	uint64_t token,
	enum hd_reason reason
) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = job;
	message.void_.token = token;
	message.void_.reason = (uint8_t)transient(reason);
	agg_peer_send(turn, peer, &message);
}

static void tell_failure(
	struct agg_turn *turn,
	struct agg_group *group,
	enum hd_reason reason,
	const struct agg_input *culprit
) {
	for (uint32_t i = 0; group->inputs != NULL && i < group->input_count; i++) {
		struct agg_input *in = &group->inputs[i];

		/* Who withdrew need not be told. */
		if (in != culprit || reason != HD_REASON_CANCELLED) {
			say_void(turn, in->peer, group->job->id, in->handle.token, reason);
		}
	}
	for (uint32_t i = 0; i < group->output_count; i++) {
		struct agg_output *out = &group->outputs[i];

		if (out->state != AGG_OUTPUT_LOST && out->state != AGG_OUTPUT_DELIVERED) {
			say_void(turn, out->peer, group->job->id, out->is.token, reason);
		}
	}
	if (culprit != NULL) {
		agg_report_input(turn, culprit, HD_OUTCOME_FAILED, reason);
	}
	report_failure(turn, group->job->id, group->token, reason);
}

void agg_group_fail(
	struct agg_turn *turn,
	struct agg_group *group,
	enum hd_reason reason,
	struct agg_input *culprit
) {
	reason = reason != HD_REASON_NONE ? reason : HD_REASON_CLOSED;
	group_event(turn, group, reason);
	tell_failure(turn, group, reason, culprit);
	turn->aggregator->stats.groups_failed++;
	for (uint32_t i = 0; i < group->input_count; i++) {
		agg_input_end(turn, &group->inputs[i], false);
	}
	agg_group_destroy(turn->aggregator, group);
}

static void group_delivered(struct agg_turn *turn, struct agg_group *group) {
	struct hd_aggregator_stats *stats = &turn->aggregator->stats;

	stats->groups_delivered++;
	stats->groups_not_finite += hd_reduce_not_finite(group->reduce) ? 1 : 0;
	for (uint32_t i = 0; i < group->input_count; i++) {
		agg_input_end(turn, &group->inputs[i], true);
	}
	agg_group_destroy(turn->aggregator, group);
}

bool agg_group_consider(struct agg_turn *turn, struct agg_group *group) {
	if (group->doomed || group->lost == group->output_count) {
		agg_group_fail(turn, group, group->lost_reason, NULL);
		return true;
	}
	if (group->delivered + group->lost < group->output_count) {
		return false;
	}
	group_delivered(turn, group);
	return true;
}

/* The token of the group, or of one of its inputs. */
void agg_group_void(struct agg_turn *turn, const struct hd_msg_void_ *void_) {
	enum hd_reason reason = void_->reason < HD_REASON_COUNT ? void_->reason : HD_REASON_VOID;
	struct agg_handle *handle = agg_handle_find(turn->aggregator, void_->token);
	struct agg_group *group;

	HASH_FIND(hh, turn->aggregator->groups, &void_->token, sizeof(void_->token), group);
	if (group != NULL) {
		agg_group_fail(turn, group, reason, NULL);
	} else if (handle != NULL && handle->kind == AGG_HANDLE_INPUT) {
		struct agg_input *in = (struct agg_input *)(void *)handle;

		agg_group_fail(turn, in->group, reason, in);
	}
}

/* --- silence ---------------------------------------------------------------------------------- */

/* What of an input is here, of 1. */
static double share_of(const struct agg_group *group, uint32_t index) {
	const struct hd_recv *recv = hd_reduce_recv(group->reduce, index);
	const struct hd_recv_stats *stats = recv != NULL ? hd_recv_stats(recv) : NULL;

	return stats != NULL ? (double)stats->bytes_held / (double)stats->bytes_total : 0;
}

/* The longest silent of those whom others wait for: somebody has sent more. Only of those that have begun, or were
 * told to: when the others are to begin is between the controller and them, and should they never, their sessions
 * end, or the controller's patience does. One that was told to wait for its turn waits. */
static struct agg_input *silent(const struct agg_group *group, hd_ns before) {
	struct agg_input *found = NULL;
	double most = 0;

	for (uint32_t i = 0; i < group->input_count; i++) {
		double share = share_of(group, i);

		most = share > most ? share : most;
	}
	for (uint32_t i = 0; i < group->input_count; i++) {
		struct agg_input *in = &group->inputs[i];

		if ((in->started || in->went) && share_of(group, i) < most && in->active <= before
		    && !hd_reduce_is_full(group->reduce, i)
		    && (found == NULL || in->active < found->active)) {
			found = in;
		}
	}
	return found;
}

void agg_group_watch(struct agg_turn *turn, struct agg_group *group) {
	hd_ns hold = turn->aggregator->config.hold_us * HD_US;
	hd_ns idle = hd_ns_max(AGG_IDLE_US * HD_US, 4 * hold);
	struct agg_input *in = NULL;

	if (turn->now > hold) {
		in = silent(group, turn->now - hold);
	}
	if (in != NULL) {
		agg_group_fail(turn, group, HD_REASON_HOLD, in);
		return;
	}
	if (turn->now > AGG_PATIENCE_HOLDS * hold) {
		agg_outputs_watch(turn, group, turn->now - AGG_PATIENCE_HOLDS * hold);
		if (agg_group_consider(turn, group)) {
			return;
		}
	}
	if (turn->now - group->active >= idle) {
		agg_group_fail(turn, group, HD_REASON_TIMEOUT, NULL);
		return;
	}
	hd_timer_set(&turn->aggregator->timers, &group->watch, turn->now + hold / 4 + 1);
}

void agg_group_touch(struct hd_aggregator *aggregator, struct agg_group *group) {
	if (!group->touched) {
		group->touched = true;
		TAILQ_INSERT_TAIL(&aggregator->touched_groups, group, touched_link);
	}
}
