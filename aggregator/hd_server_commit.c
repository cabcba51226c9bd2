/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commit rule. The queue has updates in the order of their positions; C is complete, o is not:
 *
 *     C1 C2 o3 C4 o5      C1, C2 are committed; C4 goes ahead of o3 only if o3 still meets its bound
 *                         when it comes right after: counter + 1 (C4) + k (before o3) + 1 - v(o3)
 *
 * A position that shows no life for hold_us while a complete update waits behind it is given up.
 */
#include "hd_server_internal.h"

enum hd_reason hd_commit_bound(const struct hd_job *job, hd_version base) {
	uint64_t next = hd_version_counter(job->version) + 1;

	if (!hd_job_knows(job, base)) {
		return HD_REASON_LOST_BASE;
	}
	return next - hd_version_counter(base) > job->spec.tau_max ? HD_REASON_LATE :
								     HD_REASON_NONE;
}

/* After all with positions that are not greater. Positions grow, so the place is near the tail. */
void hd_commit_queue(struct hd_incoming *in) {
	struct hd_incoming_list *queue = &in->job->queue;
	struct hd_incoming *before = TAILQ_LAST(queue, hd_incoming_list);

	if (in->direct) {
		in->position = before != NULL ? before->position : 0;
	}
	while (before != NULL && before->position > in->position) {
		before = TAILQ_PREV(before, hd_incoming_list, queue_link);
	}
	if (before != NULL) {
		TAILQ_INSERT_AFTER(queue, before, in, queue_link);
	} else {
		TAILQ_INSERT_HEAD(queue, in, queue_link);
	}
	in->queued = true;
}

/* --- telling --------------------------------------------------------------------------------- */

void hd_commit_outcome(
	struct hd_turn *turn,
	const struct hd_job *job,
	const struct hd_member *member,
	const struct hd_round *round
) {
	struct hd_message message = {.kind = HD_MSG_OUTCOME};

	message.outcome = (struct hd_msg_outcome){
		.job = job->id,
		.worker = member->rank,
		.round = round->round,
		.outcome = round->outcome,
		.reason = round->reason,
		.version = round->version,
		.delay = round->delay,
		.durable = job->durable,
	};
	hd_member_send(turn, member, &message);
}

void hd_commit_report(
	struct hd_turn *turn,
	const struct hd_incoming *in,
	const struct hd_round *round
) {
	struct hd_message message = {.kind = HD_MSG_REPORT};
	struct hd_msg_report *report = &message.report;

	if (turn->server->controller == NULL) {
		return;
	}
	*report = (struct hd_msg_report){
		.job = in->job->id,
		.worker = in->member->rank,
		.round = in->round,
		.direction = HD_PUSH,
		.attempt = in->attempt,
		.token = in->handle.token,
		.outcome = round->outcome,
		.reason = round->reason,
		.version = in->job->version,
		.position = in->direct ? 0 : in->position,
	};
	if (in->recv != NULL) {
		const struct hd_recv_stats *stats = hd_recv_stats(in->recv);

		report->bytes = stats->bytes_held;
		report->duration_ns = stats->last > stats->first ? stats->last - stats->first : 0;
		report->rate_bps = (uint64_t)hd_recv_rate_bps(in->recv);
		report->limited_permille = hd_recv_limited_permille(in->recv);
	}
	hd_controller_send(turn, &message);
}

/* --- completing ------------------------------------------------------------------------------ */

void hd_commit_complete(struct hd_turn *turn, struct hd_incoming *in) {
	struct hd_job *job = in->job;
	struct hd_event event = {
		.kind = HD_EVENT_RECV_END,
		.job = job->id,
		.worker = in->member->rank,
		.direction = HD_PUSH,
		.round = in->round,
		.token = in->handle.token,
		.position = in->direct ? 0 : in->position,
		.base = in->base,
		.bytes = in->bytes,
		.value = hd_recv_rate_bps(in->recv),
	};

	hd_turn_event(turn, &event);
	if (!in->queued) {
		hd_commit_queue(in);
	}
	job->dirty = true;
}

/* --- committing ------------------------------------------------------------------------------ */

static void hd_commit_log(struct hd_turn *turn, const struct hd_incoming *in, uint32_t delay) {
	struct hd_job *job = in->job;
	struct hd_event event = {
		.kind = HD_EVENT_COMMITTED,
		.job = job->id,
		.worker = in->member->rank,
		.direction = HD_PUSH,
		.round = in->round,
		.token = in->handle.token,
		.position = in->direct ? 0 : in->position,
		.version = job->version,
		.base = in->base,
		.bytes = in->bytes,
		.aux = delay,
		.value = (double)in->weight,
	};

	job->log[job->log_count++ % HD_COMMITS_KEPT] = (struct hd_commit){
		.position = event.position,
		.version = job->version,
		.base = in->base,
		.worker = in->member->rank,
		.round = in->round,
		.delay = delay,
		.weight = in->weight,
		.bytes = in->bytes,
	};
	hd_turn_event(turn, &event);
}

/* The whole step is in the buffers: from here on it is the model. */
static void hd_apply_end(struct hd_turn *turn, struct hd_job *job) {
	struct hd_server *server = turn->server;
	struct hd_incoming *in = job->apply.in;
	uint64_t counter = hd_version_counter(job->version) + 1;
	struct hd_round round = {
		.round = in->round,
		.outcome = HD_OUTCOME_APPLIED,
		.delay = (uint32_t)(counter - hd_version_counter(in->base)),
	};

	hd_apply_take(server, job);
	job->version = hd_version_make(hd_version_incarnation(job->version), counter);
	job->commits_since++;
	round.version = job->version;
	server->stats.committed++;
	hd_commit_log(turn, in, round.delay);
	hd_report_applied(job, in->member, round.delay, in->direct);
	hd_member_record(in->member, &round);
	hd_commit_outcome(turn, job, in->member, &round);
	hd_commit_report(turn, in, &round);
	hd_incoming_end(turn, in, true);
}

/* True when every incomplete update before `candidate` may still come right after it. Those that
 * could not be applied even if they came next have nothing to lose. */
static bool hd_commit_may_overtake(const struct hd_job *job, const struct hd_incoming *candidate) {
	uint64_t counter = hd_version_counter(job->version);
	const struct hd_incoming *in;
	uint64_t before = 0;

	TAILQ_FOREACH (in, &job->queue, queue_link) {
		if (in == candidate) {
			return true;
		}
		if (in->complete || hd_commit_bound(job, in->base) != HD_REASON_NONE) {
			continue;
		}
		if (counter + 1 + before + 1 - hd_version_counter(in->base) > job->spec.tau_max) {
			return false;
		}
		before++;
	}
	return true;
}

/* The first complete update, when the rule lets it go. */
static struct hd_incoming *hd_commit_next(const struct hd_job *job) {
	struct hd_incoming *in;

	TAILQ_FOREACH (in, &job->queue, queue_link) {
		if (in->complete && in->completed_at != 0) {
			break;
		}
	}
	if (in == NULL || !hd_commit_may_overtake(job, in)) {
		return NULL;
	}
	return in;
}

/* Updates that can no longer meet their bound are told at once: their senders may stop. */
static void hd_commit_drop_late(struct hd_turn *turn, struct hd_job *job) {
	struct hd_incoming *in = TAILQ_FIRST(&job->open), *next;

	for (; in != NULL; in = next) {
		enum hd_reason reason = hd_commit_bound(job, in->base);

		next = TAILQ_NEXT(in, open_link);
		if (reason != HD_REASON_NONE) {
			hd_incoming_fail(turn, in, reason);
		}
	}
}

/* --- hold ------------------------------------------------------------------------------------ */

/* Gives up the silent positions that a complete update waits for. Returns when to look again. */
static hd_ns hd_commit_hold(struct hd_turn *turn, struct hd_job *job, bool *voided) {
	hd_ns hold = (hd_ns)turn->server->config.hold_us * HD_US;
	struct hd_incoming *in, *next, *waits;
	hd_ns again = HD_NEVER;

	TAILQ_FOREACH (waits, &job->queue, queue_link) {
		if (waits->complete) {
			break;
		}
	}
	if (waits == NULL) {
		return HD_NEVER;
	}
	for (in = TAILQ_FIRST(&job->queue); in != waits; in = next) {
		hd_ns until = hd_ns_add(hd_ns_max(waits->completed_at, in->active), hold);

		next = TAILQ_NEXT(in, queue_link);
		if (in->predecessor != NULL) {
			/* Its turn has not come: its predecessor is watched instead. */
			until = hd_ns_add(turn->now, hold);
		}
		if (until <= turn->now) {
			*voided = true;
			hd_incoming_fail(turn, in, HD_REASON_HOLD);
		} else {
			again = hd_ns_min(again, until);
		}
	}
	return again;
}

/* Updates that are held whole but must wait: the network they took is free, and the controller told. */
static void hd_commit_report_pending(struct hd_turn *turn, struct hd_job *job) {
	struct hd_incoming *in;

	TAILQ_FOREACH (in, &job->queue, queue_link) {
		if (in->complete && !in->pending) {
			struct hd_round round = {.outcome = HD_OUTCOME_PENDING};

			in->pending = true;
			hd_commit_report(turn, in, &round);
		}
	}
}

/* Commits what the rule lets go. False: the call's step was used up before that. */
static bool hd_commit_all(struct hd_turn *turn, struct hd_job *job) {
	struct hd_server *server = turn->server;
	struct hd_incoming *in;

	while (job->apply.in != NULL || !server->draining) {
		in = job->apply.in != NULL ? job->apply.in : hd_commit_next(job);
		if (in == NULL) {
			return true;
		}
		if (server->step_left == 0) {
			return false;
		}
		if (job->apply.in == NULL) {
			server->stats.overtaken += in != TAILQ_FIRST(&job->queue) ? 1 : 0;
			hd_apply_begin(job, in);
		}
		if (!hd_apply_step(server, job)) {
			return false;
		}
		hd_apply_end(turn, job);
		hd_commit_drop_late(turn, job);
		hd_checkpoint_consider(turn, job, false);
		if (!TAILQ_EMPTY(&server->starved_pulls)) {
			hd_pull_feed(turn); /* who waited for a whole version gets this one */
		}
	}
	return true;
}

void hd_commit_run(struct hd_turn *turn, struct hd_job *job) {
	hd_ns again = HD_NEVER;
	bool voided = true;

	while (voided) {
		voided = false;
		if (!hd_commit_all(turn, job)) {
			hd_commit_report_pending(turn, job);
			return; /* still dirty */
		}
		if (!turn->server->draining) {
			again = hd_commit_hold(turn, job, &voided);
		}
	}
	hd_commit_report_pending(turn, job);
	hd_timer_set(&turn->server->timers, &job->hold, again);
	job->dirty = false;
}
