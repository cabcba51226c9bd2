/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of ended transfers: they end reservations and give samples to the estimates. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_estimate.h"
#include "ctl_grouping.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"

#include <assert.h>

/* --- versions --- */

void ctl_job_version(struct ctl_job *job, hd_version version) {
	if (version > job->version)
		job->version = version; /* incarnation in the high bits: a later one is larger */
	if (version > job->newest)
		job->newest = version;
}

/* --- reports --- */

/* delay = counter after the commit - v(g), as the server counts it. */
static void
count_delay(struct ctl_staleness *s, const struct ctl_transfer *t, const struct hd_msg_report *m) {
	uint64_t after = hd_version_counter(m->version), base = hd_version_counter(t->base);
	uint32_t delay = after > base ?
		(uint32_t)(after - base < UINT32_MAX ? after - base : UINT32_MAX) :
		0;

	s->count++;
	s->sum += delay;
	s->squares += (double)delay * delay;
	s->max = delay > s->max ? delay : s->max;
	s->delays[delay < CTL_DELAYS ? delay : CTL_DELAYS - 1]++;
	hd_histogram_add(&s->histogram, &hd_scale_delay, delay);
}

static void record_completion(
	const struct hd_controller *c,
	const struct ctl_transfer *t,
	const struct hd_msg_report *m
) {
	ctl_record(
		c,
		(struct hd_record){
			.kind = HD_RECORD_COMPLETION,
			.what = hd_outcome_name((enum hd_outcome)m->outcome),
			.reason
			= hd_reason_name(m->reason < HD_REASON_COUNT ? m->reason : HD_REASON_NONE),
			.job = t->job->id,
			.worker = t->worker,
			.worker_known = true,
			.direction = t->direction,
			.round = t->round,
			.attempt = t->attempt,
			.bytes = m->bytes,
			.position = t->position,
			.base = t->direction == HD_PUSH ? t->base : t->have,
			.version = m->version,
			.rate_bps = (double)m->rate_bps,
			.duration_s = (double)m->duration_ns / 1e9,
		}
	);
}

static void
count_outcome(struct ctl_job *job, const struct ctl_transfer *t, const struct hd_msg_report *m) {
	if (t->direction == HD_PULL) {
		ctl_job_pulled(job, m->outcome == HD_OUTCOME_APPLIED);
		return;
	}
	if (m->outcome == HD_OUTCOME_APPLIED) {
		job->applied++;
		if (job->sync == HD_SYNC_NONE)
			count_delay(&job->staleness, t, m);
	} else if (m->outcome == HD_OUTCOME_DROPPED) {
		job->dropped++;
	} else {
		job->failed++;
	}
	if (m->outcome != HD_OUTCOME_APPLIED && m->reason < HD_REASON_COUNT)
		job->dropped_for[m->reason]++;
}

static void
log_drop(struct hd_controller *c, const struct ctl_transfer *t, const struct hd_msg_report *m) {
	if (t->direction != HD_PUSH || m->outcome == HD_OUTCOME_APPLIED)
		return;
	ctl_log_drop(
		c,
		&(struct ctl_drop){
			.at = c->now,
			.job = t->job->id,
			.worker = t->worker,
			.direction = t->direction,
			.attempt = t->attempt,
			.reason = m->reason < HD_REASON_COUNT ? m->reason : HD_REASON_NONE,
			.round = t->round,
			.bytes = t->bytes,
			.base = t->base,
			.why = t->why,
		}
	);
}

/* Pushes are reported by the job's server, pulls by the worker that received them. */
static bool
may_report(const struct ctl_node *node, const struct ctl_job *job, const struct hd_msg_report *m) {
	if (m->direction == HD_PUSH)
		return job && job->server == node;
	return node->job && node->job == job && node->worker == m->worker;
}

static void push_ended(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_node *worker = ctl_worker(job, m->worker);

	if (worker && m->round > worker->push_round)
		worker->push_round = m->round;
	if (m->outcome == HD_OUTCOME_APPLIED)
		ctl_credit_next(c, worker, m->bytes, sink);
}

static void report_end(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	const struct ctl_job *job = t->job;

	record_completion(c, t, m);
	count_outcome(t->job, t, m);
	log_drop(c, t, m);
	ctl_rhythm_ended(ctl_worker(job, t->worker), t->direction, c->now);
	ctl_slots_unsent(c, t, sink);
	ctl_transfer_free(c, t);
	if (m->direction == HD_PUSH)
		push_ended(c, job, m, sink);
}

/* A sum ended, and with it all its updates. The i-th of k has made the i-th of the k versions. */
static void report_sum(
	struct hd_controller *c,
	struct ctl_transfer *sum,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_group *group = sum->group;
	uint64_t counter = hd_version_counter(m->version), alive = group->alive, i = 0;

	assert(group && sum->is_sum);
	if (m->outcome == HD_OUTCOME_APPLIED)
		c->counters.sums++;
	ctl_group_ended(
		c,
		group,
		m->outcome == HD_OUTCOME_APPLIED                 ? HD_REASON_NONE :
			m->reason < HD_REASON_COUNT && m->reason ? m->reason :
								   HD_REASON_CLOSED
	);
	if (m->outcome != HD_OUTCOME_APPLIED)
		ctl_slots_spoilt(c, group, m->reason);
	ctl_group_part(sum);
	ctl_transfer_free(c, sum);
	/* The group is freed with its last transfer. */
	for (uint32_t k = 0, count = group->count; k < count && i < alive; k++) {
		struct ctl_transfer *t = group->members[k];
		struct hd_msg_report own = *m;

		if (!t)
			continue;
		own.worker = t->worker;
		own.round = t->round;
		own.attempt = t->attempt;
		own.token = t->token;
		if (m->outcome == HD_OUTCOME_APPLIED && counter + ++i >= alive)
			own.version = hd_version_make(
				hd_version_incarnation(m->version), counter + i - alive
			);
		else if (m->outcome != HD_OUTCOME_APPLIED)
			i++;
		report_end(c, t, &own, sink);
	}
}

void ctl_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = ctl_job_find(c, m->job);
	struct ctl_transfer *t;

	assert(node->role != HD_ROLE_NONE && node->role != HD_ROLE_SWITCH);
	if (node->role == HD_ROLE_AGGREGATOR) {
		/* A delivered report of an ended group is only late: no error. */
		if (!ctl_group_report(c, node, m, sink)
		    && !ctl_reduce_group_report(c, node, m, sink)
		    && m->outcome == HD_OUTCOME_FAILED)
			c->counters.reports_unknown++;
		return;
	}
	t = ctl_transfer_by_token(c, m->token);
	if (t && t->direction == HD_COPY) {
		ctl_copy_report(c, node, m, sink); /* from a replica that has removed the job */
		return;
	}
	if (m->direction == HD_REDUCE) {
		ctl_reduce_report(c, node, m, sink);
		return;
	}
	if (!may_report(node, job, m)) {
		c->counters.hostile_owner++;
		return;
	}
	if (m->direction > HD_PULL || m->outcome >= HD_OUTCOME_COUNT) {
		c->counters.hostile_value++;
		return;
	}
	if (m->direction == HD_PUSH && m->outcome != HD_OUTCOME_PENDING)
		ctl_job_version(job, m->version);
	t = ctl_transfer_by_token(c, m->token);
	if (!t && m->direction == HD_PULL && m->credited) {
		ctl_credit_pulled(c, node, m, sink);
		ctl_samples_take(c, sink);
		return;
	}
	if (!t || t->job != job || t->direction != m->direction || t->worker != m->worker) {
		c->counters.reports_unknown++;
		return;
	}
	c->counters.reports++;
	if (t->credit && !ctl_credit_reported(c, t, m)) {
		c->counters.credits_unspent++;
		ctl_transfer_free(c, t);
		return;
	}
	if (m->outcome == HD_OUTCOME_PENDING)
		record_completion(c, t, m);
	/* Every byte has arrived, the commit is pending: the reservation ends. */
	ctl_report_held(c, t, m, sink);
	if (m->outcome == HD_OUTCOME_PENDING)
		return;
	if (t->is_sum)
		report_sum(c, t, m, sink);
	else
		report_end(c, t, m, sink);
}
