/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous jobs. The server makes the steps; the controller only decides which updates need not be sent:
 *
 *   version 8, 4 of 6 win:   w0 w1 w2 w3 granted | w4 w5 wait    one of w0..w3 is void: w4 takes its place
 *   version 12:                                  | w4 w5 were computed from 8: dropped late, not a byte was sent
 *
 * Pending pushes with an older base are dropped before each pass. Of the rest as many are planned as the step still
 * needs, in the order of requests. A step of all workers needs all of them.
 */
#include "ctl_base.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"

static bool counts(const struct ctl_job *job) {
	return job->sync == HD_SYNC_N || job->sync == HD_SYNC_N_BATCH;
}

/* The server of a federated job decides which late updates count. */
static bool counts_late(const struct ctl_job *job) {
	return job->sync == HD_SYNC_FEDERATED && job->sync_count > 0;
}

static bool is_late(const struct ctl_transfer *t) {
	return t->direction == HD_PUSH && t->job->sync != HD_SYNC_NONE && !counts_late(t->job)
		&& t->job->state == CTL_JOB_READY
		&& hd_version_counter(t->base) < hd_version_counter(t->job->version);
}

static void drop(struct hd_controller *c, struct ctl_transfer *t, struct hd_sink *sink) {
	struct ctl_node *worker = ctl_worker(t->job, t->worker);
	const struct hd_msg_request request = {
		.job = t->job->id,
		.worker = t->worker,
		.round = t->round,
		.direction = t->direction,
		.attempt = t->attempt,
		.dtype = t->dtype,
		.bytes = t->bytes,
		.base = t->base,
	};

	ctl_transfer_free(c, t);
	if (worker)
		ctl_drop_request(c, worker, &request, HD_REASON_LATE, sink);
}

void ctl_sync_pass(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_transfer *t, *next;

	for (t = TAILQ_FIRST(&c->pending); t; t = next) {
		next = TAILQ_NEXT(t, entry);
		if (is_late(t))
			drop(c, t, sink);
	}
	for (uint32_t i = 0; i < c->job_count; i++) {
		const struct ctl_job *job = c->jobs[i];
		uint32_t most = job->roster.sync_count ? job->roster.sync_count : job->sync_count;

		c->scratch.room[i] = most > job->open_pushes ? most - job->open_pushes : 0;
	}
}

bool ctl_sync_takes(struct hd_controller *c, const struct ctl_transfer *t) {
	uint32_t *room = &c->scratch.room[ctl_job_index(c, t->job)];

	if (t->direction != HD_PUSH || !counts(t->job))
		return true;
	if (*room == 0)
		return false;
	(*room)--;
	return true;
}
