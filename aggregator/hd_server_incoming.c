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
#include "hd_replica.h"
#include "hd_server_credit.h"

#include <errno.h>

/* --- beginning and ending --------------------------------------------------------------------- */

struct hd_incoming *
hd_incoming_create(struct hd_turn *turn, struct hd_job *job, uint64_t token, uint16_t part_count) {
	struct hd_server *server = turn->server;
	struct hd_incoming *in = calloc(1, sizeof(*in) + part_count * sizeof(in->parts[0]));

	if (in == NULL) {
		return NULL;
	}
	if (hd_timers_reserve(&server->timers) < 0) {
		free(in);
		return NULL;
	}
	in->handle.kind = HD_HANDLE_INCOMING;
	in->handle.token = token;
	if (hd_handle_add(server, &in->handle) < 0) {
		hd_timers_release(&server->timers, &in->timer);
		free(in);
		return NULL;
	}
	in->timer.kind = HD_TIMER_INCOMING;
	in->job = job;
	in->active = turn->now;
	in->part_count = part_count;
	in->steps = 1;
	in->scale = 1;
	TAILQ_INSERT_TAIL(&job->open, in, open_link);
	job->open_count++;
	return in;
}

void hd_incoming_part(struct hd_incoming *in, uint16_t index, const struct hd_part *like) {
	struct hd_part *part = &in->parts[index];

	*part = *like;
	part->in = in;
	LIST_INSERT_HEAD(&part->member->parts, part, member_link);
}

/* From the lists that others walk. */
static void hd_incoming_unlink(struct hd_server *server, struct hd_incoming *in) {
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

void hd_incoming_destroy(struct hd_server *server, struct hd_incoming *in) {
	struct hd_incoming *successor;

	while ((successor = LIST_FIRST(&in->successors)) != NULL) {
		LIST_REMOVE(successor, successor_link);
		successor->predecessor = NULL;
	}
	for (uint16_t i = 0; i < in->part_count; i++) {
		struct hd_part *part = &in->parts[i];

		if (part->member != NULL) {
			LIST_REMOVE(part, member_link);
		}
		if (part->handle.kind == HD_HANDLE_PART) {
			hd_handle_remove(server, &part->handle);
		}
	}
	hd_incoming_unlink(server, in);
	in->job->dirty = true; /* what stood behind it may go on */
	hd_handle_remove(server, &in->handle);
	hd_timers_release(&server->timers, &in->timer);
	hd_recv_destroy(in->recv);
	hd_buffer_put(server, in->job, in->buffer);
	free(in);
}

double hd_incoming_weights(const struct hd_incoming *in) {
	double weights = 0;

	for (uint16_t i = 0; i < in->part_count; i++) {
		weights += (double)in->parts[i].weight;
	}
	return weights;
}

float hd_incoming_weight(const struct hd_incoming *in) {
	float weight = 0;

	for (uint16_t i = 0; i < in->part_count; i++) {
		weight += in->parts[i].weight;
	}
	return weight;
}

struct hd_peer *hd_incoming_peer(const struct hd_incoming *in) {
	if (hd_incoming_is_copy(in) && !in->sum) {
		return in->source;
	}
	return in->sum ? in->aggregator : in->parts[0].member->peer;
}

struct hd_event hd_incoming_event(const struct hd_incoming *in, enum hd_event_kind kind) {
	const struct hd_part *part = &in->parts[0];

	return (struct hd_event){
		.kind = kind,
		.job = in->job->id,
		.worker = in->sum ? HD_GROUP_WORKER : part->member->rank,
		.direction = hd_incoming_is_copy(in) ? HD_COPY : HD_PUSH,
		.round = in->sum ? 0 : part->round,
		.token = in->handle.token,
		.position = in->direct ? 0 : in->position,
		.base = in->sum ? 0 : part->base,
		.bytes = in->bytes,
	};
}

/* --- tombstones ------------------------------------------------------------------------------- */

struct hd_tombstone hd_incoming_epitaph(const struct hd_incoming *in, uint64_t token, bool done) {
	return (struct hd_tombstone){
		.handle = {.token = token, .kind = HD_HANDLE_TOMBSTONE},
		.done = done,
		.copy = hd_incoming_is_copy(in),
		.job = in->job->id,
		.worker = in->sum ? HD_GROUP_WORKER : in->parts[0].member->rank,
		.sender = in->sender,
		.chunks = in->chunks,
		.slot_values = in->slot_values,
		.receiver = in->receiver,
	};
}

void hd_tombstone_add(struct hd_server *server, const struct hd_tombstone *like) {
	struct hd_tombstone *tomb = &server->tombstones[server->tombstone_next];

	server->tombstone_next = (server->tombstone_next + 1) % HD_TOMBSTONES_MAX;
	if (tomb->used) {
		hd_handle_remove(server, &tomb->handle);
	}
	*tomb = *like;
	tomb->used = hd_handle_add(server, &tomb->handle) == 0;
}

void hd_incoming_end(struct hd_turn *turn, struct hd_incoming *in, bool done) {
	struct hd_tombstone tomb = hd_incoming_epitaph(in, in->handle.token, done);
	struct hd_incoming *successor;

	while ((successor = LIST_FIRST(&in->successors)) != NULL) {
		hd_incoming_go(turn, successor);
	}
	hd_incoming_destroy(turn->server, in);
	hd_tombstone_add(turn->server, &tomb);
}

/* --- failing ---------------------------------------------------------------------------------- */

/* Reasons that end a transfer, not the round: its worker may ask for that round again. */
static bool hd_reason_is_transient(enum hd_reason reason) {
	return reason == HD_REASON_LEASE || reason == HD_REASON_CLOSED || reason == HD_REASON_EPOCH
		|| reason == HD_REASON_NO_MEMORY || reason == HD_REASON_TIMEOUT
		|| reason == HD_REASON_LEFT || reason == HD_REASON_EXPIRED;
}

uint8_t hd_reason_outcome(enum hd_reason reason) {
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

void hd_round_fail(
	struct hd_turn *turn,
	struct hd_job *job,
	struct hd_member *member,
	const struct hd_round *round
) {
	if (round->outcome == HD_OUTCOME_DROPPED) {
		turn->server->stats.dropped++;
		if (round->reason == HD_REASON_LATE) {
			hd_rounds_dropped(job);
		}
	} else {
		turn->server->stats.failed++;
	}
	if (hd_reason_is_transient(round->reason)) {
		hd_report_interrupted(job, round->reason);
		return;
	}
	hd_report_ended(job, member, round);
	hd_member_record(member, round);
	hd_commit_outcome(turn, job, member, round);
}

/* Decided on the update itself, at or before its commit; the rest is a position given up. */
static bool hd_reason_is_decision(enum hd_reason reason) {
	return reason == HD_REASON_LATE || reason == HD_REASON_LOST_BASE
		|| reason == HD_REASON_NOT_FINITE;
}

static void
hd_incoming_tell(struct hd_turn *turn, const struct hd_incoming *in, enum hd_reason reason) {
	struct hd_event event = hd_incoming_event(
		in, hd_reason_is_decision(reason) ? HD_EVENT_DROPPED : HD_EVENT_VOIDED
	);

	event.reason = reason;
	event.version = in->job->version;
	turn->server->stats.voided += event.kind == HD_EVENT_VOIDED ? 1 : 0;
	hd_turn_event(turn, &event);
}

static void hd_peer_withdraw(
	struct hd_turn *turn,
	struct hd_peer *peer,
	const struct hd_job *job,
	uint64_t token,
	enum hd_reason reason
) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = job->id;
	message.void_.token = token;
	message.void_.reason = (uint8_t)reason;
	if (peer != NULL) {
		hd_peer_send(turn, peer, &message);
	}
}

void hd_push_withdraw(
	struct hd_turn *turn,
	const struct hd_job *job,
	const struct hd_member *member,
	uint64_t token,
	enum hd_reason reason
) {
	hd_peer_withdraw(turn, member->peer, job, token, reason);
}

/* How a part of a failed transfer ends. A sum fails whole, but its parts are not all to blame: whose worker may
 * ask again gets a reason that says so. */
static enum hd_reason
hd_part_reason(const struct hd_part *part, enum hd_reason reason, const struct hd_part *cause) {
	enum hd_reason own;

	if (!part->in->sum || part == cause) {
		return reason;
	}
	own = hd_commit_bound(part->in->job, part->base, 0);
	if (own != HD_REASON_NONE) {
		return own;
	}
	return hd_reason_is_transient(reason) ? reason : HD_REASON_TIMEOUT;
}

static void hd_part_fail(struct hd_turn *turn, const struct hd_part *part, enum hd_reason reason) {
	struct hd_job *job = part->in->job;
	uint64_t token = part->in->sum ? part->handle.token : part->in->handle.token;
	struct hd_round round = {
		.round = part->round,
		.outcome = hd_reason_outcome(reason),
		.reason = (uint8_t)reason,
		.version = job->version,
	};

	hd_round_fail(turn, job, part->member, &round);
	if (hd_reason_is_transient(reason)) {
		hd_push_withdraw(turn, job, part->member, token, reason);
	}
}

void hd_incoming_fail(
	struct hd_turn *turn,
	struct hd_incoming *in,
	enum hd_reason reason,
	const struct hd_part *cause
) {
	struct hd_round round = {
		.outcome = hd_reason_outcome(reason),
		.reason = (uint8_t)reason,
	};

	if (hd_incoming_is_copy(in)) {
		hd_copy_fail(turn, in, reason);
		return;
	}
	if (hd_credit_unspent(in) && reason != HD_REASON_CANCELLED) {
		hd_credit_end(turn, in, reason, true);
		return;
	}
	hd_incoming_tell(turn, in, reason);
	hd_commit_report(turn, in, &round);
	for (uint16_t i = 0; i < in->part_count; i++) {
		hd_part_fail(turn, &in->parts[i], hd_part_reason(&in->parts[i], reason, cause));
	}
	if (in->sum) {
		hd_peer_withdraw(turn, in->aggregator, in->job, in->handle.token, reason);
	}
	hd_incoming_end(turn, in, in->complete);
}
