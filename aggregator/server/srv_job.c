/* SPDX-License-Identifier: BSD-3-Clause */
/* A job: allocating and freeing its tables. */
#include "srv_apply.h"
#include "srv_create.h"
#include "srv_keep.h"
#include "srv_pull.h"
#include "srv_replica.h"
#include "srv_step.h"

#include <assert.h>

void srv_job_destroy(struct hd_server *server, struct srv_job *job) {
	struct srv_outgoing *out;
	struct srv_incoming *in;

	srv_apply_fini(server, job); /* first: it reads an update that is freed with the job */
	rep_ops.forget(server, job);
	while ((out = TAILQ_FIRST(&job->pulls)))
		srv_outgoing_destroy(server, out);
	while ((in = TAILQ_FIRST(&job->open)))
		srv_incoming_destroy(server, in);
	assert(job->open_count == 0 && job->pull_count == 0 && TAILQ_EMPTY(&job->queue));
	srv_checkpoint_fini(server, job);
	srv_step_fini(server, job);
	srv_federated_fini(job);
	for (uint32_t i = 0; i < 2; i++)
		srv_buffer_put(server, job, job->spare[i]);
	srv_buffer_put(server, job, job->model);
	srv_buffer_put(server, job, job->momentum);
	srv_memory_fini(server, job);
	hd_timers_release(&server->timers, &job->hold);
	hd_timers_release(&server->timers, &job->retry);
	hd_timers_release(&server->timers, &job->roster_timer);
	hd_timers_release(&server->timers, &job->idle);
	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++)
		free(job->members[i]);
	free(job->members);
	free(job->log);
	hd_jobspec_fini(&job->spec);
	TAILQ_REMOVE(&server->jobs, job, link);
	server->job_count--;
	free(job);
}

/* The job without contents, in the list; takes *spec over only on success. */
struct srv_job *srv_job_allocate(struct hd_server *server, struct hd_jobspec *spec) {
	struct srv_job *job = calloc(1, sizeof *job);

	if (!job)
		return NULL;
	job->members = calloc(HD_WORKERS_MAX, sizeof(struct srv_member *));
	job->log = calloc(HD_COMMITS_KEPT, sizeof *job->log);
	if (!job->members || !job->log)
		goto fail_arrays;
	if (hd_timers_reserve(&server->timers) < 0)
		goto fail_arrays;
	if (hd_timers_reserve(&server->timers) < 0)
		goto fail_timer;
	if (hd_timers_reserve(&server->timers) < 0)
		goto fail_retry;
	if (hd_timers_reserve(&server->timers) < 0)
		goto fail_roster;
	job->hold.kind = SRV_TIMER_HOLD;
	job->retry.kind = SRV_TIMER_CHECKPOINT;
	job->roster_timer.kind = SRV_TIMER_ROSTER;
	job->idle.kind = SRV_TIMER_IDLE;
	job->id = hd_job_id(spec->tenant, spec->name);
	job->values = hd_jobspec_values(spec);
	job->bytes = hd_jobspec_model_bytes(spec);
	TAILQ_INIT(&job->open);
	TAILQ_INIT(&job->queue);
	TAILQ_INIT(&job->step.members);
	TAILQ_INIT(&job->pulls);
	job->spec = *spec;
	*spec = (struct hd_jobspec){0};
	TAILQ_INSERT_TAIL(&server->jobs, job, link);
	server->job_count++;
	return job;
fail_roster:
	hd_timers_release(&server->timers, &job->roster_timer);
fail_retry:
	hd_timers_release(&server->timers, &job->retry);
fail_timer:
	hd_timers_release(&server->timers, &job->hold);
fail_arrays:
	free(job->members);
	free(job->log);
	free(job);
	return NULL;
}

/* --- leaving ---------------------------------------------------------------------------------- */
