/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the workers of a job are together, so that its all-reduces may begin:
 *
 *   a new job          as many as it says that it begins with; it waits for them
 *   a new controller   as many as were in the newest sum, or who comes within the time in which nodes notice that
 *                      the old one is gone
 */
#include "hd_controller_core.h"
#include "hd_controller_reduce.h"

void ctl_reduce_form(struct hd_controller *c, struct ctl_job *job) {
	bool anew = c->config.epoch > 1 && c->now < hd_ns_add(c->started, ctl_silence(c));
	bool enough = job->worker_count >= job->world && (job->world > 0 || !anew);

	if (enough || (job->goes_on && c->now >= job->gathered_at))
		job->formed = true;
	else if (!job->formed && (job->goes_on || anew))
		ctl_check_by(c, hd_ns_max(c->now + 1, job->gathered_at));
}

void ctl_reduce_keep(struct hd_controller *c, struct ctl_job *job) {
	const hd_ns due = hd_ns_add(job->reduce_kept_at, CTL_REDUCE_KEEP_NS);

	if (job->reduce_round <= job->reduce_kept)
		return;
	if (job->reduce_kept_at && c->now < due) {
		ctl_check_by(c, due);
		return;
	}
	job->reduce_kept = job->reduce_round;
	job->reduce_kept_at = c->now;
	ctl_kept_changed(c);
}

void ctl_reduce_check(struct hd_controller *c, struct hd_sink *sink) {
	for (uint32_t k = 0; k < c->job_count; k++)
		if (c->jobs[k]->worker_count > 0) {
			ctl_reduce_joined(c, c->jobs[k], sink);
			ctl_reduce_keep(c, c->jobs[k]);
		}
}
