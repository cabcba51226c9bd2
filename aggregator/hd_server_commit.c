/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commit rule. The queue has updates in the order of their positions; C is complete, o is not:
 *
 *     C1 C2 o3 C4 o5      C1, C2 are committed; C4 goes ahead of o3 only if o3 still meets its bound
 *                         when it comes right after: counter + 1 (C4) + k (before o3) + 1 - v(o3)
 *
 * A sum of k counts as k: each of its parts has a version of its own, and the same bound.
 *
 * A position that shows no life for hold_us while a complete update waits behind it is given up.
 */
#include "hd_group.h"
#include "hd_replica.h"
#include "hd_server_apply.h"
#include "hd_server_credit.h"
#include "hd_server_pull.h"
#include "hd_server_roster.h"
#include "hd_server_step.h"

#include <float.h>
#include <math.h>

enum hd_reason hd_commit_bound(const struct hd_job *job, hd_version base, uint64_t ahead) {
	uint64_t next = hd_version_counter(job->version) + 1 + ahead;

	if (!hd_job_knows(job, base)) {
		return HD_REASON_LOST_BASE;
	}
	if (job->spec.sync != HD_SYNC_NONE) {
		/* A step that has ended takes no more, unless what is late counts; another life of the server may have begun
		 * with that very model. */
		return hd_rounds_late(job, base) == UINT32_MAX ? HD_REASON_LATE : HD_REASON_NONE;
	}
	return next - hd_version_counter(base) > hd_job_tau(job) ? HD_REASON_LATE : HD_REASON_NONE;
}

enum hd_reason
hd_commit_bounds(const struct hd_job *job, const struct hd_incoming *in, uint64_t ahead) {
	enum hd_reason reason = HD_REASON_NONE;

	for (uint16_t i = 0; reason == HD_REASON_NONE && i < in->part_count; i++) {
		reason = hd_commit_bound(job, in->parts[i].base, ahead + i);
	}
	return reason;
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

static void hd_commit_say_report(
	struct hd_turn *turn,
	const struct hd_incoming *in,
	const struct hd_part *part,
	const struct hd_round *round
) {
	struct hd_message message = {.kind = HD_MSG_REPORT};
	struct hd_msg_report *report = &message.report;

	*report = (struct hd_msg_report){
		.job = in->job->id,
		.worker = part != NULL ? part->member->rank : HD_GROUP_WORKER,
		.round = part != NULL ? part->round : 0,
		.direction = hd_incoming_is_copy(in) ? HD_COPY : HD_PUSH,
		.attempt = part != NULL ? part->attempt : 0,
		.token = part != NULL && in->sum ? part->handle.token : in->handle.token,
		.outcome = round->outcome,
		.reason = round->reason,
		.version = in->job->version,
		.position = in->direct ? 0 : in->position,
		.base = part != NULL ? part->base : 0,
		.norm = (float)fmin(sqrt(in->norm2), (double)FLT_MAX),
		.credited = in->credit,
	};
	if (part != NULL && in->sum) {
		report->position += (uint64_t)(part - in->parts);
	}
	if (in->recv != NULL) {
		const struct hd_recv_stats *stats = hd_recv_stats(in->recv);

		report->bytes = stats->bytes_held;
		report->duration_ns = stats->last > stats->first ? stats->last - stats->first : 0;
		report->rate_bps = (uint64_t)hd_recv_rate_bps(in->recv);
		report->limited_permille = hd_recv_limited_permille(in->recv);
	}
	hd_controller_send(turn, &message);
}

void hd_commit_report(
	struct hd_turn *turn,
	const struct hd_incoming *in,
	const struct hd_round *round
) {
	if (turn->server->controller == NULL) {
		return;
	}
	if (in->sum && !in->apart) {
		hd_commit_say_report(turn, in, NULL, round);
		return;
	}
	for (uint16_t i = 0; i < in->part_count; i++) {
		hd_commit_say_report(turn, in, &in->parts[i], round);
	}
}

/* --- completing ------------------------------------------------------------------------------ */

void hd_commit_complete(struct hd_turn *turn, struct hd_incoming *in) {
	struct hd_event event = hd_incoming_event(in, HD_EVENT_RECV_END);

	event.value = hd_recv_rate_bps(in->recv);
	hd_turn_event(turn, &event);
	in->job->dirty = true;
	if (hd_incoming_is_copy(in)) {
		hd_copy_complete(turn, in);
		return;
	}
	if (!in->queued) {
		hd_commit_queue(in);
	}
}

/* --- committing ------------------------------------------------------------------------------ */

/* `round` is how the part's ended. */
static void hd_commit_log(
	struct hd_turn *turn,
	const struct hd_part *part,
	const struct hd_round *round,
	uint16_t more
) {
	const struct hd_incoming *in = part->in;
	struct hd_job *job = in->job;
	struct hd_event event = hd_incoming_event(in, HD_EVENT_COMMITTED);

	event.worker = part->member->rank;
	event.round = part->round;
	event.token = in->sum ? part->handle.token : in->handle.token;
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
	hd_turn_event(turn, &event);
}

/* Within a synchronous step nobody is late: all were computed from the model that it steps from. Of those of a
 * federated job that were not it is in steps. */
uint32_t hd_commit_delay(const struct hd_part *part, uint64_t counter) {
	return part->in->stepped ? part->late :
				   (uint32_t)(counter - hd_version_counter(part->base));
}

/* `more` are applied after it in the same step. */
static void
hd_part_applied(struct hd_turn *turn, const struct hd_part *part, uint64_t counter, uint32_t more) {
	const struct hd_incoming *in = part->in;
	struct hd_job *job = in->job;
	struct hd_round round = {
		.round = part->round,
		.outcome = HD_OUTCOME_APPLIED,
		.delay = hd_commit_delay(part, counter),
		.version = hd_version_make(hd_version_incarnation(job->version), counter),
	};

	hd_commit_log(turn, part, &round, (uint16_t)more);
	hd_report_applied(job, part->member, round.delay, in->direct);
	hd_member_record(part->member, &round);
	hd_commit_outcome(turn, job, part->member, &round);
}

/* The whole update is in the buffers: from here on it is the model. The version is that of its last part. */
static void hd_apply_end(struct hd_turn *turn, struct hd_job *job) {
	struct hd_server *server = turn->server;
	struct hd_incoming *in = job->apply.in;
	uint64_t counter = hd_version_counter(job->version);
	const struct hd_round round = {.outcome = HD_OUTCOME_APPLIED};
	uint32_t parts = hd_commit_parts(in), done = 0;
	bool stepped = in->stepped;
	struct hd_incoming *one, *next;

	hd_apply_take(server, job);
	job->version = hd_version_make(hd_version_incarnation(job->version), counter + parts);
	job->commits_since += parts;
	server->stats.committed += parts;
	if (stepped) {
		hd_step_event(turn, job);
	}
	for (one = in; one != NULL; one = hd_commit_after(one)) {
		server->stats.sums += one->sum ? 1 : 0;
		for (uint16_t i = 0; i < one->part_count; i++, done++) {
			hd_part_applied(turn, &one->parts[i], counter + 1 + done, parts - 1 - done);
		}
	}
	if (job->follow != NULL) {
		hd_follow_committed(turn, job, in);
	}
	if (stepped) {
		server->stats.sync_steps++;
		hd_step_tell(turn, job);
	}
	for (one = in; one != NULL; one = next) {
		next = hd_commit_after(one);
		hd_commit_report(turn, one, &round);
		hd_incoming_end(turn, one, true);
	}
	hd_rounds_ended(turn, job);
	hd_step_end(job);
}

/* True when every incomplete update before `candidate` may still come right after it. Those that
 * could not be applied even if they came next have nothing to lose. */
static bool hd_commit_may_overtake(const struct hd_job *job, const struct hd_incoming *candidate) {
	const struct hd_incoming *in;
	uint64_t before = candidate->part_count; /* versions */

	TAILQ_FOREACH (in, &job->queue, queue_link) {
		if (in == candidate) {
			return true;
		}
		if (in->complete || hd_commit_bounds(job, in, 0) != HD_REASON_NONE) {
			continue;
		}
		if (hd_commit_bounds(job, in, before) != HD_REASON_NONE) {
			return false;
		}
		before += in->part_count;
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
		enum hd_reason reason = hd_commit_bounds(job, in, 0);

		next = TAILQ_NEXT(in, open_link);
		/* The base of an unspent credit is not known yet. */
		if (reason != HD_REASON_NONE && !hd_credit_unspent(in)) {
			hd_incoming_fail(turn, in, reason, NULL);
		}
	}
}

/* --- hold ------------------------------------------------------------------------------------ */

/* The update that is held up, and where the positions end that may hold it up: at a step's none goes first. */
static const struct hd_incoming *
hd_commit_waits(const struct hd_job *job, const struct hd_incoming **end) {
	const struct hd_incoming *waits;

	*end = NULL;
	if (job->spec.sync != HD_SYNC_NONE) {
		return TAILQ_FIRST(&job->step.members);
	}
	TAILQ_FOREACH (waits, &job->queue, queue_link) {
		if (waits->complete) {
			break;
		}
	}
	*end = waits;
	return waits;
}

/* Gives up the silent positions that a complete update waits for. Returns when to look again. */
static hd_ns hd_commit_hold(struct hd_turn *turn, struct hd_job *job, bool *voided) {
	hd_ns hold = (hd_ns)turn->server->config.hold_us * HD_US;
	const struct hd_incoming *end, *waits = hd_commit_waits(job, &end);
	struct hd_incoming *in, *next;
	hd_ns again = HD_NEVER;

	if (waits == NULL) {
		return HD_NEVER;
	}
	for (in = TAILQ_FIRST(&job->queue); in != end; in = next) {
		hd_ns until = hd_ns_add(hd_ns_max(waits->completed_at, in->active), hold);

		next = TAILQ_NEXT(in, queue_link);
		if (in->complete) {
			continue;
		}
		if (in->predecessor != NULL) {
			/* Its turn has not come: its predecessor is watched instead. */
			until = hd_ns_add(turn->now, hold);
		}
		if (until <= turn->now) {
			*voided = true;
			hd_incoming_fail(turn, in, HD_REASON_HOLD, NULL);
		} else {
			again = hd_ns_min(again, until);
		}
	}
	return again;
}

/* Updates that are held whole but must wait: the network they took is free, and the controller told. */
static void hd_commit_report_waiting(struct hd_turn *turn, const struct hd_incoming_list *list) {
	struct hd_incoming *in;

	TAILQ_FOREACH (in, list, queue_link) {
		if (in->complete && !in->pending) {
			struct hd_round round = {.outcome = HD_OUTCOME_PENDING};

			in->pending = true;
			hd_commit_report(turn, in, &round);
		}
	}
}

static void hd_commit_report_pending(struct hd_turn *turn, const struct hd_job *job) {
	hd_commit_report_waiting(turn, &job->queue);
	hd_commit_report_waiting(turn, &job->step.members);
}

/* Commits what the rule lets go. False: the call's step was used up before that. */
static bool hd_commit_all(struct hd_turn *turn, struct hd_job *job) {
	struct hd_server *server = turn->server;
	struct hd_incoming *in;

	while (job->apply.in != NULL || !server->draining) {
		if (job->apply.in == NULL && job->spec.sync != HD_SYNC_NONE
		    && !hd_step_gather(turn, job)) {
			return false;
		}
		in = job->apply.in != NULL             ? job->apply.in :
			job->spec.sync != HD_SYNC_NONE ? hd_step_due(turn, job) :
							 hd_commit_next(job);
		if (in == NULL || (job->apply.in == NULL && !hd_follow_permits(turn, job, in))) {
			return true;
		}
		if (server->step_left == 0) {
			return false;
		}
		if (job->apply.in == NULL) {
			server->stats.overtaken
				+= !in->stepped && in != TAILQ_FIRST(&job->queue) ? 1 : 0;
			hd_apply_begin(job, in);
		}
		if (!hd_apply_step(server, job)) {
			return false;
		}
		hd_apply_end(turn, job);
		hd_commit_drop_late(turn, job);
		hd_checkpoint_consider(turn, job, false);
		hd_follow_consider(turn, job);
		if (!TAILQ_EMPTY(&server->starved_pulls)) {
			hd_pull_feed(turn); /* who waited for a whole version gets this one */
		}
	}
	return true;
}

void hd_commit_run(struct hd_turn *turn, struct hd_job *job) {
	hd_ns again = HD_NEVER;
	bool voided = true;

	if (job->mirror != NULL) {
		job->dirty = !hd_mirror_run(turn, job);
		return;
	}
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
	hd_follow_consider(turn, job); /* whether a commit is held */
	again = hd_ns_min(again, hd_step_watch(turn, job));
	again = hd_ns_min(again, hd_rounds_deadline(job));
	hd_timer_set(&turn->server->timers, &job->hold, again);
	job->dirty = false;
}
