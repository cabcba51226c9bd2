/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_reduces.h"
#include "ctl_slots.h"
#include "ctl_transfers.h"
#include "hd_group.h"

#include <assert.h>

static void tell_event(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	enum hd_event_kind kind,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	ctl_event(
		sink,
		(struct hd_event){
			.at = c->now,
			.kind = kind,
			.reason = reason,
			.job = job->id,
			.direction = HD_REDUCE,
			.round = r->round,
			.bytes = r->bytes,
			.aux = r->shard_count,
		}
	);
}

static void say_drop(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	uint16_t worker,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct hd_msg_request request = {
		.job = job->id,
		.worker = worker,
		.round = r->round,
		.direction = HD_REDUCE,
		.attempt = r->attempt[worker],
		.bytes = r->bytes,
	};

	if (job->workers[worker])
		ctl_drop_request(c, job->workers[worker], &request, reason, sink);
}

static void drop_all(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED || r->part[i] == CTL_PART_TOLD)
			say_drop(c, job, r, i, reason, sink);
	ctl_reduce_forget(c, job, r);
}

/* --- beginning --- */

static void begin_told(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r) {
	assert(!r->begun);
	r->making = (uint64_t)c->config.epoch << 48 | ++c->makings;
	r->scale = job->roster.scale > 0 ? job->roster.scale : 1;
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED)
			ctl_reduce_part(r, i, CTL_PART_TOLD);
	r->begun = true;
	ctl_reduce_occupy(c, job, r);
	job->reduce_begun = r->round > job->reduce_begun ? r->round : job->reduce_begun;
	ctl_reduce_begun(c, job, r);
	c->counters.reduces++;
}

static void
begin(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r, struct hd_sink *sink) {
	struct ctl_reduce_words words;
	enum hd_reason reason = ctl_reduce_cut(c, job, r);

	if (reason == HD_REASON_HOLD) {
		ctl_check_by(c, c->now + CTL_REDUCE_WAIT_NS);
		return;
	}
	if (!reason)
		reason = ctl_reduce_prepare(c, job, r, &words);
	if (reason) {
		drop_all(c, job, r, reason, sink);
		return;
	}
	begin_told(c, job, r);
	ctl_reduce_say(c, job, r, &words, sink);
	tell_event(c, job, r, HD_EVENT_GRANTED, HD_REASON_NONE, sink);
}

/* Whether everybody has asked, and there is somebody to add: a late aggregator is waited for. */
void ctl_reduce_consider(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
) {
	hd_ns patience = hd_ns_add(c->started, ctl_silence(c));
	enum ctl_way way;

	if (r->begun || !job->formed || r->count[CTL_PART_ASKED] == 0
	    || r->count[CTL_PART_ASKED] + r->count[CTL_PART_OUT] != job->worker_count || c->paused
	    || job->paused)
		return;
	way = ctl_lease_way(c, job, r, sink);
	if (way == CTL_WAY_WAIT)
		return;
	if (way == CTL_WAY_SLOTS || ctl_reduce_any_aggregator(c))
		r->alone_since = 0;
	if (way == CTL_WAY_SLOTS) {
		begin_told(c, job, r);
		ctl_lease_begin(c, job, r, sink);
		tell_event(c, job, r, HD_EVENT_GRANTED, HD_REASON_NONE, sink);
		return;
	}
	if (ctl_reduce_any_aggregator(c)) {
		begin(c, job, r, sink);
		return;
	}
	r->alone_since = r->alone_since ? r->alone_since : c->now;
	patience = hd_ns_max(patience, hd_ns_add(r->alone_since, CTL_REDUCE_PATIENCE_NS));
	if (c->now < patience) /* a switch may have slots before */
		ctl_check_by(
			c,
			c->switch_count > 0 ? hd_ns_min(patience, c->now + CTL_REDUCE_WAIT_NS) :
					      patience
		);
	else
		drop_all(c, job, r, HD_REASON_NO_SERVER, sink);
}

void ctl_reduce_joined(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_reduce *r, *next;

	ctl_reduce_form(c, job);
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		ctl_reduce_consider(c, job, r, sink);
	}
}

/* --- ends --- */

static void say_void(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *node,
	uint64_t token,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = job->id;
	message.void_.token = token;
	message.void_.reason = (uint8_t)reason;
	(void)ctl_send(c, node, &message, sink);
}

/* Everybody who is under way stops, and asks again; but when somebody has the sum and will not give its values
 * a second time, the others cannot get it any more. */
static void fail_one(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	bool lost = r->count[CTL_PART_DONE] > 0;

	assert(r->begun);
	c->counters.reduces_failed++;
	tell_event(c, job, r, HD_EVENT_VOIDED, reason, sink);
	for (uint32_t i = 0; i < r->shard_count; i++)
		if (r->shards[i].aggregator->role
		    == HD_ROLE_AGGREGATOR) /* also one that is drained */
			say_void(c, job, r->shards[i].aggregator, r->shards[i].group, reason, sink);
	r->shard_count = 0;
	r->switch_failures += r->lease != NULL;
	r->lease = NULL;
	r->begun = false;
	ctl_reduce_vacate(c, r);
	if (lost) {
		ctl_reduce_believe(job, r);
		drop_all(c, job, r, HD_REASON_LATE, sink);
		return;
	}
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] == CTL_PART_GONE) {
			ctl_reduce_part(r, i, CTL_PART_NONE);
			ctl_reduce_doubt(job, i, r->round);
		}
		if (r->part[i] != CTL_PART_TOLD)
			continue;
		ctl_reduce_part(r, i, CTL_PART_VOID);
		if (job->workers[i])
			say_void(c, job, job->workers[i], r->token[i], reason, sink);
	}
	ctl_reduce_leave_out(job, r);
}

static struct ctl_reduce *first_through(const struct ctl_job *job, const struct ctl_lease *lease) {
	struct ctl_reduce *r;

	TAILQ_FOREACH (r, &job->reduces, entry)
		if (r->lease == lease)
			return r;
	return NULL;
}

void ctl_reduce_lease_lost(
	struct hd_controller *c,
	struct ctl_lease *lease,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct ctl_reduce *r;

	while (lease->job && (r = first_through(lease->job, lease)))
		fail_one(c, lease->job, r, reason, sink);
	ctl_lease_end(c, lease, reason, sink);
}

/* Slots that one round leaves in the middle are no others' either: all rounds of the lease go with it. */
void ctl_reduce_fail(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	if (r->lease)
		ctl_reduce_lease_lost(c, r->lease, reason, sink);
	else
		fail_one(c, job, r, reason, sink);
}

void ctl_reduce_settle(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
) {
	bool nobody = r->count[CTL_PART_OUT] == 0 || r->count[CTL_PART_OUT] == job->worker_count;

	nobody = nobody && r->count[CTL_PART_ASKED] == 0 && r->count[CTL_PART_VOID] == 0;
	if (r->begun ? r->count[CTL_PART_TOLD] == 0 : nobody)
		ctl_reduce_forget(c, job, r);
	else
		ctl_reduce_consider(c, job, r, sink);
}

/* This worker has ended the round without its sum: nobody waits for it there. */
void ctl_reduce_drop_out(
	struct hd_controller *c,
	struct ctl_job *job,
	uint32_t round,
	uint16_t worker,
	struct hd_sink *sink
) {
	struct ctl_reduce *r = ctl_reduce_find(job, round);

	if (!r || r->part[worker] == CTL_PART_DONE)
		return;
	ctl_reduce_part(r, worker, CTL_PART_OUT);
	ctl_reduce_settle(c, job, r, sink);
}

/* It has its sum: the others can not get theirs without it any more. */
void ctl_reduce_has_sum(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	uint16_t worker,
	struct hd_sink *sink
) {
	/* Not that which is made now: it was lost when it got it, and the others began anew. */
	if (r->begun
	    && (r->part[worker] == CTL_PART_NONE
		|| (job->has[worker].making != 0
		    && ctl_reduce_has_other(job, worker, r->round, r->making))))
		ctl_reduce_doubt(job, worker, r->round);
	if (!r->begun) {
		ctl_reduce_believe(job, r);
		drop_all(c, job, r, HD_REASON_LATE, sink);
		return;
	}
	ctl_reduce_part(r, worker, CTL_PART_DONE);
	ctl_reduce_settle(c, job, r, sink);
}

/* A later round may have ended before an earlier one, which it then still wants. */
static bool was_had(const struct hd_msg_register_ *m, uint32_t round) {
	if (round >= m->reduce_round || m->reduce_round - round > 64)
		return round <= m->reduce_round;
	return m->reduce_had >> (m->reduce_round - round - 1) & 1;
}

void ctl_reduce_attach(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
) {
	uint64_t boot = hd_session_peer_boot(job->workers[m->worker]->session);
	struct ctl_reduce *r, *next;

	job->workers[m->worker]->reduce_from = m->reduce_from;
	if (m->world > job->world)
		job->world = m->world;
	if (boot != job->boot[m->worker])
		ctl_reduce_anew(job, m->worker);
	job->boot[m->worker] = boot;
	if (job->worker_count == 1)
		job->gathered_at = hd_ns_add(c->now, ctl_silence(c));
	ctl_reduce_learn(c, job, m->worker, &(struct ctl_sum){m->reduce_round, m->making});
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (was_had(m, r->round))
			ctl_reduce_has_sum(c, job, r, m->worker, sink);
		else if (!r->begun && r->round < m->reduce_from)
			ctl_reduce_drop_out(
				c, job, r->round, m->worker, sink
			); /* that word was lost */
	}
}

/* Its values may be in the sums already: whether they are, the aggregators say. */
void ctl_reduce_worker_down(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	struct hd_sink *sink
) {
	struct ctl_reduce *r, *next;

	if (job->worker_count == 0) { /* who comes next begins anew */
		ctl_reduce_disband(job);
		job->world = 0;
	}
	ctl_lease_worker_down(c, job, worker, sink);
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (r->part[worker] == CTL_PART_TOLD) {
			ctl_reduce_part(r, worker, CTL_PART_GONE);
		} else if (r->part[worker] != CTL_PART_DONE && r->part[worker] != CTL_PART_GONE) {
			if (r->part[worker] == CTL_PART_VOID)
				ctl_reduce_doubt(job, worker, r->round);
			ctl_reduce_part(r, worker, CTL_PART_NONE);
		}
		ctl_reduce_settle(c, job, r, sink);
	}
}

void ctl_reduce_aggregator_down(
	struct hd_controller *c,
	const struct ctl_node *aggregator,
	struct hd_sink *sink
) {
	for (uint32_t k = 0; k < c->job_count; k++) {
		struct ctl_reduce *r, *next;

		for (r = TAILQ_FIRST(&c->jobs[k]->reduces); r; r = next) {
			bool has = false;

			next = TAILQ_NEXT(r, entry);
			for (uint32_t i = 0; i < r->shard_count; i++)
				has = has || r->shards[i].aggregator == aggregator;
			if (has)
				ctl_reduce_fail(c, c->jobs[k], r, HD_REASON_LEASE, sink);
		}
	}
}

void ctl_reduce_check(struct hd_controller *c, struct hd_sink *sink) {
	for (uint32_t k = 0; k < c->job_count; k++)
		if (c->jobs[k]->worker_count > 0) {
			ctl_reduce_joined(c, c->jobs[k], sink);
			ctl_reduce_keep(c, c->jobs[k]);
		}
}
