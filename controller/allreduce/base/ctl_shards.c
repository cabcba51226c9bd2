/* SPDX-License-Identifier: BSD-3-Clause */
/* Which aggregator adds which part of a collective: hosts, and the present rates of their links (hd_shards.h). Blocks
 * are divided in ctl_blocks.c. */
#include "ctl_base.h"
#include "ctl_field.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* A shard is worth its messages from this number of packets on; a small all-reduce has one shard. */
#define GRAIN_BYTES (UINT64_C(8) * HD_CHUNK_BYTES_DEFAULT)

static int take_shards(struct hd_controller *c, struct ctl_reduce *r, const struct ctl_field *f) {
	uint64_t first = 0;

	free(r->shards);
	r->shard_count = 0;
	r->shards = NULL;
	if (f->count == 0)
		return 0;
	r->shards = calloc(f->count, sizeof *r->shards);
	if (!r->shards)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->count; i++) {
		if (f->hosts[i].bytes == 0)
			continue;
		r->shards[r->shard_count++] = (struct ctl_shard){
			.group = hd_entropy_u64(&c->entropy),
			.aggregator = f->aggregator[i],
			.first = first,
			.bytes = f->hosts[i].bytes,
			.memory = ctl_shard_memory(r, f->hosts[i].bytes),
			.transfers = ctl_shard_transfers(r),
		};
		first += f->hosts[i].bytes;
	}
	return 0;
}

static int
cut(struct hd_controller *c,
    const struct ctl_job *job,
    struct ctl_reduce *r,
    enum ctl_candidates candidates,
    bool idle) {
	struct ctl_field f = {0};
	double seconds;
	int rc = ctl_field_make(&f, c, job, r, candidates, idle);

	if (rc == 0 && !idle)
		ctl_field_take_links(c, r, &f);
	if (rc == 0 && ctl_call_has_blocks(&r->call)) {
		rc = ctl_blocks_cut(c, job, r, &f, idle);
		ctl_field_fini(&f);
		return rc;
	}
	if (rc == 0)
		rc = hd_shards_cut(f.hosts, f.count, r->bytes, GRAIN_BYTES, &seconds);
	if (rc == 0 && !idle)
		rc = take_shards(c, r, &f);
	ctl_field_fini(&f);
	return rc;
}

double
ctl_reduce_seconds(struct hd_controller *c, const struct ctl_job *job, const struct ctl_reduce *r) {
	struct ctl_field f = {0};
	double seconds = INFINITY;
	int rc = ctl_field_make(&f, c, job, r, CTL_STANDING, true);

	if (rc == 0)
		rc = hd_shards_cut(f.hosts, f.count, r->bytes, GRAIN_BYTES, &seconds);
	ctl_field_fini(&f);
	return rc == 0 ? seconds : (double)INFINITY;
}

enum hd_reason
ctl_reduce_cut(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r) {
	/* Workers add only while no other aggregator is registered. */
	const enum ctl_candidates candidates = ctl_any_stands(c) ? CTL_STANDING : CTL_HOSTED;
	int rc;

	if (ctl_reduce_stays(r)) {
		free(r->shards);
		r->shards = NULL;
		r->shard_count = 0;
		return HD_REASON_NONE;
	}
	rc = cut(c, job, r, candidates, false);
	if (rc == -ENOSPC && cut(c, job, r, candidates, true) == 0)
		return HD_REASON_HOLD;
	if (rc == -ENOSPC)
		return HD_REASON_NO_SERVER;
	return rc == 0 ? HD_REASON_NONE : HD_REASON_NO_MEMORY;
}

static bool is_needed(const struct ctl_reduce *r, const struct ctl_shard *shard) {
	const struct ctl_node *aggregator = shard->aggregator;

	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_STARTED && ctl_shard_takes(r, shard, i)
		    && (aggregator->host_job == 0 || aggregator->worker != i))
			return true;
	return false;
}

bool ctl_reduce_needs(const struct ctl_reduce *r, const struct ctl_node *aggregator) {
	for (uint32_t i = 0; i < r->shard_count; i++)
		if (r->shards[i].aggregator == aggregator && is_needed(r, &r->shards[i]))
			return true;
	return false;
}

void ctl_reduce_forget_aggregator(struct ctl_reduce *r, const struct ctl_node *aggregator) {
	for (uint32_t i = 0; i < r->shard_count; i++)
		if (r->shards[i].aggregator == aggregator)
			r->shards[i].aggregator = NULL;
}
