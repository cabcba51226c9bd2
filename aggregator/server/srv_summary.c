/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The summary of a job, for its operator: reported once all workers have left or were lost, complete updates have been
 * committed and the last checkpoint was tried; and when the server ends. A job that is joined again continues its
 * counts, and is reported again.
 */
#include "srv_job.h"
#include "srv_keep.h"

void srv_summary_applied(
	struct hd_server *server,
	struct srv_job *job,
	struct srv_member *member,
	uint32_t delay,
	bool direct
) {
	struct hd_job_summary *summary = &job->summary;

	summary->applied++;
	summary->direct += direct ? 1 : 0;
	summary->delay_sum += delay;
	summary->delay_squares += (uint64_t)delay * delay;
	summary->delay_max = delay > summary->delay_max ? delay : summary->delay_max;
	member->tally.applied++;
	member->tally.delay_sum += delay;
	if (job->spec.sync == HD_SYNC_NONE)
		hd_histogram_add(&server->histograms.staleness, &hd_scale_delay, delay);
}

void srv_summary_ended(
	struct srv_job *job,
	struct srv_member *member,
	const struct srv_round *round
) {
	if (round->outcome == HD_OUTCOME_DROPPED) {
		job->summary.dropped[round->reason]++;
		member->tally.dropped++;
	} else {
		job->summary.failed[round->reason]++;
		member->tally.failed++;
	}
}

void srv_summary_interrupted(struct srv_job *job, enum hd_reason reason) {
	job->summary.interrupted[reason]++;
}

void srv_summary_pulled(
	struct hd_server *server,
	struct srv_job *job,
	hd_ns took,
	enum hd_reason reason
) {
	if (reason == HD_REASON_NONE) {
		server->stats.pulls_delivered++;
		job->summary.pulls++;
		hd_histogram_add(&server->histograms.pull, &hd_scale_time, took);
	} else if (reason == HD_REASON_NOT_MODIFIED) {
		server->stats.pulls_not_modified++;
		job->summary.pulls_not_modified++;
	} else {
		server->stats.pulls_failed++;
	}
}

/* --- reporting -------------------------------------------------------------------------------- */

static uint32_t summary_workers(const struct srv_job *job, struct hd_worker_summary *rows) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		const struct srv_member *member = job->members[i];

		if (!member || !member->joined)
			continue; /* known from a checkpoint only */
		rows[count] = member->tally;
		rows[count].worker = member->rank;
		rows[count].rounds = member->newest_round - member->first_round;
		rows[count].left = member->left;
		count++;
	}
	return count;
}

void srv_summary_tell(struct srv_turn *turn, struct srv_job *job) {
	const struct hd_server_ops *ops = turn->server->config.ops;
	struct hd_job_summary summary = job->summary;
	struct hd_worker_summary *rows;

	job->emptied = false;
	if (!ops || !ops->summary)
		return;
	rows = calloc(HD_WORKERS_MAX, sizeof *rows);
	if (!rows)
		return;
	summary.job = job->id;
	summary.spec = &job->spec;
	summary.version = job->version;
	summary.durable = job->durable;
	summary.ended = turn->now;
	summary.resumed = job->prior_count > 0;
	summary.bytes = job->bytes;
	summary.workers = rows;
	summary.worker_count = summary_workers(job, rows);
	for (uint32_t i = 0; i < summary.worker_count; i++)
		summary.rounds += rows[i].rounds;
	ops->summary(turn->server->config.owner, &summary);
	free(rows);
}
