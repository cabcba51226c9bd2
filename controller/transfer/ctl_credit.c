/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credits for small transfers: below about one bandwidth-delay product a request takes longer than the transfer. A
 * worker that has just pushed a small update is granted its next push in advance.
 *
 *   REGISTERED, its model is small --> CREDIT(a pull, no round) to the worker
 *   its first pull --> CREDIT(round 1): the server refuses it if it has seen that round
 *   REPORT(round r, applied) --> CREDIT(round r + 1) to the server, then to the worker
 *        spent:     REPORT with the base; the next credit
 *        unspent:   REPORT(expired) from the server, or VOID from here: the position is free again
 *
 * An unspent credit is an open push: v_init counts its position as taken. Its effect on other plans is bounded: tau_max
 * has room for a credit of every worker, and before an update would be dropped for its bound, the job's credits are
 * taken back. The base of a credit is unknown, so a job whose weights depend on delays gets none. A credit has no
 * reservation and does not count for fairness: it is small.
 */
#include "ctl_base.h"
#include "ctl_estimate.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"
#include "hd_jobspec.h"

#include <math.h>

#define CREDIT_NS ((hd_ns)HD_CREDIT_US * HD_US)

/* --- which worker gets one --- */

/* Bytes that the path between worker and server carries in the time that a request takes. */
static double
asking_bytes(const struct hd_controller *c, const struct ctl_node *worker, bool push) {
	int from = worker->host_index, to = worker->job->server->host_index;
	uint32_t path[HD_PLAN_PATH_MAX];
	double rate = CTL_LOCAL_BYTES_PER_S;
	hd_ns asking = c->config.interval_us * HD_US + hd_session_rtt(worker->session);
	int count = hd_topology_path(
		c->config.topology, push ? from : to, push ? to : from, path, HD_PLAN_PATH_MAX
	);

	for (int i = 0; i < count; i++)
		rate = fmin(rate, ctl_estimate_bytes(c, path[i] + 1));
	return count < 0 ? 0 : rate * (double)asking / 1e9;
}

static uint64_t
limit_bytes(const struct hd_controller *c, const struct ctl_node *worker, bool push) {
	return (uint64_t)fmin((double)c->credit_bytes, asking_bytes(c, worker, push));
}

/* Whether the operator's settings and the job's description permit credits. */
static bool is_allowed(const struct hd_controller *c, const struct ctl_node *worker) {
	const struct ctl_job *job = worker->job;

	if (c->credit_bytes == 0 || c->config.unscheduled || job->state != CTL_JOB_READY)
		return false;
	if (c->paused || job->paused || worker->draining || job->server->draining)
		return false;
	/* A step takes its members from the workers that ask. */
	return job->staleness_rule == HD_STALENESS_CONSTANT && job->sync == HD_SYNC_NONE
		&& ctl_job_tau(job) >= CTL_CREDIT_TAU * job->worker_count;
}

/* The next push is expected before the credit expires. */
static bool is_quick(const struct hd_controller *c, const struct ctl_node *worker) {
	return worker->push_ended == 0 || c->now - worker->push_ended < CREDIT_NS / 2;
}

static bool may_have(const struct hd_controller *c, const struct ctl_node *worker) {
	return !worker->doomed && !worker->credit && is_allowed(c, worker) && is_quick(c, worker)
		&& !worker->job->server->doomed && c->now >= worker->job->credits_after
		&& worker->tracked < CTL_WORKER_PENDING_MAX;
}

/* --- granting in advance --- */

static struct hd_message message_of(
	const struct hd_controller *c,
	const struct ctl_node *worker,
	const struct ctl_transfer *t
) {
	const struct ctl_job *job = worker->job;
	struct hd_message message = {.kind = HD_MSG_CREDIT};

	message.credit = (struct hd_msg_credit){
		.job = job->id,
		.worker = worker->worker,
		.epoch = c->config.epoch,
		.pull_bytes = limit_bytes(c, worker, false),
		.expires_us = HD_CREDIT_US,
		.peer_ipv4 = job->server->data.ipv4,
		.peer_port = job->server->data.port,
	};
	if (!t)
		return message;
	message.credit.round = t->round;
	message.credit.attempt = t->attempt;
	message.credit.token = t->token;
	message.credit.position = t->position;
	message.credit.weight = t->weight;
	message.credit.bytes = t->bytes;
	return message;
}

/* If a message does not fit the queue, the node's session is closed, and with it this credit. NULL: for a pull only. */
static void send_credit(
	struct hd_controller *c,
	struct ctl_node *worker,
	const struct ctl_transfer *t,
	struct hd_sink *sink
) {
	struct hd_message message = message_of(c, worker, t);

	if (t && ctl_send(c, worker->job->server, &message, sink))
		return;
	ctl_send(c, worker, &message, sink);
	/* The report of the pull before may still be in flight. */
	if (worker->pull_credits < 2)
		worker->pull_credits++;
}

static void
give(struct hd_controller *c, struct ctl_node *worker, uint64_t bytes, struct hd_sink *sink) {
	const struct ctl_job *job = worker->job;
	uint32_t round = worker->push_round + 1;
	struct ctl_transfer *t;

	if (ctl_transfer_find(c, job, worker->worker, HD_PUSH, round))
		return;
	t = ctl_grant_ahead(c, worker, round, bytes, hd_ns_add(c->now, CREDIT_NS));
	if (!t)
		return;
	worker->push_round = round;
	c->counters.credits++;
	ctl_event(
		sink,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_CREDITED,
			.job = job->id,
			.worker = t->worker,
			.direction = HD_PUSH,
			.round = round,
			.token = t->token,
			.position = t->position,
			.bytes = bytes,
		}
	);
	send_credit(c, worker, t, sink);
}

void ctl_credit_next(
	struct hd_controller *c,
	struct ctl_node *worker,
	uint64_t pushed_bytes,
	struct hd_sink *sink
) {
	uint64_t bytes;
	bool may;

	if (!worker)
		return;
	may = may_have(c, worker);
	if (worker->push_round > 0)
		worker->push_ended = c->now;
	if (!may)
		return;
	bytes = limit_bytes(c, worker, true);
	if (pushed_bytes <= bytes)
		give(c, worker, bytes, sink);
}

void ctl_credit_joins(struct hd_controller *c, struct ctl_node *worker, struct hd_sink *sink) {
	if (is_allowed(c, worker) && worker->job->model_bytes <= limit_bytes(c, worker, false))
		send_credit(c, worker, NULL, sink);
}

void ctl_credit_begins(struct hd_controller *c, struct ctl_node *worker, struct hd_sink *sink) {
	if (worker->push_round == 0)
		ctl_credit_next(c, worker, worker->job->model_bytes, sink);
}

/* --- the end of a credit --- */

bool ctl_credit_reported(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_msg_report *m
) {
	if (t->state != CTL_CREDITED)
		return true;
	if (m->bytes == 0)
		return false;
	ctl_transfer_enter(t, CTL_GRANTED);
	t->bytes = m->bytes;
	t->base = m->base;
	t->norm = m->norm;
	ctl_job_granted(t->job, HD_PUSH, m->bytes);
	c->counters.credits_spent++;
	c->counters.credited_bytes += m->bytes;
	ctl_transfer_route(c, t);
	return true;
}

void ctl_credit_pulled(
	struct hd_controller *c,
	struct ctl_node *worker,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_transfer t = {
		.job = worker->job,
		.worker = worker->worker,
		.direction = HD_PULL,
		.round = m->round,
		.attempt = m->attempt,
		.token = m->token,
	};

	if (!worker->pull_credits || m->bytes > worker->job->model_bytes) {
		c->counters.reports_unknown++;
		return;
	}
	worker->pull_credits--;
	c->counters.credited_pulls++;
	c->counters.credited_bytes += m->bytes;
	ctl_job_granted(t.job, HD_PULL, m->bytes);
	ctl_job_pulled(t.job, m->outcome == HD_OUTCOME_APPLIED);
	ctl_credit_begins(c, worker, sink);
	if (!ctl_transfer_route(c, &t))
		return;
	ctl_sample_add(c, &t, m);
	ctl_transfer_unroute(c, &t);
}

/* --- taking back --- */

/* The credits of the job (NULL: those that would not be granted any more). */
static uint32_t
take_back(struct hd_controller *c, const struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_transfer *t, *next;
	uint32_t count = 0;

	for (t = TAILQ_FIRST(&c->open); t; t = next) {
		const struct ctl_node *worker = ctl_worker(t->job, t->worker);

		next = TAILQ_NEXT(t, entry);
		if (t->state != CTL_CREDITED || (job && t->job != job))
			continue;
		if (!job && worker && is_allowed(c, worker))
			continue;
		ctl_void(c, t, HD_REASON_EXPIRED, sink);
		count++;
	}
	return count;
}

/* A CREDIT for no transfer replaces the one that a worker has. */
static void take_back_pulls(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_node *worker;

	TAILQ_FOREACH (worker, &c->nodes, entry) {
		struct hd_message message;

		if (!worker->pull_credits || !worker->job || worker->job->state != CTL_JOB_READY
		    || is_allowed(c, worker))
			continue;
		message = message_of(c, worker, NULL);
		message.credit.pull_bytes = 0;
		worker->pull_credits = 0;
		ctl_send(c, worker, &message, sink);
	}
}

void ctl_credits_review(struct hd_controller *c, struct hd_sink *sink) {
	take_back(c, NULL, sink);
	take_back_pulls(c, sink);
}

bool ctl_credits_make_room(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	if (!job->credits)
		return false;
	job->credits_after = hd_ns_add(c->now, CTL_CREDIT_REST_NS);
	return take_back(c, job, sink) > 0;
}
