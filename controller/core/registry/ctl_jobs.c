/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tenants, jobs, and which server has which job.
 *
 *   WAITING --(a server: free, the job's own, or one that sends STATE)--> SETTLING
 *   SETTLING --(STATE and its INFLIGHTs came, or CTL_SETTLE_NS passed)--> READY
 *   any --(its server is lost)--> WAITING for a server on the same host
 */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_grouping.h"
#include "ctl_reduces.h"
#include "ctl_registry.h"
#include "ctl_requests.h"
#include "ctl_slots.h"
#include "ctl_transfers.h"
#include "hd_text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- tenants --- */

struct ctl_tenant *ctl_tenant_get(struct hd_controller *c, const char *name) {
	struct ctl_tenant *tenant;

	for (uint32_t i = 0; i < c->tenant_count; i++)
		if (strcmp(c->tenants[i]->name, name) == 0)
			return c->tenants[i];
	if (c->tenant_count == HD_JOBS_MAX)
		return NULL;
	tenant = calloc(1, sizeof *tenant);
	if (!tenant)
		return NULL;
	(void)snprintf(tenant->name, sizeof tenant->name, "%s", name);
	c->tenants[c->tenant_count++] = tenant;
	return tenant;
}

static void tenant_put(struct hd_controller *c, struct ctl_tenant *tenant) {
	uint32_t i = 0;

	if (--tenant->jobs > 0)
		return;
	while (c->tenants[i] != tenant)
		i++;
	c->tenants[i] = c->tenants[--c->tenant_count];
	free(tenant);
}

void ctl_tenant_weigh(const struct hd_controller *c, struct ctl_tenant *tenant) {
	tenant->weight = 0;
	for (uint32_t i = 0; i < c->job_count; i++)
		if (c->jobs[i]->tenant == tenant)
			tenant->weight = fmax(tenant->weight, ctl_job_weight(c->jobs[i]));
}

/* --- jobs --- */

void ctl_job_free(struct hd_controller *c, struct ctl_job *job) {
	uint32_t i = ctl_job_index(c, job);

	assert(!job->pending && !job->open);
	c->jobs[i] = c->jobs[--c->job_count];
	if (job->tenant) {
		ctl_tenant_weigh(c, job->tenant);
		tenant_put(c, job->tenant);
	}
	for (unsigned reason = 0; reason < HD_REASON_COUNT; reason++)
		c->ended_dropped[reason] += job->dropped_for[reason];
	ctl_reduce_fini(c, job);
	ctl_lease_orphan(c, job);
	free(job->elastic);
	free(job->workers);
	free(job);
}

void ctl_send_registered(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct ctl_job *job,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_REGISTERED};
	struct hd_msg_registered *m = &message.registered;

	m->epoch = c->config.epoch;
	m->lease_us = c->config.detection_us;
	m->interval_us = c->config.interval_us;
	m->scheduled = !c->config.unscheduled;
	if (job) {
		m->job = job->id;
		m->reduce_round = job->reduce_round > job->reduce_kept ? job->reduce_round :
									 job->reduce_kept;
		if (job->reduce_lost > m->reduce_round)
			m->reduce_round = job->reduce_lost; /* its members may make it again */
	}
	if (job && job->server) {
		m->server_ipv4 = job->server->data.ipv4;
		m->server_port = job->server->data.port;
	}
	ctl_send(c, node, &message, sink);
}

static void job_becomes(struct ctl_job *job, enum ctl_job_state to) {
	/* A server may be lost at any time; a job without one is WAITING. */
	assert(to == CTL_JOB_WAITING || (to == CTL_JOB_SETTLING && job->state == CTL_JOB_WAITING)
	       || (to == CTL_JOB_READY && job->state == CTL_JOB_SETTLING));
	assert(to == CTL_JOB_WAITING ? !job->server : job->server != NULL);
	job->state = to;
}

void ctl_job_ready(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_transfer *t;

	job_becomes(job, CTL_JOB_READY);
	job->settled_at = HD_NEVER;
	job->replica.assign_at = c->now + CTL_SETTLE_NS;
	ctl_check_by(c, job->replica.assign_at);
	/* Without a server the paths were unknown. */
	TAILQ_FOREACH (t, &c->pending, entry)
		if (t->job == job)
			ctl_transfer_route(c, t);
	for (uint32_t i = 0; i < HD_WORKERS_MAX && job->worker_count; i++)
		if (job->workers[i])
			ctl_credit_joins(c, job->workers[i], sink);
	if (job->pending)
		ctl_plan_soon(c);
}

static void job_settle(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	hd_ns until = hd_ns_max(
		hd_ns_add(job->server->registered, CTL_SETTLE_NS), job->replica.settles_at
	);

	job_becomes(job, CTL_JOB_SETTLING);
	job->settled_at = until;
	if (c->now >= until)
		ctl_job_ready(c, job, sink);
	else
		ctl_check_by(c, until);
	for (uint32_t i = 0; i < HD_WORKERS_MAX && job->worker_count; i++)
		if (job->workers[i])
			ctl_send_registered(c, job->workers[i], job, sink);
}

static void job_take(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *server,
	uint64_t generation,
	struct hd_sink *sink
) {
	assert(!job->server);
	job->server = server;
	job->begun = false;
	job->server_roster_sent = 0;
	ctl_replica_serve(c, job, generation, sink);
	ctl_replica_resume(c, job, sink);
	ctl_roster_due(c, job);
	if (strcmp(job->server_host, server->host) != 0)
		ctl_kept_changed(c);
	hd_text_copy(job->server_host, sizeof job->server_host, server->host);
	job_settle(c, job, sink);
}

/* Ends every open transfer of the job: its server is lost, or another one has the job. */
static void job_void(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct ctl_transfer *t, *next;

	for (t = TAILQ_FIRST(&c->open); t && job->open; t = next) {
		next = TAILQ_NEXT(t, entry);
		if (t->job == job)
			ctl_void(c, t, reason, sink);
	}
	ctl_groups_settle(c, sink);
}

/* The server is lost, and with it the positions, until this server or a new process of it sends STATE. Requests stay
 * pending; their paths are computed again. */
void ctl_job_lose_server(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	bool awaited = job->server && ctl_replica_is_awaiting(job);
	struct ctl_transfer *t;

	if (awaited)
		ctl_copies_end(c, job, HD_REASON_EPOCH, sink); /* the replica will ask again */
	else
		ctl_replica_forget(c, job, sink);
	job->server = NULL;
	job->begun = false;
	job_void(c, job, reason, sink);
	job_becomes(job, CTL_JOB_WAITING);
	job->inflight_expected = 0;
	job->position = 0;
	job->version = 0;
	TAILQ_FOREACH (t, &c->pending, entry)
		if (t->job == job)
			ctl_transfer_unroute(c, t);
}

void ctl_job_claim(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *server,
	uint64_t generation,
	struct hd_sink *sink
) {
	if (job->server == server)
		return;
	if (job->server)
		ctl_job_lose_server(c, job, HD_REASON_NO_SERVER, sink);
	job_take(c, job, server, generation, sink);
}

static uint64_t server_free_bytes(const struct hd_controller *c, const struct ctl_node *server) {
	uint64_t used = 0;

	/* A job needs its model, its momentum and at least one snapshot. */
	for (uint32_t i = 0; i < c->job_count; i++)
		if (c->jobs[i]->server == server)
			used += 3 * c->jobs[i]->model_bytes;
	return used < server->memory_bytes ? server->memory_bytes - used : 0;
}

static bool may_have(const struct ctl_node *node) {
	return node->incarnation != 0 || node->keeps;
}

/* A host may have a server and a replica: either can be the one that has the job. */
bool ctl_job_is_lost(const struct hd_controller *c, const struct ctl_job *job) {
	const struct ctl_node *node;
	bool back = false;

	if (!job->recalled || job->serving == 0)
		return false;
	TAILQ_FOREACH (node, &c->nodes, entry) {
		if ((node->role != HD_ROLE_SERVER && node->role != HD_ROLE_REPLICA)
		    || strcmp(node->host, job->server_host) != 0)
			continue;
		if (may_have(node))
			return false;
		back = true;
	}
	return back;
}

void ctl_job_place(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_node *node, *best = NULL;
	uint64_t best_free = 0;

	if (job->server || job->model_bytes == 0)
		return;
	/* After a restart a server that has the job may not have registered yet; its STATE will say so. */
	if (c->config.epoch > 1 && (!job->server_host[0] || ctl_job_is_lost(c, job))) {
		hd_ns grace = hd_ns_add(c->started, ctl_silence(c));

		if (c->now < grace) {
			ctl_check_by(c, grace);
			return;
		}
	}
	TAILQ_FOREACH (node, &c->nodes, entry) {
		bool own = node->role == HD_ROLE_REPLICA && job->server_host[0];
		uint64_t room;

		if ((node->role != HD_ROLE_SERVER && !own) || node->doomed)
			continue;
		/* Only the job's host has the model. */
		if (job->server_host[0] && strcmp(job->server_host, node->host) != 0)
			continue;
		if (node->draining && !job->server_host[0])
			continue;
		if (ctl_replica_is_awaiting(job) && !ctl_replica_is_awaited(job, node))
			continue;
		room = server_free_bytes(c, node);
		if (!best || room > best_free) {
			best = node;
			best_free = room;
		}
	}
	if (!best)
		return;
	job_take(c, job, best, 0, sink);
}
