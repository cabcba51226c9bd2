/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of transfers: bounded, found by (job, worker, direction, round) and by token. A request
 * is idempotent: the same attempt again changes nothing, a newer one replaces what is known. */
#include "ctl_core.h"
#include "hd_wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t mix(uint64_t x) {
	x ^= x >> 31;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)(x >> 32) & (CTL_BUCKETS - 1);
}

static uint32_t key_bucket(uint32_t job, uint16_t worker, uint8_t direction, uint32_t round) {
	uint64_t who = ((uint64_t)job << 32) | ((uint32_t)worker << 1) | (direction & 1u);

	return mix(who ^ mix(round + UINT64_C(0x51ed27)));
}

struct ctl_transfer *ctl_transfer_find(
	const struct hd_controller *c,
	const struct ctl_job *job,
	uint16_t worker,
	uint8_t direction,
	uint32_t round
) {
	struct ctl_transfer *t;

	LIST_FOREACH (t, &c->by_key[key_bucket(job->id, worker, direction, round)], by_key)
		if (t->job == job && t->worker == worker && t->direction == direction
		    && t->round == round)
			return t;
	return NULL;
}

struct ctl_transfer *ctl_transfer_by_token(const struct hd_controller *c, uint64_t token) {
	struct ctl_transfer *t;

	LIST_FOREACH (t, &c->by_token[mix(token)], by_token)
		if (t->token == token)
			return t;
	return NULL;
}

struct ctl_transfer *ctl_transfer_add(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	uint8_t direction,
	uint32_t round
) {
	struct ctl_node *node = ctl_worker(job, worker);
	struct ctl_transfer *t;

	if (c->pending_count >= HD_PENDING_MAX || c->open_count >= HD_TRANSFERS_MAX)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->job = job;
	t->worker = worker;
	t->direction = direction;
	t->round = round;
	t->id = ++c->next_id;
	t->asked = c->now;
	t->state = CTL_PENDING;
	t->weight = t->cc_weight = t->asked_weight = 1;
	TAILQ_INSERT_TAIL(&c->pending, t, entry);
	LIST_INSERT_HEAD(&c->by_key[key_bucket(job->id, worker, direction, round)], t, by_key);
	c->pending_count++;
	job->pending++;
	t->tracked = node != NULL;
	if (node)
		node->tracked++;
	return t;
}

uint64_t ctl_token(struct hd_controller *c, const struct ctl_job *job, bool between_hosts) {
	return hd_token_draw(&c->entropy, between_hosts && !job->unsealed);
}

void ctl_transfer_open(struct hd_controller *c, struct ctl_transfer *t, uint64_t token) {
	TAILQ_REMOVE(&c->pending, t, entry);
	c->pending_count--;
	t->job->pending--;
	t->state = CTL_OPEN;
	t->token = token;
	t->granted = c->now;
	TAILQ_INSERT_TAIL(&c->open, t, entry);
	LIST_INSERT_HEAD(&c->by_token[mix(token)], t, by_token);
	c->open_count++;
	t->job->open++;
	if (t->direction == HD_PUSH && !t->is_sum)
		t->job->open_pushes++;
	if (t->direction == HD_COPY && t->is_sum)
		t->job->replica.sums++;
	ctl_check_by(c, c->now + CTL_CHECK_NS);
}

static void path_use(struct hd_controller *c, const struct ctl_transfer *t, bool add) {
	for (uint8_t i = 0; i < t->path_count; i++) {
		c->scratch.link_probe[t->path[i]].used = c->now;
		if (add)
			c->link_use[t->path[i]]++;
		else
			c->link_use[t->path[i]]--;
		if (t->direction == HD_COPY && add)
			c->link_copies[t->path[i]]++;
		else if (t->direction == HD_COPY)
			c->link_copies[t->path[i]]--;
	}
}

void ctl_transfer_unroute(struct hd_controller *c, struct ctl_transfer *t) {
	path_use(c, t, false);
	t->path_count = 0;
}

int ctl_path(const struct hd_controller *c, int from, int to, uint32_t *links) {
	int count = hd_topology_path(c->config.topology, from, to, links, HD_PLAN_PATH_MAX);

	for (int i = 0; i < count; i++)
		links[i]++;
	if (count == 0)
		links[count++] = CTL_LINK_LOCAL;
	return count;
}

void ctl_transfer_reroute(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_plan_way *way
) {
	ctl_transfer_unroute(c, t);
	t->path_count = way->count;
	memcpy(t->path, way->links, way->count * sizeof(t->path[0]));
	path_use(c, t, true);
}

struct ctl_node *ctl_sender(const struct ctl_transfer *t) {
	return t->direction == HD_PULL ? t->job->server : ctl_worker(t->job, t->worker);
}

struct ctl_node *ctl_receiver(const struct ctl_transfer *t) {
	if (t->direction == HD_COPY)
		return t->job->replica.node;
	return t->direction == HD_PULL ? ctl_worker(t->job, t->worker) : t->job->server;
}

bool ctl_transfer_route(struct hd_controller *c, struct ctl_transfer *t) {
	const struct ctl_node *from = ctl_sender(t), *to = ctl_receiver(t);
	int count;

	if (t->path_count)
		return true;
	if (!from || !to)
		return false;
	count = ctl_path(c, from->host_index, to->host_index, t->path);
	if (count < 0)
		return false;
	t->path_count = (uint8_t)count;
	path_use(c, t, true);
	return true;
}

void ctl_transfer_free(struct hd_controller *c, struct ctl_transfer *t) {
	struct ctl_node *node = ctl_worker(t->job, t->worker);

	LIST_REMOVE(t, by_key);
	if (t->state == CTL_PENDING) {
		TAILQ_REMOVE(&c->pending, t, entry);
		c->pending_count--;
		t->job->pending--;
	} else {
		LIST_REMOVE(t, by_token);
		TAILQ_REMOVE(&c->open, t, entry);
		c->open_count--;
		t->job->open--;
		if (t->direction == HD_PUSH && !t->is_sum)
			t->job->open_pushes--;
		if (t->direction == HD_COPY && t->is_sum) {
			t->job->replica.sums--;
			ctl_check_by(c, c->now); /* slots are kept for it perhaps */
		}
		if (t->job->sync != HD_SYNC_NONE && t->job->pending)
			ctl_plan_soon(c); /* its place in the step may be another's */
	}
	if (node && t->tracked)
		node->tracked--;
	if (t->credit)
		ctl_credit_freed(t);
	if (t->item_round && t->item_round == c->scratch.round)
		c->scratch.item_transfer[t->item] = NULL; /* the latest plan shows it no more */
	path_use(c, t, false);
	if (t->group)
		ctl_group_detach(c, t);
	free(t);
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

/* --- requests --- */

/* NONE, or why this request never comes into the table. */
static enum hd_reason request_wrong(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct hd_msg_request *m
) {
	if (m->direction > HD_PULL || m->round == 0 || m->attempt == 0)
		return HD_REASON_REFUSED;
	if (m->direction == HD_PUSH
	    && (m->bytes == 0 || m->bytes > node->job->model_bytes || m->dtype >= HD_DTYPE_COUNT))
		return HD_REASON_REFUSED;
	/* 0 and 1 are what every other push says. */
	if (m->direction == HD_PUSH
	    && !(m->weight >= 0 && isfinite(m->weight)
		 && (node->job->sync == HD_SYNC_FEDERATED || m->weight == 0 || m->weight == 1)))
		return HD_REASON_REFUSED;
	if (m->direction == HD_PULL
	    && (m->bytes > node->job->model_bytes || m->dtype >= HD_DTYPE_COUNT))
		return HD_REASON_REFUSED;
	if (c->pending_count >= HD_PENDING_MAX || c->open_count >= HD_TRANSFERS_MAX)
		return HD_REASON_NO_MEMORY;
	if (node->tracked >= CTL_WORKER_PENDING_MAX)
		return HD_REASON_NO_MEMORY;
	return HD_REASON_NONE;
}

static void transfer_fill(struct ctl_transfer *t, const struct hd_msg_request *m) {
	t->attempt = m->attempt;
	t->dtype = m->dtype;
	t->conditional = m->conditional != 0;
	t->bytes = m->bytes ? m->bytes : t->job->model_bytes;
	t->norm = m->norm;
	t->peak = m->peak;
	t->asked_weight = m->weight > 0 ? m->weight : 1;
	t->base = m->base;
	t->have = m->have;
}

/* True when nothing of ours runs or waits on any link of the path: no reason to wait for a batch. */
static bool path_idle(const struct hd_controller *c, const struct ctl_transfer *t) {
	if (ctl_transfer_local(t))
		return true;
	for (uint8_t i = 0; i < t->path_count; i++)
		if (c->link_use[t->path[i]] > 1)
			return false;
	return t->path_count > 0;
}

/* A group may come of it if it waits for others that ask in the same moment, and the interval is little beside the
 * time that it takes. */
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

/* What is known of this round already. True: the request is done with. */
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
	if (t->credit) { /* it does not fit, or came too late: as if it had not been */
		ctl_void(c, t, HD_REASON_CLOSED, sink);
		return false;
	}
	/* Who asks again counts on; only a new life of the worker begins below what a server told us
	 * of, and it knows nothing of that transfer. */
	if (m->attempt < t->attempt && !t->restored) {
		c->counters.requests_stale++;
		return true;
	}
	if (m->attempt == t->attempt && !t->restored) {
		c->counters.requests_repeated++;
		if (t->state == CTL_OPEN)
			ctl_grant_say(c, t, sink);
		return true;
	}
	/* Ends the transfer, not the round: that is what CLOSED says to the server. */
	if (t->state == CTL_OPEN)
		ctl_void(c, t, HD_REASON_CLOSED, sink);
	else
		ctl_transfer_free(c, t);
	return false;
}

/* Round trips without what stood in the way of one of them. */
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
	enum hd_reason reason;
	struct ctl_transfer *t;

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
	t = reason ? NULL : ctl_transfer_add(c, node->job, m->worker, m->direction, m->round);
	if (!t) {
		c->counters.requests_refused++;
		ctl_drop_request(c, node, m, reason ? reason : HD_REASON_NO_MEMORY, sink);
		return;
	}
	transfer_fill(t, m);
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
	/* Only this transfer is withdrawn, the round is asked for again. */
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
	if (t->state == CTL_OPEN)
		ctl_void(c, t, unreached ? (enum hd_reason)m->reason : HD_REASON_CANCELLED, sink);
	else if (t->direction == HD_COPY)
		ctl_copy_end(c, t, HD_REASON_CANCELLED, sink);
	else
		ctl_transfer_free(c, t);
	if (c->pending_count)
		ctl_plan_soon(c);
}
