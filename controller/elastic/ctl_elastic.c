/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The number of workers of a job: one policy decides it (policy/hd_elastic.h), and this file carries it out. The next
 * roster has the target, the workers and the values that depend on their number. The program that starts workers reads
 * the target (`show elastic`). A worker above the target gets NOTICE, as from a cloud that takes its machine away: it
 * flushes and leaves. A worker that has sent a notice of its own is leaving already. Nothing here waits for a worker.
 */
#include "ctl_base.h"
#include "ctl_elastic.h"
#include "hd_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double seconds(const struct hd_controller *c) {
	return (double)c->now * 1e-9;
}

/* Makes one observation of the workers' reports so far. */
static void take_reports(const struct hd_controller *c, struct ctl_elastic *elastic) {
	const struct ctl_step_reports *r = &elastic->reports;
	/* A worker that came later counts its steps from 1, and all of these may be such. */
	const uint64_t newest = r->step > elastic->newest ? r->step : elastic->newest;
	const struct hd_elastic_observation o = {
		.step = newest,
		.loss = r->loss_sum / (double)r->samples,
		.samples = r->samples,
		.workers = elastic->owner.workers,
		.price = elastic->owner.price,
		.step_s = r->timed ? r->step_s / r->timed : 0,
		.comm_share = -1,
	};

	elastic->newest = newest;
	if (hd_elastic_observe(&elastic->owner, seconds(c), &o) < 0) {
		elastic->refused++;
		(void)snprintf(
			elastic->refusal,
			sizeof elastic->refusal,
			"step %llu: the sum of the losses is not finite",
			(unsigned long long)r->step
		);
	}
	elastic->reports = (struct ctl_step_reports){0};
}

void ctl_elastic_count(struct hd_controller *c, struct ctl_job *job) {
	struct ctl_elastic *elastic = job->elastic;

	if (!elastic)
		return;
	/* No worker is left whose report could still be added. */
	if (job->roster.count == 0 && elastic->reports.count > 0)
		take_reports(c, elastic);
	hd_elastic_count(&elastic->owner, seconds(c), job->roster.count);
	if (job->roster.count > 0)
		return;
	elastic->newest = 0;
	ctl_kept_changed(c);
}

void ctl_elastic_enters(struct ctl_job *job, uint16_t rank) {
	const struct ctl_node *node = job->workers[rank];

	/* The first one to come shows whether the last workers are back after a lost connection. */
	if (job->elastic && job->roster.count == 0
	    && job->boot[rank] == hd_session_peer_boot(node->session))
		hd_elastic_back(&job->elastic->owner);
}

void ctl_elastic_shape(const struct ctl_job *job, struct hd_roster *roster) {
	const struct hd_elastic_job own = {
		.tau_max = job->tau_max,
		.counts = job->sync == HD_SYNC_N || job->sync == HD_SYNC_N_BATCH,
		.bounds = job->sync == HD_SYNC_NONE,
	};
	struct hd_elastic_shape shape = {0};

	roster->target = 0;
	if (job->elastic) {
		shape = hd_elastic_shape(&job->elastic->owner, &own, roster->count);
		roster->target = (uint16_t)job->elastic->owner.target;
	}
	roster->sync_count = shape.sync_count;
	roster->tau_max = shape.tau_max;
	roster->scale = shape.scale;
}

/* --- surplus workers --- */

static void send_away(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *node,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_NOTICE};

	message.notice.job = job->id;
	message.notice.worker = node->worker;
	message.notice.left_us = (uint32_t)(job->elastic->owner.common.notice_s * 1e6);
	if (ctl_send(c, node, &message, sink))
		return;
	job->elastic->sent_away++;
	c->counters.sent_away++;
	/* From here on as if the worker had sent the notice. */
	ctl_notice(c, node, &message.notice, sink);
}

void ctl_elastic_release(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	uint32_t stay = 0, target;

	if (!job->elastic || !job->elastic->owner.policy->releases)
		return;
	target = job->elastic->owner.target;
	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		const struct ctl_node *node = job->workers[i];

		stay += node && !node->observer && !node->doomed && !node->preempted_at;
	}
	for (uint32_t i = HD_WORKERS_MAX; i-- > 0 && target > 0 && stay > target;) {
		struct ctl_node *node = job->workers[i];

		if (!node || node->observer || node->doomed || node->preempted_at)
			continue;
		send_away(c, job, node, sink);
		stay--;
	}
}

/* --- decisions --- */

static void show_target(struct hd_controller *c, const struct ctl_job *job, struct hd_sink *sink) {
	const struct hd_elastic *owner = &job->elastic->owner;
	char text[64];

	(void)snprintf(text, sizeof text, "target of %.32s", job->name);
	ctl_event(
		sink,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_TARGET,
			.job = job->id,
			.aux = owner->target,
		}
	);
	ctl_record(
		c,
		(struct hd_record){
			.kind = HD_RECORD_COMMAND,
			.what = "elastic",
			.reason = hd_reason_name(HD_REASON_NONE),
			.text = text,
			.detail = owner->reason,
			.who = owner->policy->name,
			.count = owner->target,
		}
	);
}

static void decide(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_elastic *elastic = job->elastic;
	bool changed;

	(void)hd_elastic_decide(&elastic->owner, seconds(c), &changed);
	elastic->look_at = hd_ns_add(c->now, CTL_ELASTIC_NS);
	ctl_check_by(c, elastic->look_at);
	if (changed) {
		elastic->changes++;
		show_target(c, job, sink);
		ctl_kept_changed(c);
	}
	/* Also with the same target: a new policy may have another scale. */
	ctl_roster_due(c, job);
}

int ctl_elastic_set(
	struct hd_controller *c,
	struct ctl_job *job,
	const char *words,
	struct hd_sink *sink,
	char *error,
	size_t error_bytes
) {
	struct ctl_elastic *elastic = job->elastic;

	if (!elastic) {
		elastic = calloc(1, sizeof *elastic);
		if (!elastic) {
			(void)snprintf(error, error_bytes, "no memory");
			return -ENOMEM;
		}
		hd_elastic_init(&elastic->owner);
		elastic->held_norm = -1;
	}
	if (hd_elastic_set(
		    &elastic->owner, words, seconds(c), job->roster.count, error, error_bytes
	    )
	    < 0) {
		if (!job->elastic)
			free(elastic);
		return -EINVAL;
	}
	job->elastic = elastic;
	ctl_kept_changed(c);
	decide(c, job, sink);
	return 0;
}

int ctl_elastic_price(
	struct hd_controller *c,
	struct ctl_job *job,
	const char *text,
	struct hd_sink *sink,
	char *error,
	size_t error_bytes
) {
	double price;

	if (!job->elastic) {
		(void)snprintf(error, error_bytes, "price: job %s has no policy", job->name);
		return -EINVAL;
	}
	if (!hd_text_real(text, &price)
	    || hd_elastic_price(&job->elastic->owner, seconds(c), price) < 0) {
		(void)snprintf(
			error, error_bytes, "price: '%s' (of a worker per hour, 0 or more)", text
		);
		return -EINVAL;
	}
	decide(c, job, sink);
	return 0;
}

/* --- reports of workers --- */

static void observe(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	take_reports(c, job->elastic);
	decide(c, job, sink);
}

static bool report_wrong(const struct hd_msg_observe *m) {
	return m->step == 0 || m->samples == 0 || !isfinite(m->loss_sum) || isnan(m->sent_norm)
		|| isnan(m->held_norm);
}

void ctl_observe(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_observe *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = node->job;
	struct ctl_elastic *elastic;
	struct ctl_step_reports *r;

	if (!job || m->job != job->id || m->worker != node->worker) {
		c->counters.hostile_owner++;
		return;
	}
	c->counters.observations++;
	elastic = job->elastic;
	if (report_wrong(m)) {
		c->counters.hostile_value++;
		if (elastic) {
			elastic->refused++;
			(void)snprintf(
				elastic->refusal,
				sizeof elastic->refusal,
				"worker %u, step %u: step or samples 0, or a loss that is NaN or infinite",
				m->worker,
				m->step
			);
		}
		return;
	}
	if (!elastic)
		return;
	r = &elastic->reports;
	if (r->count++ == 0)
		r->since = c->now;
	r->step = m->step > r->step ? m->step : r->step;
	r->loss_sum += m->loss_sum;
	r->samples += m->samples;
	r->timed += m->step_ns > 0;
	r->step_s += (double)m->step_ns * 1e-9;
	elastic->held_norm = (double)m->held_norm;
	if (r->count >= job->roster.count)
		observe(c, job, sink);
	else
		ctl_check_by(c, hd_ns_add(c->now, CTL_ELASTIC_NS));
}

/* --- time --- */

static hd_ns look(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_elastic *elastic = job->elastic;
	const struct ctl_step_reports *r = &elastic->reports;

	/* Some workers were lost since the first report. */
	if (r->count > 0 && c->now >= hd_ns_add(r->since, CTL_ELASTIC_NS))
		observe(c, job, sink);
	if (c->now >= elastic->look_at) {
		hd_elastic_count(&elastic->owner, seconds(c), job->roster.count);
		decide(c, job, sink);
	}
	if (job->roster.count > 0 && c->now >= elastic->kept_at) {
		elastic->kept_at = hd_ns_add(c->now, CTL_ELASTIC_KEEP_NS);
		ctl_kept_changed(c);
	}
	return r->count > 0 ? hd_ns_min(elastic->look_at, hd_ns_add(r->since, CTL_ELASTIC_NS)) :
			      elastic->look_at;
}

hd_ns ctl_elastic_check(struct hd_controller *c, struct hd_sink *sink) {
	hd_ns next = HD_NEVER;

	for (uint32_t i = 0; i < c->job_count; i++)
		if (c->jobs[i]->elastic)
			next = hd_ns_min(next, look(c, c->jobs[i], sink));
	return next;
}
