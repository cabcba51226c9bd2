/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an update that comes: of one worker, or the sum of several, which is one transfer with a part for each.
 *
 *   EXPECT, REQUEST --> one part  \
 *   MEMBERS --------> k parts  ----> told, started, complete, applied: k rounds end APPLIED
 *                                  \--> failed: rounds that cannot be applied any more end, the others are
 *                                       withdrawn: their workers ask again
 */
#include "hd_group.h"
#include "rep_internal.h"
#include "srv_credit.h"

#include <errno.h>

/* --- beginning and ending --------------------------------------------------------------------- */

struct srv_incoming *srv_incoming_create(
	struct srv_turn *turn,
	struct srv_job *job,
	uint64_t token,
	uint16_t part_count
) {
	struct hd_server *server = turn->server;
	struct srv_incoming *in = calloc(1, sizeof(*in) + part_count * sizeof(in->parts[0]));

	if (in == NULL) {
		return NULL;
	}
	if (hd_timers_reserve(&server->timers) < 0) {
		free(in);
		return NULL;
	}
	in->handle.kind = SRV_HANDLE_INCOMING;
	in->handle.token = token;
	if (srv_handle_add(server, &in->handle) < 0) {
		hd_timers_release(&server->timers, &in->timer);
		free(in);
		return NULL;
	}
	in->timer.kind = SRV_TIMER_INCOMING;
	in->job = job;
	in->active = turn->now;
	in->part_count = part_count;
	in->steps = 1;
	in->scale = 1;
	TAILQ_INSERT_TAIL(&job->open, in, open_link);
	job->open_count++;
	return in;
}

void srv_incoming_part(struct srv_incoming *in, uint16_t index, const struct srv_part *like) {
	struct srv_part *part = &in->parts[index];

	*part = *like;
	part->in = in;
	LIST_INSERT_HEAD(&part->member->parts, part, member_link);
}

/* From the lists that others walk. */
static void incoming_unlink(struct hd_server *server, struct srv_incoming *in) {
	if (in->predecessor != NULL) {
		LIST_REMOVE(in, successor_link);
	}
	if (in->queued) {
		TAILQ_REMOVE(&in->job->queue, in, queue_link);
	}
	if (in->stepped) {
		TAILQ_REMOVE(&in->job->step.members, in, queue_link);
	}
	if (in->touched) {
		TAILQ_REMOVE(&server->touched, in, touched_link);
	}
	if (in->starved) {
		TAILQ_REMOVE(&server->starved, in, starved_link);
	}
	if (in->aggregator != NULL) {
		LIST_REMOVE(in, aggregator_link);
	}
	TAILQ_REMOVE(&in->job->open, in, open_link);
	in->job->open_count--;
}

void srv_incoming_destroy(struct hd_server *server, struct srv_incoming *in) {
	struct srv_incoming *successor;

	while ((successor = LIST_FIRST(&in->successors)) != NULL) {
		LIST_REMOVE(successor, successor_link);
		successor->predecessor = NULL;
	}
	for (uint16_t i = 0; i < in->part_count; i++) {
		struct srv_part *part = &in->parts[i];

		if (part->member != NULL) {
			LIST_REMOVE(part, member_link);
		}
		if (part->handle.kind == SRV_HANDLE_PART) {
			srv_handle_remove(server, &part->handle);
		}
	}
	incoming_unlink(server, in);
	in->job->dirty = true; /* what stood behind it may go on */
	srv_handle_remove(server, &in->handle);
	hd_timers_release(&server->timers, &in->timer);
	hd_recv_destroy(in->recv);
	srv_buffer_put(server, in->job, in->buffer);
	free(in);
}

double srv_incoming_weights(const struct srv_incoming *in) {
	double weights = 0;

	for (uint16_t i = 0; i < in->part_count; i++) {
		weights += (double)in->parts[i].weight;
	}
	return weights;
}

float srv_incoming_weight(const struct srv_incoming *in) {
	float weight = 0;

	for (uint16_t i = 0; i < in->part_count; i++) {
		weight += in->parts[i].weight;
	}
	return weight;
}

struct srv_peer *srv_incoming_peer(const struct srv_incoming *in) {
	if (srv_incoming_is_copy(in) && !in->sum) {
		return in->source;
	}
	return in->sum ? in->aggregator : in->parts[0].member->peer;
}

struct hd_event srv_incoming_event(const struct srv_incoming *in, enum hd_event_kind kind) {
	const struct srv_part *part = &in->parts[0];

	return (struct hd_event){
		.kind = kind,
		.job = in->job->id,
		.worker = in->sum ? HD_GROUP_WORKER : part->member->rank,
		.direction = srv_incoming_is_copy(in) ? HD_COPY : HD_PUSH,
		.round = in->sum ? 0 : part->round,
		.token = in->handle.token,
		.position = in->direct ? 0 : in->position,
		.base = in->sum ? 0 : part->base,
		.bytes = in->bytes,
	};
}

/* --- tombstones ------------------------------------------------------------------------------- */

struct srv_tombstone
srv_incoming_epitaph(const struct srv_incoming *in, uint64_t token, bool done) {
	return (struct srv_tombstone){
		.handle = {.token = token, .kind = SRV_HANDLE_TOMBSTONE},
		.done = done,
		.copy = srv_incoming_is_copy(in),
		.job = in->job->id,
		.worker = in->sum ? HD_GROUP_WORKER : in->parts[0].member->rank,
		.sender = in->sender,
		.chunks = in->chunks,
		.slot_values = in->slot_values,
		.receiver = in->receiver,
	};
}

void srv_tombstone_add(struct hd_server *server, const struct srv_tombstone *like) {
	struct srv_tombstone *tomb = &server->tombstones[server->tombstone_next];

	server->tombstone_next = (server->tombstone_next + 1) % HD_TOMBSTONES_MAX;
	if (tomb->used) {
		srv_handle_remove(server, &tomb->handle);
	}
	*tomb = *like;
	tomb->used = srv_handle_add(server, &tomb->handle) == 0;
}

void srv_incoming_end(struct srv_turn *turn, struct srv_incoming *in, bool done) {
	struct srv_tombstone tomb = srv_incoming_epitaph(in, in->handle.token, done);
	struct srv_incoming *successor;

	while ((successor = LIST_FIRST(&in->successors)) != NULL) {
		srv_incoming_go(turn, successor);
	}
	srv_incoming_destroy(turn->server, in);
	srv_tombstone_add(turn->server, &tomb);
}

/* --- failing ---------------------------------------------------------------------------------- */

/* Reasons that end a transfer, not the round: its worker may ask for that round again. */
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
		if (round->reason == HD_REASON_LATE) {
			srv_rounds_dropped(job);
		}
	} else {
		turn->server->stats.failed++;
	}
	if (reason_is_transient(round->reason)) {
		srv_report_interrupted(job, round->reason);
		return;
	}
	srv_report_ended(job, member, round);
	srv_member_record(member, round);
	srv_commit_outcome(turn, job, member, round);
}

/* Decided on the update itself, at or before its commit; the rest is a position given up. */
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

static void peer_withdraw(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct srv_job *job,
	uint64_t token,
	enum hd_reason reason
) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = job->id;
	message.void_.token = token;
	message.void_.reason = (uint8_t)reason;
	if (peer != NULL) {
		srv_peer_send(turn, peer, &message);
	}
}

void srv_push_withdraw(
	struct srv_turn *turn,
	const struct srv_job *job,
	const struct srv_member *member,
	uint64_t token,
	enum hd_reason reason
) {
	peer_withdraw(turn, member->peer, job, token, reason);
}

/* How a part of a failed transfer ends. A sum fails whole, but its parts are not all to blame: whose worker may
 * ask again gets a reason that says so. */
static enum hd_reason
part_reason(const struct srv_part *part, enum hd_reason reason, const struct srv_part *cause) {
	enum hd_reason own;

	if (!part->in->sum || part == cause) {
		return reason;
	}
	own = srv_commit_bound(part->in->job, part->base, 0);
	if (own != HD_REASON_NONE) {
		return own;
	}
	return reason_is_transient(reason) ? reason : HD_REASON_TIMEOUT;
}

static void part_fail(struct srv_turn *turn, const struct srv_part *part, enum hd_reason reason) {
	struct srv_job *job = part->in->job;
	uint64_t token = part->in->sum ? part->handle.token : part->in->handle.token;
	struct srv_round round = {
		.round = part->round,
		.outcome = srv_reason_outcome(reason),
		.reason = (uint8_t)reason,
		.version = job->version,
	};

	srv_round_fail(turn, job, part->member, &round);
	if (reason_is_transient(reason)) {
		srv_push_withdraw(turn, job, part->member, token, reason);
	}
}

void srv_incoming_fail(
	struct srv_turn *turn,
	struct srv_incoming *in,
	enum hd_reason reason,
	const struct srv_part *cause
) {
	struct srv_round round = {
		.outcome = srv_reason_outcome(reason),
		.reason = (uint8_t)reason,
	};

	if (srv_incoming_is_copy(in)) {
		rep_copy_fail(turn, in, reason);
		return;
	}
	if (srv_credit_unspent(in) && reason != HD_REASON_CANCELLED) {
		srv_credit_end(turn, in, reason, true);
		return;
	}
	incoming_tell(turn, in, reason);
	srv_commit_report(turn, in, &round);
	for (uint16_t i = 0; i < in->part_count; i++) {
		part_fail(turn, &in->parts[i], part_reason(&in->parts[i], reason, cause));
	}
	if (in->sum) {
		peer_withdraw(turn, in->aggregator, in->job, in->handle.token, reason);
	}
	srv_incoming_end(turn, in, in->complete);
}
