/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the workers of a job are together, so that its all-reduces may begin:
 *
 *   a new job          as many as it says that it begins with; it waits for them
 *   a new controller   as many of its members as were in the newest sum, or who comes within the time in which nodes
 *                      notice that the old one is gone. Others do not count: a member that is not back yet may have
 *                      got the sum of a round that they still ask for.
 *
 * One member of the newest sum is enough to know how many were in it, and a worker is one when its own newest sum is
 * not older than the newest round that the last controller kept. That one kept a round at once when its members were
 * not those of the round before, and else once a second, so only members have a sum of that round or of a later one
 * (unless it died while the round was being written). A member that has none of them counts when it reports one. Where
 * nothing was kept everybody counts who has a sum.
 */
#include "ctl_base.h"
#include "ctl_reduces.h"

#include <assert.h>

static uint32_t members_of_the_newest_sum(const struct ctl_job *job) {
	uint32_t count = 0;

	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		count += job->workers[i] && job->has[i].round > 0
			&& job->has[i].round >= job->reduce_known;
	return count;
}

/* An earlier life of the controller began a round of which nobody here has the sum. */
static bool is_behind(const struct ctl_job *job) {
	return job->reduce_round < job->reduce_known;
}

void ctl_reduce_form(struct hd_controller *c, struct ctl_job *job) {
	bool anew = c->config.epoch > 1 && c->now < hd_ns_add(c->started, ctl_silence(c));
	bool enough = job->worker_count >= job->world && (job->world > 0 || !anew);
	bool goes_on = job->goes_on || is_behind(job);

	if (job->formed)
		return;
	if (enough && goes_on)
		enough = !is_behind(job) && members_of_the_newest_sum(job) >= job->world;
	if (enough || (goes_on && c->now >= job->gathered_at))
		job->formed = true;
	else if (goes_on || anew)
		ctl_check_by(c, hd_ns_max(c->now + 1, job->gathered_at));
}

void ctl_reduce_disband(struct ctl_job *job) {
	assert(job->worker_count == 0);
	job->formed = job->goes_on = false;
}

/* Makes these the members of the newest round. Whether they were not. */
static bool set_members(struct ctl_job *job, const struct ctl_reduce *r) {
	bool others = false;

	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		const bool is_member = r->part[i] == CTL_PART_TOLD;

		others = others || job->reduces_in[i] != is_member;
		job->reduces_in[i] = is_member;
	}
	return others;
}

void ctl_reduce_begun(struct hd_controller *c, struct ctl_job *job, const struct ctl_reduce *r) {
	ctl_reduce_seen(job, r->round);
	if (set_members(job, r))
		job->reduce_kept_at = 0;
	ctl_reduce_keep(c, job);
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
