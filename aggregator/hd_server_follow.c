/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's replica, as its server sees it.
 *
 *   KEEP (controller) --> link open --> state sent --> FOLLOW(version): active --> log, confirmations
 *                                          ^-- hole, restart of either, too far behind --'
 *   ALONE --> forgotten
 *
 * While it is active the controller may promote it at any moment. So from then on, and until the controller's word
 * that it is no longer so, durable means on the replica, and no commit may lead further from it than div_max.
 */
#include "hd_kernels.h"
#include "hd_replica.h"
#include "hd_server_credit.h"
#include "hd_server_end.h"
#include "hd_server_step.h"

#include <errno.h>
#include <math.h>

/* --- orders ----------------------------------------------------------------------------------- */

static void hd_follow_new(
	struct hd_turn *turn,
	struct hd_job *job,
	const struct hd_msg_replica *order,
	struct hd_link *link
) {
	struct hd_server *server = turn->server;
	struct hd_follow *follow = calloc(1, sizeof(*follow));

	if (follow == NULL) {
		hd_link_put(server, turn, link);
		return;
	}
	for (uint32_t i = 0; i < 2; i++) {
		follow->part[i].handle.kind = HD_HANDLE_SEED_OUT;
		follow->part[i].follow = follow;
		follow->part[i].timer.kind = HD_TIMER_SEED_SEND;
	}
	follow->timer.kind = HD_TIMER_FOLLOW;
	follow->job = job;
	follow->link = link;
	/* Three timers; without room for them there is no replica, and the controller hears of none. */
	if (hd_timers_reserve(&server->sends) < 0) {
		goto fail_follow;
	}
	if (hd_timers_reserve(&server->sends) < 0) {
		goto fail_first;
	}
	if (hd_timers_reserve(&server->timers) < 0) {
		goto fail_second;
	}
	hd_divergence_init(
		&follow->divergence,
		(double)job->spec.momentum,
		(double)job->spec.learning_rate * (double)job->spec.weight_decay,
		0,
		0
	);
	job->follow = follow;
	return;
fail_second:
	hd_timers_release(&server->sends, &follow->part[1].timer);
fail_first:
	hd_timers_release(&server->sends, &follow->part[0].timer);
fail_follow:
	hd_link_put(server, turn, link);
	free(follow);
}

static void hd_follow_end(struct hd_server *server, struct hd_turn *turn, struct hd_job *job) {
	struct hd_follow *follow = job->follow;

	if (follow == NULL) {
		return;
	}
	hd_seed_end(server, follow);
	hd_timers_release(&server->sends, &follow->part[0].timer);
	hd_timers_release(&server->sends, &follow->part[1].timer);
	hd_timers_release(&server->timers, &follow->timer);
	job->follow = NULL;
	job->dirty = true; /* nothing holds commits any more */
	hd_link_put(server, turn, follow->link);
	free(follow);
}

void hd_follow_fini(struct hd_turn *turn, struct hd_job *job) {
	hd_follow_end(turn->server, turn, job);
}

void hd_follow_free(struct hd_server *server, struct hd_job *job) {
	hd_follow_end(server, NULL, job);
}

/* Norms from here on; one pass, and nobody sees the model between two steps. */
static void hd_follow_norms(struct hd_job *job) {
	job->momentum2 = hd_norm2_f32(job->momentum->data, job->values);
	job->weights2 = hd_norm2_f32(job->model->data, job->values);
}

static void
hd_follow_keep(struct hd_turn *turn, struct hd_job *job, const struct hd_msg_replica *order) {
	struct hd_addr addr = {order->peer_ipv4, order->peer_port};
	struct hd_follow *follow = job->follow;
	struct hd_link *link;

	if (hd_addr_is_none(addr) || isnan(order->div_max)) {
		turn->server->stats.refused_messages++;
		return;
	}
	/* The same replica, and new settings. */
	if (follow == NULL || !hd_addr_equal(follow->link->addr, addr)
	    || follow->generation != order->generation) {
		link = hd_link_get(turn, addr);
		if (link == NULL) {
			return;
		}
		hd_follow_fini(turn, job);
		hd_follow_new(turn, job, order, link);
		if (job->follow == NULL) {
			return;
		}
	}
	follow = job->follow;
	hd_job_told(job, order->generation);
	follow->generation = order->generation;
	follow->rate_bps = order->rate_bps;
	follow->div_set = order->div_max;
	follow->due = follow->due || !follow->logs || follow->every != order->every;
	follow->every = order->every;
	job->dirty = true;
	hd_follow_consider(turn, job);
}

/* Another node is its server. What workers have here is worth nothing any more: their sessions end. */
void hd_job_retire(struct hd_turn *turn, struct hd_job *job) {
	struct hd_peer *peer;

	hd_follow_fini(turn, job);
	/* Who joins all the same must not begin it from an old checkpoint. */
	hd_mirror_may(turn->server, job->id, false, job->generation);
	job->retired = true;
	turn->server->retiring = true;
	TAILQ_FOREACH (peer, &turn->server->peers, link) {
		if (peer->job == job) {
			hd_peer_detach(turn, peer, HD_REASON_CLOSED);
			hd_peer_break(turn->server, peer, "another node is the job's server");
		}
	}
	job->emptied = false;
}

void hd_follow_order(struct hd_turn *turn, const struct hd_msg_replica *order) {
	struct hd_job *job = hd_job_find(turn->server, order->job);

	if (order->epoch < turn->server->epoch || order->order >= HD_REPLICA_ORDER_COUNT) {
		turn->server->stats.refused_messages++;
		return;
	}
	if (order->order == HD_REPLICA_SERVE) {
		hd_mirror_serve(turn, order);
		return;
	}
	if (order->order == HD_REPLICA_END || order->order == HD_REPLICA_EVICT) {
		hd_job_end_order(turn, order->job, order->order == HD_REPLICA_EVICT);
		return;
	}
	if (job == NULL && order->order == HD_REPLICA_RETIRE) {
		hd_mirror_may(turn->server, order->job, false, order->generation);
		return;
	}
	if (job == NULL || job->retired) {
		return;
	}
	if (order->order == HD_REPLICA_RETIRE) {
		/* A copy of an assignment that is newer than this word stays. */
		if (job->mirror == NULL || job->mirror->generation <= order->generation) {
			hd_job_retire(turn, job);
		}
		return;
	}
	if (job->mirror != NULL
	    || (job->follow != NULL && job->follow->generation > order->generation)) {
		return;
	}
	if (order->order == HD_REPLICA_KEEP) {
		hd_follow_keep(turn, job, order);
		return;
	}
	hd_job_told(job, order->generation);
	hd_follow_fini(turn, job);
	hd_durable_update(turn, job);
}

/* --- durable ---------------------------------------------------------------------------------- */

/* A job that was begun while its controller could not be heard may be another node's: then all that is done here is
 * lost, checkpoints too. So is what is still being written when it has become another one's. */
static bool hd_job_is_ours(const struct hd_server *server, const struct hd_job *job) {
	return !job->retired && (job->confirmed || hd_addr_is_none(server->config.controller));
}

void hd_durable_update(struct hd_turn *turn, struct hd_job *job) {
	bool followed = job->follow != NULL && job->follow->active;
	hd_version durable = followed ? job->follow->confirmed : job->saved;
	struct hd_event event = {.kind = HD_EVENT_DURABLE, .job = job->id};

	if (durable <= job->durable || !hd_job_is_ours(turn->server, job)) {
		return;
	}
	job->durable = durable;
	event.version = durable;
	event.bytes = 2 * job->bytes;
	hd_turn_event(turn, &event);
	hd_durable_tell(turn, job);
}

void hd_job_confirm(struct hd_turn *turn, struct hd_job *job) {
	job->confirmed = true;
	job->asking = false;
	hd_durable_update(turn, job);
	hd_job_joined(turn, job);
}

void hd_job_alone(struct hd_turn *turn, struct hd_job *job) {
	struct hd_event event
		= {.kind = HD_EVENT_FALLBACK, .job = job->id, .version = job->version};

	job->asking = false;
	turn->server->stats.begun_alone++;
	hd_turn_event(turn, &event);
}

void hd_jobs_alone(struct hd_turn *turn) {
	struct hd_job *job;

	TAILQ_FOREACH (job, &turn->server->jobs, link) {
		if (job->asking) {
			hd_job_alone(turn, job);
			hd_job_joined(turn, job);
		}
	}
}

/* --- how far the replica may be ----------------------------------------------------------------- */

static double hd_follow_div_max(const struct hd_follow *follow) {
	double own = (double)follow->job->spec.div_max;

	return follow->div_set < 0 ? own : follow->div_set;
}

double hd_follow_divergence(const struct hd_follow *follow) {
	return follow->confirmed != 0 && follow->confirmed >= follow->origin ?
		hd_divergence_bound(&follow->divergence) :
		-1;
}

/* Counted as it came; what came before there was a replica, now. */
static double hd_follow_update(struct hd_incoming *in) {
	const double rate = (double)in->job->spec.learning_rate;
	const uint8_t *data;
	uint32_t full;

	if (in->stepped) {
		return rate * sqrt(hd_step_norm2(in->job));
	}
	if (!in->normed) {
		full = hd_recv_chunk_bytes(in->recv);
		data = (const uint8_t *)in->buffer->data;
		in->norm2 = 0;
		for (uint64_t at = 0; at < in->bytes; at += full) {
			uint64_t left = in->bytes - at;

			in->norm2 += hd_payload_norm2(
				in->job, in->dtype, data + at, left < full ? (size_t)left : full
			);
		}
		in->normed = true;
	}
	return rate * sqrt(in->norm2);
}

/* Its own step may be more than div_max allows: then it goes when the replica is at the very version, as waiting longer
 * would help nobody. */
static bool hd_follow_allows(const struct hd_follow *follow, struct hd_incoming *in) {
	double most = hd_follow_div_max(follow);

	if (!follow->stepping || !(most > 0) || follow->confirmed == in->job->version) {
		return true;
	}
	if (hd_follow_divergence(follow) < 0 || follow->divergence.count == HD_REPLICA_LAG_MAX) {
		return false;
	}
	return hd_divergence_after(&follow->divergence, hd_follow_update(in) / in->steps, in->steps)
		<= most;
}

bool hd_follow_permits(struct hd_turn *turn, struct hd_job *job, struct hd_incoming *in) {
	struct hd_follow *follow = job->follow;
	bool allows;

	if (follow == NULL) {
		return true;
	}
	(void)hd_follow_update(in
	); /* the sum of a step is scaled while it is applied: its norm is taken before */
	allows = hd_follow_allows(follow, in);
	if (!allows && !follow->held) {
		turn->server->stats.commits_held++;
	}
	follow->held = !allows;
	/* Without a log only a state brings it nearer. */
	follow->due = follow->due || (!allows && follow->every > 0 && !follow->seeding);
	return allows;
}

/* --- commits ---------------------------------------------------------------------------------- */

static void hd_follow_origin(struct hd_follow *follow, struct hd_job *job) {
	follow->origin = job->version;
	hd_divergence_reset(&follow->divergence, sqrt(job->momentum2), sqrt(job->weights2));
}

static void
hd_follow_step(struct hd_follow *follow, struct hd_job *job, double update, uint32_t steps) {
	struct hd_divergence *d = &follow->divergence;
	double momentum = sqrt(job->momentum2), weights = sqrt(job->weights2);
	struct hd_divergence_step step = {update, steps - 1, momentum, weights};

	if (follow->origin == 0) {
		return; /* no state is on its way yet */
	}
	if (d->count == HD_REPLICA_LAG_MAX) {
		/* Out of sight, which only a job without a bound permits. A newer state brings it back. */
		hd_follow_origin(follow, job);
		follow->due = true;
		return;
	}
	follow->versions[(d->first + d->count) % HD_REPLICA_LAG_MAX] = job->version;
	(void)hd_divergence_add(d, &step);
}

void hd_follow_committed(struct hd_turn *turn, struct hd_job *job, struct hd_incoming *in) {
	struct hd_follow *follow = job->follow;
	uint64_t counter = hd_version_counter(job->version);
	double update = hd_follow_update(in);

	hd_follow_step(follow, job, update / in->steps, in->steps);
	if (follow->logs && follow->every == 0 && follow->link->peer != NULL) {
		hd_log_commit(turn, job, in, update);
	}
	if (follow->every > 0 && !follow->seeding
	    && counter - hd_version_counter(follow->seed) >= follow->every) {
		follow->due = true;
	}
}

/* --- the replica's words ------------------------------------------------------------------------ */

static void hd_follow_confirm(struct hd_turn *turn, struct hd_follow *follow, hd_version version) {
	struct hd_divergence *d = &follow->divergence;
	uint32_t count = 0;

	if (version <= follow->confirmed) {
		return;
	}
	follow->confirmed = version;
	if (follow->seeding && version >= follow->seed) {
		hd_seed_end(turn->server, follow); /* also when its last acknowledgement was lost */
	}
	while (count < d->count
	       && follow->versions[(d->first + count) % HD_REPLICA_LAG_MAX] <= version) {
		count++;
	}
	hd_divergence_confirm(d, count);
	follow->job->dirty = true;
	hd_durable_update(turn, follow->job);
}

static bool hd_follow_plausible(const struct hd_follow *follow, hd_version version) {
	hd_version now = follow->job->version;

	return hd_version_incarnation(version) == hd_version_incarnation(now) && version <= now;
}

/* It must have what workers were told to be durable, and be as near as it is to stay. */
static void hd_follow_activate(struct hd_turn *turn, struct hd_follow *follow) {
	double most = hd_follow_div_max(follow), now = hd_follow_divergence(follow);
	struct hd_job *job = follow->job;

	if (follow->active || !follow->stepping || follow->confirmed < job->durable
	    || (most > 0 && follow->confirmed != job->version && !(now >= 0 && now <= most))) {
		return;
	}
	follow->active = true;
	hd_durable_update(turn, job);
}

static void hd_follow_state(
	struct hd_turn *turn,
	struct hd_follow *follow,
	const struct hd_msg_follow *message
) {
	struct hd_job *job = follow->job;
	bool has = message->state == HD_FOLLOW_STEP || message->state == HD_FOLLOW_HOLE;

	follow->state = message->state;
	follow->behind = message->behind;
	if (has && hd_follow_plausible(follow, message->version)) {
		hd_follow_confirm(turn, follow, message->version);
		follow->stepping = follow->stepping
			|| (follow->origin != 0 && follow->confirmed >= follow->origin);
		hd_follow_activate(turn, follow);
	}
	if ((message->state == HD_FOLLOW_HOLE && !follow->seeding)
	    || (message->state == HD_FOLLOW_NONE && follow->logs)) {
		hd_seed_end(turn->server, follow);
		follow->due = true;
		follow->again_at = hd_ns_add(follow->seed_at, HD_FOLLOW_RETRY_US * HD_US);
	}
	hd_follow_consider(turn, job);
}

void hd_follow_message(
	struct hd_turn *turn,
	struct hd_peer *peer,
	const struct hd_msg_follow *message
) {
	struct hd_job *job = hd_job_find(turn->server, message->job);

	if (job == NULL || job->follow == NULL || job->follow->link->peer != peer
	    || job->follow->generation != message->generation
	    || message->state >= HD_FOLLOW_STATE_COUNT) {
		turn->server->stats.refused_messages += job != NULL ? 1 : 0;
		return;
	}
	if (message->state == HD_FOLLOW_FENCED) {
		hd_job_retire(turn, job);
		return;
	}
	hd_follow_state(turn, job->follow, message);
}

/* --- the controller ------------------------------------------------------------------------------ */

static void hd_follow_say(struct hd_turn *turn, const struct hd_follow *follow) {
	struct hd_message message = {.kind = HD_MSG_FOLLOW};

	message.follow = (struct hd_msg_follow){
		.job = follow->job->id,
		.generation = follow->generation,
		/* In step for the controller is what may be promoted. */
		.state = follow->active                 ? (uint8_t)HD_FOLLOW_STEP :
			follow->logs || follow->seeding ? (uint8_t)HD_FOLLOW_SEEDING :
							  (uint8_t)HD_FOLLOW_NONE,
		.version = follow->confirmed,
		.behind = follow->behind,
		.divergence = hd_follow_divergence(follow),
		.held = follow->held,
		.peer_ipv4 = follow->link->addr.ipv4,
		.peer_port = follow->link->addr.port,
	};
	hd_controller_send(turn, &message);
}

static void hd_follow_tell(struct hd_turn *turn, struct hd_follow *follow) {
	hd_ns due = hd_ns_add(follow->told_at, HD_FOLLOW_TELL_US * HD_US);
	bool same = follow->told_state == follow->state && follow->told_held == follow->held
		&& follow->told_active == follow->active;

	if (!turn->server->registered || (same && follow->told_version == follow->confirmed)) {
		return;
	}
	if (same && turn->now < due) {
		hd_timer_set(&turn->server->timers, &follow->timer, due);
		return;
	}
	follow->told_at = turn->now;
	follow->told_version = follow->confirmed;
	follow->told_state = follow->state;
	follow->told_held = follow->held;
	follow->told_active = follow->active;
	hd_follow_say(turn, follow);
}

void hd_follow_announce(struct hd_turn *turn, const struct hd_job *job) {
	if (job->follow != NULL) {
		hd_follow_say(turn, job->follow);
	}
}

/* --- between two commits -------------------------------------------------------------------------- */

void hd_follow_consider(struct hd_turn *turn, struct hd_job *job) {
	struct hd_follow *follow = job->follow;
	hd_ns again;

	if (follow == NULL) {
		return;
	}
	again = hd_link_again(turn, follow->link);
	if (again != HD_NEVER) {
		hd_timer_set(&turn->server->timers, &follow->timer, again);
	}
	if (follow->due && !follow->seeding && follow->link->peer != NULL && job->apply.in == NULL
	    && !job->restoring && !job->retired) {
		if (turn->now < follow->again_at) {
			hd_timer_set(&turn->server->timers, &follow->timer, follow->again_at);
		} else {
			if (follow->origin == 0) {
				hd_follow_norms(job);
				hd_follow_origin(follow, job);
			}
			hd_seed_begin(turn, follow);
		}
	}
	hd_follow_tell(turn, follow);
}
