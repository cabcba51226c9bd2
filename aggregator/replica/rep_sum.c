/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums at the replica. An aggregator sends a sum here while it sends it to the server, so it arrives before the log
 * names it, if the log ever does:
 *
 *   MEMBERS (positions 31..34) --> held --LOG(those members, those positions)--> assigned to the entry, applied in turn
 *                                      \--> never named, no memory, lost by its aggregator: forgotten
 *
 * Only the log says what is applied. An entry of several members without its sum is a hole, which a state fills.
 */
#include "hd_group.h"
#include "rep_job.h"

/* --- MEMBERS ---------------------------------------------------------------------------------- */

void rep_sum_unlist(struct rep_job *replica, struct srv_incoming *in) {
	TAILQ_REMOVE(&replica->sums, in, queue_link);
	replica->sum_count--;
}

void rep_sum_withdraw(struct srv_turn *turn, const struct srv_incoming *in, enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	if (!in->aggregator)
		return;
	message.void_.job = in->job->id;
	message.void_.token = in->handle.token;
	message.void_.reason = (uint8_t)reason;
	srv_peer_send(turn, in->aggregator, &message);
}

static void
sum_refuse(struct srv_turn *turn, const struct hd_msg_members *message, enum hd_reason reason) {
	struct hd_addr sender = {message->peer_ipv4, message->peer_port};
	struct srv_peer *aggregator = srv_aggregator_find(turn->server, sender);
	struct hd_message answer = {.kind = HD_MSG_REPORT};

	answer.report = (struct hd_msg_report){
		.job = message->job,
		.worker = HD_GROUP_WORKER,
		.direction = HD_COPY,
		.token = message->token,
		.outcome = HD_OUTCOME_FAILED,
		.reason = (uint8_t)reason,
		.position = message->position,
	};
	srv_controller_send(turn, &answer);
	if (!aggregator)
		return;
	answer = (struct hd_message){.kind = HD_MSG_VOID};
	answer.void_.job = message->job;
	answer.void_.token = message->token;
	answer.void_.reason = (uint8_t)reason;
	srv_peer_send(turn, aggregator, &answer);
}

static enum hd_reason sum_check(
	const struct srv_turn *turn,
	const struct rep_job *replica,
	const struct hd_msg_members *message,
	uint16_t count
) {
	if (message->epoch < turn->server->epoch)
		return HD_REASON_EPOCH;
	if (turn->server->draining || replica->serve)
		return HD_REASON_CLOSED;
	if (count < 2 || message->token == 0 || message->position == 0 || message->peer_port == 0
	    || !srv_stream_fits(message, count)
	    || !srv_payload_fits(replica->job, message->dtype, message->bytes))
		return HD_REASON_REFUSED;
	return replica->sum_count < REP_SUMS_MAX ? HD_REASON_NONE : HD_REASON_NO_MEMORY;
}

/* False: no memory, or a rank out of range. */
static bool sum_fill(struct srv_incoming *in, const struct hd_msg_members *message) {
	srv_sum_expect(in, message);
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct hd_group_member at = hd_group_get_member(&message->members, i);
		const struct srv_part part = {
			.member
			= at.worker < HD_WORKERS_MAX ? srv_job_enter(in->job, at.worker) : NULL,
			.round = at.round,
			.attempt = at.attempt,
			.base = at.base,
			.weight = at.weight,
		};

		if (!part.member)
			return false;
		srv_incoming_part(in, i, &part);
	}
	return true;
}

void rep_sum_members(
	struct srv_turn *turn,
	struct srv_job *job,
	const struct hd_msg_members *message,
	uint16_t count
) {
	struct rep_job *replica = job->replica;
	enum hd_reason reason = sum_check(turn, replica, message, count);
	struct srv_incoming *in;

	if (reason != HD_REASON_NONE) {
		turn->server->stats.refused_messages += reason != HD_REASON_NO_MEMORY ? 1 : 0;
		sum_refuse(turn, message, reason);
		return;
	}
	if (message->epoch > turn->server->epoch) {
		turn->server->epoch = message->epoch;
		rep_sums_end(turn, replica, HD_REASON_EPOCH);
	}
	in = srv_incoming_create(turn, replica->job, message->token, count);
	if (!in || !sum_fill(in, message)) {
		if (in)
			srv_incoming_destroy(turn->server, in);
		sum_refuse(turn, message, HD_REASON_NO_MEMORY);
		return;
	}
	turn->server->stats.expected++;
	TAILQ_INSERT_TAIL(&replica->sums, in, queue_link);
	replica->sum_count++;
	if (srv_aggregator_find(turn->server, in->sender))
		srv_sum_bind(in, srv_aggregator_find(turn->server, in->sender));
	replica->job->dirty = true; /* its timeout begins */
}

/* --- named by the log ------------------------------------------------------------------------- */

bool rep_sum_measures(const struct srv_incoming *in, const struct rep_entry *entry) {
	bool open = in->kind == SRV_SUM && in->dtype == HD_DTYPE_SPARSE32
		&& !srv_incoming_is_whole(in);

	return open ? in->bytes >= entry->head.bytes : in->bytes == entry->head.bytes;
}

/* Whether this is the entry's sum: same members, positions and weights (a new controller may reuse positions). */
static bool sum_is(const struct srv_incoming *in, const struct rep_entry *entry) {
	const struct hd_entry *head = &entry->head;

	if (in->part_count != head->member_count || in->dtype != head->dtype
	    || !rep_sum_measures(in, entry) || srv_incoming_weight(in) != head->weight)
		return false;
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct hd_entry_member *at = &entry->members[i];
		const struct srv_part *part = &in->parts[i];

		if (at->position != in->position + i || at->worker != part->member->rank
		    || at->round != part->round || at->base != part->base)
			return false;
	}
	return true;
}

void rep_sum_name(struct rep_job *replica, struct rep_entry *entry) {
	struct srv_incoming *in;

	TAILQ_FOREACH (in, &replica->sums, queue_link)
		if (sum_is(in, entry))
			break;
	if (!in)
		return;
	rep_sum_unlist(replica, in);
	in->entry = entry;
	entry->copy = in;
	entry->asked = true;
}

/* --- ends ------------------------------------------------------------------------------------- */

bool rep_sums_yield(struct srv_turn *turn, struct rep_job *replica) {
	struct srv_incoming *in;

	TAILQ_FOREACH_REVERSE(in, &replica->sums, srv_incoming_list, queue_link) {
		if (in->buffer) {
			rep_copy_fail(turn, in, HD_REASON_NO_MEMORY);
			return true;
		}
	}
	return false;
}

/* Whether a member's round is in the model already, so that the log will not name this sum. */
static bool sum_is_over(const struct srv_incoming *in) {
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct srv_part *part = &in->parts[i];

		if (srv_member_round(part->member, part->round)
		    || srv_member_forgot(part->member, part->round))
			return true;
	}
	return false;
}

void rep_sums_look(struct srv_turn *turn, struct rep_job *replica) {
	struct srv_incoming *in = TAILQ_FIRST(&replica->sums), *next;

	for (; in; in = next) {
		next = TAILQ_NEXT(in, queue_link);
		if (sum_is_over(in))
			rep_copy_fail(turn, in, HD_REASON_CLOSED);
		else if (turn->now > hd_ns_add(in->active, REP_UNNAMED_US * HD_US))
			rep_copy_fail(turn, in, HD_REASON_TIMEOUT);
	}
}

void rep_sums_end(struct srv_turn *turn, struct rep_job *replica, enum hd_reason reason) {
	struct srv_incoming *in;

	while ((in = TAILQ_FIRST(&replica->sums)))
		rep_copy_fail(turn, in, reason);
}
