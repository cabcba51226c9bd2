/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accepting updates: those that the controller told us to expect, and those that a worker requested from us directly.
 * The same rules check each before a byte is taken.
 */
#include "hd_kernels.h"
#include "srv_replica.h"
#include "srv_update.h"

#include <errno.h>
#include <math.h>

/* --- admission -------------------------------------------------------------------------------- */

bool srv_push_is_over(
	const struct srv_job *job,
	const struct srv_member *member,
	hd_version base,
	uint64_t ahead,
	struct srv_round *round
) {
	const struct srv_round *ended = srv_member_round(member, round->round);
	enum hd_reason reason = srv_commit_bound(job, base, ahead);

	round->version = job->version;
	/* A round in this history has its base in it, too. If the base is not, this is another push with the same
	 * number: the worker was restarted at a server that was cut off. */
	if (ended && reason != HD_REASON_LOST_BASE) {
		*round = *ended;
		return true;
	}
	if (round->round == 0 || srv_member_forgot(member, round->round))
		reason = HD_REASON_DUPLICATE;
	round->reason = (uint8_t)reason;
	round->outcome = srv_reason_outcome(reason);
	return reason != HD_REASON_NONE;
}

void srv_push_answer(
	struct srv_turn *turn,
	struct srv_job *job,
	struct srv_member *member,
	const struct srv_round *round
) {
	struct hd_event event = {.kind = HD_EVENT_DROPPED, .reason = round->reason};

	if (srv_member_round(member, round->round) || round->reason == HD_REASON_DUPLICATE) {
		srv_commit_outcome(turn, job, member, round);
		return;
	}
	event.job = job->id;
	event.worker = member->rank;
	event.round = round->round;
	event.version = job->version;
	event.bytes = job->bytes;
	srv_turn_event(turn, &event);
	srv_round_fail(turn, job, member, round);
}

/* The same attempt is granted twice if the grant was lost with the controller that made it. */
bool srv_part_is_superseded(const struct srv_part *older, uint8_t attempt) {
	const struct srv_incoming *in = older->in;

	return !srv_incoming_is_whole(in)
		&& (older->attempt < attempt
		    || (older->attempt == attempt && in->state < SRV_COMING));
}

void srv_part_replace(struct srv_turn *turn, const struct srv_part *older) {
	turn->server->stats.replaced++;
	if (older->in->kind == SRV_SUM) {
		/* Tells the other workers of the sum at once, and its aggregator. */
		srv_push_fail(turn, older->in, HD_REASON_TIMEOUT, NULL);
		return;
	}
	if (srv_credit_unspent(older->in)) {
		srv_credit_end(turn, older->in, HD_REASON_CLOSED, true);
		return;
	}
	srv_incoming_end(turn, older->in, false);
}

/* Replaces an older grant of the round. False: the older one stays. */
static bool push_replace(
	struct srv_turn *turn,
	const struct srv_member *member,
	uint32_t round,
	uint8_t attempt
) {
	const struct srv_part *older = srv_member_part(member, round);

	if (!older)
		return true;
	if (!srv_part_is_superseded(older, attempt))
		return false;
	srv_part_replace(turn, older);
	return true;
}

/* --- EXPECT ----------------------------------------------------------------------------------- */

/* Tells the controller that this grant ends without a transfer. */
static void expect_report(
	struct srv_turn *turn,
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
	srv_controller_send(turn, &message);
}

/* Checks the EXPECT itself. */
static enum hd_reason
expect_check(struct srv_turn *turn, const struct hd_msg_expect *expect, const struct srv_job *job) {
	if (expect->epoch < turn->server->epoch)
		return HD_REASON_EPOCH;
	if (turn->server->draining)
		return HD_REASON_CLOSED;
	if (!job || !srv_job_member(job, expect->worker) || srv_job_away(job))
		return HD_REASON_NO_SERVER;
	if (expect->direction != HD_PUSH || !srv_payload_fits(job, expect->dtype, expect->bytes)
	    || expect->token == 0 || expect->position == 0)
		return HD_REASON_REFUSED;
	return HD_REASON_NONE;
}

static void expect_accept(
	struct srv_turn *turn,
	struct srv_job *job,
	struct srv_member *member,
	const struct hd_msg_expect *expect
) {
	struct srv_incoming *in = srv_incoming_create(turn, job, expect->token, 1);
	const struct srv_part part = {
		.member = member,
		.round = expect->round,
		.attempt = expect->attempt,
		.base = expect->base,
		.weight = expect->weight,
	};

	if (!in) {
		expect_report(turn, expect, HD_OUTCOME_FAILED, HD_REASON_NO_MEMORY);
		srv_push_withdraw(turn, job, member, expect->token, HD_REASON_NO_MEMORY);
		return;
	}
	turn->server->stats.expected++;
	srv_incoming_expect(in, expect, &part);
	in->position = expect->position;
	job->position = expect->position > job->position ? expect->position : job->position;
	srv_commit_queue(in);
	srv_incoming_follow(turn, in, expect->after);
}

void srv_push_expect(struct srv_turn *turn, const struct hd_msg_expect *expect) {
	struct srv_job *job = srv_job_find(turn->server, expect->job);
	enum hd_reason reason = expect_check(turn, expect, job);
	struct srv_round round = {.round = expect->round};
	struct srv_member *member = job ? srv_job_member(job, expect->worker) : NULL;
	struct srv_tombstone tomb;
	const struct srv_part *held;

	if (srv_handle_find(turn->server, expect->token))
		return; /* a repeated EXPECT */
	if (expect->direction == HD_COPY) {
		rep_ops.expect(turn, expect);
		return;
	}
	if (reason != HD_REASON_NONE) {
		turn->server->stats.refused_messages++;
		expect_report(turn, expect, HD_OUTCOME_FAILED, reason);
		if (member)
			srv_push_withdraw(turn, job, member, expect->token, reason);
		return;
	}
	turn->server->epoch = expect->epoch;
	if (srv_push_is_over(job, member, expect->base, 0, &round)) {
		srv_push_answer(turn, job, member, &round);
		expect_report(
			turn,
			expect,
			round.outcome,
			round.reason != HD_REASON_NONE ? round.reason : HD_REASON_DUPLICATE
		);
		return;
	}
	if (push_replace(turn, member, expect->round, expect->attempt)) {
		expect_accept(turn, job, member, expect);
		return;
	}
	/* An update that is complete stays: all chunks of the newer grant are answered with `done`. */
	held = srv_member_part(member, expect->round);
	if (srv_incoming_is_whole(held->in)) {
		tomb = srv_incoming_epitaph(held->in, expect->token, true);
		tomb.worker = member->rank;
		srv_tombstone_add(turn->server, &tomb);
	}
	expect_report(turn, expect, HD_OUTCOME_FAILED, HD_REASON_DUPLICATE);
}

/* --- direct requests -------------------------------------------------------------------------- */

static void push_grant(struct srv_turn *turn, const struct srv_incoming *in) {
	struct hd_message message = {.kind = HD_MSG_GRANT};
	struct hd_event event = srv_incoming_event(in, HD_EVENT_GRANTED);
	const struct srv_part *part = &in->parts[0];

	message.grant = (struct hd_msg_grant){
		.job = in->job->id,
		.worker = part->member->rank,
		.round = part->round,
		.direction = HD_PUSH,
		.attempt = part->attempt,
		.token = in->handle.token,
		.weight = part->weight,
		.cc_weight = 1,
		.peer_ipv4 = turn->server->config.data.ipv4,
		.peer_port = turn->server->config.data.port,
		.bytes = in->bytes,
		.dtype = in->dtype,
		.exponent = (uint16_t)in->exponent,
	};
	srv_turn_event(turn, &event);
	srv_member_send(turn, part->member, &message);
}

/* The weight for the delay that it will have if it is committed next. */
static float push_weight(const struct srv_job *job, const struct hd_msg_request *request) {
	uint64_t t = hd_version_counter(job->version) + 1;
	uint64_t tau = t - hd_version_counter(request->base);

	if (job->spec.sync == HD_SYNC_FEDERATED && request->weight > 0)
		return request->weight;
	return hd_staleness_weight(
		job->spec.staleness_rule,
		job->spec.staleness_c,
		job->spec.tau_max,
		t,
		tau > UINT32_MAX ? UINT32_MAX : (uint32_t)tau
	);
}

/* The exponent with which the greatest weighted value just fits a lane. The worker reports if none does. */
static int16_t push_exponent(const struct hd_msg_request *request, float weight) {
	double peak = fabs((double)request->peak * (double)weight);

	if (request->dtype != HD_DTYPE_FIXED32 || !isfinite(peak))
		return 0;
	return (int16_t)hd_fixed_exponent(peak, 1);
}

static void request_accept(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_request *request
) {
	struct hd_server *server = turn->server;
	struct srv_job *job = member->peer->job;
	struct srv_incoming *in = srv_incoming_create(
		turn, job, hd_token_draw(&server->entropy, !job->spec.unsealed), 1
	);
	const struct srv_part part = {
		.member = member,
		.round = request->round,
		.attempt = request->attempt,
		.base = request->base,
		.weight = push_weight(job, request),
	};

	if (!in) {
		struct srv_round round = {
			.round = request->round,
			.outcome = HD_OUTCOME_FAILED,
			.reason = HD_REASON_NO_MEMORY,
			.version = job->version,
		};

		server->stats.failed++;
		srv_commit_outcome(turn, job, member, &round);
		return;
	}
	srv_incoming_part(in, 0, &part);
	in->kind = SRV_DIRECT;
	in->dtype = request->dtype;
	in->exponent = push_exponent(request, part.weight);
	in->bytes = request->bytes;
	srv_incoming_enter(in, SRV_STARVED);
	TAILQ_INSERT_TAIL(&server->starved, in, starved_link);
	server->freed = true; /* handled before the call ends, after those that wait longer */
}

void srv_push_feed(struct srv_turn *turn) {
	struct hd_server *server = turn->server;
	struct srv_incoming *in = TAILQ_FIRST(&server->starved), *next;

	/* Tries all: a job without memory does not hold up another's updates. */
	for (; in; in = next) {
		next = TAILQ_NEXT(in, starved_link);
		if (srv_incoming_open(server, in, NULL) < 0)
			continue;
		TAILQ_REMOVE(&server->starved, in, starved_link);
		srv_incoming_enter(in, SRV_ANNOUNCED);
		in->granted = in->active = turn->now;
		server->stats.granted++;
		push_grant(turn, in);
	}
}

/* A round that is not remembered, but whose worker was told its version: it stays applied if that is in this
 * history. */
static bool round_stands(
	const struct srv_job *job,
	const struct srv_member *member,
	const struct hd_msg_request *request,
	struct srv_round *round
) {
	uint64_t counter = hd_version_counter(request->have);

	if (srv_member_round(member, request->round) || counter == 0
	    || counter <= hd_version_counter(request->base) || !srv_job_knows(job, request->have))
		return false;
	*round = (struct srv_round){
		.round = request->round,
		.outcome = HD_OUTCOME_APPLIED,
		.delay = job->spec.sync != HD_SYNC_NONE ?
			0 :
			(uint32_t)(counter - hd_version_counter(request->base)),
		.version = request->have,
	};
	return true;
}

void srv_push_request(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_request *request
) {
	struct srv_job *job = member->peer->job;
	struct srv_round round = {.round = request->round};
	const struct srv_part *part;

	if (!srv_payload_fits(job, request->dtype, request->bytes) || !(request->weight >= 0)
	    || isinf(request->weight)) {
		round.outcome = HD_OUTCOME_FAILED;
		round.reason = HD_REASON_REFUSED;
		round.version = job->version;
		turn->server->stats.refused_messages++;
		srv_commit_outcome(turn, job, member, &round);
		return;
	}
	if (round_stands(job, member, request, &round)) {
		srv_commit_outcome(turn, job, member, &round);
		return;
	}
	if (srv_push_is_over(job, member, request->base, 0, &round)) {
		srv_push_answer(turn, job, member, &round);
		return;
	}
	part = srv_member_part(member, request->round);
	if (part && part->in->kind == SRV_DIRECT && part->attempt == request->attempt) {
		/* Asked twice: grants again if that was due, and while it matters. */
		if (part->in->state >= SRV_ANNOUNCED && !srv_incoming_is_whole(part->in))
			push_grant(turn, part->in);
		return;
	}
	if (push_replace(turn, member, request->round, request->attempt))
		request_accept(turn, member, request);
}

/* --- withdrawn -------------------------------------------------------------------------------- */

/* The transfer named by a token: its own or that of one of its parts. */
static struct srv_incoming *
incoming_named(const struct hd_server *server, uint64_t token, const struct srv_part **part) {
	struct srv_handle *handle = srv_handle_find((struct hd_server *)server, token);

	*part = NULL;
	if (handle && handle->kind == SRV_HANDLE_PART) {
		*part = hd_container_of(handle, const struct srv_part, handle);
		return (*part)->in;
	}
	return handle && handle->kind == SRV_HANDLE_INCOMING ?
		hd_container_of(handle, struct srv_incoming, handle) :
		NULL;
}

void srv_push_void(struct srv_turn *turn, const struct hd_msg_void_ *void_) {
	const struct srv_part *part;
	struct srv_incoming *in = incoming_named(turn->server, void_->token, &part);
	enum hd_reason reason = void_->reason < HD_REASON_COUNT && void_->reason != HD_REASON_NONE ?
		(enum hd_reason)void_->reason :
		HD_REASON_VOID;

	if (in && in->state >= SRV_COMING && reason == HD_REASON_EXPIRED)
		return; /* a credit that was taken back, but spent before */
	/* A complete update needs no sender any more: it is committed. */
	if (in && in->job->id == void_->job && !srv_incoming_is_whole(in))
		srv_incoming_fail(turn, in, reason, part);
}

void srv_push_cancel(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_cancel *cancel
) {
	const struct srv_part *part = srv_member_part(member, cancel->round);
	uint64_t token;

	if (!part)
		return;
	token = part->in->kind == SRV_SUM ? part->handle.token : part->in->handle.token;
	/* A cancel of an older grant does not apply to this one. */
	if (srv_incoming_is_whole(part->in) || cancel->attempt < part->attempt
	    || (cancel->token != 0 && cancel->token != token))
		return;
	srv_push_fail(turn, part->in, HD_REASON_CANCELLED, part);
}
