/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of sums. All jobs share one budget. While another job is here (it has a group, or a worker's session), no job
 * may take what is left of the other's equal share:
 *
 *      |<--------------------------------- memory_bytes --------------------------------->|
 *      | job A: used .......... | may grow | job B's share: used .... free | early chunks |
 *      |<------------------ reported to the controller -------------------->|
 *
 * The controller computes needs with the same function (hd_reduce_memory_bytes()). Room for early chunks is a budget
 * apart, so that no group that the controller has planned is refused for lack of it.
 *
 * Freed buffers are kept: fresh memory costs a page fault every 4 KiB, more than writing the sum there.
 */
#include "agg_group.h"
#include "hd_assert.h"

struct agg_job *agg_job_get(struct hd_aggregator *aggregator, uint32_t id) {
	struct agg_job *job;

	HASH_FIND(hh, aggregator->jobs, &id, sizeof id, job);
	if (job)
		return job;
	if (HASH_COUNT(aggregator->jobs) >= HD_JOBS_MAX)
		return NULL;
	job = calloc(1, sizeof *job);
	if (!job)
		return NULL;
	job->id = id;
	HASH_ADD(hh, aggregator->jobs, id, sizeof job->id, job);
	if (!job->hh.tbl) {
		free(job);
		return NULL;
	}
	aggregator->stats.jobs++;
	return job;
}

void agg_job_put(struct hd_aggregator *aggregator, struct agg_job *job) {
	if (job->groups > 0 || job->peers > 0)
		return;
	HASH_DELETE(hh, aggregator->jobs, job);
	aggregator->stats.jobs--;
	free(job);
}

bool agg_memory_admits(
	const struct hd_aggregator *aggregator,
	const struct agg_job *job,
	uint64_t bytes
) {
	uint64_t memory = agg_memory_sums(aggregator), used = aggregator->summed;
	uint64_t share, reserved = 0;
	const struct agg_job *other;

	hd_assert(aggregator->jobs); /* at least this job is there */
	share = memory / HASH_COUNT(aggregator->jobs);
	if (bytes > memory - used)
		return false;
	if (job->used + bytes <= share)
		return true;
	for (other = aggregator->jobs; other; other = other->hh.next)
		reserved += other != job && other->used < share ? share - other->used : 0;
	return reserved <= memory - used && bytes <= memory - used - reserved;
}

static void pool_free(struct hd_aggregator *aggregator, struct agg_buffer **link) {
	struct agg_buffer *buffer = *link;

	*link = buffer->next;
	aggregator->pooled -= buffer->bytes;
	free(buffer->data);
	free(buffer);
}

void agg_memory_take(struct hd_aggregator *aggregator, struct agg_group *group) {
	aggregator->summed += group->charged;
	aggregator->early += group->early;
	group->job->used += group->charged;
	aggregator->stats.memory_bytes = aggregator->summed + aggregator->early;
}

void agg_memory_give(struct hd_aggregator *aggregator, struct agg_group *group) {
	hd_assert(group->job->used >= group->charged && aggregator->summed >= group->charged);
	hd_assert(aggregator->early >= group->early);
	aggregator->summed -= group->charged;
	aggregator->early -= group->early;
	group->job->used -= group->charged;
	aggregator->stats.memory_bytes = aggregator->summed + aggregator->early;
}

/* Only of exactly this size: a bigger one would be more memory than is accounted for. */
static struct agg_buffer *pool_take(struct hd_aggregator *aggregator, uint64_t bytes) {
	struct agg_buffer **link = &aggregator->pool, *buffer;

	while (*link && (*link)->bytes != bytes)
		link = &(*link)->next;
	buffer = *link;
	if (buffer) {
		*link = buffer->next;
		aggregator->pooled -= bytes;
	}
	return buffer;
}

/* The caller has charged the group. Buffers in the pool are freed to make room. */
struct agg_buffer *agg_buffer_get(struct hd_aggregator *aggregator, uint64_t bytes) {
	struct agg_buffer *buffer = pool_take(aggregator, bytes);

	if (buffer)
		return buffer;
	while (aggregator->pool
	       && aggregator->pooled + aggregator->stats.memory_bytes
		       > aggregator->config.memory_bytes)
		pool_free(aggregator, &aggregator->pool);
	buffer = calloc(1, sizeof *buffer);
	if (!buffer)
		return NULL;
	buffer->bytes = bytes;
	buffer->data = aligned_alloc(64, bytes);
	if (!buffer->data) {
		free(buffer);
		return NULL;
	}
	return buffer;
}

void agg_buffer_put(struct hd_aggregator *aggregator, struct agg_buffer *buffer) {
	if (!buffer)
		return;
	buffer->next = aggregator->pool;
	aggregator->pool = buffer;
	aggregator->pooled += buffer->bytes;
}

void agg_memory_fini(struct hd_aggregator *aggregator) {
	struct agg_job *job;

	while (aggregator->pool)
		pool_free(aggregator, &aggregator->pool);
	/* NOLINTBEGIN(clang-analyzer-unix.Malloc): the analyzer does not follow uthash's deletion */
	while ((job = aggregator->jobs)) {
		HASH_DELETE(hh, aggregator->jobs, job);
		free(job);
	}
	/* NOLINTEND(clang-analyzer-unix.Malloc) */
}
