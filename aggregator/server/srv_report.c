/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a job went, for whoever runs the server: told once everybody has left or was lost, what was held
 * whole has been committed and the last checkpoint was tried; and when the server ends. A job that somebody
 * joins again goes on counting, and is reported again.
 */
#include "srv_job.h"
#include "srv_keep.h"

void srv_report_applied(
	struct srv_job *job,
	struct srv_member *member,
	uint32_t delay,
	bool direct
) {
	struct hd_job_report *report = &job->report;

	report->applied++;
	report->direct += direct ? 1 : 0;
	report->delay_sum += delay;
	report->delay_squares += (uint64_t)delay * delay;
	report->delay_max = delay > report->delay_max ? delay : report->delay_max;
	member->tally.applied++;
	member->tally.delay_sum += delay;
}

void srv_report_ended(
	struct srv_job *job,
	struct srv_member *member,
	const struct srv_round *round
) {
	if (round->outcome == HD_OUTCOME_DROPPED) {
		job->report.dropped[round->reason]++;
		member->tally.dropped++;
	} else {
		job->report.failed[round->reason]++;
		member->tally.failed++;
	}
}

void srv_report_interrupted(struct srv_job *job, enum hd_reason reason) {
	job->report.interrupted[reason]++;
}

/* --- telling ---------------------------------------------------------------------------------- */

static uint32_t report_workers(const struct srv_job *job, struct hd_worker_report *rows) {
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

void srv_report_tell(struct srv_turn *turn, struct srv_job *job) {
	const struct hd_server_ops *ops = turn->server->config.ops;
	struct hd_job_report report = job->report;
	struct hd_worker_report *rows;

	job->emptied = false;
	if (!ops || !ops->report)
		return;
	rows = calloc(HD_WORKERS_MAX, sizeof *rows);
	if (!rows)
		return;
	report.job = job->id;
	report.spec = &job->spec;
	report.version = job->version;
	report.durable = job->durable;
	report.ended = turn->now;
	report.resumed = job->life_count > 0;
	report.bytes = job->bytes;
	report.workers = rows;
	report.worker_count = report_workers(job, rows);
	for (uint32_t i = 0; i < report.worker_count; i++)
		report.rounds += rows[i].rounds;
	ops->report(turn->server->config.owner, &report);
	free(rows);
}
