/* SPDX-License-Identifier: BSD-3-Clause */
/* What workers and aggregators say of all-reduces: requests, cancels, reports. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_estimate.h"
#include "ctl_possible.h"
#include "ctl_reduces.h"
#include "ctl_slots.h"
#include "ctl_transfers.h"
#include "hd_group.h"

#include <assert.h>

/* NONE, or why this never begins. */
static enum hd_reason
wrong(const struct hd_controller *c, const struct ctl_job *job, const struct hd_msg_request *m) {
	const struct ctl_reduce *r = ctl_reduce_find(job, m->round);

	if (m->round == 0 || m->attempt == 0 || m->order > HD_GROUP_RANKED
	    || !ctl_round_is_possible(c, job, m->round - 1))
		return HD_REASON_REFUSED;
	if (!hd_dtype_is_model(m->dtype) || m->bytes == 0 || m->bytes > HD_MODEL_BYTES_MAX
	    || m->bytes % hd_dtype_bytes(m->dtype) != 0)
		return HD_REASON_REFUSED;
	if (r && (r->bytes != m->bytes || r->dtype != m->dtype || r->order != m->order))
		return HD_REASON_REFUSED;
	/* Everybody else has it: its values are gone. */
	if (!r && m->round <= job->reduce_round)
		return HD_REASON_LATE;
	if (r && r->begun && r->part[m->worker] != CTL_PART_TOLD)
		return HD_REASON_LATE;
	return HD_REASON_NONE;
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

	assert(node->role == HD_ROLE_WORKER && job);
	node->reduce_from = m->have > m->round ? m->round : (uint32_t)m->have;
	/* Rounds that it has ended, of which we may not have heard. */
	for (r = TAILQ_FIRST(&job->reduces); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (r->round < node->reduce_from && !r->begun && r->part[m->worker] != CTL_PART_OUT)
			ctl_reduce_drop_out(c, job, r->round, m->worker, sink);
	}
	reason = wrong(c, job, m);
	if (ctl_reduce_is_apart(job, m) && !reason)
		reason = HD_REASON_LATE;
	r = ctl_reduce_find(job, m->round);
	if (!reason && !r) {
		r = ctl_reduce_add(job, m);
		reason = r ? HD_REASON_NONE : HD_REASON_NO_MEMORY;
	}
	if (reason) {
		c->counters.requests_refused++;
		ctl_drop_request(c, node, m, reason, sink);
		if (reason == HD_REASON_LATE) {
			node->reduce_from += node->reduce_from == m->round;
			ctl_reduce_drop_out(c, job, m->round, m->worker, sink);
		}
		return;
	}
	/* Another life of it begins to count anew. */
	if (m->attempt <= r->attempt[m->worker] && !ctl_reduce_is_idle(r, m->worker)) {
		c->counters.requests_repeated++;
		return;
	}
	c->counters.requests++;
	/* Who asks again has given up what was under way, and with it the others have. */
	if (r->part[m->worker] == CTL_PART_TOLD)
		ctl_reduce_fail(c, job, r, HD_REASON_VOID, sink);
	r = ctl_reduce_find(job, m->round);
	if (!r) {
		ctl_drop_request(c, node, m, HD_REASON_LATE, sink);
		return;
	}
	r->attempt[m->worker] = m->attempt;
	r->peak[m->worker] = m->peak;
	r->stood_still = r->stood_still || m->avoid == HD_GROUP_AVOID_STILL;
	r->avoid = r->avoid || (m->avoid != HD_GROUP_AVOID_NOT && m->avoid != HD_GROUP_AVOID_STILL);
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

	if (!r || m->worker != node->worker || r->part[m->worker] == CTL_PART_NONE)
		return;
	c->counters.cancels++;
	if (r->part[m->worker] == CTL_PART_TOLD) {
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

	if (has && node->job && m->worker == node->worker)
		ctl_reduce_learn(c, node->job, m->worker, &(struct ctl_sum){m->round, m->token});
	if (r && m->outcome == HD_OUTCOME_PENDING && m->worker == node->worker
	    && ctl_reduce_went(c, r, node, m)) {
		c->counters.reports++;
		return;
	}
	/* GONE: it is back. VOID: that word crossed this one. NONE: an earlier controller began it. */
	if (r && m->worker == node->worker) {
		enum ctl_part part = r->part[m->worker];

		known = m->attempt == r->attempt[m->worker] ?
			part == CTL_PART_TOLD || part == CTL_PART_GONE
				|| ctl_reduce_is_idle(r, m->worker) :
			has && !r->begun && ctl_reduce_is_idle(r, m->worker);
	}
	if (!known || m->outcome == HD_OUTCOME_PENDING) {
		c->counters.reports_unknown++;
		return;
	}
	c->counters.reports++;
	if (has) {
		if (r->lease && r->part[m->worker] == CTL_PART_TOLD)
			ctl_lease_passed(c, node->job, r, m->duration_ns);
		ctl_reduce_has_sum(c, node->job, r, m->worker, sink);
		ctl_samples_take(c, sink);
		return;
	}
	if (r->begun)
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
		return false;
	/* That a sum was delivered its receivers say. */
	if (m->outcome != HD_OUTCOME_FAILED)
		return true;
	/* It would refuse the next attempt as well. */
	if (m->reason == HD_REASON_NO_MEMORY)
		ctl_group_refused(c, aggregator, job, m->reason);
	ctl_reduce_fail(c, job, r, m->reason < HD_REASON_COUNT ? m->reason : HD_REASON_NONE, sink);
	return true;
}
