/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_inline.h"
#include "ctl_pair_ends.h"
#include "ctl_reduces.h"
#include "ctl_slots.h"
#include "ctl_transfers.h"
#include "ctl_wait.h"
#include "hd_group.h"

#include <assert.h>

/* Members that receive nothing end when those that receive have their results, or are lost. The round ends when no
 * member is in it any more. */
static void
release(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r, struct hd_sink *sink) {
	assert(r->begun);
	for (uint16_t i = 0; r->receiving == 0 && i < HD_WORKERS_MAX; i++) {
		if (r->part[i] != CTL_PART_STARTED && r->part[i] != CTL_PART_GIVEN)
			continue;
		ctl_reduce_send_reduced(c, job, r, i, sink);
		ctl_reduce_part(r, i, CTL_PART_DONE);
		ctl_reduce_note_end(job, r);
	}
	if (r->count[CTL_PART_STARTED] + r->count[CTL_PART_GIVEN] == 0)
		ctl_reduce_forget(c, job, r);
}

/* --- beginning --- */

/* Members that have the result already have it from an attempt that this one continues. */
static uint64_t sum_id(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r) {
	const uint64_t known = ctl_reduce_sum_id(job, r->round);

	if (r->count[CTL_PART_DONE] > 0 && known > 0)
		return known;
	return (uint64_t)c->config.epoch << 48 | ++c->sum_ids;
}

static void start_asked(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
) {
	assert(!r->begun);
	ctl_wait_leave_out(c, job, r, sink);
	r->sum_id = sum_id(c, job, r);
	r->scale = job->roster.scale > 0 ? job->roster.scale : 1;
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] != CTL_PART_ASKED)
			continue;
		r->receives[i] = ctl_reduce_receives(r, i);
		ctl_reduce_part(r, i, CTL_PART_STARTED);
	}
	r->begun = true;
	if (!r->inlined)
		ctl_reduce_occupy(c, job, r);
	job->reduce_begun = r->round > job->reduce_begun ? r->round : job->reduce_begun;
	ctl_reduce_begun(c, job, r);
	c->counters.reduces++;
	c->counters.reduces_inlined += r->inlined;
}

static void tell_wrong(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
) {
	if (ctl_wait_is_over(c, job, r))
		ctl_wait_leave_out(c, job, r, sink);
	ctl_reduce_tell_wrong(c, job, r, sink);
	if (ctl_wait_has_all(job, r))
		ctl_reduce_forget(c, job, r);
}

static void
begin(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r, struct hd_sink *sink) {
	struct ctl_reduce_buffers buffers;
	enum hd_reason reason = HD_REASON_NONE;

	if (!ctl_call_size(r)) {
		tell_wrong(c, job, r, sink);
		return;
	}
	if (ctl_inline_can(c, r))
		reason = ctl_inline_make(c, r) < 0 ? HD_REASON_NO_MEMORY : HD_REASON_NONE;
	else if (ctl_shared_is_possible(job, r))
		ctl_shared_take(c, job, r);
	else
		reason = ctl_reduce_cut(c, job, r);
	if (reason == HD_REASON_HOLD) {
		ctl_check_by(c, c->now + CTL_REDUCE_WAIT_NS);
		return;
	}
	if (!reason)
		reason = ctl_reduce_prepare(c, job, r, &buffers);
	if (reason) {
		ctl_shared_leave(job, r);
		ctl_reduce_drop_all(c, job, r, reason, sink);
		return;
	}
	start_asked(c, job, r, sink);
	ctl_reduce_send(c, job, r, &buffers, sink);
	ctl_reduce_event(c, job, r, &(struct hd_event){.kind = HD_EVENT_GRANTED}, sink);
	release(c, job, r, sink);
}

/* Begins the round when all workers have asked, or are not waited for any more, and there is an aggregator; a late
 * aggregator is waited for. */
void ctl_reduce_consider(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
) {
	hd_ns patience = hd_ns_add(c->started, ctl_silence(c));
	enum ctl_reduce_path path;
	bool over;

	if (r->begun || !job->formed || r->count[CTL_PART_ASKED] == 0)
		return;
	over = ctl_wait_is_over(c, job, r);
	if (ctl_call_is_wrong(c, job, r, over)) {
		tell_wrong(c, job, r, sink);
		return;
	}
	if (!over || r->count[CTL_PART_ASKED] + r->count[CTL_PART_DONE] < r->call.exact || c->paused
	    || job->paused)
		return;
	if (ctl_reduce_stays(r) || ctl_inline_can(c, r) || ctl_shared_is_possible(job, r)) {
		begin(c, job, r, sink);
		return;
	}
	path = r->call.collective == HD_COLLECTIVE_ALLREDUCE ?
		ctl_lease_choose_path(c, job, r, sink) :
		CTL_PATH_SHARDS;
	if (path == CTL_PATH_WAIT)
		return;
	if (path == CTL_PATH_SLOTS || ctl_reduce_any_aggregator(c, job))
		r->alone_since = 0;
	if (path == CTL_PATH_SLOTS) {
		start_asked(c, job, r, sink);
		ctl_lease_begin(c, job, r, sink);
		ctl_reduce_event(c, job, r, &(struct hd_event){.kind = HD_EVENT_GRANTED}, sink);
		return;
	}
	if (ctl_reduce_any_aggregator(c, job)) {
		begin(c, job, r, sink);
		return;
	}
	r->alone_since = r->alone_since ? r->alone_since : c->now;
	patience = hd_ns_max(patience, hd_ns_add(r->alone_since, CTL_REDUCE_PATIENCE_NS));
	if (c->now < patience) /* a switch may have slots earlier */
		ctl_check_by(
			c,
			c->switch_count > 0 ? hd_ns_min(patience, c->now + CTL_REDUCE_WAIT_NS) :
					      patience
		);
	else
		ctl_reduce_drop_all(c, job, r, HD_REASON_NO_SERVER, sink);
}

void ctl_reduce_joined(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_reduce *r, *next;

	ctl_reduce_form(c, job);
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		ctl_reduce_consider(c, job, r, sink);
	}
	ctl_pair_check(c, job, sink);
}

/* --- ends --- */

static bool root_has_values(const struct ctl_reduce *r) {
	const enum ctl_part root = r->part[r->call.root];

	return r->call.collective == HD_COLLECTIVE_BROADCAST
		&& (root == CTL_PART_STARTED || root == CTL_PART_GIVEN || root == CTL_PART_VOID
		    || root == CTL_PART_ASKED);
}

/* The root of a broadcast was lost to the controller only, and is registered again: it has its values. */
static void take_root_back(const struct ctl_job *job, struct ctl_reduce *r) {
	const uint16_t root = r->call.root;

	if (r->call.collective == HD_COLLECTIVE_BROADCAST && r->part[root] == CTL_PART_GONE
	    && job->workers[root])
		ctl_reduce_part(r, root, CTL_PART_STARTED);
}

/* All members stop and ask again. But when a member has the sum and will not send its values a second time, the others
 * cannot get the sum any more. The root of a broadcast still has them: those that miss its values get them again. */
static void fail_one(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	const struct hd_event voided = {.kind = HD_EVENT_VOIDED, .reason = reason};
	struct hd_msg_void_ message = {.reason = (uint8_t)reason};
	bool lost;

	assert(r->begun);
	take_root_back(job, r);
	lost = r->count[CTL_PART_DONE] > 0 && !root_has_values(r);
	c->counters.reduces_failed++;
	ctl_reduce_event(c, job, r, &voided, sink);
	for (uint32_t i = 0; i < r->shard_count; i++) {
		struct ctl_node *aggregator = r->shards[i].aggregator;

		message.token = r->shards[i].group;
		if (aggregator && aggregator->role == HD_ROLE_AGGREGATOR) /* also a drained one */
			ctl_reduce_send_void(c, job, aggregator, &message, sink);
	}
	r->shard_count = 0;
	r->switch_failures += r->lease != NULL;
	r->lease = NULL;
	ctl_shared_leave(job, r);
	r->begun = false;
	ctl_inline_reset(c, r);
	ctl_reduce_vacate(c, r);
	if (lost) {
		ctl_reduce_confirm(job, r);
		ctl_reduce_drop_all(c, job, r, HD_REASON_LATE, sink);
		return;
	}
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] == CTL_PART_GONE) {
			ctl_reduce_part(r, i, CTL_PART_NONE);
			ctl_reduce_mark_unconfirmed(job, i, r->round);
		}
		/* It has asked again already, or knows no token that could be void. */
		if (r->part[i] == CTL_PART_GIVEN
		    || (r->part[i] == CTL_PART_STARTED && r->token[i] == 0)) {
			ctl_reduce_part(r, i, CTL_PART_ASKED);
			continue;
		}
		if (r->part[i] != CTL_PART_STARTED)
			continue;
		ctl_reduce_part(r, i, CTL_PART_VOID);
		message.token = r->token[i];
		if (job->workers[i])
			ctl_reduce_send_void(c, job, job->workers[i], &message, sink);
	}
	ctl_wait_again(job, r);
	ctl_wait_exclude(job, r);
	if (r->count[CTL_PART_ASKED] > 0)
		ctl_check_by(c, c->now + 1);
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

/* All other rounds in the same memory fail, too, unless a member has the result: then all have it, or will. */
static void fail_others(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_reduce *failed,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct ctl_reduce *r, *next;

	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (r != failed && r->shared == failed->shared && r->count[CTL_PART_DONE] == 0)
			fail_one(c, job, r, reason, sink);
	}
}

/* The slots that a failed round used cannot be used by others either: all rounds of the lease fail with it. */
void ctl_reduce_fail(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	if (r->shared != 0)
		fail_others(c, job, r, reason, sink);
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
	bool none_waits = r->count[CTL_PART_OUT] == 0 || ctl_wait_has_all(job, r);

	none_waits = none_waits && r->count[CTL_PART_ASKED] == 0 && r->count[CTL_PART_VOID] == 0
		&& (!r->wrong || ctl_wait_has_all(job, r)); /* all are told what is wrong */
	if (r->begun)
		release(c, job, r, sink);
	else if (none_waits)
		ctl_reduce_forget(c, job, r);
	else
		ctl_reduce_consider(c, job, r, sink);
}

/* This worker has ended the round without its sum: the others do not wait for it. */
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

/* This worker has its sum: without its values the others cannot get theirs any more. */
void ctl_reduce_has_sum(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	uint16_t worker,
	struct hd_sink *sink
) {
	/* Not the sum of the present attempt: the worker was lost when it got its own, and the others began again. */
	if (r->begun
	    && (r->part[worker] == CTL_PART_NONE
		|| (job->has[worker].sum_id != 0
		    && ctl_reduce_has_other(job, worker, r->round, r->sum_id))))
		ctl_reduce_mark_unconfirmed(job, worker, r->round);
	if (!r->begun && root_has_values(r)) {
		ctl_reduce_part(r, worker, CTL_PART_DONE);
		ctl_reduce_settle(c, job, r, sink);
		return;
	}
	if (!r->begun) {
		ctl_reduce_confirm(job, r);
		ctl_reduce_drop_all(c, job, r, HD_REASON_LATE, sink);
		return;
	}
	ctl_reduce_part(r, worker, CTL_PART_DONE);
	ctl_reduce_settle(c, job, r, sink);
}

void ctl_reduce_check(struct hd_controller *c, struct hd_sink *sink) {
	for (uint32_t k = 0; k < c->job_count; k++)
		if (c->jobs[k]->worker_count > 0) {
			ctl_reduce_joined(c, c->jobs[k], sink);
			ctl_reduce_keep(c, c->jobs[k]);
		}
}
