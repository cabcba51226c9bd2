/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator sees of nodes, jobs and links. Times are against the moment of the answer. */
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
	F(row, name, TEXT, "what the node calls itself") \
	F(row, role, TEXT, "server, worker, aggregator, switch, shell or monitor") \
	F(row, host, TEXT, "its name in the topology; empty: not registered") \
	F(row, job, TEXT, "of a worker") \
	F(row, tenant, TEXT, "of a worker") \
	F(row, worker, COUNT_OR_NULL, "rank of a worker") \
	F(row, address, ADDRESS, "ADDR:PORT") \
	F(row, up_s, REAL, "since it registered") \
	F(row, heard_ms, REAL, "since its last packet") \
	F(row, rtt_us, REAL, "smoothed round-trip time; 0: not measured") \
	F(row, clock_offset_us, REAL_OR_NULL, "its clock against the controller's") \
	F(row, clock_error_us, REAL_OR_NULL, "half-width of that") \
	F(row, incarnation, COUNT, "of a server: its life") \
	F(row, memory_bytes, COUNT, "of a server") \
	F(row, transfers, COUNT, "of a worker: waiting and running") \
	F(row, draining, BOOL, "its host is drained") \
	F(row, preempted_in_s, REAL_OR_NULL, \
		"of a worker that said so: until its machine is taken away; null: it did not")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_nodes_row_shape,
	nodes_row,
	NODES,
	"nodes",
	"who has a session with the controller"
);

static void
node_row(const struct hd_controller *c, const struct ctl_node *node, struct hd_rows *rows) {
	struct hd_clock clock = hd_session_clock(node->session);
	bool worker = node->role == HD_ROLE_WORKER;

	hd_row_put(
		rows,
		&ctl_nodes_row_shape,
		&(struct nodes_row){
			.name = hd_session_peer_name(node->session),
			.role = hd_role_name(hd_session_peer_role(node->session)),
			.host = node->host,
			.job = worker ? node->job->name : "",
			.tenant = worker ? node->job->tenant_name : "",
			.worker = worker ? node->worker : HD_ROW_NONE,
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
	F(row, tenant, TEXT, "who owns it") \
	F(row, job, TEXT, "its name") \
	F(row, id, COUNT, "as on the wire") \
	F(row, state, TEXT, \
		"ready, settling, no-server, paused or draining: somebody is in it; idle: nobody " \
		"is; ended: the last of those that are forgotten") \
	F(row, server, TEXT, "host of its server; of an ended one: where a checkpoint of it may be") \
	F(row, workers, COUNT, "registered") \
	F(row, preempted, COUNT, "of these, those that will be preempted") \
	F(row, roster, VERSION, "which change of who takes part was said last, EPOCH.CHANGES") \
	F(row, version, VERSION, "newest reported commit, INCARNATION.COUNT") \
	F(row, position, COUNT, "last one given out") \
	F(row, planned_version, COUNT, "what everything granted will have made of it") \
	F(row, tau_max, COUNT, "bound on delays") \
	F(row, tau, COUNT, "bound that is planned with") \
	F(row, pending, COUNT, "requests that wait") \
	F(row, running, COUNT, "pushes granted that have not ended") \
	F(row, credits, COUNT, "pushes granted in advance that have not ended: counted as granted once they come") \
	F(row, granted, COUNT, \
		"pushes granted, or said by a server to be under way: applied + dropped + failed + voided + running") \
	F(row, applied, COUNT, "of these, pushes applied") \
	F(row, dropped, COUNT, "of these, pushes dropped by the server") \
	F(row, failed, COUNT, "of these, pushes failed") \
	F(row, voided, COUNT, "of these, pushes given up") \
	F(row, ungranted, COUNT, "pushes dropped by the controller, without a grant") \
	F(row, pulls_running, COUNT, "pulls granted that have not ended") \
	F(row, pulls_granted, COUNT, \
		"pulls granted, or said by a server to be under way: pulls_delivered + pulls_failed + pulls_running") \
	F(row, pulls_delivered, COUNT, "of these, pulls delivered") \
	F(row, pulls_failed, COUNT, "of these, pulls that had nothing newer, failed or were given up") \
	F(row, granted_bytes, COUNT, "bytes granted") \
	F(row, model_bytes, COUNT, "size of the model") \
	F(row, replica, TEXT, "host that keeps a copy; empty: none") \
	F(row, replica_state, TEXT, \
		"seeding, in-step (it may be promoted), held (commits wait for it); empty: none") \
	F(row, replica_behind, COUNT, "commits that the replica knows of and has not applied") \
	F(row, divergence, REAL_OR_NULL, "the replica is at most so far from the server; null: not known") \
	F(row, promotions, COUNT, "replicas that took the place of a server of it that was lost") \
	F(row, promoted_divergence, REAL_OR_NULL, \
		"how far the server was at most at the last one; null: none, or not known") \
	F(row, weight, REAL, "against other tenants' jobs") \
	F(row, owed_bytes, REAL, "what its tenant is behind its share; negative: ahead") \
	F(row, warning, TEXT, "what is wrong with it; empty: nothing") \
	F(row, sync, TEXT, "when the server makes a step: async, full, nsync, nbatch") \
	F(row, sync_count, COUNT, \
		"updates in a step of nsync, nbatch; federated: steps that an update may be late") \
	F(row, integrity, TEXT, "on: its chunks between hosts carry a MAC; off: they do not") \
	F(row, idle_s, REAL_OR_NULL, "since when nobody has been in it; null: somebody is, or it has ended") \
	F(row, ended_s, REAL_OR_NULL, "since its end; null: it has not ended")
/* clang-format on */

HD_ROW_SHAPE(ctl_jobs_row_shape, jobs_row, JOBS, "jobs", "jobs and where they stand");

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

/* `idle_s`, `ended_s`: < 0: it is not. */
static void
job_row(const struct ctl_job *job,
	const char *state,
	double idle_s,
	double ended_s,
	struct hd_rows *rows) {
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
		.sync = hd_sync_name(job->sync),
		.sync_count = job->sync_count,
		.integrity = hd_integrity_name(job->unsealed),
		.idle_s = idle_s >= 0 ? idle_s : NAN,
		.ended_s = ended_s >= 0 ? ended_s : NAN,
	};

	if (!hd_row_begin(rows))
		return;
	job_numbers(job, &row);
	job_replica(&job->replica, &row);
	hd_row_put(rows, &ctl_jobs_row_shape, &row);
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

/* clang-format off */
#define LINKS(F, row) \
	F(row, link, TEXT, "FROM>TO, or local") \
	F(row, estimate_mbps, REAL, "what it is believed to carry for us") \
	F(row, guess, BOOL, "no sample of this link yet: the estimate is what others show, or --initial-mbps") \
	F(row, spread_mbps, REAL, "mean absolute deviation of the samples") \
	F(row, age_s, REAL_OR_NULL, "since the estimate changed; null: never measured") \
	F(row, samples, COUNT, "transfers that it was learnt from") \
	F(row, reserved_mbps, REAL, "promised now") \
	F(row, running, COUNT, "transfers on it now") \
	F(row, queued, COUNT, "granted, and waiting for it") \
	F(row, pending, COUNT, "not granted yet")
/* clang-format on */

HD_ROW_SHAPE(ctl_links_row_shape, links_row, LINKS, "links", "directed links");

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
