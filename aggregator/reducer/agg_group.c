/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a group runs:
 *
 *   GROUP --> admitted --> chunks in, sum out --> all delivered: memory freed; the receivers report it
 *        \--> refused      |  \--> failed: VOID to members and receivers, REPORT(culprit), REPORT(group)
 *                          \-----> all in, and all receivers are workers that are lost: memory freed
 */
#include "agg_group.h"
#include "hd_assert.h"

#include <errno.h>

/* --- reports ---------------------------------------------------------------------------------- */

/* REPORTs that there is no such group, or no longer. (Deliveries are reported by their receivers.) */
void agg_report_failure(
	struct agg_turn *turn,
	uint32_t job,
	uint64_t group,
	enum hd_reason reason
) {
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

void agg_group_destroy(struct hd_aggregator *aggregator, struct agg_group *group) {
	for (uint32_t i = 0; i < group->input_count; i++)
		agg_input_drop(aggregator, &group->inputs[i]);
	for (uint32_t i = 0; i < group->output_count; i++)
		agg_output_drop(aggregator, &group->outputs[i]);
	hd_assert(aggregator->transfer_count >= group->input_count + group->output_count);
	aggregator->transfer_count -= group->input_count + group->output_count;
	if (group->touched)
		TAILQ_REMOVE(&aggregator->touched_groups, group, touched_link);
	hd_timers_release(&aggregator->timers, &group->watch);
	if (group->hh.tbl)
		HASH_DELETE(hh, aggregator->groups, group);
	TAILQ_REMOVE(&aggregator->group_list, group, link);
	hd_reduce_destroy(group->reduce);
	agg_buffer_put(aggregator, group->buffer);
	agg_memory_give(aggregator, group);
	hd_assert(group->job->groups > 0);
	group->job->groups--;
	agg_job_put(aggregator, group->job);
	aggregator->stats.groups_open--;
	free(group->inputs);
	free(group->outputs);
	free(group);
}

/* --- ends ------------------------------------------------------------------------------------- */

/* A reason that ends this transfer but not its round: the worker asks again. */
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

static void send_void(
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
	for (uint32_t i = 0; group->inputs && i < group->input_count; i++) {
		struct agg_input *in = &group->inputs[i];

		/* A worker that withdrew needs no VOID. */
		if (in != culprit || reason != HD_REASON_CANCELLED)
			send_void(turn, in->peer, group->job->id, in->handle.token, reason);
	}
	for (uint32_t i = 0; i < group->output_count; i++) {
		struct agg_output *out = &group->outputs[i];

		if (out->state != AGG_OUTPUT_LOST && out->state != AGG_OUTPUT_DELIVERED)
			send_void(turn, out->peer, group->job->id, out->is.token, reason);
	}
	if (culprit)
		agg_report_input(turn, culprit, HD_OUTCOME_FAILED, reason);
	agg_report_failure(turn, group->job->id, group->token, reason);
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
	for (uint32_t i = 0; i < group->input_count; i++)
		agg_input_end(turn, &group->inputs[i], false);
	agg_group_destroy(turn->aggregator, group);
}

/* A tombstone tells members that still retransmit that all has arrived. */
static void end(struct agg_turn *turn, struct agg_group *group) {
	for (uint32_t i = 0; i < group->input_count; i++)
		agg_input_end(turn, &group->inputs[i], true);
	agg_group_destroy(turn->aggregator, group);
}

static void group_delivered(struct agg_turn *turn, struct agg_group *group) {
	struct hd_aggregator_stats *stats = &turn->aggregator->stats;

	stats->groups_delivered++;
	stats->groups_not_finite += hd_reduce_not_finite(group->reduce) ? 1 : 0;
	end(turn, group);
}

/* All have given their values, and only workers whose sessions have ended would get the sum: this is no failure for
 * those that gave. A receiver that lives sees the end of its session, too, and asks for its round again. */
static bool is_deserted(const struct agg_group *group) {
	return group->deserted == group->output_count && group->complete == group->input_count
		&& !group->relay;
}

bool agg_group_consider(struct agg_turn *turn, struct agg_group *group) {
	hd_assert(group->delivered + group->lost <= group->output_count);
	if (is_deserted(group)) {
		group_event(turn, group, group->lost_reason);
		turn->aggregator->stats.groups_failed++;
		end(turn, group);
		return true;
	}
	if (group->doomed || group->lost == group->output_count) {
		agg_group_fail(turn, group, group->lost_reason, NULL);
		return true;
	}
	if (group->delivered + group->lost < group->output_count)
		return false;
	group_delivered(turn, group);
	return true;
}

static bool waits_for_replicas_only(const struct agg_group *group) {
	for (uint32_t i = 0; i < group->output_count; i++) {
		const struct agg_output *out = &group->outputs[i];

		if (out->state != AGG_OUTPUT_DELIVERED && out->state != AGG_OUTPUT_LOST
		    && out->is.role != HD_ROLE_REPLICA)
			return false;
	}
	return group->output_count > 0 && group->delivered > 0;
}

bool agg_outputs_yield(struct agg_turn *turn) {
	struct agg_group *group;

	TAILQ_FOREACH (group, &turn->aggregator->group_list, link)
		if (waits_for_replicas_only(group))
			break;
	if (!group)
		return false;
	for (uint32_t i = 0; i < group->output_count; i++) {
		struct agg_output *out = &group->outputs[i];

		if (out->state != AGG_OUTPUT_DELIVERED && out->state != AGG_OUTPUT_LOST)
			agg_output_lose(turn, out, HD_REASON_NO_MEMORY);
	}
	return agg_group_consider(turn, group);
}

/* The token of the group, or of one of its inputs. */
void agg_group_void(struct agg_turn *turn, const struct hd_msg_void_ *void_) {
	enum hd_reason reason = void_->reason < HD_REASON_COUNT ? void_->reason : HD_REASON_VOID;
	struct agg_input *in = agg_input_find(turn->aggregator, void_->token);
	struct agg_group *group;

	HASH_FIND(hh, turn->aggregator->groups, &void_->token, sizeof void_->token, group);
	if (group)
		agg_group_fail(turn, group, reason, NULL);
	else if (in)
		agg_group_fail(turn, in->group, reason, in);
}

/* --- silent members --------------------------------------------------------------------------- */

/* The share of an input that has arrived, from 0 to 1. */
static double share_of(const struct agg_group *group, uint32_t index) {
	const struct hd_recv *recv = hd_reduce_recv(group->reduce, index);
	const struct hd_recv_stats *stats = recv ? hd_recv_stats(recv) : NULL;

	return stats ? (double)stats->bytes_held / (double)stats->bytes_total : 0;
}

/* The input that others have waited for longest: another input has more of its bytes here. Counts only inputs that have
 * begun or got go. When the others begin is the controller's business; if they never do, their sessions end or the
 * controller gives up. An input that must wait for its predecessor is not silent. */
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
		    && (!found || in->active < found->active))
			found = in;
	}
	return found;
}

void agg_group_watch(struct agg_turn *turn, struct agg_group *group) {
	hd_ns hold = turn->aggregator->config.hold_us * HD_US;
	hd_ns idle = hd_ns_max(AGG_IDLE_US * HD_US, 4 * hold);
	struct agg_input *in = NULL;

	if (turn->now > hold)
		in = silent(group, turn->now - hold);
	if (in) {
		agg_group_fail(turn, group, HD_REASON_HOLD, in);
		return;
	}
	if (turn->now > AGG_PATIENCE_HOLDS * hold) {
		agg_outputs_watch(turn, group, turn->now - AGG_PATIENCE_HOLDS * hold);
		if (agg_group_consider(turn, group))
			return;
	}
	if (turn->now - group->active >= idle) {
		agg_group_fail(turn, group, HD_REASON_TIMEOUT, NULL);
		return;
	}
	hd_timer_set(&turn->aggregator->timers, &group->watch, turn->now + hold / 4 + 1);
}
