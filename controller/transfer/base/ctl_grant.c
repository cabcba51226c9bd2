/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of decisions: EXPECT to the receiver and GRANT to the sender, DROP to the worker, VOID to the server. */
#include "ctl_base.h"
#include "ctl_estimate.h"
#include "ctl_transfers.h"
#include "hd_jobspec.h"
#include "hd_kernels.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

struct hd_event ctl_transfer_event(
	const struct hd_controller *c,
	const struct ctl_transfer *t,
	enum hd_event_kind kind,
	enum hd_reason reason
) {
	return (struct hd_event){
		.at = c->now,
		.kind = kind,
		.reason = reason,
		.job = t->job->id,
		.worker = t->worker,
		.direction = t->direction,
		.round = t->round,
		.token = t->token,
		.position = t->position,
		.base = t->direction == HD_PUSH ? t->base : t->have,
		.bytes = t->bytes,
	};
}

/* The numbers of the decision, and the name of the update that would have been granted instead. */
struct ctl_why ctl_why_of(const struct hd_controller *c, const struct hd_plan_entry *entry) {
	const struct ctl_scratch *s = &c->scratch;
	struct ctl_why why = {.plan = entry->why, .decided = c->now};

	for (uint32_t i = 0; why.plan.runner_up && i < s->input.item_count; i++)
		if (s->items[i].id == why.plan.runner_up && s->item_transfer[i]) {
			why.runner_up_round = s->item_transfer[i]->round;
			why.runner_up_worker = s->item_transfer[i]->worker;
			break;
		}
	return why;
}

/* For the journal; a drop or a void has no grant. */
void ctl_record_decision(
	const struct hd_controller *c,
	const struct ctl_transfer *t,
	const struct ctl_why *why,
	const char *what,
	enum hd_reason reason
) {
	ctl_record(
		c,
		(struct hd_record){
			.kind = HD_RECORD_DECISION,
			.what = what,
			.reason = hd_reason_name(reason),
			.rule = why->decided ? hd_plan_rule_name(why->plan.rule) : "",
			.job = t->job->id,
			.worker = t->worker,
			.worker_known = true,
			.direction = t->direction,
			.round = t->round,
			.attempt = t->attempt,
			.bytes = t->bytes,
			.position = t->position,
			.base = t->direction == HD_PUSH ? t->base : t->have,
			.start_s = t->start > c->now ? (double)(t->start - c->now) / 1e9 : 0,
			.finish_s = why->plan.finish,
			.runner_up_s = why->plan.runner_up_finish,
			.deadline = why->plan.deadline,
			.slack = why->plan.slack,
			.rate_bps = t->segments.count ? (double)t->segments.item[0].rate_bps : 0,
		}
	);
}

/* --- grants --- */

/* The aggregator of a transfer that begins or ends at one, NULL: none. */
static const struct ctl_node *aggregator_of(const struct ctl_transfer *t) {
	return t->group ? t->group->aggregator : NULL;
}

static int
send_expect(struct hd_controller *c, const struct ctl_transfer *t, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_EXPECT};
	struct hd_msg_expect *m = &message.expect;
	const struct ctl_node *aggregator = aggregator_of(t);
	struct ctl_node *receiver = ctl_receiver(t);

	m->job = t->job->id;
	m->worker = t->worker;
	m->round = t->round;
	m->direction = t->direction;
	m->attempt = t->attempt;
	m->epoch = c->config.epoch;
	m->token = t->token;
	m->position = t->position;
	m->base = t->base;
	m->bytes = t->bytes;
	m->weight = t->weight;
	m->dtype = t->dtype;
	m->after = t->after;
	if (aggregator) {
		m->peer_ipv4 = aggregator->data.ipv4;
		m->peer_port = aggregator->data.port;
	}
	return receiver ? ctl_send(c, receiver, &message, sink) : -ENOTCONN;
}

/* The exponent of fixed-point values: the same for a whole group. */
static uint16_t exponent_of(const struct ctl_transfer *t) {
	if (t->group)
		return t->group->exponent;
	if (t->dtype != HD_DTYPE_FIXED32 || t->direction != HD_PUSH)
		return 0;
	return (uint16_t)(int16_t)hd_fixed_exponent(fabs((double)t->weight * (double)t->peak), 1);
}

/* For a sum that a switch makes: the fields about the member's slots. */
static void grant_slots(const struct ctl_transfer *t, struct hd_msg_grant *m) {
	const struct ctl_group_slots *slots = t->group ? t->group->slots : NULL;

	if (!slots || t->is_sum)
		return;
	m->result_token = slots->results[t->group_slot];
	m->slots = slots->slots;
	m->count = slots->count;
	m->member = (uint8_t)t->group_slot;
	m->members = (uint8_t)t->group->count;
	m->receivers = slots->receivers;
}

static int send_grant(struct hd_controller *c, const struct ctl_transfer *t, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_GRANT};
	struct hd_msg_grant *m = &message.grant;
	struct ctl_node *sender = ctl_sender(t);
	const struct ctl_node *receiver = ctl_receiver(t);

	if (t->direction == HD_PUSH && aggregator_of(t))
		receiver = aggregator_of(t);
	if (!sender || !receiver)
		return -ENOTCONN;
	m->job = t->job->id;
	m->worker = t->worker;
	m->round = t->round;
	m->direction = t->direction;
	m->attempt = t->attempt;
	m->epoch = c->config.epoch;
	m->token = t->token;
	m->position = t->position;
	m->weight = t->weight;
	m->cc_weight = t->cc_weight;
	m->after = t->after;
	m->origin_ns = t->granted;
	m->segments = t->segments;
	m->peer_ipv4 = receiver->data.ipv4;
	m->peer_port = receiver->data.port;
	m->bytes = t->bytes;
	m->have = t->have;
	m->conditional = t->conditional;
	m->dtype = t->dtype;
	m->exponent = exponent_of(t);
	grant_slots(t, m);
	return ctl_send(c, sender, &message, sink);
}

/* The worker waits for its message, so it is sent first; the server gets its own in the same burst, long before the
 * worker's chunks. */
int ctl_grant_send(struct hd_controller *c, struct ctl_transfer *t, struct hd_sink *sink) {
	int status;

	assert(ctl_transfer_is_open(t));
	/* GROUP and MEMBERS replace the other message. */
	if (t->group)
		return t->direction == HD_PUSH ? send_grant(c, t, sink) : send_expect(c, t, sink);

	if (t->direction != HD_PUSH) {
		status = send_expect(c, t, sink);
		return status ? status : send_grant(c, t, sink);
	}
	status = send_grant(c, t, sink);
	return status ? status : send_expect(c, t, sink);
}

/* Between two nodes of one host there is no link to share: the processors are the limit. The transfer starts at once,
 * and only congestion control limits it; its rate becomes the estimate of `local`. */
static void
take_local(struct hd_controller *c, struct ctl_transfer *t, const struct hd_plan_entry *e) {
	double took = (double)t->bytes / ctl_estimate_bytes(c, CTL_LINK_LOCAL);

	t->segments.count = 0;
	t->after = 0;
	t->cc_weight = 1;
	ctl_reserve_nothing(t, c->now, c->now + (hd_ns)llround(fmax(took, e->finish) * 1e9));
}

/* The plan's segments in bytes and ns, exactly `bytes` in all, as the grant and as reservations. */
static void
take_segments(struct hd_controller *c, struct ctl_transfer *t, const struct hd_plan_entry *e) {
	uint64_t left = t->bytes;

	t->segments.count = t->reserved_count = e->segment_count;
	for (uint8_t i = 0; i < e->segment_count; i++) {
		const struct hd_plan_segment *from = &e->segment[i];
		struct hd_segment *to = &t->segments.item[i];
		double bytes = from->rate * (from->end - from->start);

		to->start_ns = (hd_ns)llround(from->start * 1e9);
		to->rate_bps = (uint64_t)(from->rate * 8);
		to->bytes = bytes < (double)left ? (uint64_t)bytes : left;
		if (i + 1 == e->segment_count)
			to->bytes = left;
		left -= to->bytes;
		t->reserved[i].start = c->now + to->start_ns;
		t->reserved[i].end = c->now + (hd_ns)llround(from->end * 1e9);
		t->reserved[i].rate = from->rate;
	}
	t->start = t->reserved_count ? t->reserved[0].start : c->now;
	t->finish = t->reserved_count ? t->reserved[t->reserved_count - 1].end : c->now;
}

void ctl_grant_reserve(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_plan_entry *entry
) {
	if (ctl_transfer_local(t))
		take_local(c, t, entry);
	else
		take_segments(c, t, entry);
}

static float commit_weight(const struct ctl_transfer *t) {
	uint64_t base = hd_version_counter(t->base);
	uint64_t delay = t->planned > base ? t->planned - base : 0;

	return hd_staleness_weight(
		t->job->staleness_rule,
		t->job->staleness_c,
		t->job->tau_max,
		t->planned,
		(uint32_t)(delay < UINT32_MAX ? delay : UINT32_MAX)
	);
}

void ctl_job_granted(struct ctl_job *job, uint8_t direction, uint64_t bytes) {
	job->granted_bytes += bytes;
	if (direction == HD_PUSH)
		job->granted++;
	else if (direction == HD_PULL)
		job->pulls_granted++;
}

void ctl_job_pulled(struct ctl_job *job, bool delivered) {
	if (delivered)
		job->pulls_delivered++;
	else
		job->pulls_failed++;
}

static void grant_count(struct hd_controller *c, struct ctl_transfer *t, struct hd_sink *sink) {
	struct hd_event event = ctl_transfer_event(c, t, HD_EVENT_GRANTED, HD_REASON_NONE);
	struct ctl_node *worker = ctl_worker(t->job, t->worker);

	assert(t->direction < CTL_DIRECTIONS);
	c->counters.grants++;
	hd_histogram_add(&c->grant_wait[t->direction], &hd_scale_time, t->granted - t->asked);
	c->counters.granted_bytes += t->bytes;
	ctl_job_granted(t->job, t->direction, t->bytes);
	if (t->direction == HD_PUSH) {
		worker->guard.decided++;
		worker->guard.last_was_idles = false;
	}
	event.version = hd_version_make(hd_version_incarnation(t->job->version), t->planned);
	event.value = t->segments.count ? (double)t->segments.item[0].rate_bps : 0;
	event.aux = t->start - t->granted;
	ctl_event(sink, event);
}

/*
 * The number of flows that a transfer stands for: itself and those that wait for it. These are the transfers behind it
 * on the link. For a push that must be committed soon they are also the workers whose updates may not overtake it:
 * otherwise these would run beside it, take most of the rate that other tenants leave, and wait for its commit all the
 * same.
 */
static float
weight_of(const struct ctl_transfer *t, const struct hd_plan_entry *entry, uint32_t behind) {
	double waiting = behind;

	if (t->direction == HD_PUSH)
		waiting = fmax(waiting, (double)t->job->worker_count - 1 - entry->why.slack);
	return (float)(1 + fmin(waiting, CTL_CC_WEIGHT_MAX));
}

void ctl_grant_open(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_plan_entry *entry,
	const struct ctl_grant_with *with,
	struct hd_sink *sink
) {
	const struct ctl_transfer *before
		= with->after ? ctl_transfer_by_token(c, with->after) : NULL;

	assert(t->state == CTL_PENDING);
	t->why = ctl_why_of(c, entry);
	t->planned = entry->position;
	/* No node sees the end of both a copy and another transfer: a time starts it. */
	t->after = t->direction == HD_COPY || (before && before->direction == HD_COPY) ?
		0 :
		with->after;
	t->position = 0;
	if (t->direction != HD_COPY)
		t->weight = 1;
	if (t->direction == HD_PUSH) {
		t->position = ++t->job->position;
		t->weight = t->asked_weight * commit_weight(t);
		if (t->dtype == HD_DTYPE_SPARSE32 && !t->group)
			t->job->apart += CTL_APART_FORGET * (CTL_APART_UNKNOWN - t->job->apart);
	}
	t->cc_weight = weight_of(t, entry, with->behind);
	ctl_transfer_open(c, t, ctl_token(c, t->job, !t->group || !t->group->slots));
	ctl_grant_reserve(c, t, entry);
	grant_count(c, t, sink);
	ctl_record_decision(c, t, &t->why, "granted", HD_REASON_NONE);
}

struct ctl_transfer *ctl_grant_ahead(
	struct hd_controller *c,
	struct ctl_node *worker,
	uint32_t round,
	uint64_t bytes,
	hd_ns expires
) {
	struct ctl_job *job = worker->job;
	struct ctl_transfer *t = ctl_transfer_add(
		c,
		&(struct ctl_transfer){
			.job = job,
			.worker = worker->worker,
			.direction = HD_PUSH,
			.round = round,
			.attempt = 1,
			.bytes = bytes,
			.weight = job->staleness_c,
			.credit = true,
		}
	);

	if (!t)
		return NULL;
	t->position = ++job->position;
	ctl_transfer_open(c, t, ctl_token(c, job, true));
	ctl_reserve_nothing(t, HD_NEVER, expires);
	worker->credit = t;
	job->credits++;
	return t;
}

void ctl_grant_sum(
	struct hd_controller *c,
	struct ctl_transfer *sum,
	const struct hd_plan_entry *entry,
	const struct ctl_grant_with *with
) {
	const struct ctl_group *group = sum->group;

	assert(sum->is_sum && group->alive > 0);
	sum->position = group->direction == HD_PUSH ? group->members[0]->position : 0;
	sum->weight = 0;
	for (uint32_t m = 0; m < group->count; m++)
		sum->weight += group->members[m]->weight;
	sum->after = with->after;
	sum->cc_weight = 1 + (float)fmin(with->behind, CTL_CC_WEIGHT_MAX);
	ctl_transfer_open(c, sum, ctl_token(c, sum->job, !group->slots));
	ctl_grant_reserve(c, sum, entry);
}

int ctl_grant(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_plan_entry *entry,
	const struct ctl_grant_with *with,
	struct hd_sink *sink
) {
	const struct ctl_node *from = ctl_sender(t), *to = ctl_receiver(t);

	if (!from || !to || from->doomed || to->doomed)
		return -ENOTCONN;
	ctl_grant_open(c, t, entry, with, sink);
	/* If a message does not fit the queue, the node's session is closed, and with it this transfer. */
	ctl_grant_send(c, t, sink);
	return 0;
}

/* --- voids --- */

void ctl_void_count(struct hd_controller *c, struct ctl_transfer *t) {
	c->counters.voids++;
	if (t->direction == HD_PUSH)
		t->job->voided++;
	else if (t->direction == HD_PULL)
		ctl_job_pulled(t->job, false);
}

void ctl_void_quietly(
	struct hd_controller *c,
	struct ctl_transfer *t,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_VOID};
	struct ctl_node *server = t->job->server;

	assert(ctl_transfer_is_open(t));
	if (!t->is_sum) {
		ctl_void_count(c, t);
		ctl_event(sink, ctl_transfer_event(c, t, HD_EVENT_VOIDED, reason));
		ctl_record_decision(c, t, &t->why, "voided", reason);
	}
	/* The server tells the workers of a sum, and voids all its positions. */
	message.void_.job = t->job->id;
	message.void_.position = t->position;
	message.void_.token = t->token;
	message.void_.reason = (uint8_t)reason;
	if (server && t->is_sum && t->direction == HD_PUSH)
		ctl_send(c, server, &message, sink);
	ctl_transfer_free(c, t);
}
