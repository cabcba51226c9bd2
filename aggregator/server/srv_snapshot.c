/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pinned versions. A snapshot is the model's own buffer until a commit comes: then the commit works on a copy (into a
 * buffer reserved at the pin), and the snapshot keeps the old one. While an update is being applied, only a version
 * that is pinned already can be pinned.
 *
 * In 16 bits a version has a buffer of its own, shared by all pulls of that type. It is filled a little ahead of the
 * pull that is furthest, so that a large model does not hold up everything else:
 *
 *      | rounded, sent by A and B | rounded, sent by A | rounded | not yet |
 */
#include "hd_kernels.h"
#include "srv_keep.h"
#include "srv_pull.h"

#include <assert.h>
#include <errno.h>

static struct srv_snapshot *snapshot_pin_version(
	struct hd_server *server,
	struct srv_job *job,
	const struct hd_msg_grant *grant
) {
	struct srv_snapshot *newest = LIST_FIRST(&job->snapshots);
	struct srv_snapshot *snapshot = NULL;

	if (newest && newest->version == job->version) {
		newest->refs++;
		return newest;
	}
	if (job->apply.in)
		return NULL; /* served once the update is applied */
	if (!job->spare[0] && job->snapshot_count < HD_SNAPSHOTS_MAX)
		job->spare[0] = srv_buffer_get(server, job);
	if (job->spare[0] && job->snapshot_count < HD_SNAPSHOTS_MAX)
		snapshot = calloc(1, sizeof *snapshot);
	if (snapshot) {
		snapshot->refs = 1;
		snapshot->version = job->version;
		snapshot->buffer = job->model;
		snapshot->buffer->refs++;
		LIST_INSERT_HEAD(&job->snapshots, snapshot, link);
		job->snapshot_count++;
		server->stats.snapshots++;
		return snapshot;
	}
	if (!newest || (grant->conditional && newest->version == grant->have)
	    || hd_version_counter(newest->version) < hd_version_counter(grant->have))
		return NULL;
	newest->refs++;
	server->stats.pulls_older++;
	return newest;
}

void srv_snapshot_unpin(
	struct hd_server *server,
	struct srv_job *job,
	struct srv_snapshot *snapshot
) {
	assert(snapshot->refs > 0);
	server->freed = true;
	if (--snapshot->refs > 0)
		return;
	LIST_REMOVE(snapshot, link);
	job->snapshot_count--;
	srv_buffer_put(server, job, snapshot->buffer);
	srv_buffer_put(server, job, snapshot->half[0].buffer);
	srv_buffer_put(server, job, snapshot->half[1].buffer);
	free(snapshot);
	if (job->model->refs == 1 && job->spare[0]) {
		srv_buffer_put(server, job, job->spare[0]);
		job->spare[0] = NULL;
	}
}

/* --- in 16 bits ------------------------------------------------------------------------------- */

static struct srv_rounded *snapshot_rounded(struct srv_snapshot *snapshot, uint8_t dtype) {
	return &snapshot->half[dtype == HD_DTYPE_BF16 ? 1 : 0];
}

static int snapshot_prepare(
	struct hd_server *server,
	struct srv_job *job,
	struct srv_snapshot *snapshot,
	uint8_t dtype
) {
	struct srv_rounded *rounded = snapshot_rounded(snapshot, dtype);

	if (!hd_dtype_is_half(dtype) || rounded->buffer)
		return 0;
	rounded->buffer = srv_buffer_get(server, job);
	return rounded->buffer ? 0 : -ENOMEM;
}

struct srv_snapshot *
srv_snapshot_pin(struct hd_server *server, struct srv_job *job, const struct hd_msg_grant *grant) {
	struct srv_snapshot *snapshot = snapshot_pin_version(server, job, grant);
	bool freed = server->freed;

	if (!snapshot || snapshot_prepare(server, job, snapshot, grant->dtype) == 0)
		return snapshot;
	/* This freed nothing for others: retrying at once would loop. */
	srv_snapshot_unpin(server, job, snapshot);
	server->freed = freed;
	return NULL;
}

const void *srv_snapshot_data(struct srv_snapshot *snapshot, uint8_t dtype) {
	return hd_dtype_is_half(dtype) ? snapshot_rounded(snapshot, dtype)->buffer->data :
					 snapshot->buffer->data;
}

void srv_snapshot_convert(
	const struct srv_job *job,
	struct srv_snapshot *snapshot,
	uint8_t dtype,
	uint64_t bytes
) {
	struct srv_rounded *rounded = snapshot_rounded(snapshot, dtype);
	uint64_t until = bytes / sizeof(uint16_t);
	uint16_t *half;

	until = until < job->values ? until : job->values;
	if (!hd_dtype_is_half(dtype) || rounded->done >= until)
		return;
	half = (void *)rounded->buffer->data;
	hd_half_from_f32(
		dtype,
		half + rounded->done,
		snapshot->buffer->data + rounded->done,
		until - rounded->done,
		1
	);
	rounded->done = until;
}
