/* SPDX-License-Identifier: BSD-3-Clause */
/* Which node is the replica of which job, and what happens when the server or the replica is lost. */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_estimate.h"
#include "ctl_possible.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void ctl_replica_init(struct ctl_replica *replica) {
	*replica = (struct ctl_replica
	){.divergence = -1,
	  .div_set = -1,
	  .promoted_divergence = -1,
	  .assign_at = HD_NEVER,
	  .promote_at = HD_NEVER};
}

int ctl_replica_send(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *to,
	enum hd_replica_order order,
	uint64_t generation,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_REPLICA};

	message.replica.job = job->id;
	message.replica.generation = generation;
	message.replica.epoch = c->config.epoch;
	message.replica.order = (uint8_t)order;
	return ctl_send(c, to, &message, sink);
}

/* --- the choice of a replica ---------------------------------------------------------------------- */

bool ctl_replica_may_keep(const struct ctl_job *job, const struct ctl_node *node) {
	uint8_t wanted = job->server->role == HD_ROLE_REPLICA ? HD_ROLE_SERVER : HD_ROLE_REPLICA;

	return node->role == wanted && !node->doomed && !node->draining
		&& strcmp(node->host, job->server->host) != 0;
}

static uint64_t free_bytes(const struct hd_controller *c, const struct ctl_node *node) {
	uint64_t used = 0;

	for (uint32_t i = 0; i < c->job_count; i++)
		if (c->jobs[i]->server == node || c->jobs[i]->replica.node == node)
			used += 4 * c->jobs[i]->model_bytes;
	return used < node->memory_bytes ? node->memory_bytes - used : 0;
}

/* The node that has a version of the job already, else the one with the most free memory. */
static struct ctl_node *best_node(const struct hd_controller *c, const struct ctl_job *job) {
	struct ctl_node *node, *best = NULL;

	if (job->replica.holder && ctl_replica_may_keep(job, job->replica.holder))
		return job->replica.holder;
	TAILQ_FOREACH (node, &c->nodes, entry)
		if (ctl_replica_may_keep(job, node)
		    && (!best || free_bytes(c, node) > free_bytes(c, best)))
			best = node;
	return best;
}

/* The rate of a state on its path. 0: within one host, limited by congestion control only. */
static uint64_t seed_rate(const struct hd_controller *c, const struct ctl_job *job) {
	uint32_t path[HD_PLAN_PATH_MAX];
	double least = INFINITY;
	int count = hd_topology_path(
		c->config.topology,
		job->server->host_index,
		job->replica.node->host_index,
		path,
		HD_PLAN_PATH_MAX
	);

	for (int i = 0; i < count; i++)
		least = fmin(least, ctl_estimate_bytes(c, path[i] + 1) * 8);
	return count > 0 ? (uint64_t)(CTL_REPLICA_SHARE * least) + 1 : 0;
}

static void send_keep(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_REPLICA};

	message.replica = (struct hd_msg_replica){
		.job = job->id,
		.generation = job->replica.generation,
		.epoch = c->config.epoch,
		.order = HD_REPLICA_KEEP,
		.peer_ipv4 = job->replica.node->data.ipv4,
		.peer_port = job->replica.node->data.port,
		.rate_bps = seed_rate(c, job),
		.div_max = job->replica.div_set,
		.every = c->config.replicate_every,
	};
	ctl_send(c, job->server, &message, sink);
}

void ctl_replica_release(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_node *holder = job->replica.holder;

	job->replica.holder = NULL;
	job->replica.holds = 0;
	if (holder && holder != job->server)
		ctl_replica_send(c, job, holder, HD_REPLICA_RETIRE, ctl_generation_next(c), sink);
}

void ctl_replica_end(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *server,
	enum hd_replica_order order,
	struct hd_sink *sink
) {
	ctl_replica_send(c, job, server, order, ctl_generation_next(c), sink);
}

static void
assign(struct hd_controller *c, struct ctl_job *job, struct ctl_node *node, struct hd_sink *sink) {
	if (job->replica.holder && job->replica.holder != node)
		ctl_replica_release(c, job, sink);
	/* A version of another incarnation is no newer than the server's, or its node would be the server. */
	if (hd_version_incarnation(job->replica.holds) != hd_version_incarnation(job->version))
		job->replica.holds = 0;
	job->replica.node = node;
	job->replica.generation = ctl_generation_next(c);
	job->replica.caught_up = job->replica.held = false;
	job->replica.state = HD_FOLLOW_NONE;
	job->replica.version = 0;
	job->replica.divergence = -1;
	job->replica.changed = false;
	send_keep(c, job, sink);
}

hd_ns ctl_replica_check(struct hd_controller *c, struct hd_sink *sink) {
	hd_ns next = HD_NEVER;

	for (uint32_t i = 0; i < c->job_count; i++) {
		struct ctl_job *job = c->jobs[i];
		struct ctl_node *node;

		if (job->replica.changed && job->server && job->replica.node) {
			send_keep(c, job, sink);
			job->replica.changed = false;
		}
		/* A server that has not begun yet does not know the job. */
		if (job->state != CTL_JOB_READY || job->replica.node || !job->server || !job->begun
		    || job->model_bytes == 0)
			continue;
		if (c->now < job->replica.assign_at) {
			next = hd_ns_min(next, job->replica.assign_at);
			continue;
		}
		node = best_node(c, job);
		if (node)
			assign(c, job, node, sink);
	}
	ctl_copies_look(c, sink);
	return next;
}

/* Clears all fields of the present replica. */
void ctl_replica_drop(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	ctl_copies_end(c, job, reason, sink);
	job->replica.node = NULL;
	job->replica.promote_at = HD_NEVER;
	job->replica.caught_up = job->replica.held = false;
	job->replica.state = HD_FOLLOW_NONE;
	job->replica.divergence = -1;
	job->replica.behind = 0;
}

void ctl_replica_lost(struct hd_controller *c, const struct ctl_node *node, struct hd_sink *sink) {
	for (uint32_t i = 0; i < c->job_count; i++) {
		struct ctl_job *job = c->jobs[i];

		if (job->replica.holder == node)
			job->replica.holder = NULL;
		if (job->replica.node != node)
			continue;
		/* From here on the node is not promoted; only then is the server told that it is alone. */
		job->replica.alone = ctl_replica_is_awaiting(job);
		ctl_replica_drop(c, job, HD_REASON_CLOSED, sink);
		if (job->server)
			ctl_replica_send(
				c, job, job->server, HD_REPLICA_ALONE, job->replica.generation, sink
			);
		ctl_check_by(c, c->now);
	}
}

void ctl_replica_forget(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_node *node = job->replica.node;

	if (!node)
		return;
	ctl_replica_drop(c, job, HD_REASON_CLOSED, sink);
	if (job->replica.holder != node)
		ctl_replica_send(c, job, node, HD_REPLICA_RETIRE, job->replica.generation, sink);
}

/* --- FOLLOW -------------------------------------------------------------------------------------- */

void ctl_replica_holds(struct ctl_replica *replica, struct ctl_node *node, hd_version version) {
	replica->holder = node;
	replica->holds = version;
}

bool ctl_replica_adopt(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct hd_msg_follow *m
) {
	struct ctl_node *node;

	if (job->replica.node || m->generation >> 48 >= c->config.epoch)
		return false;
	TAILQ_FOREACH (node, &c->nodes, entry)
		if (node->data.ipv4 == m->peer_ipv4 && node->data.port == m->peer_port
		    && ctl_replica_may_keep(job, node)) {
			job->replica.node = node;
			job->replica.generation = m->generation;
			return true;
		}
	return false;
}

void ctl_replica_reported(
	struct hd_controller *c,
	struct ctl_replica *replica,
	const struct hd_msg_follow *m
) {
	assert(replica->node && replica->generation == m->generation);
	replica->caught_up = m->state == HD_FOLLOW_CAUGHT_UP;
	replica->state = m->state;
	replica->version = m->version;
	if (hd_version_counter(m->version) > 0)
		ctl_replica_holds(replica, replica->node, m->version);
	replica->behind = m->behind;
	replica->divergence = m->divergence;
	if (m->held && !replica->held && c->pending_count)
		ctl_plan_now(c); /* its copies go before other pending transfers */
	replica->held = m->held != 0;
}

void ctl_replica_set(struct ctl_replica *replica, double div_max) {
	replica->div_set = div_max;
	replica->changed = div_max >= 0;
}

/* --- promotion ------------------------------------------------------------------------------------ */

void ctl_replica_stand_in(struct ctl_job *job) {
	struct ctl_replica *replica = &job->replica;
	uint64_t newest = hd_version_counter(job->newest);
	uint64_t has = hd_version_counter(replica->holds);

	assert(replica->holder);
	replica->version = replica->holds;
	replica->behind = newest > has ? (uint32_t)(newest - has) : 0;
	replica->divergence = -1;
}

static void calm_down(const struct hd_controller *c, struct ctl_replica *replica) {
	if (c->now >= hd_ns_add(replica->promoted_at, CTL_PROMOTE_CALM_NS))
		replica->swings = 0;
}

/* How long the server is waited for before the next promotion. */
static hd_ns patience(const struct hd_controller *c, const struct ctl_replica *replica) {
	hd_ns wait = CTL_PROMOTE_TIMES * (hd_ns)c->config.detection_us * HD_US;

	if (replica->swings == 0)
		return 0;
	for (uint32_t i = 1; i < replica->swings && i < CTL_PROMOTE_STEPS; i++)
		wait *= CTL_PROMOTE_TIMES;
	return wait;
}

/* A server that announced that it leaves is not coming back. One with another session may be the same process, which
 * lost the first session. */
bool ctl_replica_await(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_node *server,
	enum hd_reason reason
) {
	struct ctl_replica *replica = &job->replica;
	bool again = reason == HD_REASON_DUPLICATE || reason == HD_REASON_CLOSED;
	hd_ns wait;

	assert(job->server == server && replica->node && replica->caught_up);
	calm_down(c, replica);
	wait = hd_ns_max(patience(c, replica), again ? CTL_PROMOTE_ASK_NS : 0);
	if (wait == 0 || reason == HD_REASON_LEFT || hd_session_left(server->session))
		return false;
	replica->promote_at = hd_ns_add(c->now, wait);
	replica->awaited = hd_session_peer_boot(server->session);
	ctl_check_by(c, replica->promote_at);
	return true;
}

bool ctl_replica_is_awaiting(const struct ctl_job *job) {
	return job->replica.promote_at != HD_NEVER;
}

bool ctl_replica_is_awaited(const struct ctl_job *job, const struct ctl_node *node) {
	return ctl_replica_is_awaiting(job)
		&& hd_session_peer_boot(node->session) == job->replica.awaited;
}

void ctl_replica_resume(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct ctl_replica *replica = &job->replica;

	assert(job->server);
	if (ctl_replica_is_awaited(job, job->server))
		replica->promote_at = HD_NEVER;
	else if (ctl_replica_is_awaiting(job))
		ctl_replica_forget(c, job, sink);
	if (replica->alone)
		ctl_replica_send(c, job, job->server, HD_REPLICA_ALONE, replica->generation, sink);
	replica->alone = false;
}

void ctl_replica_promoted(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	if (!ctl_replica_is_awaiting(job)) /* no calm time passed while the server was awaited */
		calm_down(c, &job->replica);
	job->replica.swings++;
	job->replica.promoted_at = c->now;
	job->replica.promotions++;
	job->replica.promoted_divergence = job->replica.divergence;
	ctl_replica_drop(c, job, HD_REASON_CLOSED, sink);
	ctl_replica_holds(&job->replica, NULL, 0);
}

void ctl_replica_serve(
	struct hd_controller *c,
	struct ctl_job *job,
	uint64_t generation,
	struct hd_sink *sink
) {
	uint64_t serving = generation ? generation : ctl_generation_next(c);

	assert(job->server);
	if (job->replica.holder == job->server)
		job->replica.holder = NULL;
	if (job->serving != serving)
		ctl_kept_changed(c);
	job->serving = serving;
	ctl_replica_send(c, job, job->server, HD_REPLICA_SERVE, job->serving, sink);
}
