/* SPDX-License-Identifier: BSD-3-Clause */
/* Dropped updates: DROP to the worker, and the record for the shell. */
#include "ctl_base.h"
#include "ctl_transfers.h"
#include "hd_text.h"

#include <assert.h>

void ctl_log_drop(struct hd_controller *c, const struct ctl_drop *drop) {
	c->drops[c->drop_count++ % CTL_DROPS_KEPT] = *drop;
}

enum hd_reason ctl_drop_reason(const struct hd_plan_entry *entry) {
	return entry->why.rule == HD_PLAN_DROP_IDLES ? HD_REASON_IDLES : HD_REASON_BOUND;
}

static void drop_count(struct hd_controller *c, struct ctl_transfer *t, enum hd_reason reason) {
	struct ctl_node *worker = ctl_worker(t->job, t->worker);
	bool idles = reason == HD_REASON_IDLES;

	if (t->direction == HD_PUSH) {
		t->job->ungranted++;
		t->job->dropped_for[reason]++;
	}
	if (idles)
		c->counters.drops_idles++;
	else if (reason == HD_REASON_PREEMPTED)
		c->counters.drops_preempted++;
	else
		c->counters.drops_bound++;
	worker->guard.decided++;
	worker->guard.idles += idles;
	worker->guard.last_was_idles = idles;
}

void ctl_drop(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_plan_entry *entry,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct ctl_node *worker = ctl_worker(t->job, t->worker);
	struct hd_message message = {.kind = HD_MSG_DROP};
	struct hd_event event = ctl_transfer_event(c, t, HD_EVENT_DROPPED, reason);
	struct hd_msg_drop *m = &message.drop;

	assert(t->state == CTL_PENDING && worker);
	m->job = t->job->id;
	m->worker = t->worker;
	m->round = t->round;
	m->direction = t->direction;
	m->attempt = t->attempt;
	m->reason = (uint8_t)reason;
	m->finish_s = entry->why.finish;
	m->runner_up = entry->why.runner_up;
	m->deadline = entry->why.deadline;
	m->slack_s = entry->why.slack;
	worker->last_drop[t->direction & 1] = *m;
	drop_count(c, t, reason);
	ctl_log_drop(
		c,
		&(struct ctl_drop){
			.at = c->now,
			.job = t->job->id,
			.worker = t->worker,
			.direction = t->direction,
			.attempt = t->attempt,
			.reason = (uint8_t)reason,
			.round = t->round,
			.bytes = t->bytes,
			.base = t->base,
			.why = ctl_why_of(c, entry),
		}
	);
	event.value = entry->why.finish;
	ctl_event(sink, event);
	t->why = ctl_why_of(c, entry);
	ctl_record_decision(c, t, &t->why, "dropped", reason);
	ctl_transfer_free(c, t);
	ctl_send(c, worker, &message, sink);
}

/* The worker continues after it: after the newest round that has begun, or before an earlier one that waits for it. */
static uint32_t newest_round(const struct ctl_job *job, uint32_t open_round) {
	return open_round > 0 && open_round <= job->reduce_round ? open_round - 1 :
								   job->reduce_round;
}

void ctl_refuse_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *request,
	const struct ctl_denial *denial,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_DROP};
	struct hd_msg_drop *m = &message.drop;
	const enum hd_reason reason = denial->reason;

	m->job = request->job;
	m->worker = request->worker;
	m->round = request->round;
	m->direction = request->direction;
	m->attempt = request->attempt;
	m->reason = (uint8_t)reason;
	m->sum_id = denial->sum_id;
	m->channel = request->channel;
	if (denial->words)
		hd_text_copy(m->text, sizeof m->text, denial->words);
	/* A round that fails for all of its members is followed by the next one at each of them. */
	if (request->channel != 0)
		m->deadline = denial->restart;
	else if (request->direction == HD_REDUCE && (!denial->words || reason == HD_REASON_LATE))
		m->deadline = newest_round(node->job, denial->open_round);
	if (request->direction == HD_PUSH) {
		node->job->ungranted++;
		node->job->dropped_for[reason]++;
	}
	ctl_log_drop(
		c,
		&(struct ctl_drop){
			.at = c->now,
			.job = request->job,
			.worker = request->worker,
			.direction = request->direction,
			.attempt = request->attempt,
			.reason = (uint8_t)reason,
			.round = request->round,
			.bytes = request->bytes,
			.base = request->base,
		}
	);
	ctl_event(
		sink,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_DROPPED,
			.reason = reason,
			.job = request->job,
			.worker = request->worker,
			.direction = request->direction,
			.round = request->round,
			.bytes = request->bytes,
		}
	);
	ctl_send(c, node, &message, sink);
}

void ctl_drop_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *request,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	ctl_refuse_request(c, node, request, &(struct ctl_denial){.reason = reason}, sink);
}
