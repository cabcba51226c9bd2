/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums announced by MEMBERS, and the aggregators that send them.
 *
 *   w0 --chunks--> aggregator --chunks of g0 + g1 + g2--> here      one transfer, three rounds
 *   w1 --chunks-->     |                                            all of them are committed, or none:
 *   w2 --chunks-->     +-- its session: SACK, GO and VOID go there  a sum cannot be split
 *
 * So a sum with one part that has ended already, or would be late, is refused as a whole: that part's worker is told
 * its outcome, the others are told to ask again.
 */
#include "hd_group.h"
#include "srv_replica.h"
#include "srv_update.h"

#include <math.h>

/* A MEMBERS message being checked. */
struct sum {
	const struct hd_msg_members *message;
	struct srv_job *job; /* NULL: unknown */
	uint16_t count; /* 0: the list is malformed */
};

static struct hd_group_member sum_at(const struct sum *sum, uint16_t index) {
	return hd_group_get_member(&sum->message->members, index);
}

/* --- MEMBERS ---------------------------------------------------------------------------------- */

static void sum_report(struct srv_turn *turn, const struct sum *sum, enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_REPORT};

	message.report = (struct hd_msg_report){
		.job = sum->message->job,
		.worker = HD_GROUP_WORKER,
		.direction = HD_PUSH,
		.token = sum->message->token,
		.outcome = HD_OUTCOME_FAILED,
		.reason = (uint8_t)reason,
		.version = sum->job ? sum->job->version : 0,
		.position = sum->message->position,
	};
	srv_controller_send(turn, &message);
}

/* Refuses the sum: tells its workers and its aggregator at once, so that they need not time out. Rounds that have ended
 * get their outcome. */
static void sum_refuse(struct srv_turn *turn, const struct sum *sum, enum hd_reason reason) {
	const struct hd_msg_members *message = sum->message;
	struct hd_addr sender = {message->peer_ipv4, message->peer_port};
	struct srv_peer *aggregator = srv_aggregator_find(turn->server, sender);
	struct hd_message void_ = {.kind = HD_MSG_VOID};

	sum_report(turn, sum, reason);
	for (uint16_t i = 0; sum->job && i < sum->count; i++) {
		struct hd_group_member at = sum_at(sum, i);
		struct srv_member *member = srv_job_member(sum->job, at.worker);
		struct srv_round round = {.round = at.round};

		if (!member)
			continue;
		if (!srv_job_away(sum->job)
		    && srv_push_is_over(sum->job, member, at.base, 0, &round))
			srv_push_answer(turn, sum->job, member, &round);
		else
			srv_push_withdraw(turn, sum->job, member, at.token, reason);
	}
	if (aggregator) {
		void_.void_.job = message->job;
		void_.void_.token = message->token;
		void_.void_.reason = (uint8_t)reason;
		srv_peer_send(turn, aggregator, &void_);
	}
}

/* Orders members by push, or by transfer, to find duplicates in a long list without comparing all pairs. */
static int sum_compare_pushes(const void *a, const void *b) {
	const struct hd_group_member *one = a, *other = b;

	if (one->worker != other->worker)
		return one->worker < other->worker ? -1 : 1;
	return (one->round > other->round) - (one->round < other->round);
}

static int sum_compare_tokens(const void *a, const void *b) {
	const struct hd_group_member *one = a, *other = b;

	return (one->token > other->token) - (one->token < other->token);
}

static bool sum_repeats(const struct sum *sum) {
	struct hd_group_member *sorted = calloc(sum->count, sizeof *sorted);
	bool repeats = !sorted;

	for (uint16_t i = 0; !repeats && i < sum->count; i++)
		sorted[i] = sum_at(sum, i);
	if (!repeats)
		qsort(sorted, sum->count, sizeof *sorted, sum_compare_pushes);
	for (uint16_t i = 1; !repeats && i < sum->count; i++)
		repeats = sum_compare_pushes(&sorted[i - 1], &sorted[i]) == 0;
	if (!repeats)
		qsort(sorted, sum->count, sizeof *sorted, sum_compare_tokens);
	for (uint16_t i = 1; !repeats && i < sum->count; i++)
		repeats = sum_compare_tokens(&sorted[i - 1], &sorted[i]) == 0;
	free(sorted);
	return repeats;
}

static enum hd_reason sum_check_members(struct srv_turn *turn, const struct sum *sum) {
	for (uint16_t i = 0; i < sum->count; i++) {
		struct hd_group_member at = sum_at(sum, i);

		if (!srv_job_member(sum->job, at.worker))
			return HD_REASON_NO_SERVER;
		if (at.token == 0 || at.token == sum->message->token || !isfinite(at.weight)
		    || srv_handle_find(turn->server, at.token))
			return HD_REASON_REFUSED;
	}
	return sum_repeats(sum) ? HD_REASON_REFUSED : HD_REASON_NONE;
}

/* Checks the MEMBERS itself. */
static enum hd_reason sum_check(struct srv_turn *turn, const struct sum *sum) {
	const struct hd_msg_members *message = sum->message;

	if (message->epoch < turn->server->epoch)
		return HD_REASON_EPOCH;
	if (turn->server->draining)
		return HD_REASON_CLOSED;
	if (!sum->job || srv_job_away(sum->job))
		return HD_REASON_NO_SERVER;
	if (sum->count == 0 || message->token == 0 || message->position == 0
	    || message->peer_port == 0
	    || !srv_payload_fits(sum->job, message->dtype, message->bytes))
		return HD_REASON_REFUSED;
	if (!srv_stream_fits(message, sum->count))
		return HD_REASON_REFUSED;
	return sum_check_members(turn, sum);
}

/* Why it could not be committed as a whole, as far as is known now. */
static enum hd_reason sum_obstacle(const struct sum *sum) {
	for (uint16_t i = 0; i < sum->count; i++) {
		struct hd_group_member at = sum_at(sum, i);
		const struct srv_member *member = srv_job_member(sum->job, at.worker);
		const struct srv_part *older = srv_member_part(member, at.round);
		struct srv_round round = {.round = at.round};

		if (srv_push_is_over(sum->job, member, at.base, i, &round))
			return round.reason != HD_REASON_NONE ? round.reason : HD_REASON_DUPLICATE;
		if (older && !srv_part_is_superseded(older, at.attempt))
			return HD_REASON_DUPLICATE;
	}
	return HD_REASON_NONE;
}

/* 0, or an error if a token cannot be registered: then the sum is destroyed. */
static int sum_fill(struct srv_turn *turn, const struct sum *sum, struct srv_incoming *in) {
	srv_sum_expect(in, sum->message);
	for (uint16_t i = 0; i < sum->count; i++) {
		struct hd_group_member at = sum_at(sum, i);
		const struct srv_part part = {
			.member = srv_job_member(sum->job, at.worker),
			.round = at.round,
			.attempt = at.attempt,
			.base = at.base,
			.weight = at.weight,
		};
		struct srv_handle *handle = &in->parts[i].handle;
		int rc;

		srv_incoming_part(in, i, &part);
		handle->token = at.token;
		handle->kind = SRV_HANDLE_PART;
		rc = srv_handle_add(turn->server, handle);
		if (rc < 0) {
			handle->kind = SRV_HANDLE_INCOMING; /* not in the table */
			srv_incoming_destroy(turn->server, in);
			return rc;
		}
	}
	return 0;
}

static void sum_accept(struct srv_turn *turn, const struct sum *sum) {
	const struct hd_msg_members *message = sum->message;
	struct srv_job *job = sum->job;
	struct srv_incoming *in = srv_incoming_create(turn, job, message->token, sum->count);
	uint64_t last = message->position + sum->count - 1;
	struct srv_peer *aggregator;

	if (!in || sum_fill(turn, sum, in) < 0) {
		sum_refuse(turn, sum, HD_REASON_NO_MEMORY);
		return;
	}
	turn->server->stats.expected += sum->count;
	job->position = last > job->position ? last : job->position;
	aggregator = srv_aggregator_find(turn->server, in->sender);
	if (aggregator)
		srv_sum_bind(in, aggregator);
	srv_commit_queue(in);
	srv_incoming_follow(turn, in, message->after);
}

void srv_sum_members(struct srv_turn *turn, const struct hd_msg_members *message) {
	int count = hd_group_count(&message->members, HD_GROUP_MEMBER_BYTES);
	struct sum sum = {
		.message = message,
		.job = srv_job_find(turn->server, message->job),
		.count = (uint16_t)(count > 0 ? count : 0),
	};
	enum hd_reason reason;

	if (srv_handle_find(turn->server, message->token))
		return; /* a repeated MEMBERS */
	if (sum.job && sum.job->replica) {
		rep_ops.members(turn, sum.job, message, sum.count);
		return;
	}
	reason = sum_check(turn, &sum);
	if (reason != HD_REASON_NONE) {
		turn->server->stats.refused_messages++;
		sum_refuse(turn, &sum, reason);
		return;
	}
	turn->server->epoch = message->epoch;
	reason = sum_obstacle(&sum);
	if (reason != HD_REASON_NONE) {
		sum_refuse(turn, &sum, reason);
		return;
	}
	for (uint16_t i = 0; i < sum.count; i++) {
		struct hd_group_member at = sum_at(&sum, i);
		const struct srv_part *older
			= srv_member_part(srv_job_member(sum.job, at.worker), at.round);

		if (older)
			srv_part_replace(turn, older);
	}
	sum_accept(turn, &sum);
}

void srv_sum_void(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_void_ *void_) {
	struct srv_handle *handle = srv_handle_find(turn->server, void_->token);
	struct srv_incoming *in;

	if (!handle || handle->kind != SRV_HANDLE_INCOMING)
		return;
	in = hd_container_of(handle, struct srv_incoming, handle);
	if (in->aggregator != peer || in->job->id != void_->job) {
		turn->server->stats.refused_messages++;
		return;
	}
	if (!srv_incoming_is_whole(in))
		srv_incoming_fail(turn, in, HD_REASON_CLOSED, NULL);
}
