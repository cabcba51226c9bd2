/* SPDX-License-Identifier: BSD-3-Clause */
/* The core decides what is written and keeps it unchanged; commits continue meanwhile, on copies. */
#include "srv_keep.h"
#include "srv_peer.h"

#include <errno.h>

#define UNCLAIMED_SPAN 1023

static bool checkpoint_possible(const struct hd_server *server) {
	return server->config.ops && server->config.ops->checkpoint;
}

bool srv_checkpoint_settled(const struct hd_server *server, const struct srv_job *job) {
	if (job->apply.in)
		return false;
	return !checkpoint_possible(server) || (!job->checkpointing && job->saved == job->version)
		|| job->replica;
}

/* --- buffers held during a write -------------------------------------------------------------- */

void srv_checkpoint_fini(struct hd_server *server, struct srv_job *job) {
	free(job->checkpoint.rounds);
	free(job->checkpoint.prior);
	job->checkpoint = (struct hd_checkpoint){0};
	srv_state_release(server, job, job->checkpoint_state);
}

static int checkpoint_rounds(const struct srv_job *job, struct hd_checkpoint *checkpoint) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		count += job->members[i] ?
			srv_member_applied(job->members[i], HD_ROUNDS_KEPT, NULL) :
			0;
	}
	checkpoint->rounds = calloc(count + 1, sizeof *checkpoint->rounds);
	if (!checkpoint->rounds)
		return -ENOMEM;
	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		struct hd_last_round *rows = checkpoint->rounds + checkpoint->round_count;

		if (job->members[i]) {
			checkpoint->round_count
				+= srv_member_applied(job->members[i], HD_ROUNDS_KEPT, rows);
		}
	}
	return 0;
}

static int checkpoint_fill(struct hd_server *server, struct srv_job *job) {
	struct hd_checkpoint *checkpoint = &job->checkpoint;
	int rc = srv_state_hold(server, job, job->checkpoint_state);

	if (rc < 0)
		return rc;
	checkpoint->job = job->id;
	checkpoint->version = job->version;
	checkpoint->values = job->values;
	checkpoint->model = job->model->data;
	checkpoint->momentum = job->momentum->data;
	checkpoint->spec = job->spec;
	checkpoint->prior = calloc(job->prior_count + 1, sizeof *checkpoint->prior);
	if (!checkpoint->prior)
		return -ENOMEM;
	checkpoint->prior_count = job->prior_count;
	memcpy(checkpoint->prior, job->prior, job->prior_count * sizeof *checkpoint->prior);
	return checkpoint_rounds(job, checkpoint);
}

/* --- beginning and ending --------------------------------------------------------------------- */

static void checkpoint_event(struct srv_turn *turn, const struct srv_job *job, int error) {
	struct hd_event event = {
		.kind = HD_EVENT_CHECKPOINT,
		.reason = error != 0 ? HD_REASON_REFUSED : HD_REASON_NONE,
		.version = job->version,
		.bytes = 2 * job->bytes,
		.aux = (uint64_t)-error,
	};

	srv_job_event(turn, job, &event);
}

/* A full disk may stay full: retries and log lines become rarer. Not while draining, when time is short. */
static hd_ns checkpoint_pause(const struct hd_server *server, struct srv_job *job) {
	hd_ns pause = HD_CHECKPOINT_RETRY_US * HD_US << job->checkpoint_failures;

	if (job->checkpoint_failures < HD_CHECKPOINT_BACKOFF_MAX)
		job->checkpoint_failures++;
	return server->draining ? HD_CHECKPOINT_RETRY_US * HD_US : pause;
}

/* The checkpoint that was to claim this incarnation cannot be written. The job does not wait: it draws an incarnation
 * further away, which only another one that could not be claimed might draw again. */
static void checkpoint_unclaimed(struct srv_turn *turn, struct srv_job *job) {
	uint16_t incarnation = hd_version_incarnation(job->version);
	uint16_t room = (uint16_t)(UINT16_MAX - 1 - incarnation);
	uint16_t span = room < UNCLAIMED_SPAN ? room : UNCLAIMED_SPAN;

	if (span > 0) {
		incarnation = (uint16_t
		)(incarnation + 1 + hd_entropy_u64(&turn->server->entropy) % span);
	}
	/* The restored state is in a checkpoint, if of an earlier incarnation. */
	job->saved = hd_version_make(
		job->prior[job->prior_count - 1].incarnation, job->prior[job->prior_count - 1].last
	);
	srv_durable_update(turn, job);
	job->version = hd_version_make(incarnation, hd_version_counter(job->version));
	job->restoring = false;
	srv_announce(turn, job);
	srv_job_joined(turn, job);
}

static void checkpoint_failed(struct srv_turn *turn, struct srv_job *job, int error) {
	job->checkpointing = false;
	turn->server->stats.checkpoint_errors++;
	srv_checkpoint_fini(turn->server, job);
	checkpoint_event(turn, job, error);
	hd_timer_set(
		&turn->server->timers,
		&job->retry,
		hd_ns_add(turn->now, checkpoint_pause(turn->server, job))
	);
	if (job->restoring)
		checkpoint_unclaimed(turn, job);
}

void srv_checkpoint_consider(struct srv_turn *turn, struct srv_job *job, bool asked) {
	struct hd_server *server = turn->server;
	uint32_t every = server->config.checkpoint_commits;
	bool due;
	int rc;

	job->checkpoint_asked = job->checkpoint_asked || asked;
	if (!checkpoint_possible(server) || job->checkpointing || job->retry.place != 0
	    || job->apply.in || job->replica || job->phase == SRV_JOB_RETIRED)
		return; /* tried again when the write has ended */
	due = job->checkpoint_asked ? job->saved != job->version :
				      every != 0 && job->commits_since >= every;
	job->checkpoint_asked = false;
	if (!due)
		return;
	rc = checkpoint_fill(server, job);
	if (rc < 0) {
		checkpoint_failed(turn, job, rc);
		return;
	}
	checkpoint_event(turn, job, 0);
	job->checkpointing = true; /* before the call, which may end it */
	job->commits_since = 0;
	server->stats.checkpoints++;
	rc = server->config.ops->checkpoint(server->config.owner, &job->checkpoint);
	if (rc < 0)
		checkpoint_failed(turn, job, rc);
}

void hd_server_checkpoint_done(
	struct hd_server *server,
	hd_ns now,
	uint32_t job_id,
	int status,
	struct hd_sink *sink
) {
	struct srv_turn turn = {server, now, sink, now};
	struct srv_job *job = srv_job_find(server, job_id);

	if (!job || !job->checkpointing)
		return;
	if (status < 0) {
		checkpoint_failed(&turn, job, status);
		return;
	}
	job->checkpointing = false;
	job->checkpoint_failures = 0;
	job->saved = job->checkpoint.version;
	srv_checkpoint_fini(server, job);
	srv_durable_update(&turn, job);
	if (job->restoring) {
		job->restoring = false;
		srv_job_joined(&turn, job);
	}
	/* Commits or a request that came during the write may need another checkpoint now; later there may be no
	 * occasion, and workers wait for these versions to be durable. */
	srv_checkpoint_consider(&turn, job, false);
	server->freed = true; /* buffers are free, and the job's summary may be due */
}
