/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell's tables of nodes, jobs and links. Times are relative to the moment of the answer. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_registry.h"
#include "ctl_row.h"
#include "ctl_table.h"
#include "ctl_transfers.h"
#include "hd_jobspec.h"

#include <math.h>
#include <stdlib.h>

/* --- nodes --- */

/* clang-format off */
#define NODES(F, row) \
	F(row, name, TEXT, "name of the node") \
	F(row, role, TEXT, "server, worker, aggregator, switch, shell or monitor") \
	F(row, host, TEXT, "name of its host in the topology; empty: not registered") \
	F(row, job, TEXT, "job of a worker, or of an aggregator beside one") \
	F(row, tenant, TEXT, "tenant of that job") \
	F(row, worker, COUNT_OR_NULL, "rank of that worker") \
	F(row, address, ADDRESS, "address of the session, ADDR:PORT") \
	F(row, up_s, REAL, "seconds since it registered") \
	F(row, heard_ms, REAL, "milliseconds since its last packet") \
	F(row, rtt_us, REAL, "smoothed round-trip time in microseconds; 0: not measured") \
	F(row, clock_offset_us, REAL_OR_NULL, \
		"offset of its clock from the controller's, in microseconds; null: not measured") \
	F(row, clock_error_us, REAL_OR_NULL, \
		"error bound (plus or minus) of the clock offset, in microseconds; null: not measured") \
	F(row, incarnation, COUNT, "incarnation of a server") \
	F(row, memory_bytes, COUNT, "memory that a server or aggregator offers, in bytes") \
	F(row, transfers, COUNT, "transfers of a worker, waiting and running") \
	F(row, draining, BOOL, "whether its host is drained") \
	F(row, preempted_in_s, REAL_OR_NULL, \
		"seconds until the machine of a worker is taken away; null: no preemption was announced")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_nodes_row_shape,
	nodes_row,
	NODES,
	"nodes",
	"nodes with a session with the controller"
);

static void
node_row(const struct hd_controller *c, const struct ctl_node *node, struct hd_rows *rows) {
	struct hd_clock clock = hd_session_clock(node->session);
	const struct ctl_job *job = node->role == HD_ROLE_WORKER ? node->job :
		node->role == HD_ROLE_AGGREGATOR && node->host_job != 0 ?
								   ctl_job_find(c, node->host_job) :
								   NULL;

	hd_row_put(
		rows,
		&ctl_nodes_row_shape,
		&(struct nodes_row){
			.name = hd_session_peer_name(node->session),
			.role = hd_role_name(hd_session_peer_role(node->session)),
			.host = node->host,
			.job = job ? job->name : "",
			.tenant = job ? job->tenant_name : "",
			.worker = job ? node->worker : HD_ROW_NONE,
			.address = hd_session_peer(node->session),
			.up_s = node->role ? ctl_ms_from(node->registered, c->now) / 1e3 : 0,
			.heard_ms = ctl_ms_from(hd_session_heard(node->session), c->now),
			.rtt_us = (double)hd_session_rtt(node->session) / 1e3,
			.clock_offset_us = clock.valid ? (double)clock.offset_ns / 1e3 : NAN,
			.clock_error_us = clock.valid ? (double)clock.error_ns / 1e3 : NAN,
			.incarnation = node->incarnation,
			.memory_bytes = node->memory_bytes,
			.transfers = node->tracked,
			.draining = node->draining,
			.preempted_in_s
			= node->preempted_at ? ctl_ms_from(c->now, node->preempted_at) / 1e3 : NAN,
		}
	);
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

/* clang-format off */
#define JOBS(F, row) \
	F(row, tenant, TEXT, "tenant that owns the job") \
	F(row, job, TEXT, "name of the job") \
	F(row, id, COUNT, "id of the job on the wire") \
	F(row, state, TEXT, \
		"ready, settling, no-server, paused or draining: it has workers; idle: it has " \
		"none; ended: one of the jobs that ended last") \
	F(row, server, TEXT, "host of its server; of an ended job: host that may have a checkpoint") \
	F(row, workers, COUNT, "registered workers") \
	F(row, preempted, COUNT, "registered workers that will be preempted") \
	F(row, roster, VERSION, "newest announced change of the membership, EPOCH.CHANGES") \
	F(row, version, VERSION, "newest reported commit, INCARNATION.COUNT") \
	F(row, position, COUNT, "last position granted") \
	F(row, planned_version, COUNT, "version that the model will have after all granted updates") \
	F(row, tau_max, COUNT, "configured bound on delays, in commits") \
	F(row, tau, COUNT, "bound that planning uses, in commits") \
	F(row, pending, COUNT, "requests that wait for a grant") \
	F(row, running, COUNT, "granted pushes in progress") \
	F(row, credits, COUNT, \
		"credits in progress: pushes granted in advance; counted in granted when the push arrives") \
	F(row, granted, COUNT, \
		"pushes granted, or reported in progress by a server: applied + dropped + failed + " \
		"voided + running") \
	F(row, applied, COUNT, "granted pushes that were applied") \
	F(row, dropped, COUNT, "granted pushes that the server dropped") \
	F(row, failed, COUNT, "granted pushes that failed") \
	F(row, voided, COUNT, "granted pushes that were voided") \
	F(row, ungranted, COUNT, "pushes that the controller dropped instead of granting") \
	F(row, pulls_running, COUNT, "granted pulls in progress") \
	F(row, pulls_granted, COUNT, \
		"pulls granted, or reported in progress by a server: pulls_delivered + " \
		"pulls_failed + pulls_running") \
	F(row, pulls_delivered, COUNT, "granted pulls that were delivered") \
	F(row, pulls_failed, COUNT, "granted pulls that found nothing newer, failed or were voided") \
	F(row, granted_bytes, COUNT, "bytes of all granted transfers") \
	F(row, model_bytes, COUNT, "size of the model in bytes") \
	F(row, replica, TEXT, "host of the replica; empty: none") \
	F(row, replica_state, TEXT, \
		"seeding, in-step (can be promoted), held (commits wait for the replica); empty: none") \
	F(row, replica_behind, COUNT, "commits that the replica has been told but has not applied") \
	F(row, divergence, REAL_OR_NULL, \
		"upper bound on the distance between replica and server (L2 norm); null: not known") \
	F(row, promotions, COUNT, "promotions: times that a replica replaced a lost server of the job") \
	F(row, promoted_divergence, REAL_OR_NULL, \
		"upper bound on the distance at the last promotion (L2 norm); null: none, or not known") \
	F(row, weight, REAL, "weight in sharing the network with other tenants") \
	F(row, owed_bytes, REAL, "service deficit of its tenant in bytes; negative: ahead of its share") \
	F(row, warning, TEXT, "warning about the job; empty: none") \
	F(row, sync, TEXT, "when the server makes a step: async, full, nsync, nbatch or federated") \
	F(row, sync_count, COUNT, \
		"nsync, nbatch: updates in a step; federated: steps that an update may be late") \
	F(row, waits_for, TEXT, "ranks that the oldest collective waits for; empty: none") \
	F(row, left_out, TEXT, \
		"ranks without which a collective began, as they had not called it in time; until they call") \
	F(row, integrity, TEXT, "on: chunks between hosts carry a MAC; off: they do not") \
	F(row, idle_s, REAL_OR_NULL, "seconds since the last worker left; null: it has workers, or has ended") \
	F(row, ended_s, REAL_OR_NULL, "seconds since the job ended; null: it has not ended")
/* clang-format on */

HD_ROW_SHAPE(ctl_jobs_row_shape, jobs_row, JOBS, "jobs", "jobs and their state");

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

static void job_numbers(const struct ctl_job *job, struct jobs_row *row) {
	row->version = job->version;
	row->position = job->position;
	row->planned_version = ctl_job_v_init(job);
	row->tau_max = job->tau_max;
	row->tau = ctl_job_tau(job);
	row->pending = job->pending;
	row->running = ctl_job_running(job);
	row->credits = job->credits;
	row->granted = job->granted;
	row->applied = job->applied;
	row->dropped = job->dropped;
	row->failed = job->failed;
	row->voided = job->voided;
	row->ungranted = job->ungranted;
	row->pulls_running = job->open_pulls;
	row->pulls_granted = job->pulls_granted;
	row->pulls_delivered = job->pulls_delivered;
	row->pulls_failed = job->pulls_failed;
	row->granted_bytes = job->granted_bytes;
	row->model_bytes = job->model_bytes;
}

static void job_replica(const struct ctl_replica *replica, struct jobs_row *row) {
	double divergence = replica->node ? replica->divergence : -1;
	const char *state = "";

	if (replica->node)
		state = replica->held ? "held" : replica->caught_up ? "in-step" : "seeding";
	row->replica = replica->node ? replica->node->host : "";
	row->replica_state = state;
	row->replica_behind = replica->behind;
	row->divergence = divergence >= 0 ? divergence : NAN;
	row->promotions = replica->promotions;
	row->promoted_divergence
		= replica->promoted_divergence >= 0 ? replica->promoted_divergence : NAN;
}

static const char *job_warning(const struct ctl_job *job) {
	if (ctl_job_tau(job) < job->roster.count)
		return "tau_max is below the number of workers";
	if (job->sync == HD_SYNC_N && job->roster.count < job->sync_count)
		return "fewer workers than a step needs";
	return "";
}

/* `idle_s`, `ended_s`: < 0: not idle, not ended. */
static void
job_row(const struct ctl_job *job,
	const char *state,
	double idle_s,
	double ended_s,
	struct hd_rows *rows) {
	struct ctl_reduce_ranks ranks;
	struct jobs_row row = {
		.tenant = job->tenant_name,
		.job = job->name,
		.id = job->id,
		.state = state,
		.server = job->server_host,
		.workers = job->worker_count,
		.preempted = job->noticed,
		.roster = job->roster.change,
		.weight = ctl_job_weight(job),
		.owed_bytes = job->tenant ? job->tenant->deficit : 0,
		.warning = job_warning(job),
		.waits_for = ranks.waits_for,
		.left_out = ranks.left_out,
		.sync = hd_sync_name(job->sync),
		.sync_count = job->sync_count,
		.integrity = hd_integrity_name(job->unsealed),
		.idle_s = idle_s >= 0 ? idle_s : NAN,
		.ended_s = ended_s >= 0 ? ended_s : NAN,
	};

	if (!hd_row_begin(rows))
		return;
	ctl_reduce_waits(job, &ranks);
	job_numbers(job, &row);
	job_replica(&job->replica, &row);
	hd_row_put(rows, &ctl_jobs_row_shape, &row);
	hd_row_end(rows);
}

/* The last state of the newest jobs that ended under this controller process, oldest first. Returns their number. */
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

/* clang-format off */
#define LINKS(F, row) \
	F(row, link, TEXT, "name of the link: FROM>TO, or local") \
	F(row, estimate_mbps, REAL, "estimated capacity for our traffic, in Mbit/s") \
	F(row, guess, BOOL, \
		"no sample of this link yet: the estimate comes from other links, or from --initial-mbps") \
	F(row, spread_mbps, REAL, "mean absolute deviation of the samples, in Mbit/s") \
	F(row, age_s, REAL_OR_NULL, "seconds since the estimate changed; null: never measured") \
	F(row, samples, COUNT, "transfers that the estimate was learnt from") \
	F(row, reserved_mbps, REAL, "capacity reserved now, in Mbit/s") \
	F(row, running, COUNT, "transfers on the link now") \
	F(row, queued, COUNT, "granted transfers that wait for the link") \
	F(row, pending, COUNT, "requests without a grant")
/* clang-format on */

HD_ROW_SHAPE(ctl_links_row_shape, links_row, LINKS, "links", "directed links of the topology");

static void
use_open(const struct hd_controller *c, const struct ctl_transfer *t, struct ctl_link_use *use) {
	for (uint8_t i = 0; i < t->path_count && t->reserved_count; i++) {
		struct ctl_link_use *link = &use[t->path[i]];

		link->running += t->reserved[0].start <= c->now;
		link->queued += t->reserved[0].start > c->now;
		for (uint8_t j = 0; j < t->reserved_count; j++)
			if (t->reserved[j].start <= c->now && c->now < t->reserved[j].end)
				link->reserved_bps += t->reserved[j].rate * 8;
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
		hd_row_put(
			rows,
			&ctl_links_row_shape,
			&(struct links_row){
				.link = ctl_link_name(c, link),
				.estimate_mbps = hd_view_share(c->view, link, c->now, 1) / 1e6,
				.guess = e.samples == 0,
				.spread_mbps = e.spread_bps / 1e6,
				.age_s = e.samples ? ctl_ms_from(e.updated, c->now) / 1e3 : NAN,
				.samples = e.samples,
				.reserved_mbps = use[link].reserved_bps / 1e6,
				.running = use[link].running,
				.queued = use[link].queued,
				.pending = use[link].pending,
			}
		);
		hd_row_end(rows);
	}
	free(use);
	return ctl_link_count(c);
}
