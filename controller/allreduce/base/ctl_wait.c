/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For how long a round waits for workers that are registered and have not called it:
 *
 *                     by default (wait_ms = 0)                         with wait_ms
 *   a plain call      the detection time after the first request       that long after the first request
 *   `least`           until `least` have asked: the first of them      the same, and until `least` have asked
 *   `exact`, barrier  as long as they are registered                   the same; with `exact` it then fails (MEMBERS)
 *   a root            as long as it is registered; the others' time    the same; without its root it fails (ROOT)
 *                     begins with its request
 *
 * The first round of a job that has said how many workers it has waits for CTL_REDUCE_FIRST_NS by default. A worker is
 * left out only if its program has not called the round: its requests and its REGISTER say up to which it has. One that
 * has, and is not heard of, is in a round of an earlier controller, or asks again by itself when that round is void, or
 * is lost soon; without it there could be two sums of one round.
 *
 * A worker that was left out after a time is silent until it calls, and rounds that may leave it out do not wait for
 * it. Its call is then late, as that of a worker that was away, and from then on it is waited for again. It is waited
 * for as well while an earlier round has it, or waits for it: until that round ends its program may be unable to call.
 */
#include "ctl_base.h"
#include "ctl_reduces.h"
#include "ctl_wait.h"

#include <assert.h>

/* No worker of this job has a result yet. */
static bool is_first(const struct ctl_job *job) {
	return job->world > 0 && !job->goes_on;
}

/* HD_NEVER: as long as they are registered. */
static hd_ns
patience(const struct hd_controller *c, const struct ctl_job *job, const struct ctl_reduce *r) {
	const struct ctl_call *call = &r->call;

	if (call->wait_ms == HD_REDUCE_WAIT_FOREVER)
		return HD_NEVER;
	if (call->wait_ms > 0)
		return (hd_ns)call->wait_ms * HD_MS;
	if (call->least > 0)
		return 0;
	if (call->exact > 0 || call->collective == HD_COLLECTIVE_BARRIER)
		return HD_NEVER;
	return is_first(job) ? CTL_REDUCE_FIRST_NS : (hd_ns)c->config.detection_us * HD_US;
}

/* The round waits for its root, even if others are left out. */
static bool needs_root(const struct ctl_reduce *r) {
	return ctl_call_has_root(&r->call) && r->call.wait_ms == 0;
}

static bool has_called(const struct ctl_node *node, const struct ctl_reduce *r) {
	return node->reduce_called >= r->round;
}

/* The worker is silent, and the round waits for such workers for no time. */
static bool is_skipped(const struct ctl_job *job, const struct ctl_reduce *r, uint16_t worker) {
	const struct ctl_node *node = job->workers[worker];
	const struct ctl_call *call = &r->call;

	if (!node || !node->silent || r->wrong || has_called(node, r)
	    || r->part[worker] != CTL_PART_NONE)
		return false;
	if (call->exact > 0 || call->wait_ms == HD_REDUCE_WAIT_FOREVER
	    || (call->wait_ms == 0 && call->collective == HD_COLLECTIVE_BARRIER))
		return false;
	return !ctl_call_has_root(call) || worker != call->root;
}

/* It is OUT from the start. A round of at least n counts it as one that may still come. */
static bool skips(const struct ctl_job *job, const struct ctl_reduce *r, uint16_t worker) {
	return r->call.least == 0 && is_skipped(job, r, worker);
}

void ctl_wait_exclude(const struct ctl_job *job, struct ctl_reduce *r) {
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->workers[i] && ctl_reduce_is_idle(r, i)
		    && (job->workers[i]->reduce_from > r->round || skips(job, r, i)))
			ctl_reduce_part(r, i, CTL_PART_OUT);
}

bool ctl_wait_has_all(const struct ctl_job *job, const struct ctl_reduce *r) {
	if (r->count[CTL_PART_DONE] == 0)
		return r->count[CTL_PART_ASKED] + r->count[CTL_PART_OUT] == job->worker_count;
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->workers[i] && ctl_reduce_is_idle(r, i))
			return false;
	return true;
}

/* An earlier round has the worker as a member, or waits for it. */
static bool
is_busy(const struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	uint16_t worker) {
	const struct ctl_reduce *other;

	TAILQ_FOREACH (other, &job->reduces, entry) {
		const enum ctl_part part = other->part[worker];

		if (other->round >= r->round || other->wrong)
			continue;
		if (other->begun && (part == CTL_PART_STARTED || part == CTL_PART_GIVEN)) {
			job->workers[worker]->silent_from = c->now;
			return true;
		}
		if (!other->begun && (part == CTL_PART_ASKED || ctl_reduce_is_idle(other, worker)))
			return true;
	}
	return false;
}

/* This worker is registered and has not asked. */
static bool is_waited_for(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	uint16_t worker,
	hd_ns wait
) {
	struct ctl_node *node = job->workers[worker];
	hd_ns until;

	if (r->part[worker] == CTL_PART_VOID || has_called(node, r)
	    || (needs_root(r) && worker == r->call.root))
		return true;
	if (wait == 0 || is_skipped(job, r, worker))
		return false;
	if (is_busy(c, job, r, worker)) {
		ctl_check_by(c, hd_ns_add(c->now, hd_ns_max(wait, CTL_REDUCE_WAIT_NS)));
		return true;
	}
	until = hd_ns_add(hd_ns_max(r->waits_from, node->silent_from), wait);
	if (c->now >= until)
		return false;
	ctl_check_by(c, until);
	return true;
}

static void begin_wait(const struct hd_controller *c, struct ctl_reduce *r) {
	const bool rooted = needs_root(r) && r->part[r->call.root] == CTL_PART_ASKED;

	if (r->waits_from == 0 || (rooted && !r->rooted))
		r->waits_from = c->now;
	r->rooted = rooted;
}

bool ctl_wait_is_over(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r) {
	const hd_ns wait = patience(c, job, r);
	hd_ns until;

	begin_wait(c, r);
	if (ctl_wait_has_all(job, r))
		return true;
	if (wait == HD_NEVER || r->count[CTL_PART_ASKED] + r->count[CTL_PART_DONE] < r->call.least)
		return false;
	until = hd_ns_add(r->waits_from, wait);
	if (c->now < until) {
		ctl_check_by(c, until);
		if (r->call.least == 0) /* those that are silent are OUT already */
			return false;
	}
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->workers[i] && ctl_reduce_is_idle(r, i)
		    && is_waited_for(c, job, r, i, wait))
			return false;
	return true;
}

static void leave_out(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	uint16_t worker,
	struct hd_sink *sink
) {
	struct ctl_node *node = job->workers[worker];
	struct ctl_reduce *other;

	ctl_reduce_part(r, worker, CTL_PART_OUT);
	if (r->round > node->reduce_missed)
		node->reduce_missed = r->round;
	/* One that is slower than the first n is not silent. */
	if (node->silent || patience(c, job, r) == 0)
		return;
	node->silent = true;
	c->counters.left_out++;
	ctl_event_of(
		node,
		job,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_LEFT_OUT,
			.job = job->id,
			.worker = worker,
			.direction = HD_REDUCE,
			.round = r->round,
			.value = (double)(c->now - r->waits_from) * 1e-9,
		},
		sink
	);
	TAILQ_FOREACH (other, &job->reduces, entry)
		if (!other->begun && skips(job, other, worker))
			ctl_reduce_part(other, worker, CTL_PART_OUT);
	ctl_check_by(c, c->now + 1);
}

void ctl_wait_leave_out(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
) {
	assert(!r->begun);
	if (ctl_wait_has_all(job, r))
		return;
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->workers[i] && r->part[i] == CTL_PART_NONE)
			leave_out(c, job, r, i, sink);
}

void ctl_wait_again(const struct ctl_job *job, struct ctl_reduce *r) {
	for (uint16_t i = 0; i < HD_WORKERS_MAX && r->count[CTL_PART_OUT] > 0; i++)
		if (r->part[i] == CTL_PART_OUT && job->workers[i]
		    && !has_called(job->workers[i], r))
			ctl_reduce_part(r, i, CTL_PART_NONE);
}

void ctl_wait_registered(struct hd_controller *c, struct ctl_node *node, uint32_t called) {
	node->silent = false;
	node->silent_from = c->now;
	node->reduce_called = called;
	node->reduce_missed = 0;
}

bool ctl_wait_called(struct hd_controller *c, struct ctl_node *node, uint32_t round) {
	struct ctl_reduce *r;

	if (node->silent) {
		node->silent = false;
		node->reduce_missed = node->job->reduce_round;
		/* They wait for it again. */
		TAILQ_FOREACH (r, &node->job->reduces, entry)
			if (!r->begun && r->round >= round && r->part[node->worker] == CTL_PART_OUT
			    && !has_called(node, r))
				ctl_reduce_part(r, node->worker, CTL_PART_NONE);
	}
	node->silent_from = c->now;
	if (round > node->reduce_called)
		node->reduce_called = round;
	return round <= node->reduce_missed;
}

uint32_t ctl_wait_open_round(const struct ctl_node *node) {
	const struct ctl_reduce *r;
	uint32_t oldest = 0;

	TAILQ_FOREACH (r, &node->job->reduces, entry)
		if (!r->begun && !r->wrong && r->part[node->worker] == CTL_PART_NONE
		    && !has_called(node, r) && (oldest == 0 || r->round < oldest))
			oldest = r->round;
	return oldest;
}
