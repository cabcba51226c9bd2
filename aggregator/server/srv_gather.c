/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the next members of a synchronous job's step among the complete updates. */
#include "srv_step.h"

/* A part whose worker is already in the step, or twice in this sum; NULL: none. */
static const struct srv_part *step_repeats(const struct srv_incoming *in) {
	const struct srv_part *other;

	for (uint16_t i = 0; i < in->part_count; i++) {
		LIST_FOREACH (other, &in->parts[i].member->parts, member_link) {
			/* A late update belongs to another round. */
			if (in->job->spec.sync == HD_SYNC_FEDERATED
			    && hd_version_counter(other->base)
				    != hd_version_counter(in->parts[i].base))
				continue;
			if (other->in->state == SRV_STEPPED
			    || (other->in == in && other < &in->parts[i]))
				return &in->parts[i];
		}
	}
	return NULL;
}

/* Whether this complete update is the next member. One that cannot be in this step ends here, unless the step is full:
 * then it becomes late once the step is applied. */
static bool step_admits(struct srv_turn *turn, struct srv_job *job, struct srv_incoming *in) {
	uint32_t most = srv_step_count(job);
	uint32_t room = most > job->step.count ? most - job->step.count : 0;
	enum hd_reason reason = srv_commit_bounds(job, in, 0);
	const struct srv_part *cause = NULL;

	if (srv_step_counts(job) && room == 0)
		return false;
	if (reason == HD_REASON_NONE && job->spec.sync == HD_SYNC_FEDERATED)
		reason = srv_federated_admit(job, in, &cause);
	if (reason == HD_REASON_NONE && job->spec.sync != HD_SYNC_N_BATCH) {
		cause = step_repeats(in);
		reason = cause ? HD_REASON_LATE : HD_REASON_NONE;
	}
	/* A sum cannot be split: its workers ask again, and the first of them fill the step. */
	if (reason == HD_REASON_NONE && srv_step_counts(job) && in->part_count > room)
		reason = HD_REASON_TIMEOUT;
	if (reason != HD_REASON_NONE)
		srv_push_fail(turn, in, reason, cause);
	return reason == HD_REASON_NONE;
}

static struct srv_incoming *step_next(struct srv_turn *turn, struct srv_job *job) {
	struct srv_incoming *in = TAILQ_FIRST(&job->queue), *next;

	for (; in; in = next) {
		next = TAILQ_NEXT(in, queue_link);
		if (in->state == SRV_READY && step_admits(turn, job, in))
			return in;
	}
	return NULL;
}

bool srv_step_gather(struct srv_turn *turn, struct srv_job *job) {
	struct srv_step *step = &job->step;
	struct srv_incoming *in;

	srv_federated_look(turn, job);
	for (;;) {
		in = step->adding;
		if (!in) {
			in = step_next(turn, job);
			if (!in)
				return true;
			if (!srv_step_take(turn->server, job, in, 0)) {
				step->starved = true;
				return true;
			}
			step->since = step->count == in->part_count ? turn->now : step->since;
		}
		if (!srv_step_add(turn->server, job))
			return false;
	}
}
