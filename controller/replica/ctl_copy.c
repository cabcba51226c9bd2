/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of updates, from the workers that pushed them to the replica of their job's server. The replica asks for the
 * updates in its log. A copy is planned like a pull, but only over links that no other transfer needs, until the server
 * waits for it or it has waited for ageing_s.
 *
 * No node keeps sums. The aggregator sends a sum to the replica while it sends it to the server, without a place in the
 * plan: at the rate that the sum leaves on the path, or at a share of it. Such a copy ends by itself, and its group
 * does not depend on it.
 */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_estimate.h"
#include "ctl_transfers.h"
#include "hd_group.h"

#include <assert.h>
#include <math.h>

/* No copy of this update is sent, whether it was requested just now or has waited. */
static void copy_drop(
	struct hd_controller *c,
	struct ctl_node *replica,
	const struct hd_msg_drop *which,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_DROP, .drop = *which};

	message.drop.direction = HD_COPY;
	message.drop.reason = (uint8_t)reason;
	ctl_send(c, replica, &message, sink);
}

static void copy_void(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct ctl_transfer *t,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = t->job->id;
	message.void_.token = t->token;
	message.void_.reason = (uint8_t)reason;
	ctl_send(c, node, &message, sink);
}

void ctl_copy_end(
	struct hd_controller *c,
	struct ctl_transfer *t,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct ctl_node *worker = ctl_worker(t->job, t->worker), *replica = t->job->replica.node;
	const struct hd_msg_drop which = {
		.job = t->job->id,
		.worker = t->worker,
		.round = t->round,
		.attempt = t->attempt,
	};

	assert(t->direction == HD_COPY);
	if (t->state == CTL_PENDING) {
		if (replica)
			copy_drop(c, replica, &which, reason, sink);
	} else {
		c->counters.copies_void++;
		if (t->is_sum)
			ctl_slots_copy_lost(c, t);
		if (replica)
			copy_void(c, replica, t, reason, sink);
		if (worker && reason != HD_REASON_CANCELLED)
			copy_void(c, worker, t, reason, sink);
	}
	ctl_transfer_free(c, t);
	if (c->pending_count)
		ctl_plan_soon(c);
}

void ctl_copies_end(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct ctl_transfer *t, *next;

	for (t = TAILQ_FIRST(&c->pending); t; t = next) {
		next = TAILQ_NEXT(t, entry);
		if (t->job == job && t->direction == HD_COPY)
			ctl_copy_end(c, t, reason, sink);
	}
	for (t = TAILQ_FIRST(&c->open); t; t = next) {
		next = TAILQ_NEXT(t, entry);
		if (t->job == job && t->direction == HD_COPY)
			ctl_copy_end(c, t, reason, sink);
	}
}

/* --- requests --------------------------------------------------------------------------------- */

/* Whether the worker may still register: after a restart of the controller it does so within the detection time. */
static bool worker_may_come(const struct hd_controller *c) {
	return c->config.epoch > 1
		&& c->now < hd_ns_add(c->started, c->config.detection_us * HD_US);
}

/* True: it is known already, or older than the known one. */
static bool copy_known(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct hd_msg_request *m,
	struct hd_sink *sink
) {
	struct ctl_transfer *t = ctl_transfer_find(c, job, m->worker, HD_COPY, m->round);

	if (!t)
		return false;
	if (m->attempt <= t->attempt && !t->restored) {
		c->counters.requests_repeated++;
		if (ctl_transfer_is_open(t) && m->attempt == t->attempt)
			ctl_grant_send(c, t, sink);
		return true;
	}
	/* The replica has given up the older one by itself, so it is not told. */
	if (ctl_transfer_is_open(t) && ctl_worker(job, t->worker))
		copy_void(c, ctl_worker(job, t->worker), t, HD_REASON_CLOSED, sink);
	ctl_transfer_free(c, t);
	return false;
}

void ctl_copy_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *m,
	struct hd_sink *sink
) {
	const struct hd_msg_drop which = {
		.job = m->job,
		.worker = m->worker,
		.round = m->round,
		.attempt = m->attempt,
	};
	struct ctl_job *job = ctl_job_find(c, m->job);
	struct ctl_transfer *t;

	assert(node->role == HD_ROLE_SERVER || node->role == HD_ROLE_REPLICA);
	/* After a restart of the controller the request may arrive before the server has reported its replica, and
	 * without a server nothing is planned: the replica asks again. */
	if (!job || !job->replica.node || !job->server) {
		copy_drop(c, node, &which, HD_REASON_EPOCH, sink);
		return;
	}
	if (job->replica.node != node) {
		c->counters.hostile_owner++;
		return;
	}
	if (m->worker >= HD_WORKERS_MAX || m->round == 0 || m->attempt == 0 || m->bytes == 0
	    || m->bytes > job->model_bytes || !hd_dtype_is_update(m->dtype)) {
		c->counters.hostile_value++;
		return;
	}
	if (copy_known(c, job, m, sink))
		return;
	if (!ctl_worker(job, m->worker) && !worker_may_come(c)) {
		copy_drop(c, node, &which, HD_REASON_LEFT, sink);
		return;
	}
	t = ctl_transfer_add(
		c,
		&(struct ctl_transfer){
			.job = job,
			.worker = m->worker,
			.direction = HD_COPY,
			.round = m->round,
			.attempt = m->attempt,
			.dtype = m->dtype,
			.bytes = m->bytes,
			.weight = m->norm, /* the weight with which it was applied */
			.base = m->base,
			.have = m->have,
		}
	);
	if (!t) {
		copy_drop(c, node, &which, HD_REASON_NO_MEMORY, sink);
		return;
	}
	c->counters.copies++;
	ctl_transfer_route(c, t);
	ctl_plan_soon(c);
}

void ctl_copies_look(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_transfer *t, *next;

	if (worker_may_come(c))
		return;
	for (t = TAILQ_FIRST(&c->pending); t; t = next) {
		next = TAILQ_NEXT(t, entry);
		if (t->direction == HD_COPY && !ctl_worker(t->job, t->worker))
			ctl_copy_end(c, t, HD_REASON_LEFT, sink);
	}
}

/* --- planning --------------------------------------------------------------------------------- */

bool ctl_copy_may_go(const struct hd_controller *c, const struct ctl_transfer *t) {
	hd_ns aged = hd_ns_add(t->asked, (hd_ns)(c->config.ageing_s * 1e9));

	if (t->direction != HD_COPY || t->job->replica.held || c->now >= aged)
		return true;
	for (uint8_t i = 0; i < t->path_count; i++)
		if (t->path[i] != CTL_LINK_LOCAL
		    && c->link_use[t->path[i]] > c->link_copies[t->path[i]])
			return false;
	return true;
}

/* --- sums --------------------------------------------------------------------------------------- */

static bool may_have_sum(const struct hd_controller *c, const struct ctl_group *group) {
	const struct ctl_replica *replica = &group->job->replica;
	uint32_t most = group->slots ? CTL_REPLICA_STREAMS_MAX : CTL_REPLICA_SUMS_MAX;

	return group->direction == HD_PUSH && replica->node && replica->caught_up
		&& !replica->node->doomed && c->config.replicate_every == 0 && replica->sums < most
		&& c->open_count < HD_TRANSFERS_MAX;
}

static bool carries(const struct ctl_transfer *t, uint32_t link) {
	for (uint8_t i = 0; i < t->path_count; i++)
		if (t->path[i] == link)
			return true;
	return false;
}

/* The rate that the copy may have on its path, bytes/s, without a delay for the sum. */
static double copy_rate(
	const struct hd_controller *c,
	const struct ctl_transfer *sum,
	const struct ctl_transfer *copy
) {
	double rate = INFINITY, taken = 0;

	for (uint8_t i = 0; i < sum->reserved_count; i++)
		taken = fmax(taken, sum->reserved[i].rate);
	for (uint8_t i = 0; i < copy->path_count; i++) {
		const double all = ctl_estimate_bytes(c, copy->path[i]);
		const double left = carries(sum, copy->path[i]) ? all - taken : all;

		if (copy->path[i] != CTL_LINK_LOCAL)
			rate = fmin(rate, fmax(left, CTL_REPLICA_SHARE * all));
	}
	return rate;
}

struct ctl_transfer *ctl_copy_sum(struct hd_controller *c, const struct ctl_group *group) {
	const struct ctl_transfer *sum = group->sum;
	struct ctl_job *job = group->job;
	struct hd_plan_path path;
	struct ctl_transfer *t;
	double rate;
	int count;

	if (!may_have_sum(c, group))
		return NULL;
	count = ctl_path(
		c, group->aggregator->host_index, job->replica.node->host_index, path.links
	);
	if (count <= 0)
		return NULL;
	t = ctl_transfer_add(
		c,
		&(struct ctl_transfer){
			.job = job,
			.worker = HD_GROUP_WORKER,
			.direction = HD_COPY,
			.round = group->number,
			.attempt = 1,
			.dtype = group->dtype,
			.bytes = group->bytes,
			.position = sum->position,
			.weight = sum->weight,
			.is_sum = true,
		}
	);
	if (!t)
		return NULL;
	path.count = (uint8_t)count;
	ctl_transfer_reroute(c, t, &path);
	ctl_transfer_open(c, t, ctl_token(c, job, !group->slots));
	rate = copy_rate(c, sum, t);
	ctl_reserve_nothing(
		t,
		sum->start,
		sum->start + (isinf(rate) ? 0 : (hd_ns)((double)t->bytes / rate * 1e9))
	);
	c->counters.sums_copied++;
	return t;
}

void ctl_copy_sum_end(
	struct hd_controller *c,
	const struct ctl_group *group,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct ctl_transfer *t
		= ctl_transfer_find(c, group->job, HD_GROUP_WORKER, HD_COPY, group->number);

	if (t)
		ctl_copy_end(c, t, reason, sink);
}

/* --- reports ---------------------------------------------------------------------------------- */

void ctl_copy_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *m,
	struct hd_sink *sink
) {
	struct ctl_job *job = ctl_job_find(c, m->job);
	struct ctl_transfer *t;

	if (!job || job->replica.node != node) {
		c->counters.hostile_owner++;
		return;
	}
	t = ctl_transfer_by_token(c, m->token);
	if (!t || t->job != job || t->direction != HD_COPY) {
		c->counters.reports_unknown++;
		return;
	}
	c->counters.reports++;
	if (m->outcome == HD_OUTCOME_APPLIED) {
		job->replica.copies++;
		job->replica.copied_bytes += m->bytes;
		ctl_sample_add(c, t, m);
	} else if (ctl_worker(job, t->worker)) {
		copy_void(c, ctl_worker(job, t->worker), t, HD_REASON_CLOSED, sink);
	} else if (t->is_sum) {
		ctl_slots_copy_lost(c, t);
	}
	ctl_transfer_free(c, t);
	ctl_samples_take(c, sink);
	if (c->pending_count)
		ctl_plan_soon(c);
}
