/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job is at: model, momentum, their version, and lives that made it, where these do not come by commits. */
#include "hd_kernels.h"
#include "srv_job.h"
#include "srv_keep.h"

#include <assert.h>
#include <string.h>

void srv_state_replace(struct hd_server *server, struct srv_job *job, const struct srv_state *by) {
	struct srv_buffer *old[2] = {job->model, job->momentum};

	assert(!job->apply.in && by->life_count <= HD_LIVES_MAX);
	job->model = by->model;
	job->momentum = by->momentum;
	srv_buffer_put(server, job, old[0]);
	srv_buffer_put(server, job, old[1]);
	job->version = by->version;
	job->life_count = by->life_count;
	memcpy(job->lives, by->lives, by->life_count * sizeof job->lives[0]);
}

void srv_state_measure(struct srv_job *job) {
	job->momentum2 = hd_norm2_f32(job->momentum->data, job->values);
	job->weights2 = hd_norm2_f32(job->model->data, job->values);
}

void srv_state_succeed(struct srv_job *job, uint64_t generation, uint16_t incarnation) {
	const struct hd_life former
		= {hd_version_incarnation(job->version), hd_version_counter(job->version)};

	assert(incarnation >= former.incarnation);
	if (job->life_count == HD_LIVES_MAX) {
		memmove(job->lives, job->lives + 1, (HD_LIVES_MAX - 1) * sizeof job->lives[0]);
		job->life_count--;
	}
	job->lives[job->life_count++] = former;
	/* All of it was durable: it is what a death of the server was not to take away. */
	job->durable = job->version;
	job->version = hd_version_make(incarnation, former.last);
	job->generation = generation;
	job->confirmed = true; /* who promotes it knows what it has */
}
