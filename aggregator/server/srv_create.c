/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating jobs: restored from a checkpoint, from the description, or empty for a state from another node's server. */
#include "srv_assignment.h"
#include "srv_create.h"
#include "srv_end.h"
#include "srv_keep.h"
#include "srv_peer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Model, momentum, one update in flight and one snapshot; a checkpoint holds a copy of the momentum besides the
 * snapshot. These suffice for a job to make progress, if slowly. */
#define BUFFERS_NEEDED 4
#define BUFFERS_CHECKPOINT 1
#define BUFFERS_REPLICA 6 /* model, momentum, both once more in transfer, two copies */
#define BUFFERS_SYNC 1 /* the sum of a synchronous step */
/* First incarnations are drawn below this, so that each restart can count up from there. */
#define FIRST_INCARNATION_MAX 0x7fff

static void job_restore_rounds(struct srv_job *job, const struct hd_checkpoint *from) {
	for (uint32_t i = 0; i < from->round_count; i++) {
		const struct hd_last_round *last = &from->rounds[i];
		struct srv_member *member;
		struct srv_round round = {
			.round = last->round,
			.outcome = last->outcome,
			.delay = last->delay,
			.version = last->version,
		};

		if (last->worker >= HD_WORKERS_MAX || last->round == 0)
			continue;
		member = job->members[last->worker];
		if (!member)
			member = calloc(1, sizeof *member);
		if (!member)
			continue;
		member->rank = last->worker;
		job->members[last->worker] = member;
		srv_member_record(member, &round);
	}
}

/* Takes over the state of an earlier incarnation; this one is the next. */
static int job_restore(struct srv_job *job, const struct hd_checkpoint *from, char *text) {
	uint16_t incarnation = hd_version_incarnation(from->version);
	uint16_t newest
		= incarnation > from->newest_incarnation ? incarnation : from->newest_incarnation;
	uint64_t counter = hd_version_counter(from->version);
	uint32_t skip = from->prior_count >= HD_INCARNATIONS_MAX ?
		from->prior_count - HD_INCARNATIONS_MAX + 1 :
		0;
	char difference[HD_TEXT_BYTES_MAX / 2];

	if (!hd_jobspec_equal(&job->spec, &from->spec, difference, sizeof difference)) {
		(void)snprintf(
			text,
			HD_TEXT_BYTES_MAX,
			"the checkpoint is of another description: %s",
			difference
		);
		return -EINVAL;
	}
	if (from->values != job->values || newest == UINT16_MAX) {
		(void)snprintf(
			text,
			HD_TEXT_BYTES_MAX,
			"checkpoint: %" PRIu64 " values of incarnation %u, the job has %" PRIu64
			" (limit 65534 incarnations)",
			from->values,
			newest,
			job->values
		);
		return -EINVAL;
	}
	memcpy(job->model->data, from->model, job->bytes);
	memcpy(job->momentum->data, from->momentum, job->bytes);
	for (uint32_t i = skip; i < from->prior_count; i++)
		job->prior[job->prior_count++] = from->prior[i];
	job->prior[job->prior_count++] = (struct hd_incarnation){incarnation, counter};
	job->version = hd_version_make((uint16_t)(newest + 1), counter);
	job_restore_rounds(job, from);
	return 0;
}

static void checkpoint_free(struct hd_checkpoint *checkpoint) {
	free(checkpoint->model);
	free(checkpoint->momentum);
	free(checkpoint->rounds);
	free(checkpoint->prior);
	hd_jobspec_fini(&checkpoint->spec);
}

/* Model and momentum: from a checkpoint if there is one, else from the seed. */
static int job_fill(struct srv_turn *turn, struct srv_job *job, char *text) {
	struct hd_server *server = turn->server;
	const struct hd_server_ops *ops = server->config.ops;
	struct hd_checkpoint from = {0};
	int rc = -ENOENT;

	job->model = srv_buffer_get(server, job);
	job->momentum = srv_buffer_get(server, job);
	if (ops && ops->restore)
		rc = ops->restore(server->config.owner, job->id, &from);
	if (rc == 0) {
		rc = job_restore(job, &from, text);
		checkpoint_free(&from);
		job->restoring = rc == 0 && ops->checkpoint;
		return rc;
	}
	if (rc != -ENOENT) {
		(void)snprintf(
			text, HD_TEXT_BYTES_MAX, "checkpoint: cannot be restored (error %d)", -rc
		);
		return rc;
	}
	hd_jobspec_initialize(&job->spec, job->model->data);
	memset(job->momentum->data, 0, job->bytes);
	/* Random, not 1: an incarnation that left no checkpoint may have given out versions too. */
	job->version = hd_version_make(
		(uint16_t)(1 + hd_entropy_u64(&server->entropy) % FIRST_INCARNATION_MAX), 0
	);
	return 0;
}

static int job_admit(struct srv_turn *turn, struct srv_job *job, char *text) {
	struct hd_server *server = turn->server;
	bool checkpoints = server->config.ops && server->config.ops->checkpoint;
	bool sums = job->spec.sync != HD_SYNC_NONE;
	uint32_t needed = BUFFERS_NEEDED + (checkpoints ? BUFFERS_CHECKPOINT : 0)
		+ (sums ? BUFFERS_SYNC : 0);
	uint64_t left = srv_memory_left(server);

	do {
		if (srv_memory_guarantee(server, job, needed) == 0)
			return 0;
	} while (srv_job_make_room(turn, job));
	(void)snprintf(
		text,
		HD_TEXT_BYTES_MAX,
		"memory: the job needs %" PRIu64 " bytes (%" PRIu32 " times its model of %" PRIu64
		": model, momentum, snapshot, an update in flight%s%s), %" PRIu64
		" are left (limit "
		"memory_bytes %" PRIu64 ")",
		job->bytes * needed,
		needed,
		job->bytes,
		checkpoints ? ", checkpoint" : "",
		sums ? ", a step's sum" : "",
		left,
		server->config.memory_bytes
	);
	return -ENOMEM;
}

struct srv_job *srv_job_create(struct srv_turn *turn, struct hd_jobspec *spec, char *text) {
	struct hd_server *server = turn->server;
	struct srv_job *job;

	if (server->job_count >= HD_JOBS_MAX && !srv_job_make_room(turn, NULL)) {
		(void)snprintf(
			text,
			HD_TEXT_BYTES_MAX,
			"jobs: %" PRIu32
			" are here, and none can be missed (limit HD_JOBS_MAX %d): end one "
			"(evict job), or begin when one has ended",
			server->job_count,
			HD_JOBS_MAX
		);
		return NULL;
	}
	job = srv_job_allocate(server, spec);
	if (!job) {
		(void)snprintf(text, HD_TEXT_BYTES_MAX, "memory: none left for the job's tables");
		return NULL;
	}
	job->generation = srv_assignment_generation(server, job->id);
	job->asking = !hd_addr_is_none(server->config.controller);
	srv_job_idle(turn, job); /* until a worker joins */
	if (job_admit(turn, job, text) < 0 || job_fill(turn, job, text) < 0) {
		srv_job_destroy(server, job);
		return NULL;
	}
	if (job->asking && server->alone)
		srv_job_alone(turn, job);
	srv_announce(turn, job);
	if (job->restoring)
		srv_checkpoint_consider(turn, job, true);
	return job;
}

struct srv_job *srv_job_create_replica(struct srv_turn *turn, struct hd_jobspec *spec, char *text) {
	struct hd_server *server = turn->server;
	bool room = server->job_count < HD_JOBS_MAX || srv_job_make_room(turn, NULL);
	struct srv_job *job = room ? srv_job_allocate(server, spec) : NULL;
	uint32_t needed;

	if (!job) {
		(void)snprintf(text, HD_TEXT_BYTES_MAX, "jobs or memory: none left for a copy");
		return NULL;
	}
	needed = BUFFERS_REPLICA + (job->spec.sync != HD_SYNC_NONE ? BUFFERS_SYNC : 0);
	while (srv_memory_guarantee(server, job, needed) < 0) {
		if (srv_job_make_room(turn, job))
			continue;
		(void)snprintf(
			text,
			HD_TEXT_BYTES_MAX,
			"memory: a copy needs %" PRIu64 " bytes (limit memory_bytes %" PRIu64 ")",
			job->bytes * needed,
			server->config.memory_bytes
		);
		srv_job_destroy(server, job);
		return NULL;
	}
	job->model = srv_buffer_get(server, job);
	job->momentum = srv_buffer_get(server, job);
	return job;
}
