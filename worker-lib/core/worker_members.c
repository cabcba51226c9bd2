/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The members of the job, and the end of this worker when its machine is taken away:
 *
 *    notice            flush_at                     withdraw_at          leave_at       preempted_at
 *      |-- first in the --|-- no new pushes; those -----|-- those not yet ----|-- LEAVE, ----|
 *      |   plan           |   in progress end           |   held: withdrawn   |   lingering  |
 *
 * Each is earlier when there is nothing left to wait for. The flush takes twice the time of a recent push. When the
 * server has not reported the outcome of a push at leave_at, the outcome is unknown: it may be in the model.
 */
#include "worker_reduce.h"
#include "worker_session.h"
#include "worker_ticket.h"

#include <errno.h>

#define FLUSH_LEAST (100 * HD_MS)
#define WITHDRAW_SPAN (120 * HD_MS) /* the last part of this is for LEAVE and its repetition: */
#define LEAVE_SPAN (50 * HD_MS)

void worker_send_notice(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session
) {
	struct hd_message message = {.kind = HD_MSG_NOTICE};

	if (worker->preempted_at <= ctx->now)
		return; /* also without a notice */
	message.notice.job = worker->job;
	message.notice.worker = worker->config.rank;
	message.notice.left_us = (uint32_t)((worker->preempted_at - ctx->now + HD_US - 1) / HD_US);
	(void)worker_tell(worker, session, ctx, &message);
}

int hd_worker_notice(struct hd_worker *worker, hd_ns now, hd_ns left, struct hd_sink *sink) {
	struct worker_context ctx = {now, sink};
	struct hd_event event = {.kind = HD_EVENT_NOTICE, .value = (double)left * 1e-9};

	if (left == 0 || left > HD_NOTICE_US_MAX * HD_US)
		return -EINVAL;
	if (worker->stats.left || worker->refused)
		return -ESHUTDOWN;
	if (worker->preempted_at && worker->preempted_at <= now + left)
		return 0;
	worker->preempted_at = now + left;
	worker->notice_span = left;
	worker->stats.preempted = true;
	worker_emit(worker, &ctx, &event);
	if (hd_addr_is_none(worker->config.controller))
		worker_send_notice(worker, &ctx, worker->server);
	else if (worker_is_registered(worker))
		worker_send_notice(worker, &ctx, worker->controller);
	return 0;
}

static hd_ns before_end(const struct hd_worker *worker, hd_ns span) {
	return worker->preempted_at > span ? worker->preempted_at - span : 1;
}

static hd_ns withdraw_at(const struct hd_worker *worker) {
	return before_end(worker, hd_ns_min(WITHDRAW_SPAN, worker->notice_span / 4));
}

hd_ns worker_leave_at(const struct hd_worker *worker) {
	if (!worker->preempted_at)
		return HD_NEVER;
	return before_end(worker, hd_ns_min(LEAVE_SPAN, worker->notice_span / 8));
}

hd_ns hd_worker_flush_at(const struct hd_worker *worker) {
	hd_ns span = WITHDRAW_SPAN + hd_ns_max(2 * worker->push_took, FLUSH_LEAST);

	if (!worker->preempted_at)
		return HD_NEVER;
	return before_end(worker, hd_ns_min(span, worker->notice_span / 2));
}

static void withdraw(struct hd_worker *worker, const struct worker_context *ctx) {
	const struct worker_ticket *ticket;

	worker_set_stage(worker, WORKER_WITHDRAWN);
	TAILQ_FOREACH (ticket, &worker->tickets, link)
		if (!ticket->ended)
			(void)hd_worker_cancel(
				worker,
				ctx->now,
				ticket->pub.direction,
				ticket->pub.round,
				ctx->sink
			);
	worker_reduce_fail_all(worker, ctx, HD_REASON_PREEMPTED);
}

void worker_members_tick(struct hd_worker *worker, const struct worker_context *ctx) {
	if (!worker->preempted_at || worker->stage >= WORKER_LINGERING)
		return;
	if (ctx->now >= hd_worker_flush_at(worker) && worker->stage == WORKER_MEMBER)
		worker_set_stage(worker, WORKER_LEAVING); /* the session's tick continues */
	if (ctx->now >= withdraw_at(worker) && worker->stage < WORKER_WITHDRAWN)
		withdraw(worker, ctx);
}

hd_ns worker_members_deadline(const struct hd_worker *worker) {
	if (!worker->preempted_at || worker->stage >= WORKER_LINGERING)
		return HD_NEVER;
	if (worker->stage == WORKER_MEMBER)
		return hd_worker_flush_at(worker);
	return worker->stage == WORKER_WITHDRAWN ? worker_leave_at(worker) : withdraw_at(worker);
}

void worker_on_notice(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_notice *message
) {
	hd_ns left = message->left_us * HD_US;

	if (message->job != worker->job || message->worker != worker->config.rank
	    || hd_worker_notice(worker, ctx->now, left, ctx->sink) < 0) {
		worker->stats.late_messages++;
		return;
	}
	if (worker->config.ops && worker->config.ops->noticed)
		worker->config.ops->noticed(worker->config.owner, worker->preempted_at);
}

void worker_on_roster(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_roster *message
) {
	struct hd_roster roster = {
		.change = message->change,
		.target = message->target,
		.sync_count = message->sync_count,
		.tau_max = message->tau_max,
		.scale = message->scale,
	};
	struct hd_event event = {
		.kind = HD_EVENT_ROSTER,
		.aux = message->count,
		.version = message->change,
		.position = message->target,
		.round = message->sync_count,
		.bytes = message->tau_max,
		.value = (double)message->scale,
	};

	if (message->job != worker->job || !hd_roster_valid(&roster)
	    || hd_roster_read(&roster, message->count, message->ranks.data, message->ranks.bytes)
		    < 0) {
		worker->stats.late_messages++;
		return;
	}
	if (message->change == worker->roster.change)
		return;
	worker->roster = roster;
	worker_emit(worker, ctx, &event);
	if (worker->config.ops && worker->config.ops->members)
		worker->config.ops->members(worker->config.owner, &worker->roster);
}

const struct hd_roster *hd_worker_roster(const struct hd_worker *worker) {
	return &worker->roster;
}
