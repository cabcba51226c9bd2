/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests. A request is idempotent: the same attempt again changes nothing, a newer one replaces the known one. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_estimate.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"
#include "hd_wire.h"

#include <assert.h>
#include <math.h>

/* --- requests --- */

/* NONE, or why this request is refused. */
static enum hd_reason request_wrong(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct hd_msg_request *m
) {
	if (m->direction > HD_PULL || m->round == 0 || m->attempt == 0)
		return HD_REASON_REFUSED;
	if (m->direction == HD_PUSH
	    && (m->bytes == 0 || m->bytes > node->job->model_bytes || !hd_dtype_is_update(m->dtype)
	    ))
		return HD_REASON_REFUSED;
	/* Other pushes send 0 or 1. */
	if (m->direction == HD_PUSH
	    && !(m->weight >= 0 && isfinite(m->weight)
		 && (node->job->sync == HD_SYNC_FEDERATED || m->weight == 0 || m->weight == 1)))
		return HD_REASON_REFUSED;
	if (m->direction == HD_PULL
	    && (m->bytes > node->job->model_bytes || !hd_dtype_is_update(m->dtype)))
		return HD_REASON_REFUSED;
	if (c->pending_count >= HD_PENDING_MAX || c->open_count >= HD_TRANSFERS_MAX)
		return HD_REASON_NO_MEMORY;
	if (node->tracked >= CTL_WORKER_PENDING_MAX)
		return HD_REASON_NO_MEMORY;
	return HD_REASON_NONE;
}

static struct ctl_transfer transfer_of(struct ctl_node *node, const struct hd_msg_request *m) {
	return (struct ctl_transfer){
		.job = node->job,
		.worker = m->worker,
		.direction = m->direction,
		.round = m->round,
		.attempt = m->attempt,
		.dtype = m->dtype,
		.conditional = m->conditional != 0,
		.bytes = m->bytes ? m->bytes : node->job->model_bytes,
		.norm = m->norm,
		.peak = m->peak,
		.asked_weight = m->weight > 0 ? m->weight : 1,
		.weight = 1,
		.base = m->base,
		.have = m->have,
	};
}

/* True when no transfer of ours runs or waits on any link of the path: no reason to wait for a batch. */
static bool path_idle(const struct hd_controller *c, const struct ctl_transfer *t) {
	if (ctl_transfer_local(t))
		return true;
	for (uint8_t i = 0; i < t->path_count; i++)
		if (c->link_use[t->path[i]] > 1)
			return false;
	return t->path_count > 0;
}

/* Whether it should wait for simultaneous requests to form a group with: the interval is short compared with its own
 * time. */
static bool may_gather(const struct hd_controller *c, const struct ctl_transfer *t) {
	double rate = ctl_estimate_bytes(c, t->path_count ? t->path[0] : CTL_LINK_LOCAL);

	return ctl_groups_possible(c)
		&& (double)t->bytes / rate * 1e6 > CTL_GATHER_INTERVALS * c->config.interval_us;
}

static void plan_for(struct hd_controller *c, const struct ctl_transfer *t) {
	if (ctl_waits_for(c, t)[0])
		return;
	if (c->pending_count <= CTL_EAGER_PENDING_MAX && path_idle(c, t) && !may_gather(c, t))
		ctl_plan_now(c);
	else
		ctl_plan_soon(c);
}

/* Compares with the known request of this round. True: nothing more to do. */
static bool request_known(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *m,
	struct hd_sink *sink
) {
	struct ctl_transfer *t = ctl_transfer_find(c, node->job, m->worker, m->direction, m->round);
	const struct hd_msg_drop *drop = &node->last_drop[m->direction];

	if (!t && drop->round == m->round && drop->attempt == m->attempt) {
		struct hd_message message = {.kind = HD_MSG_DROP, .drop = *drop};

		c->counters.requests_repeated++;
		ctl_send(c, node, &message, sink);
		return true;
	}
	if (!t)
		return false;
	if (t->credit) { /* it exceeds the credit, or came too late: handled as a request */
		ctl_void(c, t, HD_REASON_CLOSED, sink);
		return false;
	}
	/* Attempts of a process only grow; only a new process of the worker begins below an attempt that a server
	 * reported, and it does not know that transfer. */
	if (m->attempt < t->attempt && !t->restored) {
		c->counters.requests_stale++;
		return true;
	}
	if (m->attempt == t->attempt && !t->restored) {
		c->counters.requests_repeated++;
		if (ctl_transfer_is_open(t))
			ctl_grant_send(c, t, sink);
		return true;
	}
	/* CLOSED tells the server that the transfer ends, but not the round. */
	if (ctl_transfer_is_open(t))
		ctl_void(c, t, HD_REASON_CLOSED, sink);
	else
		ctl_transfer_free(c, t);
	return false;
}

/* The shortest round-trip time, so without queueing delays. */
static void note_rtt(struct ctl_node *node) {
	hd_ns rtt = hd_session_rtt(node->session);

	if (rtt > 0 && (node->rtt_least == 0 || rtt < node->rtt_least))
		node->rtt_least = rtt;
}

void ctl_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *m,
	struct hd_sink *sink
) {
	struct ctl_transfer asked, *t;
	enum hd_reason reason;

	assert(node->role == HD_ROLE_WORKER);
	if (!node->job || m->job != node->job->id || m->worker != node->worker) {
		c->counters.hostile_owner++;
		ctl_refuse(c, node, m->job, "request: of another job or worker", sink);
		return;
	}
	note_rtt(node);
	if (m->direction == HD_REDUCE) {
		ctl_reduce_request(c, node, m, sink);
		return;
	}
	if (m->direction > HD_PULL) {
		c->counters.hostile_value++;
		ctl_refuse(c, node, m->job, "request: direction: no push, pull or reduce", sink);
		return;
	}
	if (m->direction == HD_PUSH && m->round > node->push_round)
		node->push_round = m->round;
	if (request_known(c, node, m, sink))
		return;
	reason = request_wrong(c, node, m);
	if (c->config.unscheduled)
		reason = HD_REASON_REFUSED;
	else
		ctl_rhythm_asked(node, m->direction, c->now);
	asked = transfer_of(node, m);
	t = reason ? NULL : ctl_transfer_add(c, &asked);
	if (!t) {
		c->counters.requests_refused++;
		ctl_drop_request(c, node, m, reason ? reason : HD_REASON_NO_MEMORY, sink);
		return;
	}
	c->counters.requests++;
	ctl_transfer_route(c, t);
	if (m->direction == HD_PULL)
		ctl_credit_begins(c, node, sink);
	plan_for(c, t);
}

void ctl_cancel(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_cancel *m,
	struct hd_sink *sink
) {
	assert(node->role == HD_ROLE_WORKER);
	/* Only this transfer is withdrawn; the worker asks for the round again. */
	bool unreached = m->reason == HD_REASON_TIMEOUT || m->reason == HD_REASON_CLOSED;
	struct ctl_transfer *t;

	if (!node->job || m->job != node->job->id || m->worker != node->worker) {
		c->counters.hostile_owner++;
		return;
	}
	if (m->direction == HD_REDUCE) {
		ctl_reduce_cancel(c, node, m, sink);
		return;
	}
	t = ctl_transfer_find(c, node->job, m->worker, m->direction, m->round);
	if (!t || (m->attempt && m->attempt != t->attempt))
		return;
	c->counters.cancels++;
	if (ctl_transfer_is_open(t))
		ctl_void(c, t, unreached ? (enum hd_reason)m->reason : HD_REASON_CANCELLED, sink);
	else if (t->direction == HD_COPY)
		ctl_copy_end(c, t, HD_REASON_CANCELLED, sink);
	else
		ctl_transfer_free(c, t);
	if (c->pending_count)
		ctl_plan_soon(c);
}
