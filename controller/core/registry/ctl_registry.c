/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration: a node is registered until its session ends. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_possible.h"
#include "ctl_registry.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"
#include "hd_jobspec.h"
#include "hd_out.h"
#include "hd_switch_numbers.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- registration --- */

static bool text_refuse(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	const char *text,
	struct hd_sink *sink
) {
	c->counters.register_refused++;
	ctl_refuse(c, node, m->job, text, sink);
	return false;
}

/* NULL, or a text about the field that is wrong. */
static const char *
worker_fields_wrong(const struct hd_controller *c, const struct hd_msg_register_ *m) {
	if (!m->tenant[0] || !m->job_name[0])
		return "tenant, job_name: empty";
	if (m->job != hd_job_id(m->tenant, m->job_name))
		return "job: not the id of tenant/job_name";
	if (m->worker >= HD_WORKERS_MAX)
		return "worker: 4096 or more (HD_WORKERS_MAX)";
	if (m->model_bytes > HD_MODEL_BYTES_MAX)
		return "model_bytes: more than HD_MODEL_BYTES_MAX";
	if (m->tau_max == 0 || m->tau_max > HD_TAU_MAX_LIMIT)
		return "tau_max: 0, or more than HD_TAU_MAX_LIMIT";
	if (m->staleness_rule >= HD_STALENESS_COUNT)
		return "staleness_rule: unknown";
	if (!isfinite(m->staleness_c) || m->staleness_c < 0)
		return "staleness_c: not a finite number >= 0";
	if (m->sync >= HD_SYNC_COUNT || m->sync_count > HD_WORKERS_MAX
	    || (m->sync != HD_SYNC_FEDERATED
		&& (m->sync_count > 0) != (m->sync == HD_SYNC_N || m->sync == HD_SYNC_N_BATCH)))
		return "sync, sync_count: unknown, or not 1 to 4096 (HD_WORKERS_MAX) of N";
	if (!isfinite(m->job_weight) || m->job_weight < 0 || (double)m->job_weight > CTL_WEIGHT_MAX)
		return "job_weight: not within 0 (default) to 1000";
	return ctl_reduce_fields_wrong(c, ctl_job_find(c, m->job), m);
}

static bool is_unsealed(const struct hd_msg_register_ *m) {
	return (m->flags & HD_REGISTER_UNSEALED) != 0;
}

/* Compares with the description of the job's first worker; the difference is in the text. */
static bool job_agrees(
	const struct ctl_job *job,
	const struct hd_msg_register_ *m,
	double weight,
	char *text,
	size_t bytes
) {
	char mine[HD_FLOAT_TEXT_BYTES], theirs[HD_FLOAT_TEXT_BYTES];

	if (job->model_bytes != m->model_bytes)
		(void)snprintf(
			text,
			bytes,
			"model_bytes: %llu, the job has %llu",
			(unsigned long long)m->model_bytes,
			(unsigned long long)job->model_bytes
		);
	else if (job->tau_max != m->tau_max)
		(void
		)snprintf(text, bytes, "tau_max: %u, the job has %u", m->tau_max, job->tau_max);
	else if (job->staleness_rule != m->staleness_rule)
		(void)snprintf(
			text,
			bytes,
			"staleness_rule: %u, the job has %u",
			m->staleness_rule,
			job->staleness_rule
		);
	else if (job->staleness_c < m->staleness_c || job->staleness_c > m->staleness_c)
		(void)snprintf(
			text,
			bytes,
			"staleness_c: %s, the job has %s",
			hd_float_text((double)m->staleness_c, mine),
			hd_float_text((double)job->staleness_c, theirs)
		);
	else if (job->sync != m->sync || job->sync_count != m->sync_count)
		(void)snprintf(
			text,
			bytes,
			"sync: %s %u, the job has %s %u",
			hd_sync_name(m->sync),
			m->sync_count,
			hd_sync_name(job->sync),
			job->sync_count
		);
	else if (job->unsealed != is_unsealed(m))
		(void)snprintf(
			text,
			bytes,
			"integrity: %s, the job has %s",
			hd_integrity_name(is_unsealed(m)),
			hd_integrity_name(job->unsealed)
		);
	else if (job->weight < weight || job->weight > weight)
		(void)snprintf(
			text,
			bytes,
			"job_weight: %s, the job has %s",
			hd_float_text(weight, mine),
			hd_float_text(job->weight, theirs)
		);
	else
		return true;
	return false;
}

/* The first worker describes the job; later ones must agree. A job known from STATE only has no tenant yet. NULL:
 * refused with a text. */
static struct ctl_job *job_describe(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
) {
	double weight = m->job_weight > 0 ? (double)m->job_weight : 1;
	struct ctl_job *job = ctl_job_get(c, m->job, sink);
	char text[HD_TEXT_BYTES_MAX];

	if (!job) {
		text_refuse(c, node, m, ctl_jobs_full(c, text, sizeof text), sink);
		return NULL;
	}
	if (job->tenant && job->worker_count > 0) {
		if (job_agrees(job, m, weight, text, sizeof text))
			return job;
		text_refuse(c, node, m, text, sink);
		return NULL;
	}
	if (!job->tenant) {
		job->tenant = ctl_tenant_get(c, m->tenant);
		if (!job->tenant) {
			text_refuse(c, node, m, "tenants: at most 256", sink);
			return NULL;
		}
		job->tenant->jobs++;
		(void)snprintf(job->tenant_name, sizeof job->tenant_name, "%s", m->tenant);
		(void)snprintf(job->name, sizeof job->name, "%s", m->job_name);
	}
	job->weight = weight;
	job->model_bytes = m->model_bytes;
	job->tau_max = m->tau_max;
	job->staleness_rule = m->staleness_rule;
	job->staleness_c = m->staleness_c;
	job->sync = m->sync;
	job->sync_count = m->sync_count;
	job->unsealed = is_unsealed(m);
	ctl_tenant_weigh(c, job->tenant);
	(void)snprintf(text, sizeof text, "%s/%s", job->tenant_name, job->name);
	ctl_record(
		c,
		(struct hd_record){
			.kind = HD_RECORD_JOB,
			.text = text,
			.job = job->id,
			.bytes = job->model_bytes,
			.deadline = job->tau_max,
			.slack = job->weight,
		}
	);
	return job;
}

/* A REGISTER for a rank that another session has, where ctl_rank_is_held() permits it: the newer process gets the rank.
 * The older one is refused for good, or the two would replace each other for ever. */
static void displace(
	struct hd_controller *c,
	struct ctl_node *older,
	struct ctl_node *newer,
	struct hd_sink *s
) {
	char text[HD_TEXT_BYTES_MAX];
	struct ctl_node *node = older;

	(void)snprintf(
		text,
		sizeof text,
		"worker %u of job %s registered again from host %s",
		older->worker,
		older->job->name,
		newer->host
	);
	ctl_node_down(c, node, HD_REASON_DUPLICATE, s);
	ctl_refuse(c, node, 0, text, s);
}

static void attach_worker(
	struct hd_controller *c,
	struct ctl_node *node,
	struct ctl_job *job,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
) {
	struct ctl_node *older = job->workers[m->worker];
	struct ctl_transfer *t;

	if (older && older != node)
		displace(c, older, node, sink);
	assert(!job->workers[m->worker] || older == node);
	node->job = job;
	node->worker = m->worker;
	job->workers[m->worker] = node;
	job->worker_count++;
	ctl_job_entered(c, job);
	ctl_roster_set(c, job, node->worker, !node->observer);
	/* Transfers that a server reported before this worker registered. */
	TAILQ_FOREACH (t, &c->open, entry)
		if (t->job == job && t->worker == m->worker)
			ctl_transfer_route(c, t);
	ctl_reduce_attach(c, job, m, sink);
	if (job->server || job->model_bytes == 0) {
		ctl_send_registered(c, node, job, sink);
		ctl_credit_joins(c, node, sink);
	} else {
		ctl_job_place(c, job, sink);
	}
	ctl_reduce_joined(c, job, sink);
}

/* Assigns the job to its last server again, before a worker has given the job's size. Without this a new process of
 * that server would take the state of a server that it has replaced. A node that has jobs sends STATE instead: with
 * this message it would report as durable what it committed alone, before the controller knows which node has more. */
static void serve_again(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *node,
	struct hd_sink *sink
) {
	if (node->incarnation == 0 && !job->server && job->serving > 0
	    && strcmp(job->server_host, node->host) == 0 && !ctl_job_is_lost(c, job))
		ctl_replica_send(c, job, node, HD_REPLICA_SERVE, job->serving, sink);
}

static void attach_server(struct hd_controller *c, struct ctl_node *node, struct hd_sink *sink) {
	ctl_replica_returned(c, node, sink);
	/* Before REGISTERED, after which the node accepts states: either packet may be lost. */
	for (uint32_t i = 0; i < c->job_count; i++)
		serve_again(c, c->jobs[i], node, sink);
	ctl_send_registered(c, node, NULL, sink);
	for (uint32_t i = 0; i < c->job_count; i++)
		ctl_job_place(c, c->jobs[i], sink);
	ctl_check_by(c, c->now); /* for jobs without a replica */
}

static void
node_common(struct hd_controller *c, struct ctl_node *node, const struct hd_msg_register_ *m) {
	struct hd_addr peer = hd_session_peer(node->session);

	(void)snprintf(node->host, sizeof node->host, "%s", m->host);
	node->role = m->role;
	node->registered = c->now;
	node->data.ipv4 = m->data_ipv4 ? m->data_ipv4 : peer.ipv4;
	node->data.port = m->data_port ? m->data_port : peer.port;
	node->memory_bytes = m->memory_bytes;
	node->host_job = m->role == HD_ROLE_AGGREGATOR ? m->job : 0;
	node->worker = m->worker;
	node->incarnation = m->incarnation;
	node->keeps = (m->flags & HD_REGISTER_KEEPS) != 0;
	node->preempted_at = 0;
	node->roster_sent = 0;
	node->observer = (m->flags & HD_REGISTER_OBSERVER) != 0;
	node->shared = m->shared;
	node->slots = m->slots;
	node->count_min = m->count_min;
	node->count_max = m->count_max;
	node->slot_dtypes = m->dtypes;
	node->no_groups_until = 0;
	memset(node->refusals, 0, sizeof node->refusals);
	node->draining = ctl_host_drained(c, m->host);
	node->guard = (struct ctl_guard){0};
	memset(node->last_drop, 0, sizeof node->last_drop);
}

static const char *switch_fields_wrong(const struct hd_msg_register_ *m) {
	if (m->slots > HD_SWITCH_SLOTS)
		return "slots: more than 4096 (HD_SWITCH_SLOTS)";
	if (m->count_min == 0 || m->count_min > m->count_max)
		return "count_min, count_max: 0, or count_min above count_max";
	if ((m->dtypes & (1 << HD_DTYPE_FIXED32 | 1 << HD_DTYPE_FP32)) == 0)
		return "dtypes: neither fixed32 nor fp32";
	return NULL;
}

static uint32_t flags_of(uint8_t role) {
	if (role == HD_ROLE_WORKER)
		return HD_REGISTER_OBSERVER | HD_REGISTER_UNSEALED;
	return role == HD_ROLE_SERVER || role == HD_ROLE_REPLICA ? HD_REGISTER_KEEPS : 0;
}

/* Checks the fields of all roles; NULL, or an error text. */
static const char *common_wrong(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct hd_msg_register_ *m
) {
	if (m->role != HD_ROLE_WORKER && m->role != HD_ROLE_SERVER && m->role != HD_ROLE_MONITOR
	    && m->role != HD_ROLE_AGGREGATOR && m->role != HD_ROLE_REPLICA
	    && m->role != HD_ROLE_SWITCH)
		return "role: only workers, servers, replicas, aggregators, switches and monitors register";
	if (m->role != hd_session_peer_role(node->session))
		return "role: not that of the session";
	if (!m->host[0])
		return "host: empty";
	if (m->flags & ~flags_of(m->role))
		return "flags: unknown bits";
	if (node->role == HD_ROLE_WORKER && node->job
	    && (node->job->id != m->job || node->worker != m->worker))
		return "job, worker: this session belongs to another worker; open a new one";
	if (m->role == HD_ROLE_AGGREGATOR && m->worker >= HD_WORKERS_MAX)
		return "worker: 4096 or more (HD_WORKERS_MAX)";
	if (m->role == HD_ROLE_WORKER)
		return worker_fields_wrong(c, m);
	if (m->role == HD_ROLE_SWITCH)
		return switch_fields_wrong(m);
	return NULL;
}

/* A repeated REGISTER is answered again. A different one is a new beginning of the node: its former state is void. */
static bool repeated(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
) {
	bool same = node->role == m->role && node->incarnation == m->incarnation
		&& strcmp(node->host, m->host) == 0
		&& (!m->data_ipv4 || node->data.ipv4 == m->data_ipv4)
		&& (!m->data_port || node->data.port == m->data_port)
		&& (m->role != HD_ROLE_AGGREGATOR
		    || (node->host_job == m->job && node->worker == m->worker));

	if (!same) {
		ctl_node_down(c, node, HD_REASON_CLOSED, sink);
		return false;
	}
	if (m->role == HD_ROLE_SWITCH) { /* leases of an earlier controller process have ended */
		node->slots = m->slots;
		ctl_check_by(c, c->now);
	}
	if (m->role != HD_ROLE_WORKER)
		ctl_send_registered(c, node, NULL, sink);
	else if (node->job->server || node->job->model_bytes == 0)
		ctl_send_registered(c, node, node->job, sink);
	return true;
}

void ctl_register(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
) {
	const char *wrong = common_wrong(c, node, m);
	struct ctl_job *job = NULL;
	static const char no_host[] = "host: no room for another: HD_HOSTS_MAX hosts have nodes";
	char text[HD_TEXT_BYTES_MAX];
	int host;

	if (wrong) {
		text_refuse(c, node, m, wrong, sink);
		return;
	}
	host = ctl_host_find(c, m);
	if (host < 0 || ctl_scratch_links(c)) {
		(void)snprintf(text, sizeof text, "host: '%s' is not in the topology", m->host);
		text_refuse(c, node, m, host == -ENOENT ? text : no_host, sink);
		return;
	}
	if (node->role != HD_ROLE_NONE && repeated(c, node, m, sink))
		return;
	if (m->role == HD_ROLE_WORKER) {
		if (ctl_rank_is_held(c, node, m, sink) || ctl_admit_later(c, node, m, sink))
			return;
		job = job_describe(c, node, m, sink);
		if (!job)
			return;
	}
	node_common(c, node, m);
	node->host_index = host;
	c->probe_at = hd_ns_min(c->probe_at, c->now);
	c->counters.registered++;
	c->aggregator_count += m->role == HD_ROLE_AGGREGATOR;
	c->hosted_count += node->host_job != 0;
	c->switch_count += m->role == HD_ROLE_SWITCH;
	ctl_event_of(
		node,
		job,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_NODE_UP,
			.job = m->job,
			.worker = m->worker,
			.position = (uint64_t)host + 1,
			.aux = m->role,
		},
		sink
	);
	if (job)
		attach_worker(c, node, job, m, sink);
	else if (m->role == HD_ROLE_SERVER || m->role == HD_ROLE_REPLICA)
		attach_server(c, node, sink);
	else
		ctl_send_registered(c, node, NULL, sink);
	if (m->role == HD_ROLE_AGGREGATOR || m->role == HD_ROLE_SWITCH)
		ctl_reduce_check(c, sink);
	ctl_record_node(c, node, "up", HD_REASON_NONE);
}
