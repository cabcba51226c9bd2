/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which updates may come: those that the controller told us to expect, and those that a worker asked
 * us for directly. Each is checked before a byte of it is taken, with the same rules.
 */
#include "hd_server_internal.h"

#include <errno.h>

/* --- the life of an incoming update ---------------------------------------------------------- */

static struct hd_incoming *hd_incoming_create(
	struct hd_turn *turn,
	struct hd_job *job,
	struct hd_member *member,
	uint64_t token
) {
	struct hd_server *server = turn->server;
	struct hd_incoming *in = calloc(1, sizeof(*in));

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
	in->member = member;
	in->active = turn->now;
	LIST_INSERT_HEAD(&member->incoming, in, member_link);
	TAILQ_INSERT_TAIL(&job->open, in, open_link);
	job->open_count++;
	return in;
}

void hd_incoming_destroy(struct hd_server *server, struct hd_incoming *in) {
	struct hd_incoming *successor;

	while ((successor = LIST_FIRST(&in->successors)) != NULL) {
		LIST_REMOVE(successor, successor_link);
		successor->predecessor = NULL;
	}
	if (in->predecessor != NULL) {
		LIST_REMOVE(in, successor_link);
	}
	if (in->queued) {
		TAILQ_REMOVE(&in->job->queue, in, queue_link);
	}
	if (in->touched) {
		TAILQ_REMOVE(&server->touched, in, touched_link);
	}
	if (in->starved) {
		TAILQ_REMOVE(&server->starved, in, starved_link);
	}
	LIST_REMOVE(in, member_link);
	TAILQ_REMOVE(&in->job->open, in, open_link);
	in->job->open_count--;
	in->job->dirty = true; /* what stood behind it may go on */
	hd_handle_remove(server, &in->handle);
	hd_timers_release(&server->timers, &in->timer);
	hd_recv_destroy(in->recv);
	hd_buffer_put(server, in->job, in->buffer);
	free(in);
}

struct hd_tombstone hd_incoming_epitaph(const struct hd_incoming *in, uint64_t token, bool done) {
	return (struct hd_tombstone){
		.handle = {.token = token, .kind = HD_HANDLE_TOMBSTONE},
		.done = done,
		.job = in->job->id,
		.worker = in->member->rank,
		.chunks = in->chunks,
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

/* Reasons that end a transfer, not the round: its worker may ask for that round again. */
static bool hd_reason_is_transient(enum hd_reason reason) {
	return reason == HD_REASON_LEASE || reason == HD_REASON_CLOSED || reason == HD_REASON_EPOCH
		|| reason == HD_REASON_NO_MEMORY || reason == HD_REASON_TIMEOUT
		|| reason == HD_REASON_LEFT;
}

static uint8_t hd_reason_outcome(enum hd_reason reason) {
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

static void hd_round_fail(
	struct hd_turn *turn,
	struct hd_job *job,
	struct hd_member *member,
	const struct hd_round *round
) {
	if (round->outcome == HD_OUTCOME_DROPPED) {
		turn->server->stats.dropped++;
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
hd_incoming_event(struct hd_turn *turn, const struct hd_incoming *in, enum hd_reason reason) {
	struct hd_event event = {
		.kind = hd_reason_is_decision(reason) ? HD_EVENT_DROPPED : HD_EVENT_VOIDED,
		.reason = reason,
		.job = in->job->id,
		.worker = in->member->rank,
		.direction = HD_PUSH,
		.round = in->round,
		.token = in->handle.token,
		.position = in->direct ? 0 : in->position,
		.version = in->job->version,
		.base = in->base,
		.bytes = in->bytes,
	};

	turn->server->stats.voided += event.kind == HD_EVENT_VOIDED ? 1 : 0;
	hd_turn_event(turn, &event);
}

/* A transfer ended, but not its round: told at once, its worker need not find out by waiting. */
static void hd_push_withdraw(
	struct hd_turn *turn,
	const struct hd_job *job,
	const struct hd_member *member,
	uint64_t token,
	enum hd_reason reason
) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = job->id;
	message.void_.token = token;
	message.void_.reason = (uint8_t)reason;
	hd_member_send(turn, member, &message);
}

void hd_incoming_fail(struct hd_turn *turn, struct hd_incoming *in, enum hd_reason reason) {
	struct hd_round round = {
		.round = in->round,
		.outcome = hd_reason_outcome(reason),
		.reason = (uint8_t)reason,
		.version = in->job->version,
	};

	hd_incoming_event(turn, in, reason);
	hd_commit_report(turn, in, &round);
	hd_round_fail(turn, in->job, in->member, &round);
	if (hd_reason_is_transient(reason)) {
		hd_push_withdraw(turn, in->job, in->member, in->handle.token, reason);
	}
	hd_incoming_end(turn, in, in->complete);
}

/* --- may it come? ---------------------------------------------------------------------------- */

static struct hd_incoming *hd_member_incoming(const struct hd_member *member, uint32_t round) {
	struct hd_incoming *in;

	LIST_FOREACH (in, &member->incoming, member_link) {
		if (in->round == round) {
			return in;
		}
	}
	return NULL;
}

/* The round has ended already, or cannot be applied any more: how, in *round. Ended rounds keep the
 * outcome that they had. */
static bool hd_push_is_over(
	const struct hd_job *job,
	const struct hd_member *member,
	hd_version base,
	struct hd_round *round
) {
	const struct hd_round *ended = hd_member_round(member, round->round);
	enum hd_reason reason = hd_commit_bound(job, base);

	round->version = job->version;
	if (ended != NULL) {
		*round = *ended;
		return true;
	}
	if (round->round == 0 || hd_member_forgot(member, round->round)) {
		reason = HD_REASON_DUPLICATE;
	}
	round->reason = (uint8_t)reason;
	round->outcome = hd_reason_outcome(reason);
	return reason != HD_REASON_NONE;
}

/* Answers a push that is over; one that is decided only now is recorded and counted. */
static void hd_push_answer(
	struct hd_turn *turn,
	struct hd_job *job,
	struct hd_member *member,
	const struct hd_round *round
) {
	struct hd_event event = {.kind = HD_EVENT_DROPPED, .reason = round->reason};

	if (hd_member_round(member, round->round) != NULL || round->reason == HD_REASON_DUPLICATE) {
		hd_commit_outcome(turn, job, member, round);
		return;
	}
	event.job = job->id;
	event.worker = member->rank;
	event.round = round->round;
	event.version = job->version;
	event.bytes = job->bytes;
	hd_turn_event(turn, &event);
	hd_round_fail(turn, job, member, round);
}

/* Makes place for a new grant of a round. False: the older one stands: its attempt is newer, or the same
 * and under way, or it is held whole already. The same attempt is granted twice when a grant was lost
 * together with the controller that gave it. */
static bool hd_push_replace(
	struct hd_turn *turn,
	const struct hd_member *member,
	uint32_t round,
	uint8_t attempt
) {
	struct hd_incoming *older = hd_member_incoming(member, round);

	if (older == NULL) {
		return true;
	}
	if (older->complete || older->attempt > attempt
	    || (older->attempt == attempt && older->started)) {
		return false;
	}
	turn->server->stats.replaced++;
	hd_incoming_end(turn, older, false);
	return true;
}

/* --- EXPECT ---------------------------------------------------------------------------------- */

/* Tells the controller that this grant ends without a transfer. */
static void hd_expect_report(
	struct hd_turn *turn,
	const struct hd_msg_expect *expect,
	uint8_t outcome,
	enum hd_reason reason
) {
	struct hd_message message = {.kind = HD_MSG_REPORT};

	message.report = (struct hd_msg_report){
		.job = expect->job,
		.worker = expect->worker,
		.round = expect->round,
		.direction = HD_PUSH,
		.attempt = expect->attempt,
		.token = expect->token,
		.outcome = outcome,
		.reason = (uint8_t)reason,
		.position = expect->position,
	};
	hd_controller_send(turn, &message);
}

/* What is wrong with an EXPECT in itself. */
static enum hd_reason hd_expect_check(
	struct hd_turn *turn,
	const struct hd_msg_expect *expect,
	const struct hd_job *job
) {
	if (expect->epoch < turn->server->epoch) {
		return HD_REASON_EPOCH;
	}
	if (turn->server->draining) {
		return HD_REASON_CLOSED;
	}
	if (job == NULL || hd_job_member(job, expect->worker) == NULL || job->restoring) {
		return HD_REASON_NO_SERVER;
	}
	if (expect->direction != HD_PUSH || !hd_payload_fits(job, expect->dtype, expect->bytes)
	    || expect->token == 0 || expect->position == 0) {
		return HD_REASON_REFUSED;
	}
	return HD_REASON_NONE;
}

static void hd_expect_accept(
	struct hd_turn *turn,
	struct hd_job *job,
	struct hd_member *member,
	const struct hd_msg_expect *expect
) {
	struct hd_incoming *in = hd_incoming_create(turn, job, member, expect->token);
	struct hd_handle *after;

	if (in == NULL) {
		hd_expect_report(turn, expect, HD_OUTCOME_FAILED, HD_REASON_NO_MEMORY);
		hd_push_withdraw(turn, job, member, expect->token, HD_REASON_NO_MEMORY);
		return;
	}
	turn->server->stats.expected++;
	in->round = expect->round;
	in->attempt = expect->attempt;
	in->dtype = expect->dtype;
	in->bytes = expect->bytes;
	in->position = expect->position;
	in->base = expect->base;
	in->weight = expect->weight;
	job->position = expect->position > job->position ? expect->position : job->position;
	hd_commit_queue(in);
	if (expect->after == 0) {
		return;
	}
	after = hd_handle_find(turn->server, expect->after);
	if (after == NULL || after->kind != HD_HANDLE_INCOMING
	    || ((struct hd_incoming *)(void *)after)->complete) {
		hd_incoming_go(turn, in);
		return;
	}
	in->predecessor = (struct hd_incoming *)(void *)after;
	LIST_INSERT_HEAD(&in->predecessor->successors, in, successor_link);
	hd_incoming_touch(turn->server, in->predecessor);
}

void hd_push_expect(struct hd_turn *turn, const struct hd_msg_expect *expect) {
	struct hd_job *job = hd_job_find(turn->server, expect->job);
	enum hd_reason reason = hd_expect_check(turn, expect, job);
	struct hd_round round = {.round = expect->round};
	struct hd_member *member = job != NULL ? hd_job_member(job, expect->worker) : NULL;
	struct hd_tombstone tomb;
	struct hd_incoming *held;

	if (hd_handle_find(turn->server, expect->token) != NULL) {
		return; /* told already */
	}
	if (reason != HD_REASON_NONE) {
		turn->server->stats.refused_messages++;
		hd_expect_report(turn, expect, HD_OUTCOME_FAILED, reason);
		if (member != NULL) {
			hd_push_withdraw(turn, job, member, expect->token, reason);
		}
		return;
	}
	turn->server->epoch = expect->epoch;
	if (hd_push_is_over(job, member, expect->base, &round)) {
		hd_push_answer(turn, job, member, &round);
		hd_expect_report(
			turn,
			expect,
			round.outcome,
			round.reason != HD_REASON_NONE ? round.reason : HD_REASON_DUPLICATE
		);
		return;
	}
	if (hd_push_replace(turn, member, expect->round, expect->attempt)) {
		hd_expect_accept(turn, job, member, expect);
		return;
	}
	/* A copy that is held whole is the one that counts: the newer grant's chunks are all `done`. */
	held = hd_member_incoming(member, expect->round);
	if (held->complete) {
		tomb = hd_incoming_epitaph(held, expect->token, true);
		hd_tombstone_add(turn->server, &tomb);
	}
	hd_expect_report(turn, expect, HD_OUTCOME_FAILED, HD_REASON_DUPLICATE);
}

/* --- direct requests ------------------------------------------------------------------------- */

static void hd_push_grant(struct hd_turn *turn, const struct hd_incoming *in) {
	struct hd_message message = {.kind = HD_MSG_GRANT};
	struct hd_event event = {
		.kind = HD_EVENT_GRANTED,
		.job = in->job->id,
		.worker = in->member->rank,
		.direction = HD_PUSH,
		.round = in->round,
		.token = in->handle.token,
		.base = in->base,
		.bytes = in->bytes,
	};

	message.grant = (struct hd_msg_grant){
		.job = in->job->id,
		.worker = in->member->rank,
		.round = in->round,
		.direction = HD_PUSH,
		.attempt = in->attempt,
		.token = in->handle.token,
		.weight = in->weight,
		.cc_weight = 1,
		.peer_ipv4 = turn->server->config.data.ipv4,
		.peer_port = turn->server->config.data.port,
		.bytes = in->bytes,
	};
	hd_turn_event(turn, &event);
	hd_member_send(turn, in->member, &message);
}

/* The weight at the delay that it will have when it is committed next. */
static float hd_push_weight(const struct hd_job *job, hd_version base) {
	uint64_t t = hd_version_counter(job->version) + 1;
	uint64_t tau = t - hd_version_counter(base);

	return hd_staleness_weight(
		job->spec.staleness_rule,
		job->spec.staleness_c,
		job->spec.tau_max,
		t,
		tau > UINT32_MAX ? UINT32_MAX : (uint32_t)tau
	);
}

static void hd_request_accept(
	struct hd_turn *turn,
	struct hd_member *member,
	const struct hd_msg_request *request
) {
	struct hd_server *server = turn->server;
	struct hd_job *job = member->peer->job;
	struct hd_incoming *in
		= hd_incoming_create(turn, job, member, hd_entropy_u64(&server->entropy));

	if (in == NULL) {
		struct hd_round round = {
			.round = request->round,
			.outcome = HD_OUTCOME_FAILED,
			.reason = HD_REASON_NO_MEMORY,
			.version = job->version,
		};

		server->stats.failed++;
		hd_commit_outcome(turn, job, member, &round);
		return;
	}
	in->direct = true;
	in->round = request->round;
	in->attempt = request->attempt;
	in->dtype = request->dtype;
	in->bytes = request->bytes;
	in->base = request->base;
	in->weight = hd_push_weight(job, request->base);
	in->starved = true;
	TAILQ_INSERT_TAIL(&server->starved, in, starved_link);
	server->freed = true; /* looked at before the call ends, after those that wait longer */
}

void hd_push_feed(struct hd_turn *turn) {
	struct hd_server *server = turn->server;
	struct hd_incoming *in = TAILQ_FIRST(&server->starved), *next;

	/* All are looked at: one job's lack of memory does not hold another's updates up. */
	for (; in != NULL; in = next) {
		next = TAILQ_NEXT(in, starved_link);
		if (hd_incoming_open(server, in) < 0) {
			continue;
		}
		TAILQ_REMOVE(&server->starved, in, starved_link);
		in->starved = false;
		in->active = turn->now;
		server->stats.granted++;
		hd_push_grant(turn, in);
	}
}

void hd_push_request(
	struct hd_turn *turn,
	struct hd_member *member,
	const struct hd_msg_request *request
) {
	struct hd_job *job = member->peer->job;
	struct hd_round round = {.round = request->round};
	struct hd_incoming *in;

	if (!hd_payload_fits(job, request->dtype, request->bytes)) {
		round.outcome = HD_OUTCOME_FAILED;
		round.reason = HD_REASON_REFUSED;
		round.version = job->version;
		turn->server->stats.refused_messages++;
		hd_commit_outcome(turn, job, member, &round);
		return;
	}
	if (hd_push_is_over(job, member, request->base, &round)) {
		if (hd_round_stands(job, request, &round)) {
			hd_commit_outcome(turn, job, member, &round);
		} else {
			hd_push_answer(turn, job, member, &round);
		}
		return;
	}
	in = hd_member_incoming(member, request->round);
	if (in != NULL && in->direct && in->attempt == request->attempt) {
		/* Asked twice: the answer is the same, once it is due and while it matters. */
		if (!in->complete && !in->starved) {
			hd_push_grant(turn, in);
		}
		return;
	}
	if (hd_push_replace(turn, member, request->round, request->attempt)) {
		hd_request_accept(turn, member, request);
	}
}

/* --- withdrawn ------------------------------------------------------------------------------- */

void hd_push_void(struct hd_turn *turn, const struct hd_msg_void_ *void_) {
	struct hd_handle *handle = hd_handle_find(turn->server, void_->token);
	struct hd_incoming *in;
	enum hd_reason reason = void_->reason < HD_REASON_COUNT && void_->reason != HD_REASON_NONE ?
		(enum hd_reason)void_->reason :
		HD_REASON_VOID;

	if (handle == NULL || handle->kind != HD_HANDLE_INCOMING) {
		return;
	}
	in = (struct hd_incoming *)(void *)handle;
	/* What is held whole needs nobody's help any more: it is committed. */
	if (in->job->id == void_->job && !in->complete) {
		hd_incoming_fail(turn, in, reason);
	}
}

void hd_push_cancel(
	struct hd_turn *turn,
	struct hd_member *member,
	const struct hd_msg_cancel *cancel
) {
	struct hd_incoming *in = hd_member_incoming(member, cancel->round);

	/* A word on an older grant is not about this one. */
	if (in == NULL || in->complete || cancel->attempt < in->attempt
	    || (cancel->token != 0 && cancel->token != in->handle.token)) {
		return;
	}
	hd_incoming_fail(turn, in, HD_REASON_CANCELLED);
}
