/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Updates that the controller granted in advance: they arrive without a request.
 *
 *   CREDIT --> unspent --(first chunk: type, bytes, base)--> queued at its position, as any other
 *                 \--(unspent too long, VOID, another epoch)--> VOID to its worker
 *
 * The worker stops using a credit before we drop it, so that its chunks hardly ever come too late. If they do, it gets
 * VOID and sends a REQUEST.
 */
#include "srv_credit.h"
#include "srv_keep.h"

#include <assert.h>
#include <math.h>

#define CREDIT_GRACE 4 /* we keep it a quarter longer than its worker does */

/* --- offered ---------------------------------------------------------------------------------- */

static enum hd_reason
credit_check(struct srv_turn *turn, const struct hd_msg_credit *credit, const struct srv_job *job) {
	const struct srv_member *member;

	if (credit->epoch < turn->server->epoch)
		return HD_REASON_EPOCH;
	if (turn->server->draining)
		return HD_REASON_CLOSED;
	if (!job || srv_job_away(job))
		return HD_REASON_NO_SERVER;
	member = srv_job_member(job, credit->worker);
	if (!member || !member->peer)
		return HD_REASON_LEFT;
	if (credit->token == 0 || credit->position == 0 || credit->bytes == 0
	    || credit->expires_us == 0 || !isfinite(credit->weight) || credit->weight <= 0)
		return HD_REASON_REFUSED;
	if (credit->round == 0 || srv_member_round(member, credit->round)
	    || srv_member_forgot(member, credit->round) || srv_member_part(member, credit->round))
		return HD_REASON_DUPLICATE;
	return HD_REASON_NONE;
}

void srv_credit_offer(struct srv_turn *turn, const struct hd_msg_credit *credit) {
	struct hd_server *server = turn->server;
	struct srv_job *job = srv_job_find(server, credit->job);
	enum hd_reason reason = credit_check(turn, credit, job);
	struct srv_member *member = job ? srv_job_member(job, credit->worker) : NULL;
	struct srv_incoming *in = NULL;
	hd_ns lifetime = credit->expires_us * HD_US;

	if (srv_handle_find(server, credit->token))
		return; /* a repeated CREDIT */
	if (reason == HD_REASON_NONE) {
		in = srv_incoming_create(turn, job, credit->token, 1);
		reason = !in ? HD_REASON_NO_MEMORY : HD_REASON_NONE;
	}
	if (reason != HD_REASON_NONE) {
		server->stats.credits_unspent++;
		srv_credit_report(turn, credit, reason);
		if (member)
			srv_push_withdraw(turn, job, member, credit->token, reason);
		return;
	}
	server->epoch = credit->epoch;
	server->stats.credits++;
	in->kind = SRV_CREDIT;
	in->limit = credit->bytes;
	in->position = credit->position;
	srv_incoming_part(
		in,
		0,
		&(struct srv_part){
			.member = member,
			.round = credit->round,
			.attempt = credit->attempt,
			.weight = credit->weight,
		}
	);
	job->position = credit->position > job->position ? credit->position : job->position;
	hd_timer_set(&server->timers, &in->timer, turn->now + lifetime + lifetime / CREDIT_GRACE);
}

/* --- spent ------------------------------------------------------------------------------------ */

/* The first chunk sets the properties of the whole update; each later one must agree. */
bool srv_credit_takes(struct srv_incoming *in, const struct hd_chunk_header *header) {
	struct srv_part *part = &in->parts[0];

	if (in->recv)
		return header->version == part->base && header->total == in->bytes;
	if (header->job != in->job->id || header->worker != part->member->rank
	    || header->round != part->round || header->attempt != part->attempt
	    || header->total > in->limit
	    || !srv_payload_fits(in->job, header->dtype, header->total))
		return false;
	in->dtype = header->dtype;
	in->bytes = header->total;
	part->base = header->version;
	return true;
}

void srv_credit_untake(struct hd_server *server, struct srv_incoming *in) {
	if (!srv_credit_unspent(in))
		return;
	hd_recv_destroy(in->recv);
	in->recv = NULL;
	srv_buffer_put(server, in->job, in->buffer);
	in->buffer = NULL;
}

bool srv_credit_spend(struct srv_turn *turn, struct srv_incoming *in) {
	enum hd_reason reason = srv_commit_bounds(in->job, in, 0);

	turn->server->stats.credits_spent++;
	if (reason != HD_REASON_NONE) {
		srv_push_fail(turn, in, reason, NULL);
		return false;
	}
	srv_commit_queue(in);
	return true;
}

void srv_credit_measure(struct srv_incoming *in, const struct hd_chunk_header *header) {
	in->norm2 += srv_payload_norm2(
		in->job,
		in->dtype,
		hd_recv_chunk_data(in->recv, header->chunk),
		header->count * hd_dtype_bytes(in->dtype)
	);
}

double srv_incoming_norm2(struct srv_incoming *in) {
	const uint8_t *data = (const uint8_t *)in->buffer->data;
	uint32_t full = hd_recv_chunk_bytes(in->recv);

	assert(srv_incoming_is_whole(in));
	if (in->normed)
		return in->norm2;
	in->norm2 = 0;
	for (uint64_t at = 0; at < in->bytes; at += full) {
		uint64_t left = in->bytes - at;

		in->norm2 += srv_payload_norm2(
			in->job, in->dtype, data + at, left < full ? (size_t)left : full
		);
	}
	in->normed = true;
	return in->norm2;
}

/* --- not spent -------------------------------------------------------------------------------- */

void srv_credit_end_all(struct srv_turn *turn, struct srv_job *job, enum hd_reason reason) {
	struct srv_incoming *in = TAILQ_FIRST(&job->open), *next;

	for (; in; in = next) {
		next = TAILQ_NEXT(in, open_link);
		if (srv_credit_unspent(in))
			srv_credit_end(turn, in, reason, false);
	}
}
