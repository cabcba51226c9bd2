/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which updates may come: those that the controller told us to expect, and those that a worker asked
 * us for directly. Each is checked before a byte of it is taken, with the same rules.
 */
#include "hd_kernels.h"
#include "hd_replica.h"
#include "hd_server_credit.h"
#include "hd_server_stream.h"

#include <errno.h>
#include <math.h>

/* --- may it come? ---------------------------------------------------------------------------- */

struct hd_part *hd_member_part(const struct hd_member *member, uint32_t round) {
	struct hd_part *part;

	LIST_FOREACH (part, &member->parts, member_link) {
		if (part->round == round) {
			return part;
		}
	}
	return NULL;
}

bool hd_push_is_over(
	const struct hd_job *job,
	const struct hd_member *member,
	hd_version base,
	uint64_t ahead,
	struct hd_round *round
) {
	const struct hd_round *ended = hd_member_round(member, round->round);
	enum hd_reason reason = hd_commit_bound(job, base, ahead);

	round->version = job->version;
	/* What is in this history has its base there, too. A push of that number from elsewhere is another one, of another
	 * life of its worker, which began at a server that was cut off. */
	if (ended != NULL && reason != HD_REASON_LOST_BASE) {
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

void hd_push_answer(
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

/* The same attempt is granted twice when a grant was lost together with the controller that gave it. */
bool hd_part_gives_way(const struct hd_part *older, uint8_t attempt) {
	const struct hd_incoming *in = older->in;

	return !in->complete
		&& (older->attempt < attempt || (older->attempt == attempt && !in->started));
}

void hd_part_replace(struct hd_turn *turn, const struct hd_part *older) {
	turn->server->stats.replaced++;
	if (older->in->sum) {
		/* The others of a sum learn it at once, and its aggregator. */
		hd_incoming_fail(turn, older->in, HD_REASON_TIMEOUT, NULL);
		return;
	}
	if (hd_credit_unspent(older->in)) {
		hd_credit_end(turn, older->in, HD_REASON_CLOSED, true);
		return;
	}
	hd_incoming_end(turn, older->in, false);
}

/* Makes place for a new grant of a round. False: the older one stands. */
static bool hd_push_replace(
	struct hd_turn *turn,
	const struct hd_member *member,
	uint32_t round,
	uint8_t attempt
) {
	const struct hd_part *older = hd_member_part(member, round);

	if (older == NULL) {
		return true;
	}
	if (!hd_part_gives_way(older, attempt)) {
		return false;
	}
	hd_part_replace(turn, older);
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
	if (job == NULL || hd_job_member(job, expect->worker) == NULL || hd_job_away(job)) {
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
	struct hd_incoming *in = hd_incoming_create(turn, job, expect->token, 1);
	const struct hd_part part = {
		.member = member,
		.round = expect->round,
		.attempt = expect->attempt,
		.base = expect->base,
		.weight = expect->weight,
	};

	if (in == NULL) {
		hd_expect_report(turn, expect, HD_OUTCOME_FAILED, HD_REASON_NO_MEMORY);
		hd_push_withdraw(turn, job, member, expect->token, HD_REASON_NO_MEMORY);
		return;
	}
	turn->server->stats.expected++;
	hd_incoming_part(in, 0, &part);
	in->dtype = expect->dtype;
	in->bytes = expect->bytes;
	in->position = expect->position;
	job->position = expect->position > job->position ? expect->position : job->position;
	hd_commit_queue(in);
	hd_incoming_follow(turn, in, expect->after);
}

void hd_incoming_follow(struct hd_turn *turn, struct hd_incoming *in, uint64_t token) {
	struct hd_handle *after;

	if (token == 0) {
		return;
	}
	after = hd_handle_find(turn->server, token);
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
	const struct hd_part *held;

	if (hd_handle_find(turn->server, expect->token) != NULL) {
		return; /* told already */
	}
	if (expect->direction == HD_COPY) {
		hd_copy_expect(turn, expect);
		return;
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
	if (hd_push_is_over(job, member, expect->base, 0, &round)) {
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
	held = hd_member_part(member, expect->round);
	if (held->in->complete) {
		tomb = hd_incoming_epitaph(held->in, expect->token, true);
		tomb.worker = member->rank;
		hd_tombstone_add(turn->server, &tomb);
	}
	hd_expect_report(turn, expect, HD_OUTCOME_FAILED, HD_REASON_DUPLICATE);
}

/* --- direct requests ------------------------------------------------------------------------- */

static void hd_push_grant(struct hd_turn *turn, const struct hd_incoming *in) {
	struct hd_message message = {.kind = HD_MSG_GRANT};
	struct hd_event event = hd_incoming_event(in, HD_EVENT_GRANTED);
	const struct hd_part *part = &in->parts[0];

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
	hd_turn_event(turn, &event);
	hd_member_send(turn, part->member, &message);
}

/* The weight at the delay that it will have when it is committed next. */
static float hd_push_weight(const struct hd_job *job, const struct hd_msg_request *request) {
	uint64_t t = hd_version_counter(job->version) + 1;
	uint64_t tau = t - hd_version_counter(request->base);

	if (job->spec.sync == HD_SYNC_FEDERATED && request->weight > 0) {
		return request->weight;
	}
	return hd_staleness_weight(
		job->spec.staleness_rule,
		job->spec.staleness_c,
		job->spec.tau_max,
		t,
		tau > UINT32_MAX ? UINT32_MAX : (uint32_t)tau
	);
}

/* So that the greatest value, weighed, just fits a lane; a worker for whom none fits says so. */
static int16_t hd_push_exponent(const struct hd_msg_request *request, float weight) {
	double peak = fabs((double)request->peak * (double)weight);

	if (request->dtype != HD_DTYPE_FIXED32 || !isfinite(peak)) {
		return 0;
	}
	return (int16_t)hd_fixed_exponent(peak, 1);
}

static void hd_request_accept(
	struct hd_turn *turn,
	struct hd_member *member,
	const struct hd_msg_request *request
) {
	struct hd_server *server = turn->server;
	struct hd_job *job = member->peer->job;
	struct hd_incoming *in = hd_incoming_create(
		turn, job, hd_token_draw(&server->entropy, !job->spec.unsealed), 1
	);
	const struct hd_part part = {
		.member = member,
		.round = request->round,
		.attempt = request->attempt,
		.base = request->base,
		.weight = hd_push_weight(job, request),
	};

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
	hd_incoming_part(in, 0, &part);
	in->direct = true;
	in->dtype = request->dtype;
	in->exponent = hd_push_exponent(request, part.weight);
	in->bytes = request->bytes;
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
		if (hd_incoming_open(server, in, NULL) < 0) {
			continue;
		}
		TAILQ_REMOVE(&server->starved, in, starved_link);
		in->starved = false;
		in->active = turn->now;
		server->stats.granted++;
		hd_push_grant(turn, in);
	}
}

/* A round that is not remembered, whose worker was told its version: when that is in this history, it stands. */
static bool hd_round_stands(
	const struct hd_job *job,
	const struct hd_member *member,
	const struct hd_msg_request *request,
	struct hd_round *round
) {
	uint64_t counter = hd_version_counter(request->have);

	if (hd_member_round(member, request->round) != NULL || counter == 0
	    || counter <= hd_version_counter(request->base) || !hd_job_knows(job, request->have)) {
		return false;
	}
	*round = (struct hd_round){
		.round = request->round,
		.outcome = HD_OUTCOME_APPLIED,
		.delay = job->spec.sync != HD_SYNC_NONE ?
			0 :
			(uint32_t)(counter - hd_version_counter(request->base)),
		.version = request->have,
	};
	return true;
}

void hd_push_request(
	struct hd_turn *turn,
	struct hd_member *member,
	const struct hd_msg_request *request
) {
	struct hd_job *job = member->peer->job;
	struct hd_round round = {.round = request->round};
	const struct hd_part *part;

	if (!hd_payload_fits(job, request->dtype, request->bytes) || !(request->weight >= 0)
	    || isinf(request->weight)) {
		round.outcome = HD_OUTCOME_FAILED;
		round.reason = HD_REASON_REFUSED;
		round.version = job->version;
		turn->server->stats.refused_messages++;
		hd_commit_outcome(turn, job, member, &round);
		return;
	}
	if (hd_round_stands(job, member, request, &round)) {
		hd_commit_outcome(turn, job, member, &round);
		return;
	}
	if (hd_push_is_over(job, member, request->base, 0, &round)) {
		hd_push_answer(turn, job, member, &round);
		return;
	}
	part = hd_member_part(member, request->round);
	if (part != NULL && part->in->direct && part->attempt == request->attempt) {
		/* Asked twice: the answer is the same, once it is due and while it matters. */
		if (!part->in->complete && !part->in->starved) {
			hd_push_grant(turn, part->in);
		}
		return;
	}
	if (hd_push_replace(turn, member, request->round, request->attempt)) {
		hd_request_accept(turn, member, request);
	}
}

/* --- withdrawn ------------------------------------------------------------------------------- */

/* What is named by a token: a transfer, or a part of a sum. */
static struct hd_incoming *
hd_incoming_named(const struct hd_server *server, uint64_t token, const struct hd_part **part) {
	struct hd_handle *handle = hd_handle_find((struct hd_server *)server, token);

	*part = NULL;
	if (handle != NULL && handle->kind == HD_HANDLE_PART) {
		*part = (const struct hd_part *)(const void *)handle;
		return (*part)->in;
	}
	return handle != NULL && handle->kind == HD_HANDLE_INCOMING ?
		(struct hd_incoming *)(void *)handle :
		NULL;
}

void hd_push_void(struct hd_turn *turn, const struct hd_msg_void_ *void_) {
	const struct hd_part *part;
	struct hd_incoming *in = hd_incoming_named(turn->server, void_->token, &part);
	enum hd_reason reason = void_->reason < HD_REASON_COUNT && void_->reason != HD_REASON_NONE ?
		(enum hd_reason)void_->reason :
		HD_REASON_VOID;

	if (in != NULL && in->started && reason == HD_REASON_EXPIRED) {
		return; /* a credit that was taken back, but spent before */
	}
	/* What is held whole needs nobody's help any more: it is committed. */
	if (in != NULL && in->job->id == void_->job && !in->complete) {
		hd_incoming_fail(turn, in, reason, part);
	}
}

void hd_push_cancel(
	struct hd_turn *turn,
	struct hd_member *member,
	const struct hd_msg_cancel *cancel
) {
	const struct hd_part *part = hd_member_part(member, cancel->round);
	uint64_t token;

	if (part == NULL) {
		return;
	}
	token = part->in->sum ? part->handle.token : part->in->handle.token;
	/* A word on an older grant is not about this one. */
	if (part->in->complete || cancel->attempt < part->attempt
	    || (cancel->token != 0 && cancel->token != token)) {
		return;
	}
	hd_incoming_fail(turn, part->in, HD_REASON_CANCELLED, part);
}
