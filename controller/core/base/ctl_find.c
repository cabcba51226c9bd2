/* SPDX-License-Identifier: BSD-3-Clause */
/* Lookups of jobs, nodes and transfers, and values that follow from their fields alone. Nothing changes here. */
#include "ctl_base.h"

#include <string.h>

struct ctl_job *ctl_job_find(const struct hd_controller *c, uint32_t id) {
	for (uint32_t i = 0; i < c->job_count; i++)
		if (c->jobs[i]->id == id)
			return c->jobs[i];
	return NULL;
}

uint32_t ctl_job_index(const struct hd_controller *c, const struct ctl_job *job) {
	uint32_t i = 0;

	while (i < c->job_count && c->jobs[i] != job)
		i++;
	return i;
}

struct ctl_node *ctl_worker(const struct ctl_job *job, uint16_t worker) {
	return worker < HD_WORKERS_MAX ? job->workers[worker] : NULL;
}

uint32_t ctl_job_running(const struct ctl_job *job) {
	return job->open_pushes - job->unspent;
}

uint64_t ctl_job_v_init(const struct ctl_job *job) {
	return hd_version_counter(job->version) + job->open_pushes;
}

uint32_t ctl_job_tau(const struct ctl_job *job) {
	uint32_t tau = job->tau_max ? job->tau_max : 1;

	if (job->sync != HD_SYNC_NONE)
		return HD_TAU_MAX_LIMIT; /* a step has its own bound: ctl_sync.c */
	if (job->roster.tau_max && job->roster.tau_max < tau)
		tau = job->roster.tau_max; /* for the workers that are registered */
	return job->tau_set && job->tau_set < tau ? job->tau_set : tau;
}

double ctl_job_weight(const struct ctl_job *job) {
	return job->weight_set > 0 ? job->weight_set : job->weight;
}

bool ctl_job_is_idle(const struct ctl_job *job) {
	return !job->worker_count && !job->pending && !job->open;
}

uint32_t ctl_jobs_idle(const struct hd_controller *c) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < c->job_count; i++)
		count += ctl_job_is_idle(c->jobs[i]);
	return count;
}

hd_ns ctl_job_idle_since(const struct hd_controller *c, const struct ctl_job *job) {
	return hd_ns_max(job->idle_since, c->started);
}

bool ctl_host_drained(const struct hd_controller *c, const char *host) {
	for (uint32_t i = 0; i < c->drained_count; i++)
		if (strcmp(c->drained[i], host) == 0)
			return true;
	return false;
}

uint32_t ctl_token_bucket(uint64_t x) {
	x ^= x >> 31;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)(x >> 32) & (CTL_BUCKETS - 1);
}

uint32_t ctl_key_bucket(uint32_t job, uint16_t worker, uint8_t direction, uint32_t round) {
	uint64_t who = ((uint64_t)job << 32) | ((uint32_t)worker << 1) | (direction & 1u);

	return ctl_token_bucket(who ^ ctl_token_bucket(round + UINT64_C(0x51ed27)));
}

struct ctl_transfer *ctl_transfer_find(
	const struct hd_controller *c,
	const struct ctl_job *job,
	uint16_t worker,
	uint8_t direction,
	uint32_t round
) {
	struct ctl_transfer *t;

	LIST_FOREACH (t, &c->by_key[ctl_key_bucket(job->id, worker, direction, round)], by_key)
		if (t->job == job && t->worker == worker && t->direction == direction
		    && t->round == round)
			return t;
	return NULL;
}

struct ctl_transfer *ctl_transfer_by_token(const struct hd_controller *c, uint64_t token) {
	struct ctl_transfer *t;

	LIST_FOREACH (t, &c->by_token[ctl_token_bucket(token)], by_token)
		if (t->token == token)
			return t;
	return NULL;
}

int ctl_path(const struct hd_controller *c, int from, int to, uint32_t *links) {
	int count = hd_topology_path(c->config.topology, from, to, links, HD_PLAN_PATH_MAX);

	for (int i = 0; i < count; i++)
		links[i]++;
	if (count == 0)
		links[count++] = CTL_LINK_LOCAL;
	return count;
}

struct ctl_node *ctl_sender(const struct ctl_transfer *t) {
	return t->direction == HD_PULL ? t->job->server : ctl_worker(t->job, t->worker);
}

struct ctl_node *ctl_receiver(const struct ctl_transfer *t) {
	if (t->direction == HD_COPY)
		return t->job->replica.node;
	return t->direction == HD_PULL ? ctl_worker(t->job, t->worker) : t->job->server;
}

const char *ctl_waits_for(const struct hd_controller *c, const struct ctl_transfer *t) {
	const struct ctl_node *worker;

	if (t->job->state != CTL_JOB_READY)
		return t->job->state == CTL_JOB_WAITING ? "no-server" : "settling";
	if (c->paused || t->job->paused)
		return "paused";
	if (!c->drained_count)
		return "";
	worker = ctl_worker(t->job, t->worker);
	return t->job->server->draining || (worker && worker->draining) ? "draining" : "";
}
