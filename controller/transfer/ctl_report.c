/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes back: reports of ended transfers free their reservations and feed the estimate; after
 * a restart of either side, STATE and INFLIGHT rebuild positions and reservations.
 */
#include "ctl_ended.h"
#include "ctl_possible.h"

#include <string.h>

/* --- versions --- */

static void job_version(struct ctl_job *job, hd_version version) {
	if (version > job->version)
		job->version = version; /* incarnation in the high bits: a later life is greater */
	if (version > job->newest)
		job->newest = version;
}

/* A new life of the server begins behind what the last one had reported. */
static void tell_rolled_back(
	struct hd_controller *c,
	const struct ctl_job *job,
	hd_version version,
	struct hd_sink *sink
) {
	uint64_t had = hd_version_counter(job->newest), has = hd_version_counter(version);

	if (hd_version_incarnation(version) == hd_version_incarnation(job->newest) || has >= had)
		return;
	c->counters.rolled_back += had - has;
	ctl_event(
		sink,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_ROLLED_BACK,
			.job = job->id,
			.version = version,
			.base = job->newest,
			.aux = had - has,
		}
	);
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
		job->pulls_delivered += m->outcome == HD_OUTCOME_APPLIED;
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

void ctl_report_held(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	if (!t->held) {
		ctl_sample_add(c, t, m);
		if (t->is_sum && t->group)
			ctl_group_learn(t, m);
	}
	if (t->group && t->is_sum != (t->direction == HD_PUSH))
		t->group->collected = c->now;
	t->held = true;
	t->book_count = 0;
	if (t->is_sum && t->group)
		ctl_slots_held(t->group);
	ctl_samples_take(c, sink);
	if (c->pending_count)
		ctl_plan_soon(c);
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
	ctl_slots_untold(c, t, sink);
	ctl_transfer_free(c, t);
	if (m->direction == HD_PUSH)
		push_ended(c, job, m, sink);
}

/* A sum ended: so have all its updates. The i-th of k has made the i-th of the k versions. */
static void report_sum(
	struct hd_controller *c,
	struct ctl_transfer *sum,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_group *group = sum->group;
	uint64_t counter = hd_version_counter(m->version), alive = group->alive, i = 0;

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
	group->sum = NULL;
	sum->group = NULL;
	ctl_transfer_free(c, sum);
	/* The last one that is freed takes the group along. */
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

	if (node->role == HD_ROLE_AGGREGATOR) {
		/* Delivered is not failed: of groups that have ended it is old news. */
		if (!ctl_group_report(c, node, m, sink)
		    && !ctl_reduce_group_report(c, node, m, sink)
		    && m->outcome == HD_OUTCOME_FAILED)
			c->counters.reports_unknown++;
		return;
	}
	t = ctl_transfer_by_token(c, m->token);
	if (t && t->direction == HD_COPY) {
		ctl_copy_report(c, node, m, sink); /* by a replica that has forgotten the job */
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
		job_version(job, m->version);
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
	/* Held whole, waiting for its commit: the network is free again. */
	ctl_report_held(c, t, m, sink);
	if (m->outcome == HD_OUTCOME_PENDING)
		return;
	if (t->is_sum)
		report_sum(c, t, m, sink);
	else
		report_end(c, t, m, sink);
}

/* --- after a restart --- */

void ctl_state(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_state *m,
	struct hd_sink *sink
) {
	char text[HD_TEXT_BYTES_MAX];
	uint64_t generation;
	struct ctl_job *job;

	if (!ctl_state_is_possible(m)) {
		c->counters.hostile_value++;
		return;
	}
	job = ctl_job_get(c, m->job, sink);
	if (!job) {
		ctl_refuse(c, node, m->job, ctl_jobs_full(c, text, sizeof(text)), sink);
		return;
	}
	generation = ctl_generation_believed(c, m->generation);
	if (ctl_replica_fence(c, job, node, generation, sink)
	    || (generation == 0 && ctl_replica_prefer(c, job, node, m->version, sink)))
		return;
	if (!job->model_bytes)
		job->model_bytes = m->model_bytes;
	if (!job->tau_max)
		job->tau_max = m->tau_max;
	if (job->server != node)
		ctl_job_claim(c, job, node, generation, sink);
	else if (generation == 0) /* it waits for this */
		ctl_replica_serve(c, job, job->serving, sink);
	job->begun = true;
	job->recalled = false;
	ctl_check_by(c, c->now); /* for its replica */
	tell_rolled_back(c, job, m->version, sink);
	job_version(job, m->version);
	if (m->position > job->position)
		job->position = m->position;
	job->inflight_expected = m->inflight;
	if (!m->inflight && job->state == CTL_JOB_SETTLING)
		ctl_job_ready(c, job, sink);
}

static void restore(struct hd_controller *c, struct ctl_job *job, const struct hd_msg_inflight *m) {
	uint64_t left = m->held_bytes < m->bytes ? m->bytes - m->held_bytes : 0;
	struct ctl_transfer *t = ctl_transfer_find(c, job, m->worker, m->direction, m->round);
	double rate = 0;

	/* A request that came before: it has been granted already. */
	if (t && t->state == CTL_PENDING && t->attempt <= m->attempt)
		ctl_transfer_free(c, t);
	else if (t)
		return;
	t = ctl_transfer_add(c, job, m->worker, m->direction, m->round);
	if (!t)
		return;
	t->attempt = m->attempt;
	t->bytes = m->bytes;
	t->base = m->base;
	t->position = m->position;
	t->restored = true;
	ctl_transfer_open(c, t, m->token);
	ctl_transfer_route(c, t);
	rate = ctl_estimate_bytes(c, t->path_count ? t->path[0] : CTL_LINK_LOCAL);
	for (uint8_t i = 1; i < t->path_count; i++)
		if (ctl_estimate_bytes(c, t->path[i]) < rate)
			rate = ctl_estimate_bytes(c, t->path[i]);
	t->start = c->now;
	t->finish = c->now + (hd_ns)((double)left / rate * 1e9);
	t->held = left == 0;
	t->book_count = !t->held;
	t->book[0] = (struct ctl_span){t->start, t->finish, rate};
	c->counters.restored++;
}

void ctl_inflight(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_inflight *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = ctl_job_find(c, m->job);

	if (!job || job->server != node) {
		c->counters.hostile_owner++;
		return;
	}
	if (!ctl_inflight_is_possible(m)) {
		c->counters.hostile_value++;
		return;
	}
	if (!ctl_transfer_by_token(c, m->token))
		restore(c, job, m);
	if (m->position > job->position)
		job->position = m->position;
	if (job->inflight_expected && --job->inflight_expected == 0
	    && job->state == CTL_JOB_SETTLING)
		ctl_job_ready(c, job, sink);
}
