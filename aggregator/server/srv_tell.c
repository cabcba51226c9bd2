/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that tell workers, aggregators and the controller how updates end. */
#include "hd_group.h"
#include "srv_incoming.h"

#include <float.h>
#include <math.h>

void srv_commit_outcome(
	struct srv_turn *turn,
	const struct srv_job *job,
	const struct srv_member *member,
	const struct srv_round *round
) {
	struct hd_message message = {.kind = HD_MSG_OUTCOME};

	message.outcome = (struct hd_msg_outcome){
		.job = job->id,
		.worker = member->rank,
		.round = round->round,
		.outcome = round->outcome,
		.reason = round->reason,
		.version = round->version,
		.delay = round->delay,
		.durable = job->durable,
	};
	srv_member_send(turn, member, &message);
}

/* A controller that got a sum announced part by part takes the parts for separate pushes: each part made its own
 * version, and the sum's rate says nothing about the workers' links. */
static void report_part(
	const struct srv_incoming *in,
	const struct srv_part *part,
	struct hd_msg_report *report
) {
	const uint16_t index = (uint16_t)(part - in->parts);
	const uint64_t after = (uint64_t)in->part_count - 1 - index;

	report->position += index;
	if (report->outcome == HD_OUTCOME_APPLIED && in->job->spec.sync == HD_SYNC_NONE)
		report->version -= after;
}

static void commit_send_report(
	struct srv_turn *turn,
	const struct srv_incoming *in,
	const struct srv_part *part,
	const struct srv_round *round
) {
	struct hd_message message = {.kind = HD_MSG_REPORT};
	struct hd_msg_report *report = &message.report;

	*report = (struct hd_msg_report){
		.job = in->job->id,
		.worker = part ? part->member->rank : HD_GROUP_WORKER,
		.round = part ? part->round : 0,
		.direction = srv_incoming_is_copy(in) ? HD_COPY : HD_PUSH,
		.attempt = part ? part->attempt : 0,
		.token = part && in->kind == SRV_SUM ? part->handle.token : in->handle.token,
		.outcome = round->outcome,
		.reason = round->reason,
		.version = in->job->version,
		.position = in->kind == SRV_DIRECT ? 0 : in->position,
		.base = part ? part->base : 0,
		.norm = (float)fmin(sqrt(in->norm2), (double)FLT_MAX),
		.credited = in->kind == SRV_CREDIT,
	};
	if (in->recv)
		report->bytes = hd_recv_stats(in->recv)->bytes_held;
	if (part && in->kind == SRV_SUM) {
		report_part(in, part, report);
	} else if (in->recv) {
		const struct hd_recv_stats *stats = hd_recv_stats(in->recv);

		report->duration_ns = stats->last > stats->first ? stats->last - stats->first : 0;
		report->rate_bps = (uint64_t)hd_recv_rate_bps(in->recv);
		report->limited_permille = hd_recv_limited_permille(in->recv);
	}
	srv_controller_send(turn, &message);
}

void srv_commit_report(
	struct srv_turn *turn,
	const struct srv_incoming *in,
	const struct srv_round *round
) {
	if (!turn->server->upstream.session)
		return;
	if (in->kind == SRV_SUM && !in->apart) {
		commit_send_report(turn, in, NULL, round);
		return;
	}
	for (uint16_t i = 0; i < in->part_count; i++)
		commit_send_report(turn, in, &in->parts[i], round);
}

void srv_peer_withdraw(
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
	if (peer)
		srv_peer_send(turn, peer, &message);
}

void srv_push_withdraw(
	struct srv_turn *turn,
	const struct srv_job *job,
	const struct srv_member *member,
	uint64_t token,
	enum hd_reason reason
) {
	srv_peer_withdraw(turn, member->peer, job, token, reason);
}

void srv_credit_report(
	struct srv_turn *turn,
	const struct hd_msg_credit *credit,
	enum hd_reason reason
) {
	struct hd_message message = {.kind = HD_MSG_REPORT};

	message.report = (struct hd_msg_report){
		.job = credit->job,
		.worker = credit->worker,
		.round = credit->round,
		.direction = HD_PUSH,
		.attempt = credit->attempt,
		.token = credit->token,
		.outcome = HD_OUTCOME_FAILED,
		.reason = (uint8_t)reason,
		.position = credit->position,
		.credited = 1,
	};
	srv_controller_send(turn, &message);
}
