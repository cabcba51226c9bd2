/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's state: model, momentum, version and earlier incarnations, where it does not come from commits. */
#include "hd_kernels.h"
#include "srv_job.h"
#include "srv_keep.h"

#include <assert.h>
#include <string.h>

void srv_state_replace(struct hd_server *server, struct srv_job *job, const struct srv_state *by) {
	struct srv_buffer *old[2] = {job->model, job->momentum};

	assert(!job->apply.in && by->prior_count <= HD_INCARNATIONS_MAX);
	job->model = by->model;
	job->momentum = by->momentum;
	srv_buffer_put(server, job, old[0]);
	srv_buffer_put(server, job, old[1]);
	job->version = by->version;
	job->prior_count = by->prior_count;
	memcpy(job->prior, by->prior, by->prior_count * sizeof job->prior[0]);
}

void srv_state_measure(struct srv_job *job) {
	job->momentum2 = hd_norm2_f32(job->momentum->data, job->values);
	job->weights2 = hd_norm2_f32(job->model->data, job->values);
}

void srv_state_succeed(struct srv_job *job, uint64_t generation, uint16_t incarnation) {
	const struct hd_incarnation former
		= {hd_version_incarnation(job->version), hd_version_counter(job->version)};

	assert(incarnation >= former.incarnation);
	if (job->prior_count == HD_INCARNATIONS_MAX) {
		memmove(job->prior, job->prior + 1, (HD_INCARNATIONS_MAX - 1) * sizeof job->prior[0]
		);
		job->prior_count--;
	}
	job->prior[job->prior_count++] = former;
	/* All of it was durable: it must survive the server. */
	job->durable = job->version;
	job->version = hd_version_make(incarnation, former.last);
	job->generation = generation;
	job->confirmed = true; /* the controller, which promotes it, knows its state */
}
