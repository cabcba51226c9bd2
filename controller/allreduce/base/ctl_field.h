/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/allreduce/base: the hosts of a collective, and which of them can add its shards. */
#ifndef CTL_FIELD_H
#define CTL_FIELD_H

#include "ctl_reduces.h"
#include "hd_shards.h"

/* Which aggregators a round may have. */
enum ctl_candidates {
	CTL_STANDING, /* those that are no worker's */
	CTL_HOSTED, /* those of the job's workers */
};

/* The hosts of a collective, and which aggregator each has. */
struct ctl_field {
	struct hd_shards_host *hosts;
	int *index; /* in the topology */
	struct ctl_node **aggregator;
	uint32_t count;
};

/* --- ctl_field.c --- */
/* 0, -ENOMEM. `idle`: as if the aggregators were idle. ctl_field_fini() is due in any case. */
int ctl_field_make(
	struct ctl_field *f,
	const struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	enum ctl_candidates candidates,
	bool idle
);
/* Sets the rates of the workers' hosts' links for this round. */
void ctl_field_take_links(struct hd_controller *c, const struct ctl_reduce *r, struct ctl_field *f);
void ctl_field_fini(struct ctl_field *f);
/* The memory that a shard of this many bytes takes at its aggregator. */
uint64_t ctl_shard_memory(const struct ctl_reduce *r, uint64_t bytes);
/* The inputs and outputs that it has there. */
uint32_t ctl_shard_transfers(const struct ctl_reduce *r);

/* --- ctl_blocks.c --- */
/* Divides blocks among the aggregators: sets r->shards, unless `idle`. 0, -ENOSPC, -ENOMEM. */
int ctl_blocks_cut(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	const struct ctl_field *field,
	bool idle
);

#endif
