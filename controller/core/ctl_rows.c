/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator sees of nodes, jobs, links, transfers and drops: one flat object each. Times are
 * against the moment of the answer; tokens are secrets and never shown. */
#include "ctl_base.h"
#include "ctl_registry.h"
#include "ctl_row.h"
#include "ctl_table.h"
#include "ctl_transfers.h"
#include "hd_jobspec.h"

#include <math.h>
#include <stdlib.h>

static const char *job_name(const struct hd_controller *c, uint32_t id) {
	const struct ctl_job *job = ctl_job_find(c, id);

	return job ? job->name : "";
}

/* --- nodes --- */

static void
node_row(const struct hd_controller *c, const struct ctl_node *node, struct hd_rows *rows) {
	struct hd_clock clock = hd_session_clock(node->session);
	bool worker = node->role == HD_ROLE_WORKER;

	hd_row_text(rows, "name", hd_session_peer_name(node->session));
	hd_row_text(rows, "role", hd_role_name(hd_session_peer_role(node->session)));
	hd_row_text(rows, "host", node->host);
	hd_row_text(rows, "job", worker ? node->job->name : "");
	hd_row_text(rows, "tenant", worker ? node->job->tenant_name : "");
	if (worker)
		hd_row_count(rows, "worker", node->worker);
	else
		hd_row_null(rows, "worker");
	ctl_row_addr(rows, "address", hd_session_peer(node->session));
	hd_row_real(rows, "up_s", node->role ? ctl_ms_from(node->registered, c->now) / 1e3 : 0);
	hd_row_real(rows, "heard_ms", ctl_ms_from(hd_session_heard(node->session), c->now));
	hd_row_real(rows, "rtt_us", (double)hd_session_rtt(node->session) / 1e3);
	hd_row_real(rows, "clock_offset_us", clock.valid ? (double)clock.offset_ns / 1e3 : NAN);
	hd_row_real(rows, "clock_error_us", clock.valid ? (double)clock.error_ns / 1e3 : NAN);
	hd_row_count(rows, "incarnation", node->incarnation);
	hd_row_count(rows, "memory_bytes", node->memory_bytes);
	hd_row_count(rows, "transfers", node->tracked);
	hd_row_bool(rows, "draining", node->draining);
	if (node->preempted_at)
		hd_row_real(rows, "preempted_in_s", ctl_ms_from(c->now, node->preempted_at) / 1e3);
	else
		hd_row_null(rows, "preempted_in_s");
}

uint64_t ctl_rows_nodes(const struct hd_controller *c, struct hd_rows *rows) {
	const struct ctl_node *node;

	TAILQ_FOREACH (node, &c->nodes, entry) {
		if (rows->full)
			break;
		if (!hd_row_begin(rows))
			continue;
		node_row(c, node, rows);
		hd_row_end(rows);
	}
	return c->node_count;
}

/* --- jobs --- */

static const char *job_state(const struct hd_controller *c, const struct ctl_job *job) {
	static const char *const states[] = {
		[CTL_JOB_WAITING] = "no-server",
		[CTL_JOB_SETTLING] = "settling",
		[CTL_JOB_READY] = "ready",
	};

	if (ctl_job_is_idle(job))
		return "idle";
	if (job->state == CTL_JOB_READY && (job->paused || c->paused))
		return "paused";
	if (job->state == CTL_JOB_READY && job->server->draining)
		return "draining";
	return states[job->state];
}

static void job_numbers(const struct ctl_job *job, struct hd_rows *rows) {
	ctl_row_version(rows, "version", job->version);
	hd_row_count(rows, "position", job->position);
	hd_row_count(rows, "planned_version", ctl_job_v_init(job));
	hd_row_count(rows, "tau_max", job->tau_max);
	hd_row_count(rows, "tau", ctl_job_tau(job));
	hd_row_count(rows, "pending", job->pending);
	hd_row_count(rows, "running", job->open);
	hd_row_count(rows, "credits", job->credits);
	hd_row_count(rows, "granted", job->granted);
	hd_row_count(rows, "applied", job->applied);
	hd_row_count(rows, "dropped", job->dropped);
	hd_row_count(rows, "failed", job->failed);
	hd_row_count(rows, "voided", job->voided);
	hd_row_count(rows, "pulls_granted", job->pulls_granted);
	hd_row_count(rows, "pulls_delivered", job->pulls_delivered);
	hd_row_count(rows, "granted_bytes", job->granted_bytes);
	hd_row_count(rows, "model_bytes", job->model_bytes);
}

static void job_replica(const struct ctl_replica *replica, struct hd_rows *rows) {
	double divergence = replica->node ? replica->divergence : -1;
	const char *state = "";

	if (replica->node)
		state = replica->held ? "held" : replica->in_step ? "in-step" : "seeding";
	hd_row_text(rows, "replica", replica->node ? replica->node->host : "");
	hd_row_text(rows, "replica_state", state);
	hd_row_count(rows, "replica_behind", replica->behind);
	hd_row_real(rows, "divergence", divergence >= 0 ? divergence : NAN);
	hd_row_count(rows, "promotions", replica->promotions);
	hd_row_real(
		rows,
		"promoted_divergence",
		replica->promoted_divergence >= 0 ? replica->promoted_divergence : NAN
	);
}

static const char *job_warning(const struct ctl_job *job) {
	if (ctl_job_tau(job) < job->roster.count)
		return "tau_max is below the number of workers";
	if (job->sync == HD_SYNC_N && job->roster.count < job->sync_count)
		return "fewer workers than a step needs";
	return "";
}

/* `idle_s`, `ended_s`: < 0: it is not. */
static void
job_row(const struct ctl_job *job,
	const char *state,
	double idle_s,
	double ended_s,
	struct hd_rows *rows) {
	if (!hd_row_begin(rows))
		return;
	hd_row_text(rows, "tenant", job->tenant_name);
	hd_row_text(rows, "job", job->name);
	hd_row_count(rows, "id", job->id);
	hd_row_text(rows, "state", state);
	hd_row_text(rows, "server", job->server_host);
	hd_row_count(rows, "workers", job->worker_count);
	hd_row_count(rows, "preempted", job->noticed);
	ctl_row_version(rows, "roster", job->roster.change);
	job_numbers(job, rows);
	job_replica(&job->replica, rows);
	hd_row_real(rows, "weight", ctl_job_weight(job));
	hd_row_real(rows, "owed_bytes", job->tenant ? job->tenant->deficit : 0);
	hd_row_text(rows, "warning", job_warning(job));
	hd_row_text(rows, "sync", hd_sync_name(job->sync));
	hd_row_count(rows, "sync_count", job->sync_count);
	hd_row_text(rows, "integrity", hd_integrity_name(job->unsealed));
	hd_row_real(rows, "idle_s", idle_s >= 0 ? idle_s : NAN);
	hd_row_real(rows, "ended_s", ended_s >= 0 ? ended_s : NAN);
	hd_row_end(rows);
}

/* The newest of those that ended in this life, oldest first, as they were. Returns how many. */
static uint64_t ended_rows(const struct hd_controller *c, struct hd_rows *rows) {
	uint32_t first = c->ended_count > CTL_ENDED_SHOWN ? c->ended_count - CTL_ENDED_SHOWN : 0;
	struct ctl_job *job = calloc(1, sizeof *job);
	uint64_t count = 0;

	for (uint32_t i = first; job && i < c->ended_count; i++) {
		const struct ctl_ended *ended = &c->ended[i];

		if (!ended->at)
			continue;
		count++;
		if (rows->full)
			continue;
		ctl_ended_job(ended, job);
		job_row(job, "ended", -1, ctl_ms_from(ended->at, c->now) / 1e3, rows);
	}
	free(job);
	return count;
}

uint64_t ctl_rows_jobs(const struct hd_controller *c, struct hd_rows *rows) {
	for (uint32_t i = 0; i < c->job_count && !rows->full; i++) {
		const struct ctl_job *job = c->jobs[i];
		double since = ctl_ms_from(ctl_job_idle_since(c, job), c->now) / 1e3;

		job_row(job, job_state(c, job), ctl_job_is_idle(job) ? since : -1, -1, rows);
	}
	return c->job_count + ended_rows(c, rows);
}

/* --- links --- */

static void
use_open(const struct hd_controller *c, const struct ctl_transfer *t, struct ctl_link_use *use) {
	for (uint8_t i = 0; i < t->path_count && t->book_count; i++) {
		struct ctl_link_use *link = &use[t->path[i]];

		link->running += t->book[0].start <= c->now;
		link->queued += t->book[0].start > c->now;
		for (uint8_t j = 0; j < t->book_count; j++)
			if (t->book[j].start <= c->now && c->now < t->book[j].end)
				link->reserved_bps += t->book[j].rate * 8;
	}
}

struct ctl_link_use *ctl_links_use(const struct hd_controller *c) {
	struct ctl_link_use *use = calloc(ctl_link_count(c), sizeof *use);
	const struct ctl_transfer *t;

	if (!use)
		return NULL;
	TAILQ_FOREACH (t, &c->open, entry)
		use_open(c, t, use);
	TAILQ_FOREACH (t, &c->pending, entry)
		for (uint8_t i = 0; i < t->path_count; i++)
			use[t->path[i]].pending++;
	return use;
}

uint64_t ctl_rows_links(const struct hd_controller *c, struct hd_rows *rows) {
	struct ctl_link_use *use = ctl_links_use(c);

	for (uint32_t link = 0; use && link < ctl_link_count(c) && !rows->full; link++) {
		struct hd_estimate e;

		if (!hd_row_begin(rows))
			continue;
		e = hd_view_estimate(c->view, link);
		hd_row_text(rows, "link", ctl_link_name(c, link));
		hd_row_real(rows, "estimate_mbps", hd_view_share(c->view, link, c->now, 1) / 1e6);
		hd_row_real(rows, "spread_mbps", e.spread_bps / 1e6);
		hd_row_real(rows, "age_s", e.samples ? ctl_ms_from(e.updated, c->now) / 1e3 : NAN);
		hd_row_count(rows, "samples", e.samples);
		hd_row_real(rows, "reserved_mbps", use[link].reserved_bps / 1e6);
		hd_row_count(rows, "running", use[link].running);
		hd_row_count(rows, "queued", use[link].queued);
		hd_row_count(rows, "pending", use[link].pending);
		hd_row_end(rows);
	}
	free(use);
	return ctl_link_count(c);
}

/* --- transfers and drops --- */

static const char *transfer_state(const struct ctl_transfer *t, hd_ns now) {
	if (t->state == CTL_PENDING)
		return "pending";
	if (t->credit && !t->spent)
		return "credit";
	if (t->held)
		return "held";
	if (t->book_count && t->book[0].start > now)
		return "queued";
	return t->overrun_since ? "late" : "running";
}

static const char *transfer_kind(const struct ctl_transfer *t) {
	if (t->is_sum && t->direction != HD_COPY)
		return t->direction == HD_PUSH ? "sum" : "copy";
	return ctl_direction_name(t->direction);
}

static void
transfer_row(const struct hd_controller *c, const struct ctl_transfer *t, struct hd_rows *rows) {
	bool open = t->state == CTL_OPEN;

	hd_row_count(rows, "id", t->id);
	hd_row_text(rows, "job", t->job->name);
	hd_row_count(rows, "worker", t->worker);
	hd_row_text(rows, "direction", transfer_kind(t));
	hd_row_count(rows, "round", t->round);
	hd_row_count(rows, "attempt", t->attempt);
	hd_row_text(rows, "state", transfer_state(t, c->now));
	hd_row_text(rows, "waits_for", open ? "" : ctl_waits_for(c, t));
	hd_row_count(rows, "bytes", t->bytes);
	ctl_row_version(rows, "base", t->direction == HD_PUSH ? t->base : t->have);
	hd_row_count(rows, "position", t->position);
	hd_row_real(rows, "waited_ms", ctl_ms_from(t->asked, open ? t->granted : c->now));
	hd_row_real(
		rows, "start_ms", open && t->start < HD_NEVER ? ctl_ms_from(c->now, t->start) : NAN
	);
	hd_row_real(rows, "finish_ms", open ? ctl_ms_from(c->now, t->finish) : NAN);
	hd_row_real(
		rows,
		"rate_mbps",
		open && t->segments.count ? (double)t->segments.item[0].rate_bps / 1e6 : NAN
	);
	hd_row_real(rows, "weight", (double)t->weight);
	hd_row_real(rows, "cc_weight", (double)t->cc_weight);
	ctl_row_why(rows, &t->why, c->now);
	hd_row_count(rows, "group", t->group ? t->group->number : 0);
	hd_row_text(
		rows,
		"aggregator",
		t->group && t->group->aggregator ? t->group->aggregator->host : ""
	);
}

static void
list_rows(const struct hd_controller *c, const struct ctl_transfers *list, struct hd_rows *rows) {
	const struct ctl_transfer *t;

	TAILQ_FOREACH (t, list, entry) {
		if (rows->full)
			break;
		if (!hd_row_begin(rows))
			continue;
		transfer_row(c, t, rows);
		hd_row_end(rows);
	}
}

uint64_t ctl_rows_transfers(const struct hd_controller *c, struct hd_rows *rows) {
	list_rows(c, &c->open, rows);
	list_rows(c, &c->pending, rows);
	return (uint64_t)c->open_count + c->pending_count;
}

uint64_t ctl_rows_drops(const struct hd_controller *c, struct hd_rows *rows) {
	uint64_t kept = c->drop_count < CTL_DROPS_KEPT ? c->drop_count : CTL_DROPS_KEPT;

	for (uint64_t i = 1; i <= kept && !rows->full; i++) {
		const struct ctl_drop *drop = &c->drops[(c->drop_count - i) % CTL_DROPS_KEPT];

		if (!hd_row_begin(rows))
			continue;
		hd_row_real(rows, "ago_s", ctl_ms_from(drop->at, c->now) / 1e3);
		hd_row_text(rows, "job", job_name(c, drop->job));
		hd_row_count(rows, "worker", drop->worker);
		hd_row_text(rows, "direction", ctl_direction_name(drop->direction));
		hd_row_count(rows, "round", drop->round);
		hd_row_count(rows, "attempt", drop->attempt);
		hd_row_text(rows, "reason", hd_reason_name(drop->reason));
		hd_row_count(rows, "bytes", drop->bytes);
		ctl_row_version(rows, "base", drop->base);
		ctl_row_why(rows, &drop->why, c->now);
		hd_row_end(rows);
	}
	return kept;
}
