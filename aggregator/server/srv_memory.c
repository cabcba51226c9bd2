/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's large buffers all have one size: model, momentum, snapshots, updates. They come from the job's pool. The pool
 * grows within the server's budget, and gives idle buffers above its floor to other jobs.
 */
#include "srv_job.h"
#include "srv_keep.h"

#include <assert.h>
#include <errno.h>

#define ALIGNMENT 64

static uint64_t buffer_bytes(const struct srv_job *job) {
	return (job->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

uint64_t srv_memory_left(const struct hd_server *server) {
	uint64_t used = server->stats.memory_bytes;

	return used < server->config.memory_bytes ? server->config.memory_bytes - used : 0;
}

static void buffer_free(struct hd_server *server, struct srv_job *job, struct srv_buffer *buffer) {
	server->stats.memory_bytes -= buffer_bytes(job);
	job->buffer_count--;
	free(buffer->data);
	free(buffer);
}

/* Frees idle buffers of other jobs until `bytes` are left. */
static void memory_trim(struct hd_server *server, uint64_t bytes) {
	struct srv_job *job;

	TAILQ_FOREACH (job, &server->jobs, link) {
		while (srv_memory_left(server) < bytes && job->pool
		       && job->buffer_count > job->buffer_floor) {
			struct srv_buffer *idle = job->pool;

			job->pool = idle->next;
			buffer_free(server, job, idle);
		}
	}
}

static struct srv_buffer *buffer_allocate(struct hd_server *server, struct srv_job *job) {
	uint64_t bytes = buffer_bytes(job);
	struct srv_buffer *buffer;

	if (srv_memory_left(server) < bytes)
		memory_trim(server, bytes);
	if (srv_memory_left(server) < bytes)
		return NULL;
	buffer = calloc(1, sizeof *buffer);
	if (!buffer)
		return NULL;
	buffer->data = aligned_alloc(ALIGNMENT, bytes);
	if (!buffer->data) {
		free(buffer);
		return NULL;
	}
	server->stats.memory_bytes += bytes;
	job->buffer_count++;
	return buffer;
}

int srv_memory_guarantee(struct hd_server *server, struct srv_job *job, uint32_t count) {
	job->buffer_floor = count; /* first, or making room would free the buffers just allocated */
	while (job->buffer_count < count) {
		struct srv_buffer *buffer = buffer_allocate(server, job);

		if (!buffer)
			return -ENOMEM;
		buffer->next = job->pool;
		job->pool = buffer;
	}
	return 0;
}

struct srv_buffer *srv_buffer_get(struct hd_server *server, struct srv_job *job) {
	struct srv_buffer *buffer = job->pool;

	if (buffer)
		job->pool = buffer->next;
	else
		buffer = buffer_allocate(server, job);
	if (buffer) {
		buffer->refs = 1;
		buffer->next = NULL;
	}
	return buffer;
}

void srv_buffer_put(struct hd_server *server, struct srv_job *job, struct srv_buffer *buffer) {
	assert(!buffer || buffer->refs > 0);
	if (!buffer || --buffer->refs > 0)
		return;
	buffer->next = job->pool;
	job->pool = buffer;
	server->freed = true;
}

/* Reserves both copies that a commit may have to make meanwhile. */
int srv_state_hold(struct hd_server *server, struct srv_job *job, struct srv_buffer *held[2]) {
	for (uint32_t i = 0; i < 2; i++) {
		if (!job->spare[i])
			job->spare[i] = srv_buffer_get(server, job);
		if (!job->spare[i]) {
			srv_state_release(server, job, held);
			return -ENOMEM;
		}
	}
	assert(!job->apply.in);
	held[0] = job->model;
	held[1] = job->momentum;
	job->model->refs++;
	job->momentum->refs++;
	return 0;
}

void srv_state_release(struct hd_server *server, struct srv_job *job, struct srv_buffer *held[2]) {
	srv_buffer_put(server, job, held[0]);
	srv_buffer_put(server, job, held[1]);
	held[0] = NULL;
	held[1] = NULL;
	if (job->spare[0] && job->model->refs == 1) {
		srv_buffer_put(server, job, job->spare[0]);
		job->spare[0] = NULL;
	}
	if (job->spare[1] && job->momentum->refs == 1) {
		srv_buffer_put(server, job, job->spare[1]);
		job->spare[1] = NULL;
	}
}

void srv_memory_fini(struct hd_server *server, struct srv_job *job) {
	while (job->pool) {
		struct srv_buffer *idle = job->pool;

		job->pool = idle->next;
		buffer_free(server, job, idle);
	}
	assert(job->buffer_count == 0); /* all were given back */
}
