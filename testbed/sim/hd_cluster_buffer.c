/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of a worker's pushes: buffers that the library reads until it releases them. */
#include "hd_cluster_private.h"

#include <stdlib.h>
#include <string.h>

static struct buffer *free_buffer(struct worker_process *worker) {
	uint64_t values = worker->process.cluster->values;

	for (uint32_t i = 0; i < CLUSTER_PUSHES_MAX; i++) {
		struct buffer *buffer = &worker->buffers[i];

		if (buffer->used)
			continue;
		if (!buffer->data)
			buffer->data = calloc(values, sizeof(float));
		if (!buffer->packed)
			buffer->packed = calloc(values, sizeof(float));
		return buffer->data && buffer->packed ? buffer : NULL;
	}
	return NULL;
}

struct buffer *buffer_fill(struct worker_process *worker, uint64_t salt) {
	struct hd_cluster *cluster = worker->process.cluster;
	struct buffer *buffer = worker->ready ? worker->ready : free_buffer(worker);

	if (!buffer)
		return NULL;
	if (!cluster->training)
		hd_check_fill(salt, buffer->data, cluster->values);
	else if (!worker->ready)
		training_gradient(worker, buffer->data);
	worker->ready = buffer;
	return buffer;
}

uint64_t buffer_pack(
	const struct hd_cluster *cluster,
	struct buffer *buffer,
	uint64_t salt,
	struct hd_push_args *args
) {
	uint64_t dense = cluster->values * sizeof(float), bytes;
	float *to = buffer->packed;

	args->dtype = cluster->scenario.job.payload;
	if (args->dtype != HD_DTYPE_SPARSE32)
		return cluster->values * hd_dtype_bytes(args->dtype);
	args->run_count = hd_check_runs(salt, cluster->values, buffer->runs);
	bytes = hd_runs_bytes(buffer->runs, args->run_count, HD_CHUNK_BYTES_DEFAULT);
	if (bytes > dense) {
		args->dtype = HD_DTYPE_FP32;
		args->run_count = 0;
		return dense;
	}
	for (size_t i = 0; i < args->run_count; i++) {
		const struct hd_run *run = &buffer->runs[i];

		memcpy(to, buffer->data + run->first, run->count * sizeof(float));
		to += run->count;
	}
	args->runs = buffer->runs;
	args->data = buffer->packed;
	args->values = (uint64_t)(to - buffer->packed);
	return bytes;
}

void buffers_free(struct worker_process *worker) {
	for (uint32_t i = 0; i < CLUSTER_PUSHES_MAX; i++) {
		free(worker->buffers[i].packed);
		free(worker->buffers[i].data);
	}
}
