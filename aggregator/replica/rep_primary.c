/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's replica, as its server sees it.
 *
 *   KEEP (controller) --> link open --> state sent --> FOLLOW(version): active --> log, confirmations
 *                                          ^-- hole, restart of either, too far behind --'
 *   ALONE --> forgotten
 *
 * While the replica is active, the controller may promote it at any moment. Therefore, until the controller says that
 * it is no replica any more, durable means held by the replica, and no commit leads further than div_max away from it.
 */
#include "hd_kernels.h"
#include "rep_primary.h"
#include "srv_keep.h"
#include "srv_step.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

/* --- orders ----------------------------------------------------------------------------------- */

static void primary_new(
	struct srv_turn *turn,
	struct srv_job *job,
	const struct hd_msg_replica *order,
	struct rep_link *link
) {
	struct hd_server *server = turn->server;
	struct rep_primary *primary = calloc(1, sizeof *primary);

	assert(!job->primary && !job->replica);
	if (!primary) {
		rep_link_put(server, turn, link);
		return;
	}
	for (uint32_t i = 0; i < 2; i++) {
		primary->part[i].handle.kind = SRV_HANDLE_STATE_OUT;
		primary->part[i].primary = primary;
		primary->part[i].timer.kind = SRV_TIMER_STATE_SEND;
	}
	primary->timer.kind = SRV_TIMER_PRIMARY;
	primary->job = job;
	primary->link = link;
	/* Needs three timers; without them there is no replica, and none is reported to the controller. */
	if (hd_timers_reserve(&server->sends) < 0)
		goto fail_follow;
	if (hd_timers_reserve(&server->sends) < 0)
		goto fail_first;
	if (hd_timers_reserve(&server->timers) < 0)
		goto fail_second;
	hd_divergence_init(
		&primary->divergence,
		(double)job->spec.momentum,
		(double)job->spec.learning_rate * (double)job->spec.weight_decay,
		0,
		0
	);
	job->primary = primary;
	return;
fail_second:
	hd_timers_release(&server->sends, &primary->part[1].timer);
fail_first:
	hd_timers_release(&server->sends, &primary->part[0].timer);
fail_follow:
	rep_link_put(server, turn, link);
	free(primary);
}

static void primary_end(struct hd_server *server, struct srv_turn *turn, struct srv_job *job) {
	struct rep_primary *primary = job->primary;

	if (!primary)
		return;
	rep_state_end(server, primary);
	hd_timers_release(&server->sends, &primary->part[0].timer);
	hd_timers_release(&server->sends, &primary->part[1].timer);
	hd_timers_release(&server->timers, &primary->timer);
	job->primary = NULL;
	job->replicated = false;
	job->dirty = true; /* its distance no longer holds commits back */
	rep_link_put(server, turn, primary->link);
	free(primary);
}

void rep_primary_fini(struct srv_turn *turn, struct srv_job *job) {
	primary_end(turn->server, turn, job);
}

void rep_primary_free(struct hd_server *server, struct srv_job *job) {
	primary_end(server, NULL, job);
}

/* KEEP: starts replication, or changes the settings of the replica. */
void rep_primary_keep(
	struct srv_turn *turn,
	struct srv_job *job,
	const struct hd_msg_replica *order
) {
	struct hd_addr addr = {order->peer_ipv4, order->peer_port};
	struct rep_primary *primary = job->primary;
	struct rep_link *link;

	if (hd_addr_is_none(addr) || isnan(order->div_max)) {
		turn->server->stats.refused_messages++;
		return;
	}
	/* The replica is a new one, not the same with new settings. */
	if (!primary || !hd_addr_equal(primary->link->addr, addr)
	    || primary->generation != order->generation) {
		link = rep_link_get(turn, addr);
		if (!link)
			return;
		rep_primary_fini(turn, job);
		primary_new(turn, job, order, link);
		if (!job->primary)
			return;
	}
	primary = job->primary;
	srv_job_saw_generation(job, order->generation);
	primary->generation = order->generation;
	primary->rate_bps = order->rate_bps;
	primary->div_set = order->div_max;
	primary->due = primary->due || !primary->logs || primary->every != order->every;
	primary->every = order->every;
	job->dirty = true;
	rep_primary_consider(turn, job);
}

/* --- how far the replica may be --------------------------------------------------------------- */

static double primary_div_max(const struct rep_primary *primary) {
	double own = (double)primary->job->spec.div_max;

	return primary->div_set < 0 ? own : primary->div_set;
}

double rep_primary_divergence(const struct rep_primary *primary) {
	return primary->confirmed != 0 && primary->confirmed >= primary->origin ?
		hd_divergence_bound(&primary->divergence) :
		-1;
}

/* The norm of the update's step. Updates that came before there was a replica are measured here. */
static double primary_update(struct srv_incoming *in) {
	const double rate = (double)in->job->spec.learning_rate;

	if (in->state == SRV_STEPPED)
		return rate * sqrt(srv_step_norm2(in->job));
	return rate * sqrt(srv_incoming_norm2(in));
}

/* An update whose own step exceeds div_max is committed when the replica confirmed our very version: waiting longer
 * would not help. */
static bool primary_allows(const struct rep_primary *primary, struct srv_incoming *in) {
	double most = primary_div_max(primary);

	if (!primary->caught_up || !(most > 0) || primary->confirmed == in->job->version)
		return true;
	if (rep_primary_divergence(primary) < 0 || primary->divergence.count == HD_REPLICA_LAG_MAX)
		return false;
	return hd_divergence_after(&primary->divergence, primary_update(in) / in->steps, in->steps)
		<= most;
}

bool rep_primary_permits(struct srv_turn *turn, struct srv_job *job, struct srv_incoming *in) {
	struct rep_primary *primary = job->primary;
	bool allows;

	if (!primary)
		return true;
	(void)primary_update(in); /* a step's sum is scaled while applied: take its norm before */
	allows = primary_allows(primary, in);
	if (!allows && !primary->held)
		turn->server->stats.commits_held++;
	primary->held = !allows;
	/* Without a log only a state brings the replica nearer. */
	primary->due = primary->due || (!allows && primary->every > 0 && !primary->sending);
	return allows;
}

/* --- commits ---------------------------------------------------------------------------------- */

static void primary_origin(struct rep_primary *primary, struct srv_job *job) {
	primary->origin = job->version;
	hd_divergence_reset(&primary->divergence, sqrt(job->momentum2), sqrt(job->weights2));
}

static void
primary_step(struct rep_primary *primary, struct srv_job *job, double update, uint32_t steps) {
	struct hd_divergence *d = &primary->divergence;
	double momentum = sqrt(job->momentum2), weights = sqrt(job->weights2);
	struct hd_divergence_step step = {update, steps - 1, momentum, weights};

	if (primary->origin == 0)
		return; /* no state has been sent yet */
	if (d->count == HD_REPLICA_LAG_MAX) {
		/* Too many steps to bound, which only a job without div_max permits. A newer state starts a new
		 * bound. */
		primary_origin(primary, job);
		primary->due = true;
		return;
	}
	primary->versions[(d->first + d->count) % HD_REPLICA_LAG_MAX] = job->version;
	(void)hd_divergence_add(d, &step);
}

void rep_primary_committed(struct srv_turn *turn, struct srv_job *job, struct srv_incoming *in) {
	struct rep_primary *primary = job->primary;
	uint64_t counter = hd_version_counter(job->version);
	double update = primary_update(in);

	primary_step(primary, job, update / in->steps, in->steps);
	if (primary->logs && primary->every == 0 && primary->link->peer)
		rep_log_commit(turn, job, in, update);
	if (primary->every > 0 && !primary->sending
	    && counter - hd_version_counter(primary->sent) >= primary->every)
		primary->due = true;
}

/* --- the replica's messages ------------------------------------------------------------------- */

static void
primary_confirm(struct srv_turn *turn, struct rep_primary *primary, hd_version version) {
	struct hd_divergence *d = &primary->divergence;
	uint32_t count = 0;

	if (version <= primary->confirmed)
		return;
	primary->confirmed = version;
	primary->job->replicated_to = version;
	if (primary->sending && version >= primary->sent) {
		rep_state_end(
			turn->server, primary
		); /* its last acknowledgement may have been lost */
	}
	while (count < d->count
	       && primary->versions[(d->first + count) % HD_REPLICA_LAG_MAX] <= version)
		count++;
	hd_divergence_confirm(d, count);
	primary->job->dirty = true;
	srv_durable_update(turn, primary->job);
}

static bool primary_plausible(const struct rep_primary *primary, hd_version version) {
	hd_version now = primary->job->version;

	return hd_version_incarnation(version) == hd_version_incarnation(now) && version <= now;
}

/* Activates a replica that has everything that workers were told is durable and is within div_max. */
static void primary_activate(struct srv_turn *turn, struct rep_primary *primary) {
	double most = primary_div_max(primary), now = rep_primary_divergence(primary);
	struct srv_job *job = primary->job;

	if (primary->active || !primary->caught_up || primary->confirmed < job->durable
	    || (most > 0 && primary->confirmed != job->version && !(now >= 0 && now <= most)))
		return;
	primary->active = true;
	job->replicated = true;
	job->replicated_to = primary->confirmed;
	srv_durable_update(turn, job);
}

static void primary_state(
	struct srv_turn *turn,
	struct rep_primary *primary,
	const struct hd_msg_follow *message
) {
	struct srv_job *job = primary->job;
	bool has = message->state == HD_FOLLOW_CAUGHT_UP || message->state == HD_FOLLOW_HOLE;

	primary->state = message->state;
	primary->behind = message->behind;
	if (has && primary_plausible(primary, message->version)) {
		primary_confirm(turn, primary, message->version);
		primary->caught_up = primary->caught_up
			|| (primary->origin != 0 && primary->confirmed >= primary->origin);
		primary_activate(turn, primary);
	}
	if ((message->state == HD_FOLLOW_HOLE && !primary->sending)
	    || (message->state == HD_FOLLOW_NONE && primary->logs)) {
		rep_state_end(turn->server, primary);
		primary->due = true;
		primary->again_at = hd_ns_add(primary->sent_at, REP_RETRY_US * HD_US);
	}
	rep_primary_consider(turn, job);
}

enum rep_verdict rep_primary_message(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct hd_msg_follow *message
) {
	struct srv_job *job = srv_job_find(turn->server, message->job);

	if (!job || !job->primary || job->primary->link->peer != peer
	    || job->primary->generation != message->generation
	    || message->state >= HD_FOLLOW_STATE_COUNT) {
		turn->server->stats.refused_messages += job ? 1 : 0;
		return REP_DONE;
	}
	if (message->state == HD_FOLLOW_FENCED)
		return REP_RETIRE; /* last, because it may end the session */
	primary_state(turn, job->primary, message);
	return REP_DONE;
}

/* --- the controller --------------------------------------------------------------------------- */

static void primary_send_report(struct srv_turn *turn, const struct rep_primary *primary) {
	struct hd_message message = {.kind = HD_MSG_FOLLOW};

	message.follow = (struct hd_msg_follow){
		.job = primary->job->id,
		.generation = primary->generation,
		/* To the controller, caught up means that it may be promoted. */
		.state = primary->active                  ? (uint8_t)HD_FOLLOW_CAUGHT_UP :
			primary->logs || primary->sending ? (uint8_t)HD_FOLLOW_SEEDING :
							    (uint8_t)HD_FOLLOW_NONE,
		.version = primary->confirmed,
		.behind = primary->behind,
		.divergence = rep_primary_divergence(primary),
		.held = primary->held,
		.peer_ipv4 = primary->link->addr.ipv4,
		.peer_port = primary->link->addr.port,
	};
	srv_controller_send(turn, &message);
}

static void primary_tell(struct srv_turn *turn, struct rep_primary *primary) {
	hd_ns due = hd_ns_add(primary->reported_at, REP_TELL_US * HD_US);
	bool same = primary->reported_state == primary->state
		&& primary->reported_held == primary->held
		&& primary->reported_active == primary->active;

	if (!turn->server->upstream.registered
	    || (same && primary->reported_version == primary->confirmed))
		return;
	if (same && turn->now < due) {
		hd_timer_set(&turn->server->timers, &primary->timer, due);
		return;
	}
	primary->reported_at = turn->now;
	primary->reported_version = primary->confirmed;
	primary->reported_state = primary->state;
	primary->reported_held = primary->held;
	primary->reported_active = primary->active;
	primary_send_report(turn, primary);
}

void rep_primary_announce(struct srv_turn *turn, const struct srv_job *job) {
	if (job->primary)
		primary_send_report(turn, job->primary);
}

/* --- between two commits ---------------------------------------------------------------------- */

void rep_primary_consider(struct srv_turn *turn, struct srv_job *job) {
	struct rep_primary *primary = job->primary;
	hd_ns again;

	if (!primary)
		return;
	again = rep_link_again(turn, primary->link);
	if (again != HD_NEVER)
		hd_timer_set(&turn->server->timers, &primary->timer, again);
	if (primary->due && !primary->sending && primary->link->peer && !job->apply.in
	    && !job->restoring && job->phase != SRV_JOB_RETIRED) {
		if (turn->now < primary->again_at) {
			hd_timer_set(&turn->server->timers, &primary->timer, primary->again_at);
		} else {
			if (primary->origin == 0) {
				srv_state_measure(job);
				primary_origin(primary, job);
			}
			rep_state_begin(turn, primary);
		}
	}
	primary_tell(turn, primary);
}

/* --- its session ------------------------------------------------------------------------------ */

void rep_link_opened(struct srv_turn *turn, struct srv_peer *peer) {
	struct rep_link *link = rep_link_of(turn->server, peer->session);
	struct srv_job *job;

	if (!link)
		return;
	link->peer = peer;
	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		if (job->primary && job->primary->link == link) {
			job->primary->due = true;
			rep_primary_consider(turn, job);
		}
	}
}

void rep_link_closed(struct srv_turn *turn, const struct srv_peer *peer) {
	struct rep_link *link = rep_link_of(turn->server, peer->session);
	struct srv_job *job;

	if (!link)
		return;
	link->peer = NULL;
	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		if (!job->primary || job->primary->link != link)
			continue;
		rep_state_end(turn->server, job->primary);
		job->primary->logs = false;
		if (!job->primary->active && job->primary->caught_up) {
			job->primary->caught_up
				= false; /* it was never active: commits do not wait for it */
			job->dirty = true;
		}
	}
}

void rep_link_lost(struct srv_turn *turn, const struct hd_session *session) {
	struct rep_link *link = rep_link_of(turn->server, session);
	struct srv_job *job;

	if (!link)
		return;
	link->session = NULL;
	link->again_at = hd_ns_add(turn->now, REP_LINK_AGAIN_US * HD_US);
	TAILQ_FOREACH (job, &turn->server->jobs, link)
		if (job->primary && job->primary->link == link)
			hd_timer_set(&turn->server->timers, &job->primary->timer, link->again_at);
}

void rep_primary_timer(struct srv_turn *turn, struct hd_timer *timer) {
	struct rep_primary *primary = hd_container_of(timer, struct rep_primary, timer);

	rep_state_check(turn, primary);
	rep_primary_consider(turn, primary->job);
}
