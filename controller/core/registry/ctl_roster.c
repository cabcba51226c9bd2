/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ROSTER: the workers that take part in a job, sent to all of them and to the job's server. A worker is in the roster
 * from its REGISTER to its LEAVE or the end of its session. Changes within a short time are sent together.
 *
 *   change --> due --(HD_ROSTER_US after the last one, longer for more workers)--> sent, if it differs from that one
 *
 * A worker that has not acknowledged the last roster gets the newest one when the next is due.
 *
 * A new controller sends no roster before all workers had time to register again. Until then the last roster of the
 * earlier process is valid, and no data moves.
 */
#include "ctl_base.h"
#include "ctl_elastic.h"
#include "ctl_registry.h"

#include <string.h>

#define ROSTER_QUEUED_MAX                                                                          \
	4 /* a worker that has more unacknowledged fragments gets no roster for now */

void ctl_roster_set(struct hd_controller *c, struct ctl_job *job, uint16_t rank, bool present) {
	if (present)
		ctl_elastic_enters(job, rank);
	(void)hd_roster_set(&job->roster, rank, present);
	ctl_elastic_count(c, job);
	ctl_roster_due(c, job);
}

static void
tell(struct hd_controller *c, const struct ctl_job *job, struct ctl_node *node, struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_ROSTER};

	message.roster.job = job->id;
	message.roster.change = job->roster.change;
	message.roster.count = job->roster.count;
	message.roster.target = job->roster.target;
	message.roster.sync_count = job->roster.sync_count;
	message.roster.tau_max = job->roster.tau_max;
	message.roster.scale = job->roster.scale;
	message.roster.ranks
		= (struct hd_blob){job->roster.ranks, (uint32_t)hd_roster_bytes(&job->roster)};
	ctl_send(c, node, &message, sink);
}

/* A new number only for other members or other values: a worker that came back in time gets the old one. */
static void renumber(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	struct hd_roster next = job->roster;

	ctl_elastic_shape(job, &next);
	if (job->roster.change
	    && memcmp(job->roster_ranks, job->roster.ranks, sizeof job->roster_ranks) == 0
	    && hd_roster_alike(&next, &job->roster))
		return;
	job->roster = next;
	memcpy(job->roster_ranks, job->roster.ranks, sizeof job->roster_ranks);
	job->roster.change = hd_version_make(c->config.epoch, ++job->roster_changes);
	ctl_event(
		sink,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_ROSTER,
			.job = job->id,
			.aux = job->roster.count,
			.version = job->roster.change,
			.position = job->roster.target,
			.round = job->roster.sync_count,
			.bytes = job->roster.tau_max,
			.value = (double)job->roster.scale,
		}
	);
}

static void send_roster(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink) {
	job->roster_due = false;
	job->roster_sent_at = c->now;
	renumber(c, job, sink);
	for (uint32_t i = 0, left = job->worker_count; i < HD_WORKERS_MAX && left; i++) {
		struct ctl_node *node = job->workers[i];

		if (!node)
			continue;
		left--;
		if (node->roster_sent == job->roster.change)
			continue;
		if (hd_session_queued(node->session) > ROSTER_QUEUED_MAX) {
			ctl_roster_due(c, job);
			continue;
		}
		node->roster_sent = job->roster.change;
		tell(c, job, node, sink);
	}
	if (job->server && job->server_roster_sent != job->roster.change) {
		job->server_roster_sent = job->roster.change;
		tell(c, job, job->server, sink);
	}
	ctl_elastic_release(c, job, sink);
	/* A step may need fewer updates, or the bound may be tighter: pending requests are planned again. */
	if (job->elastic && job->pending)
		ctl_plan_soon(c);
}

hd_ns ctl_roster_check(struct hd_controller *c, struct hd_sink *sink) {
	hd_ns next = HD_NEVER;

	for (uint32_t i = 0; i < c->job_count; i++) {
		struct ctl_job *job = c->jobs[i];

		if (job->roster_due && c->now >= job->roster_at)
			send_roster(c, job, sink);
		if (job->roster_due)
			next = hd_ns_min(next, job->roster_at);
	}
	return next;
}
