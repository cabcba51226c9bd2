/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a job has its workers, so that its all-reduces may begin:
 *
 *   a new job          as many as it says that it begins with; it waits for them
 *   a new controller   as many of its members as were in the newest sum, or who comes within the time in which nodes
 *                      notice that the old one is gone. Others do not count: a member that is not back yet may have
 *                      got the sum of a round that they still ask for.
 *   all were lost      as with a new controller, or as soon as all members of the newest round are back: a member
 *                      that has the sum of a round says so when it registers
 *
 * One member of the newest sum is enough to know its number of members. A worker is a member when its own newest sum is
 * not older than the newest round that the last controller saved. That controller saved a round at once when its
 * members differed from those of the round before, and otherwise once a second, so only members have a sum of that
 * round or of a later one (unless the controller died while it saved the round). A member that has none of them counts
 * when it reports one. When no round was saved, every worker that has a sum counts.
 */
#include "ctl_base.h"
#include "ctl_reduces.h"

#include <assert.h>

static uint32_t newest_begun(const struct ctl_job *job) {
	return job->reduce_lost > job->reduce_known ? job->reduce_lost : job->reduce_known;
}

static uint32_t members_of_the_newest_sum(const struct ctl_job *job) {
	uint32_t count = 0;

	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		count += job->workers[i] && job->has[i].round > 0
			&& job->has[i].round >= newest_begun(job);
	return count;
}

/* A round began before the controller's process was restarted, or before it lost all workers, and no worker here has
 * its sum. */
static bool is_behind(const struct ctl_job *job) {
	return job->reduce_round < newest_begun(job);
}

/* All members of the newest round, which this process began: no other worker can have its sum. */
static bool all_are_back(const struct ctl_job *job) {
	if (job->reduce_begun == 0 || job->reduce_begun < newest_begun(job))
		return false;
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (job->reduces_in[i] && !job->workers[i])
			return false;
	return true;
}

void ctl_reduce_form(struct hd_controller *c, struct ctl_job *job) {
	bool restarted = c->config.epoch > 1 && c->now < hd_ns_add(c->started, ctl_silence(c));
	bool enough = job->worker_count >= job->world && (job->world > 0 || !restarted);
	bool goes_on = job->goes_on || job->reduce_round < job->reduce_known;

	if (job->formed)
		return;
	if (enough && goes_on)
		enough = all_are_back(job)
			|| (!is_behind(job) && members_of_the_newest_sum(job) >= job->world);
	if (enough || (goes_on && c->now >= job->gathered_at))
		job->formed = true;
	else if (goes_on || restarted)
		ctl_check_by(c, hd_ns_max(c->now + 1, job->gathered_at));
}

void ctl_reduce_count_workers(struct ctl_job *job) {
	struct ctl_reduce *r;

	if (job->worker_count <= job->most_workers)
		return;
	job->most_workers = job->worker_count;
	job->none_comes = false;
	TAILQ_FOREACH (r, &job->reduces, entry)
		r->short_since = 0; /* those that wait for members begin to wait again */
}

void ctl_reduce_disband(struct ctl_job *job) {
	assert(job->worker_count == 0);
	job->formed = job->goes_on = false;
	job->most_workers = 0;
	/* The rounds in flight end here. A worker that comes back reports the sum of one, or asks for it again. */
	if (job->reduce_round > job->reduce_lost)
		job->reduce_lost = job->reduce_round;
	job->reduce_round = job->reduce_had;
}

void ctl_reduce_continue(struct ctl_job *job) {
	if (job->reduce_round < job->reduce_lost)
		job->goes_on = true;
}

/* Stores the members of the newest round. Returns whether they changed. */
static bool set_members(struct ctl_job *job, const struct ctl_reduce *r) {
	bool others = false;

	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		const bool is_member = r->part[i] == CTL_PART_STARTED;

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
