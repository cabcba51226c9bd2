/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums at the replica. Their aggregator sends them here while it sends them to the server, so they come before the log
 * names them, if it ever does:
 *
 *   MEMBERS (positions 31..34, whose) --> held --LOG(those members, at those positions)--> the entry's, applied in its
 *                                          \--> nobody names it, no memory, its aggregator lost it: forgotten   turn
 *
 * The log alone says what is applied. An entry of several without its sum is a hole, which a state fills.
 */
#include "hd_group.h"
#include "hd_replica.h"
#include "hd_server_stream.h"

/* --- one that may come ------------------------------------------------------------------------- */

void hd_mirror_unlist(struct hd_mirror *mirror, struct hd_incoming *in) {
	TAILQ_REMOVE(&mirror->sums, in, queue_link);
	mirror->sum_count--;
}

void hd_mirror_withdraw(struct hd_turn *turn, const struct hd_incoming *in, enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	if (in->aggregator == NULL) {
		return;
	}
	message.void_.job = in->job->id;
	message.void_.token = in->handle.token;
	message.void_.reason = (uint8_t)reason;
	hd_peer_send(turn, in->aggregator, &message);
}

static void hd_mirror_refuse(
	struct hd_turn *turn,
	const struct hd_msg_members *message,
	enum hd_reason reason
) {
	struct hd_addr sender = {message->peer_ipv4, message->peer_port};
	struct hd_peer *aggregator = hd_aggregator_find(turn->server, sender);
	struct hd_message word = {.kind = HD_MSG_REPORT};

	word.report = (struct hd_msg_report){
		.job = message->job,
		.worker = HD_GROUP_WORKER,
		.direction = HD_COPY,
		.token = message->token,
		.outcome = HD_OUTCOME_FAILED,
		.reason = (uint8_t)reason,
		.position = message->position,
	};
	hd_controller_send(turn, &word);
	if (aggregator == NULL) {
		return;
	}
	word = (struct hd_message){.kind = HD_MSG_VOID};
	word.void_.job = message->job;
	word.void_.token = message->token;
	word.void_.reason = (uint8_t)reason;
	hd_peer_send(turn, aggregator, &word);
}

static enum hd_reason hd_mirror_check(
	const struct hd_turn *turn,
	const struct hd_mirror *mirror,
	const struct hd_msg_members *message,
	uint16_t count
) {
	if (message->epoch < turn->server->epoch) {
		return HD_REASON_EPOCH;
	}
	if (turn->server->draining || mirror->serve) {
		return HD_REASON_CLOSED;
	}
	if (count < 2 || message->token == 0 || message->position == 0 || message->peer_port == 0
	    || !hd_stream_fits(message, count)
	    || !hd_payload_fits(mirror->job, message->dtype, message->bytes)) {
		return HD_REASON_REFUSED;
	}
	return mirror->sum_count < HD_MIRROR_SUMS_MAX ? HD_REASON_NONE : HD_REASON_NO_MEMORY;
}

/* False: no memory, or a worker of no such rank. */
static bool hd_mirror_fill(struct hd_incoming *in, const struct hd_msg_members *message) {
	in->sum = true;
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct hd_group_member at = hd_group_get_member(&message->members, i);
		const struct hd_part part = {
			.member
			= at.worker < HD_WORKERS_MAX ? hd_job_enter(in->job, at.worker) : NULL,
			.round = at.round,
			.attempt = at.attempt,
			.base = at.base,
			.weight = at.weight,
		};

		if (part.member == NULL) {
			return false;
		}
		hd_incoming_part(in, i, &part);
	}
	return true;
}

void hd_mirror_members(
	struct hd_turn *turn,
	struct hd_mirror *mirror,
	const struct hd_msg_members *message,
	uint16_t count
) {
	enum hd_reason reason = hd_mirror_check(turn, mirror, message, count);
	struct hd_incoming *in;

	if (reason != HD_REASON_NONE) {
		turn->server->stats.refused_messages += reason != HD_REASON_NO_MEMORY ? 1 : 0;
		hd_mirror_refuse(turn, message, reason);
		return;
	}
	if (message->epoch > turn->server->epoch) {
		turn->server->epoch = message->epoch;
		hd_mirror_sums_end(turn, mirror, HD_REASON_EPOCH);
	}
	in = hd_incoming_create(turn, mirror->job, message->token, count);
	if (in == NULL || !hd_mirror_fill(in, message)) {
		if (in != NULL) {
			hd_incoming_destroy(turn->server, in);
		}
		hd_mirror_refuse(turn, message, HD_REASON_NO_MEMORY);
		return;
	}
	turn->server->stats.expected++;
	in->dtype = message->dtype;
	in->bytes = message->bytes;
	in->steps = message->dtype == HD_DTYPE_SPARSE32 ? 1 : count; /* as at the server */
	in->position = message->position;
	in->sender = (struct hd_addr){message->peer_ipv4, message->peer_port};
	in->slot_values = message->count;
	in->receiver = message->receiver;
	TAILQ_INSERT_TAIL(&mirror->sums, in, queue_link);
	mirror->sum_count++;
	if (hd_aggregator_find(turn->server, in->sender) != NULL) {
		hd_sum_bind(in, hd_aggregator_find(turn->server, in->sender));
	}
	mirror->job->dirty = true; /* its time runs */
}

/* --- named by the log -------------------------------------------------------------------------- */

bool hd_mirror_measures(const struct hd_incoming *in, const struct hd_mirror_entry *entry) {
	bool open = in->sum && in->dtype == HD_DTYPE_SPARSE32 && !in->complete;

	return open ? in->bytes >= entry->head.bytes : in->bytes == entry->head.bytes;
}

/* The same members at the same positions; and, as a new controller may give those anew, with the same weights. */
static bool hd_mirror_is(const struct hd_incoming *in, const struct hd_mirror_entry *entry) {
	const struct hd_entry *head = &entry->head;

	if (in->part_count != head->member_count || in->dtype != head->dtype
	    || !hd_mirror_measures(in, entry) || hd_incoming_weight(in) != head->weight) {
		return false;
	}
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct hd_entry_member *at = &entry->members[i];
		const struct hd_part *part = &in->parts[i];

		if (at->position != in->position + i || at->worker != part->member->rank
		    || at->round != part->round || at->base != part->base) {
			return false;
		}
	}
	return true;
}

void hd_mirror_name(struct hd_mirror *mirror, struct hd_mirror_entry *entry) {
	struct hd_incoming *in;

	TAILQ_FOREACH (in, &mirror->sums, queue_link) {
		if (hd_mirror_is(in, entry)) {
			break;
		}
	}
	if (in == NULL) {
		return;
	}
	hd_mirror_unlist(mirror, in);
	in->entry = entry;
	entry->copy = in;
	entry->asked = true;
}

/* --- ends -------------------------------------------------------------------------------------- */

bool hd_mirror_sums_yield(struct hd_turn *turn, struct hd_mirror *mirror) {
	struct hd_incoming *in;

	TAILQ_FOREACH_REVERSE(in, &mirror->sums, hd_incoming_list, queue_link) {
		if (in->buffer != NULL) {
			hd_copy_fail(turn, in, HD_REASON_NO_MEMORY);
			return true;
		}
	}
	return false;
}

/* A round is applied once: of a sum whose member is in the model the log has spoken, or a state was ahead of it. */
static bool hd_mirror_sum_is_over(const struct hd_incoming *in) {
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct hd_part *part = &in->parts[i];

		if (hd_member_round(part->member, part->round) != NULL
		    || hd_member_forgot(part->member, part->round)) {
			return true;
		}
	}
	return false;
}

void hd_mirror_sums_look(struct hd_turn *turn, struct hd_mirror *mirror) {
	struct hd_incoming *in = TAILQ_FIRST(&mirror->sums), *next;

	for (; in != NULL; in = next) {
		next = TAILQ_NEXT(in, queue_link);
		if (hd_mirror_sum_is_over(in)) {
			hd_copy_fail(turn, in, HD_REASON_CLOSED);
		} else if (turn->now > hd_ns_add(in->active, HD_MIRROR_UNNAMED_US * HD_US)) {
			hd_copy_fail(turn, in, HD_REASON_TIMEOUT);
		}
	}
}

void hd_mirror_sums_end(struct hd_turn *turn, struct hd_mirror *mirror, enum hd_reason reason) {
	struct hd_incoming *in;

	while ((in = TAILQ_FIRST(&mirror->sums)) != NULL) {
		hd_copy_fail(turn, in, reason);
	}
}
