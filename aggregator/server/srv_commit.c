/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commit rule. The queue has updates in the order of their positions; C is complete, o is not:
 *
 *   C1 C2 o3 C4 o5      C1, C2 are committed; C4 goes ahead of o3 only if o3 still meets its bound
 *                       when it comes right after: counter + 1 (C4) + k (before o3) + 1 - v(o3)
 *
 * A sum of k counts as k: each of its parts has a version of its own, and the same bound.
 *
 * A position that makes no progress for hold_us while a complete update waits behind it is given up.
 */
#include "hd_group.h"
#include "srv_apply.h"
#include "srv_assignment.h"
#include "srv_keep.h"
#include "srv_peer.h"
#include "srv_pull.h"
#include "srv_replica.h"
#include "srv_step.h"
#include "srv_update.h"

#include <assert.h>

/* --- committing ------------------------------------------------------------------------------- */

/* `round` is the outcome of the part. */
static void commit_log(
	struct srv_turn *turn,
	const struct srv_part *part,
	const struct srv_round *round,
	uint16_t more
) {
	const struct srv_incoming *in = part->in;
	struct srv_job *job = in->job;
	struct hd_event event = srv_incoming_event(in, HD_EVENT_COMMITTED);

	event.worker = part->member->rank;
	event.round = part->round;
	event.token = in->kind == SRV_SUM ? part->handle.token : in->handle.token;
	event.position += event.position != 0 ? (uint64_t)(part - in->parts) : 0;
	event.version = round->version;
	event.base = part->base;
	event.aux = round->delay;
	event.value = (double)(part->weight * in->scale);
	event.more = more;
	job->log[job->log_count++ % HD_COMMITS_KEPT] = (struct hd_commit){
		.position = event.position,
		.version = round->version,
		.base = part->base,
		.worker = part->member->rank,
		.round = part->round,
		.delay = round->delay,
		.weight = part->weight * in->scale,
		.bytes = in->bytes,
		.more = more,
	};
	srv_turn_event(turn, &event);
}

/* `more` further updates of the same step follow. */
static void
part_applied(struct srv_turn *turn, const struct srv_part *part, uint64_t counter, uint32_t more) {
	const struct srv_incoming *in = part->in;
	struct srv_job *job = in->job;
	struct srv_round round = {
		.round = part->round,
		.outcome = HD_OUTCOME_APPLIED,
		.delay = srv_commit_delay(part, counter),
		.version = hd_version_make(hd_version_incarnation(job->version), counter),
	};

	commit_log(turn, part, &round, (uint16_t)more);
	srv_summary_applied(turn->server, job, part->member, round.delay, in->kind == SRV_DIRECT);
	srv_member_record(part->member, &round);
	srv_commit_outcome(turn, job, part->member, &round);
}

/* The whole update is in the buffers: makes it the model. The version is that of its last part. */
static void apply_end(struct srv_turn *turn, struct srv_job *job) {
	struct hd_server *server = turn->server;
	struct srv_incoming *in = job->apply.in;
	uint64_t counter = hd_version_counter(job->version);
	const struct srv_round round = {.outcome = HD_OUTCOME_APPLIED};
	uint32_t parts = srv_commit_parts(in), done = 0;
	bool stepped = in->state == SRV_STEPPED;
	struct srv_incoming *one, *next;

	srv_apply_take(server, job, parts);
	job->commits_since += parts;
	server->stats.committed += parts;
	if (stepped)
		srv_step_event(turn, job);
	for (one = in; one; one = srv_commit_after(one)) {
		server->stats.sums += one->kind == SRV_SUM ? 1 : 0;
		for (uint16_t i = 0; i < one->part_count; i++, done++)
			part_applied(turn, &one->parts[i], counter + 1 + done, parts - 1 - done);
	}
	if (job->primary)
		rep_ops.committed(turn, job, in);
	if (stepped) {
		server->stats.sync_steps++;
		srv_step_tell(turn, job);
	}
	for (one = in; one; one = next) {
		next = srv_commit_after(one);
		srv_commit_report(turn, one, &round);
		srv_incoming_end(turn, one, true);
	}
	srv_federated_ended(turn, job);
	srv_step_end(job);
}

/* True when every incomplete update before `candidate` may still come right after it. Updates that would be late even
 * if they came next do not count. */
static bool commit_may_overtake(const struct srv_job *job, const struct srv_incoming *candidate) {
	const struct srv_incoming *in;
	uint64_t before = candidate->part_count; /* versions */

	TAILQ_FOREACH (in, &job->queue, queue_link) {
		if (in == candidate)
			return true;
		if (srv_incoming_is_whole(in) || srv_commit_bounds(job, in, 0) != HD_REASON_NONE)
			continue;
		if (srv_commit_bounds(job, in, before) != HD_REASON_NONE)
			return false;
		before += in->part_count;
	}
	return true;
}

/* The first complete update, if the rule allows it. */
static struct srv_incoming *commit_next(const struct srv_job *job) {
	struct srv_incoming *in;

	TAILQ_FOREACH (in, &job->queue, queue_link)
		if (in->state == SRV_READY)
			break;
	if (!in || !commit_may_overtake(job, in))
		return NULL;
	return in;
}

/* Drops updates that can no longer meet their bound at once, so that their senders can stop. */
static void commit_drop_late(struct srv_turn *turn, struct srv_job *job) {
	struct srv_incoming *in = TAILQ_FIRST(&job->open), *next;

	for (; in; in = next) {
		enum hd_reason reason = srv_commit_bounds(job, in, 0);

		next = TAILQ_NEXT(in, open_link);
		/* The base of an unspent credit is not known yet. */
		if (reason != HD_REASON_NONE && !srv_credit_unspent(in))
			srv_push_fail(turn, in, reason, NULL);
	}
}

/* --- hold ------------------------------------------------------------------------------------- */

/* The complete update that waits. *end: where the positions that hold it up end; NULL: for a step, all of them do. */
static const struct srv_incoming *
commit_waits(const struct srv_job *job, const struct srv_incoming **end) {
	const struct srv_incoming *waits;

	*end = NULL;
	if (job->spec.sync != HD_SYNC_NONE)
		return TAILQ_FIRST(&job->step.members);
	TAILQ_FOREACH (waits, &job->queue, queue_link)
		if (srv_incoming_is_whole(waits))
			break;
	*end = waits;
	return waits;
}

/* Gives up silent positions that a complete update waits for. Returns when to look again. */
static hd_ns commit_hold(struct srv_turn *turn, struct srv_job *job, bool *voided) {
	hd_ns hold = (hd_ns)turn->server->config.hold_us * HD_US;
	const struct srv_incoming *end, *waits = commit_waits(job, &end);
	struct srv_incoming *in, *next;
	hd_ns again = HD_NEVER;

	if (!waits)
		return HD_NEVER;
	for (in = TAILQ_FIRST(&job->queue); in != end; in = next) {
		hd_ns until = hd_ns_add(hd_ns_max(waits->completed_at, in->active), hold);

		next = TAILQ_NEXT(in, queue_link);
		if (srv_incoming_is_whole(in))
			continue;
		if (in->predecessor) {
			/* It waits for its predecessor, which is watched instead. */
			until = hd_ns_add(turn->now, hold);
		}
		if (until <= turn->now) {
			*voided = true;
			srv_push_fail(turn, in, HD_REASON_HOLD, NULL);
		} else {
			again = hd_ns_min(again, until);
		}
	}
	return again;
}

/* Reports complete updates that must wait: their network reservations are free again. */
static void commit_report_waiting(struct srv_turn *turn, const struct srv_incoming_list *list) {
	struct srv_incoming *in;

	TAILQ_FOREACH (in, list, queue_link) {
		if (srv_incoming_is_whole(in) && !in->pending) {
			struct srv_round round = {.outcome = HD_OUTCOME_PENDING};

			in->pending = true;
			srv_commit_report(turn, in, &round);
		}
	}
}

static void commit_report_pending(struct srv_turn *turn, const struct srv_job *job) {
	commit_report_waiting(turn, &job->queue);
	commit_report_waiting(turn, &job->step.members);
}

/* Commits what the rule allows. False: the call's budget was used up before. */
static bool commit_all(struct srv_turn *turn, struct srv_job *job) {
	struct hd_server *server = turn->server;
	struct srv_incoming *in;

	while (job->apply.in || !server->draining) {
		if (!job->apply.in && job->spec.sync != HD_SYNC_NONE && !srv_step_gather(turn, job))
			return false;
		in = job->apply.in                     ? job->apply.in :
			job->spec.sync != HD_SYNC_NONE ? srv_step_due(turn, job) :
							 commit_next(job);
		if (!in || (!job->apply.in && !rep_ops.permits(turn, job, in)))
			return true;
		if (server->apply_left == 0)
			return false;
		if (!job->apply.in) {
			server->stats.overtaken
				+= in->state != SRV_STEPPED && in != TAILQ_FIRST(&job->queue) ? 1 :
												0;
			srv_apply_begin(job, in);
		}
		if (!srv_apply_slice(server, job))
			return false;
		apply_end(turn, job);
		commit_drop_late(turn, job);
		srv_checkpoint_consider(turn, job, false);
		rep_ops.consider(turn, job);
		if (!TAILQ_EMPTY(&server->starved_pulls))
			srv_pull_feed(turn); /* pulls that waited for a whole version */
	}
	return true;
}

/* The replica was promoted: this node is the job's server from here on. */
static void commit_serves(struct srv_turn *turn, struct srv_job *job) {
	assert(!job->replica);
	srv_job_idle(turn, job); /* until a worker joins */
	srv_announce(turn, job);
	srv_job_joined(turn, job);
	srv_assignment_ask_joins(turn->server, job->id); /* early workers join again */
	srv_checkpoint_consider(turn, job, true);
}

void srv_commit_run(struct srv_turn *turn, struct srv_job *job) {
	hd_ns again = HD_NEVER;
	enum rep_run run;
	bool voided = true;

	if (job->replica) {
		run = rep_ops.run(turn, job);
		if (run == REP_RUN_SERVES)
			commit_serves(turn, job);
		job->dirty = run == REP_RUN_UNFINISHED;
		return;
	}
	while (voided) {
		voided = false;
		if (!commit_all(turn, job)) {
			commit_report_pending(turn, job);
			return; /* still dirty */
		}
		if (!turn->server->draining)
			again = commit_hold(turn, job, &voided);
	}
	commit_report_pending(turn, job);
	rep_ops.consider(turn, job); /* a commit may be held for the replica */
	again = hd_ns_min(again, srv_step_watch(turn, job));
	again = hd_ns_min(again, srv_federated_deadline(job));
	hd_timer_set(&turn->server->timers, &job->hold, again);
	job->dirty = false;
}
