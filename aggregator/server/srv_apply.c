/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizer steps on the model, in slices that fit one call. */
#include "hd_kernels.h"
#include "hd_runs.h"
#include "srv_apply.h"
#include "srv_keep.h"

#include <assert.h>

#define RUN_WORK 16 /* applying this many values costs as much as starting a run */

/* If others read the buffer, the step goes into the spare one. */
static struct srv_buffer *apply_target(struct srv_buffer *buffer, struct srv_buffer **spare) {
	struct srv_buffer *copy = *spare;

	if (buffer->refs == 1)
		return buffer;
	assert(copy != NULL);
	*spare = NULL;
	return copy;
}

void srv_apply_begin(struct srv_job *job, struct srv_incoming *in) {
	bool sparse = in->dtype == HD_DTYPE_SPARSE32 && in->state != SRV_STEPPED;

	assert(!job->apply.in && in->state >= SRV_READY);
	assert(srv_commit_bounds(job, in, 0) == HD_REASON_NONE);
	job->apply = (struct srv_apply){
		.in = in,
		.momentum2 = sparse ? job->momentum2 : 0,
		.weights2 = sparse ? job->weights2 : 0,
		.mean = in->state == SRV_STEPPED ? job->step.scale / (float)job->step.weight : 1.0F,
		.model = apply_target(job->model, &job->spare[0]),
		.momentum = apply_target(job->momentum, &job->spare[1]),
	};
}

/* Copies the old values along where the step goes into other buffers. */
static void apply_copy(struct srv_job *job, uint64_t at, uint64_t count) {
	struct srv_apply *apply = &job->apply;

	if (apply->model != job->model)
		memcpy(apply->model->data + at, job->model->data + at, count * sizeof(float));
	if (apply->momentum != job->momentum)
		memcpy(apply->momentum->data + at, job->momentum->data + at, count * sizeof(float));
}

static struct hd_sgd apply_sgd(const struct srv_job *job) {
	return (struct hd_sgd){
		.learning_rate = job->spec.learning_rate,
		.momentum = job->spec.momentum,
		.decay = job->spec.weight_decay,
	};
}

static void spend(struct hd_server *server, uint64_t values) {
	server->apply_left -= values < server->apply_left ? values : server->apply_left;
}

/* Applies one chunk's runs, which were checked when it arrived. Returns its cost in values. */
static uint64_t apply_chunk(struct srv_job *job, const uint8_t *chunk, size_t bytes) {
	const struct hd_sgd sgd = apply_sgd(job);
	struct srv_apply *apply = &job->apply;
	struct hd_runs_cursor cursor;
	uint64_t work = 0;
	struct hd_run run;
	const float *x;

	hd_runs_begin(&cursor, chunk, bytes, job->values);
	while (hd_runs_next(&cursor, &run, &x) > 0) {
		float *model = apply->model->data + run.first;
		float *momentum = apply->momentum->data + run.first;

		if (job->primary) {
			apply->momentum2 -= hd_norm2_f32(momentum, run.count);
			apply->weights2 -= hd_norm2_f32(model, run.count);
		}
		apply->momentum2 += hd_sgd_apply(model, momentum, x, run.count, &sgd);
		apply->weights2 += job->primary ? hd_norm2_f32(model, run.count) : 0;
		work += run.count + RUN_WORK;
	}
	return work;
}

/* Touches only what the runs name: neither the momentum nor the weights of the rest decay. */
static bool apply_runs(struct hd_server *server, struct srv_job *job) {
	struct srv_apply *apply = &job->apply;
	bool copies = apply->model != job->model || apply->momentum != job->momentum;
	uint64_t count = job->values - apply->done;

	if (copies && count > 0) {
		count = count < server->apply_left ? count : server->apply_left;
		apply_copy(job, apply->done, count);
		spend(server, count);
		apply->done += count;
	}
	while (server->apply_left > 0 && apply->read < apply->in->bytes) {
		const uint8_t *chunk = (const uint8_t *)apply->in->buffer->data + apply->read;
		uint64_t left = apply->in->bytes - apply->read;
		uint32_t full = hd_recv_chunk_bytes(apply->in->recv);
		size_t bytes = left < full ? (size_t)left : full;

		spend(server, apply_chunk(job, chunk, bytes));
		apply->read += bytes;
	}
	return apply->read == apply->in->bytes;
}

/* A sum is applied as its mean first, then as any update. */
static double
apply_mean(struct srv_job *job, uint64_t at, uint64_t count, const struct hd_sgd *sgd) {
	float *sum = job->step.sum->data + at;
	struct srv_apply *apply = &job->apply;

	if (apply->mean < 1 || apply->mean > 1)
		hd_scale_f32(sum, sum, count, apply->mean);
	return hd_sgd_apply(apply->model->data + at, apply->momentum->data + at, sum, count, sgd);
}

bool srv_apply_slice(struct hd_server *server, struct srv_job *job) {
	struct srv_apply *apply = &job->apply;
	uint64_t at = apply->done, count = job->values - at, left;
	float *model = apply->model->data + at, *momentum = apply->momentum->data + at;
	const struct hd_sgd_sum how = {
		.sgd = apply_sgd(job),
		.steps = apply->in->steps,
		.dtype = apply->in->dtype,
	};
	const uint8_t *update;

	server->stats.steps++;
	if (apply->in->dtype == HD_DTYPE_SPARSE32 && apply->in->state != SRV_STEPPED)
		return apply_runs(server, job);
	left = server->apply_left / how.steps;
	left = left > 0 ? left : 1;
	count = count < left ? count : left;
	apply_copy(job, at, count);
	if (apply->in->state == SRV_STEPPED) {
		apply->momentum2 += apply_mean(job, at, count, &how.sgd);
	} else {
		update = (const uint8_t *)apply->in->buffer->data + at * hd_dtype_bytes(how.dtype);
		apply->momentum2 += hd_sgd_apply_sum(model, momentum, update, count, &how);
	}
	/* The bound depends on the weights only if they decay. */
	if (job->primary && how.sgd.decay > 0)
		apply->weights2 += hd_norm2_f32(model, count);
	spend(server, count * how.steps);
	apply->done += count;
	return apply->done == job->values;
}

static void apply_swap(
	struct hd_server *server,
	struct srv_job *job,
	struct srv_buffer **buffer,
	struct srv_buffer *written
) {
	if (*buffer != written) {
		srv_buffer_put(server, job, *buffer);
		*buffer = written;
		server->stats.copies++;
	}
}

void srv_apply_fini(struct hd_server *server, struct srv_job *job) {
	struct srv_apply *apply = &job->apply;

	if (apply->model && apply->model != job->model)
		srv_buffer_put(server, job, apply->model);
	if (apply->momentum && apply->momentum != job->momentum)
		srv_buffer_put(server, job, apply->momentum);
	*apply = (struct srv_apply){0};
}

void srv_apply_take(struct hd_server *server, struct srv_job *job, uint32_t versions) {
	assert(job->apply.in != NULL);
	apply_swap(server, job, &job->model, job->apply.model);
	apply_swap(server, job, &job->momentum, job->apply.momentum);
	job->version = hd_version_make(
		hd_version_incarnation(job->version), hd_version_counter(job->version) + versions
	);
	job->momentum2 = job->apply.momentum2 > 0 ? job->apply.momentum2 : 0;
	job->weights2 = job->apply.weights2 > 0 ? job->apply.weights2 : 0;
	job->apply = (struct srv_apply){0};
}
