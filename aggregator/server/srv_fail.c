/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Updates and rounds that end without being applied. A sum fails as a whole: rounds that cannot be applied any more
 * end; the others are withdrawn, and their workers ask again.
 */
#include "hd_group.h"
#include "srv_incoming.h"
#include "srv_keep.h"

#include <assert.h>

/* Reasons that end a transfer but not its round: the worker may ask for the round again. */
static bool reason_is_transient(enum hd_reason reason) {
	return reason == HD_REASON_LEASE || reason == HD_REASON_CLOSED || reason == HD_REASON_EPOCH
		|| reason == HD_REASON_NO_MEMORY || reason == HD_REASON_TIMEOUT
		|| reason == HD_REASON_LEFT || reason == HD_REASON_EXPIRED;
}

uint8_t srv_reason_outcome(enum hd_reason reason) {
	switch (reason) {
	case HD_REASON_LATE:
	case HD_REASON_LOST_BASE:
	case HD_REASON_VOID:
	case HD_REASON_HOLD:
	case HD_REASON_BOUND:
	case HD_REASON_IDLES:
		return HD_OUTCOME_DROPPED;
	default:
		return HD_OUTCOME_FAILED;
	}
}

void srv_round_fail(
	struct srv_turn *turn,
	struct srv_job *job,
	struct srv_member *member,
	const struct srv_round *round
) {
	if (round->outcome == HD_OUTCOME_DROPPED) {
		turn->server->stats.dropped++;
		if (round->reason == HD_REASON_LATE)
			srv_federated_dropped(job);
	} else {
		turn->server->stats.failed++;
	}
	if (reason_is_transient(round->reason)) {
		srv_summary_interrupted(job, round->reason);
		return;
	}
	srv_summary_ended(job, member, round);
	srv_member_record(member, round);
	srv_commit_outcome(turn, job, member, round);
}

/* Decided on the update itself, at or before its commit; the other reasons give up a position. */
static bool reason_is_decision(enum hd_reason reason) {
	return reason == HD_REASON_LATE || reason == HD_REASON_LOST_BASE
		|| reason == HD_REASON_NOT_FINITE;
}

static void
incoming_tell(struct srv_turn *turn, const struct srv_incoming *in, enum hd_reason reason) {
	struct hd_event event = srv_incoming_event(
		in, reason_is_decision(reason) ? HD_EVENT_DROPPED : HD_EVENT_VOIDED
	);

	event.reason = reason;
	event.version = in->job->version;
	turn->server->stats.voided += event.kind == HD_EVENT_VOIDED ? 1 : 0;
	srv_turn_event(turn, &event);
}

/* The reason for one part of a failed transfer. A sum fails because of some of its parts; the workers of the others get
 * a reason by which they may ask again. */
static enum hd_reason
part_reason(const struct srv_part *part, enum hd_reason reason, const struct srv_part *cause) {
	enum hd_reason own;

	if (part->in->kind != SRV_SUM || part == cause)
		return reason;
	own = srv_commit_bound(part->in->job, part->base, 0);
	if (own != HD_REASON_NONE)
		return own;
	return reason_is_transient(reason) ? reason : HD_REASON_TIMEOUT;
}

static void part_fail(struct srv_turn *turn, const struct srv_part *part, enum hd_reason reason) {
	struct srv_job *job = part->in->job;
	uint64_t token = part->in->kind == SRV_SUM ? part->handle.token : part->in->handle.token;
	struct srv_round round = {
		.round = part->round,
		.outcome = srv_reason_outcome(reason),
		.reason = (uint8_t)reason,
		.version = job->version,
	};

	srv_round_fail(turn, job, part->member, &round);
	if (reason_is_transient(reason))
		srv_push_withdraw(turn, job, part->member, token, reason);
}

bool srv_credit_unspent(const struct srv_incoming *in) {
	return in->kind == SRV_CREDIT && in->state < SRV_COMING;
}

void srv_credit_end(
	struct srv_turn *turn,
	struct srv_incoming *in,
	enum hd_reason reason,
	bool report
) {
	const struct srv_part *part = &in->parts[0];
	struct hd_event event = srv_incoming_event(in, HD_EVENT_VOIDED);
	const struct hd_msg_credit credit = {
		.job = in->job->id,
		.worker = part->member->rank,
		.round = part->round,
		.attempt = part->attempt,
		.token = in->handle.token,
		.position = in->position,
	};

	event.reason = reason;
	event.version = in->job->version;
	event.aux = 1;
	turn->server->stats.credits_unspent++;
	srv_turn_event(turn, &event);
	if (report)
		srv_credit_report(turn, &credit, reason);
	srv_push_withdraw(turn, in->job, part->member, credit.token, reason);
	srv_incoming_end(turn, in, false);
}

void srv_push_fail(
	struct srv_turn *turn,
	struct srv_incoming *in,
	enum hd_reason reason,
	const struct srv_part *cause
) {
	struct srv_round round = {
		.outcome = srv_reason_outcome(reason),
		.reason = (uint8_t)reason,
	};

	assert(!srv_incoming_is_copy(in));
	if (srv_credit_unspent(in) && reason != HD_REASON_CANCELLED) {
		srv_credit_end(turn, in, reason, true);
		return;
	}
	incoming_tell(turn, in, reason);
	srv_commit_report(turn, in, &round);
	for (uint16_t i = 0; i < in->part_count; i++)
		part_fail(turn, &in->parts[i], part_reason(&in->parts[i], reason, cause));
	if (in->kind == SRV_SUM)
		srv_peer_withdraw(turn, in->aggregator, in->job, in->handle.token, reason);
	srv_incoming_end(turn, in, srv_incoming_is_whole(in));
}
