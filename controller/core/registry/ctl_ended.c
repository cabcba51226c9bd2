/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs without workers, and the end of jobs.
 *
 *   living --(its last worker left or was lost)--> idle --(a worker registers)--> living
 *   idle --(its server sends LEAVE; idle for job_idle_us; a new job needs its place)--> ended
 *   any --(evict job)--> ended
 *
 * An ended job is removed, and its server and replica are told. Of the newest HD_ENDED_MAX the controller keeps the
 * host that may have a checkpoint, so that a job of that name resumes from it, and how they ended, for the shell.
 */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_registry.h"
#include "hd_text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ctl_job_left(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_node *worker,
	enum hd_reason reason
) {
	if (job->worker_count)
		return;
	job->idle_since = c->now;
	job->left = reason == HD_REASON_LEFT && !worker->preempted_at;
	if (job->left)
		ctl_kept_soon(c);
	ctl_check_by(c, hd_ns_add(c->now, c->config.job_idle_us * HD_US));
}

void ctl_job_entered(struct hd_controller *c, struct ctl_job *job) {
	if (job->left)
		ctl_kept_soon(c);
	job->left = false;
}

/* --- ended jobs --- */

static void ended_erase(struct hd_controller *c, uint32_t index) {
	struct ctl_ended *at = &c->ended[index];

	c->ended_count--;
	memmove(at, at + 1, (c->ended_count - index) * sizeof *at);
}

static struct ctl_ended *ended_find(struct hd_controller *c, uint32_t id) {
	for (uint32_t i = 0; i < c->ended_count; i++)
		if (c->ended[i].id == id)
			return &c->ended[i];
	return NULL;
}

void ctl_ended_add(struct hd_controller *c, const struct ctl_ended *like) {
	struct ctl_ended *ended = ended_find(c, like->id);

	if (ended)
		ended_erase(c, (uint32_t)(ended - c->ended));
	if (c->ended_count == HD_ENDED_MAX)
		ended_erase(c, 0);
	c->ended[c->ended_count++] = *like;
}

void ctl_job_recall(struct ctl_job *job, const struct ctl_ended *as, bool left) {
	hd_text_copy(job->tenant_name, sizeof job->tenant_name, as->tenant);
	hd_text_copy(job->name, sizeof job->name, as->name);
	job->left = left;
	if (!as->host[0])
		return;
	hd_text_copy(job->server_host, sizeof job->server_host, as->host);
	job->serving = as->serving;
	job->recalled = true;
}

void ctl_ended_return(struct hd_controller *c, struct ctl_job *job) {
	struct ctl_ended *ended = ended_find(c, job->id);

	if (!ended)
		return;
	ctl_job_recall(job, ended, false);
	ended_erase(c, (uint32_t)(ended - c->ended));
	ctl_kept_soon(c);
}

bool ctl_ended_forget(struct hd_controller *c, const char *tenant, const char *name) {
	uint32_t before = c->ended_count;

	for (uint32_t i = c->ended_count; i-- > 0;)
		if (strcmp(c->ended[i].name, name) == 0
		    && (!tenant[0] || strcmp(c->ended[i].tenant, tenant) == 0))
			ended_erase(c, i);
	if (c->ended_count == before)
		return false;
	ctl_kept_changed(c);
	return true;
}

static void remember(struct hd_controller *c, const struct ctl_job *job, bool at_host) {
	struct ctl_ended ended = {.id = job->id};

	if (!job->name[0])
		return; /* known from a server's STATE only: no worker can ask for it by name */
	hd_text_copy(ended.tenant, sizeof ended.tenant, job->tenant_name);
	hd_text_copy(ended.name, sizeof ended.name, job->name);
	if (at_host)
		hd_text_copy(ended.host, sizeof ended.host, job->server_host);
	ended.serving = job->serving;
	ended.at = c->now;
	ended.version = job->newest;
	ended.position = job->position;
	ended.model_bytes = job->model_bytes;
	ended.granted = job->granted;
	ended.granted_bytes = job->granted_bytes;
	ended.applied = job->applied;
	ended.dropped = job->dropped;
	ended.failed = job->failed;
	ended.voided = job->voided;
	ended.ungranted = job->ungranted;
	ended.pulls_granted = job->pulls_granted;
	ended.pulls_delivered = job->pulls_delivered;
	ended.pulls_failed = job->pulls_failed;
	ended.tau_max = job->tau_max;
	ended.weight = ctl_job_weight(job);
	ended.sync = job->sync;
	ended.sync_count = job->sync_count;
	ended.unsealed = job->unsealed;
	ctl_ended_add(c, &ended);
}

void ctl_ended_job(const struct ctl_ended *ended, struct ctl_job *job) {
	*job = (struct ctl_job){
		.id = ended->id,
		.version = ended->version,
		.position = ended->position,
		.model_bytes = ended->model_bytes,
		.granted = ended->granted,
		.granted_bytes = ended->granted_bytes,
		.applied = ended->applied,
		.dropped = ended->dropped,
		.failed = ended->failed,
		.voided = ended->voided,
		.ungranted = ended->ungranted,
		.pulls_granted = ended->pulls_granted,
		.pulls_delivered = ended->pulls_delivered,
		.pulls_failed = ended->pulls_failed,
		.weight = ended->weight,
		.tau_max = ended->tau_max,
		.sync = ended->sync,
		.sync_count = ended->sync_count,
		.unsealed = ended->unsealed,
	};
	ctl_replica_init(&job->replica);
	hd_text_copy(job->tenant_name, sizeof job->tenant_name, ended->tenant);
	hd_text_copy(job->name, sizeof job->name, ended->name);
	hd_text_copy(job->server_host, sizeof job->server_host, ended->host);
}

/* --- ending --- */

/* Removes the job; only the record of remember() stays. */
static void forget(struct hd_controller *c, struct ctl_job *job, bool at_host) {
	assert(ctl_job_is_idle(job) && !job->server);
	remember(c, job, at_host);
	c->counters.jobs_ended++;
	ctl_kept_soon(c);
	ctl_job_free(c, job);
}

static void
end(struct hd_controller *c, struct ctl_job *job, enum hd_replica_order order, struct hd_sink *sink
) {
	struct ctl_node *server = job->server;
	/* An operator may evict the job because its host is gone for good; then it may begin again on another host. */
	bool at_host = server || order != HD_REPLICA_EVICT;

	ctl_job_lose_server(c, job, HD_REASON_LEFT, sink);
	ctl_replica_release(c, job, sink);
	if (server)
		ctl_replica_end(c, job, server, order, sink);
	if (ctl_job_is_idle(job))
		forget(c, job, at_host);
}

void ctl_job_evict(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	end(c, job, HD_REPLICA_EVICT, sink);
}

/* A checkpoint stays on the job's host, unless the server reports that it wrote none. */
static bool stays(const struct hd_msg_leave *leave) {
	return leave->reason == HD_REASON_NONE;
}

bool ctl_job_gone(
	struct hd_controller *c,
	const struct ctl_node *server,
	const struct hd_msg_leave *leave,
	struct hd_sink *sink
) {
	struct ctl_job *job = ctl_job_find(c, leave->job);
	struct ctl_ended *ended = ended_find(c, leave->job);

	if (ended && strcmp(ended->host, server->host) == 0 && !stays(leave)) {
		ended->host[0] = '\0';
		ctl_kept_soon(c);
	}
	if (!job || job->server != server)
		return ended;
	ctl_job_lose_server(c, job, HD_REASON_LEFT, sink);
	ctl_replica_release(c, job, sink);
	if (!stays(leave)) {
		job->server_host[0] = '\0';
		job->serving = 0;
		job->recalled = false;
	}
	ctl_kept_soon(c);
	if (ctl_job_is_idle(job))
		forget(c, job, stays(leave));
	else
		ctl_check_by(c, c->now); /* a worker came meanwhile: the job begins again */
	return true;
}

/* --- which job ends when there is no room --- */

enum rank {
	RANK_LEFT, /* all workers left it */
	RANK_LOST, /* its workers were lost, or none has come since this controller began, */
	RANK_SET, /* and operators changed settings of it */
	RANK_LIVING /* or they may be back: its server may have the model in memory only */
};

static enum rank rank_of(const struct hd_controller *c, const struct ctl_job *job) {
	if (!ctl_job_is_idle(job))
		return RANK_LIVING;
	if (!job->left && c->now < hd_ns_add(ctl_job_idle_since(c, job), HD_JOB_AWAY_US * HD_US))
		return RANK_LIVING;
	if (job->paused || job->tau_set || job->weight_set > 0)
		return RANK_SET;
	return job->left ? RANK_LEFT : RANK_LOST;
}

void ctl_jobs_make_room(struct hd_controller *c, struct hd_sink *sink) {
	enum rank best = RANK_LIVING;
	struct ctl_job *found = NULL;

	for (uint32_t i = 0; i < c->job_count; i++) {
		struct ctl_job *job = c->jobs[i];
		enum rank rank = rank_of(c, job);

		if (rank < best || (found && rank == best && job->idle_since < found->idle_since)) {
			found = job;
			best = rank;
		}
	}
	if (found)
		end(c, found, HD_REPLICA_END, sink);
}

const char *ctl_jobs_full(const struct hd_controller *c, char *text, size_t bytes) {
	(void)snprintf(
		text,
		bytes,
		"jobs: %u of %u have workers, others lost theirs less than %d s ago (limit HD_JOBS_MAX "
		"%d): end one (evict job), or begin when one has ended",
		c->job_count - ctl_jobs_idle(c),
		c->job_count,
		HD_JOB_AWAY_US / 1000000,
		HD_JOBS_MAX
	);
	return text;
}

hd_ns ctl_ended_check(struct hd_controller *c, struct hd_sink *sink) {
	hd_ns next = HD_NEVER;

	for (uint32_t i = c->job_count; i-- > 0;) {
		struct ctl_job *job = c->jobs[i];
		hd_ns at = hd_ns_add(ctl_job_idle_since(c, job), c->config.job_idle_us * HD_US);

		if (!ctl_job_is_idle(job))
			continue;
		if (c->now >= at)
			end(c, job, HD_REPLICA_END, sink);
		else
			next = hd_ns_min(next, at);
	}
	return next;
}

struct ctl_job *ctl_job_get(struct hd_controller *c, uint32_t id, struct hd_sink *sink) {
	struct ctl_job *job = ctl_job_find(c, id);

	if (job)
		return job;
	if (c->job_count == HD_JOBS_MAX)
		ctl_jobs_make_room(c, sink);
	if (c->job_count == HD_JOBS_MAX)
		return NULL;
	job = calloc(1, sizeof *job);
	if (!job)
		return NULL;
	job->workers = calloc(1, HD_WORKERS_MAX * sizeof(struct ctl_node *));
	if (!job->workers) {
		free(job);
		return NULL;
	}
	job->id = id;
	TAILQ_INIT(&job->reduces);
	TAILQ_INIT(&job->pairs);
	ctl_replica_init(&job->replica);
	job->weight = 1;
	job->apart = CTL_APART_UNKNOWN;
	job->idle_since = c->now;
	ctl_ended_return(c, job);
	c->jobs[c->job_count++] = job;
	return job;
}
