/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of workers and aggregators about all-reduces: requests, cancels, reports. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_estimate.h"
#include "ctl_inline.h"
#include "ctl_pair_ends.h"
#include "ctl_possible.h"
#include "ctl_reduces.h"
#include "ctl_slots.h"
#include "ctl_transfers.h"
#include "ctl_wait.h"
#include "hd_group.h"

#include <assert.h>
#include <stdio.h>

/* A member that receives nothing was cut off, or its controller's session was; its values may all have arrived. */
static bool has_given(const struct ctl_reduce *r, uint16_t worker) {
	return r->begun && !r->receives[worker]
		&& (r->part[worker] == CTL_PART_GONE || r->part[worker] == CTL_PART_GIVEN);
}

/* A member of a short collective asks again: its REDUCE was lost with its session, and is still here. */
static bool misses(const struct ctl_reduce *r, uint16_t worker) {
	return r->begun && r->inlined
		&& (r->part[worker] == CTL_PART_GONE || r->part[worker] == CTL_PART_STARTED);
}

/* NONE, or why this round can never begin. */
static enum hd_reason
wrong(const struct hd_controller *c, const struct ctl_job *job, const struct hd_msg_request *m) {
	const struct ctl_reduce *r = ctl_reduce_find(job, m->round);

	if (m->round == 0 || m->attempt == 0 || !ctl_call_is_valid(m) || !ctl_inline_is_valid(m)
	    || !ctl_round_is_possible(c, job, m->round - 1))
		return HD_REASON_REFUSED;
	/* All others have the sum: their values are gone. */
	if (!r && m->round <= job->reduce_round)
		return HD_REASON_LATE;
	if (r && r->begun && r->part[m->worker] != CTL_PART_STARTED && !has_given(r, m->worker)
	    && !misses(r, m->worker))
		return HD_REASON_LATE;
	return HD_REASON_NONE;
}

static void
refuse(struct hd_controller *c,
       struct ctl_node *node,
       const struct hd_msg_request *m,
       enum hd_reason reason,
       struct hd_sink *sink) {
	const struct ctl_denial denial = {
		.reason = reason,
		.sum_id = reason == HD_REASON_LATE ? ctl_reduce_sum_id(node->job, m->round) : 0,
		.open_round = ctl_wait_open_round(node),
	};

	ctl_refuse_request(c, node, m, &denial, sink);
}

/* A round began without this worker, as it was silent. */
static void refuse_silent(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *m,
	struct hd_sink *sink
) {
	char words[HD_TEXT_BYTES_MAX + 1];
	const struct ctl_denial denial = {
		.reason = HD_REASON_LATE,
		.sum_id = ctl_reduce_sum_id(node->job, m->round),
		.words = words,
		.open_round = ctl_wait_open_round(node),
	};

	(void)snprintf(
		words,
		sizeof words,
		"late: call %u began without rank %u, which had not called it in time",
		m->round,
		m->worker
	);
	ctl_refuse_request(c, node, m, &denial, sink);
}

/* Takes the fields of a request that may differ from the others', and compares the rest. */
static void note(struct ctl_reduce *r, const struct hd_msg_request *m) {
	r->attempt[m->worker] = m->attempt;
	r->peak[m->worker] = m->peak;
	if (!r->wrong)
		(void)ctl_call_differs(r, m);
	r->room[m->worker] = m->room;
	r->has[m->worker] = m->state == HD_REQUEST_HAS;
	r->by_network = r->by_network || m->by_network != 0;
	r->stood_still = r->stood_still || m->avoid == HD_GROUP_AVOID_STILL;
	r->avoid = r->avoid || (m->avoid != HD_GROUP_AVOID_NOT && m->avoid != HD_GROUP_AVOID_STILL);
}

/* missed: the round began without the worker, which was silent. */
static void refuse_call(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *m,
	enum hd_reason reason,
	bool missed,
	struct hd_sink *sink
) {
	c->counters.requests_refused++;
	if (missed && reason == HD_REASON_LATE)
		refuse_silent(c, node, m, sink);
	else
		refuse(c, node, m, reason, sink);
	if (reason == HD_REASON_LATE) {
		node->reduce_from += node->reduce_from == m->round;
		ctl_reduce_drop_out(c, node->job, m->round, m->worker, sink);
	}
}

/* The round has begun with its values: it lacks only the answer. */
static void answer_again(
	struct hd_controller *c,
	struct ctl_node *node,
	struct ctl_reduce *r,
	const struct hd_msg_request *m,
	struct hd_sink *sink
) {
	r->attempt[m->worker] = m->attempt;
	ctl_reduce_part(r, m->worker, CTL_PART_STARTED);
	if (ctl_reduce_send_again(c, node->job, r, m->worker, sink) < 0) {
		refuse(c, node, m, HD_REASON_NO_MEMORY, sink);
		ctl_reduce_part(r, m->worker, CTL_PART_OUT);
	}
	ctl_reduce_settle(c, node->job, r, sink);
}

void ctl_reduce_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = node->job;
	enum hd_reason reason;
	struct ctl_reduce *r, *next;
	bool missed;

	assert(node->role == HD_ROLE_WORKER && job);
	if (m->channel != 0) {
		ctl_pair_request(c, node, m, sink);
		return;
	}
	node->reduce_from = m->have > m->round ? m->round : (uint32_t)m->have;
	/* Rounds that the worker has ended, of which its report may have been lost. */
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (r->round < node->reduce_from && !r->begun && r->part[m->worker] != CTL_PART_OUT)
			ctl_reduce_drop_out(c, job, r->round, m->worker, sink);
	}
	reason = wrong(c, job, m);
	missed = reason != HD_REASON_REFUSED && ctl_wait_called(c, node, m->round);
	if (ctl_reduce_is_apart(job, m) && (!reason || missed)) {
		reason = HD_REASON_LATE;
		missed = false;
	}
	r = ctl_reduce_find(job, m->round);
	if (!reason && !r) {
		r = ctl_reduce_add(job, m);
		if (r)
			ctl_wait_exclude(job, r);
		reason = r ? HD_REASON_NONE : HD_REASON_NO_MEMORY;
	}
	if (!reason && ctl_roll_must_wait(c, job, r, m, sink))
		reason = HD_REASON_LATE;
	if (reason) {
		refuse_call(c, node, m, reason, missed, sink);
		return;
	}
	/* A new process of the worker counts its attempts from the start. */
	if (m->attempt <= r->attempt[m->worker] && !ctl_reduce_is_idle(r, m->worker)) {
		c->counters.requests_repeated++;
		return;
	}
	c->counters.requests++;
	if (misses(r, m->worker)) {
		answer_again(c, node, r, m, sink);
		return;
	}
	/* A worker that asks again has given up the round in progress, and so it fails for the others. */
	if (r->part[m->worker] == CTL_PART_STARTED)
		ctl_reduce_fail(c, job, r, HD_REASON_VOID, sink);
	r = ctl_reduce_find(job, m->round);
	if (!r) {
		refuse(c, node, m, HD_REASON_LATE, sink);
		return;
	}
	if (has_given(r, m->worker)) {
		r->attempt[m->worker] = m->attempt;
		ctl_reduce_part(r, m->worker, CTL_PART_GIVEN);
		ctl_reduce_settle(c, job, r, sink);
		return;
	}
	note(r, m);
	ctl_inline_take(c, r, m);
	ctl_reduce_part(r, m->worker, CTL_PART_ASKED);
	ctl_reduce_consider(c, job, r, sink);
}

void ctl_reduce_cancel(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_cancel *m,
	struct hd_sink *sink
) {
	struct ctl_reduce *r = node->job ? ctl_reduce_find(node->job, m->round) : NULL;

	if (node->job && m->channel != 0) {
		ctl_pair_cancel(c, node, m, sink);
		return;
	}
	if (!r || m->worker != node->worker || r->part[m->worker] == CTL_PART_NONE)
		return;
	c->counters.cancels++;
	/* The others have, or get, the result of a short one without this worker. */
	if (r->part[m->worker] == CTL_PART_STARTED && !r->inlined) {
		ctl_reduce_fail(c, node->job, r, HD_REASON_CANCELLED, sink);
		r = ctl_reduce_find(node->job, m->round);
	}
	if (!r)
		return;
	ctl_reduce_part(r, m->worker, CTL_PART_OUT);
	ctl_reduce_settle(c, node->job, r, sink);
}

void ctl_reduce_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_reduce *r = node->job ? ctl_reduce_find(node->job, m->round) : NULL;
	bool has = m->outcome == HD_OUTCOME_APPLIED, known = false;

	if (m->channel != 0) {
		ctl_pair_report(c, node, m, sink);
		return;
	}
	if (has && node->job && m->worker == node->worker)
		ctl_reduce_learn(c, node->job, m->worker, &(struct ctl_sum){m->round, m->token});
	if (r && m->outcome == HD_OUTCOME_PENDING && m->worker == node->worker
	    && ctl_reduce_went(c, r, node, m)) {
		c->counters.reports++;
		return;
	}
	/* GONE: it is back. VOID: the two messages crossed. NONE: an earlier controller began it. */
	if (r && m->worker == node->worker) {
		enum ctl_part part = r->part[m->worker];

		known = m->attempt == r->attempt[m->worker] ?
			part == CTL_PART_STARTED || part == CTL_PART_GONE
				|| ctl_reduce_is_idle(r, m->worker) :
			has && !r->begun && ctl_reduce_is_idle(r, m->worker);
	}
	if (!known || m->outcome == HD_OUTCOME_PENDING) {
		c->counters.reports_unknown++;
		return;
	}
	c->counters.reports++;
	if (has) {
		if (r->lease && r->part[m->worker] == CTL_PART_STARTED)
			ctl_lease_passed(c, node->job, r, m->duration_ns);
		ctl_reduce_has_sum(c, node->job, r, m->worker, sink);
		ctl_samples_take(c, sink);
		return;
	}
	if (r->begun && !r->inlined) /* the others have, or get, what they need */
		ctl_reduce_fail(
			c,
			node->job,
			r,
			m->reason < HD_REASON_COUNT ? m->reason : HD_REASON_NONE,
			sink
		);
	ctl_reduce_drop_out(c, node->job, m->round, m->worker, sink);
}

static struct ctl_reduce *
find_group(const struct ctl_job *job, const struct ctl_node *aggregator, uint64_t group) {
	struct ctl_reduce *r;

	TAILQ_FOREACH (r, &job->reduces, entry)
		for (uint32_t i = 0; i < r->shard_count; i++)
			if (r->shards[i].group == group && r->shards[i].aggregator == aggregator)
				return r;
	return NULL;
}

bool ctl_reduce_group_report(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = ctl_job_find(c, m->job);
	struct ctl_reduce *r = job ? find_group(job, aggregator, m->token) : NULL;

	if (m->outcome == HD_OUTCOME_PENDING)
		ctl_reduce_came(c, aggregator, m);
	if (!r)
		return ctl_pair_group_report(c, aggregator, m, sink);
	/* The receivers report that a sum was delivered. */
	if (m->outcome != HD_OUTCOME_FAILED)
		return true;
	/* It would refuse the next attempt as well: its memory is full, or it ends with its worker. */
	if (m->reason == HD_REASON_NO_MEMORY
	    || (m->reason == HD_REASON_CLOSED && aggregator->host_job != 0))
		ctl_group_refused(c, aggregator, job, m->reason);
	ctl_reduce_fail(c, job, r, m->reason < HD_REASON_COUNT ? m->reason : HD_REASON_NONE, sink);
	return true;
}
