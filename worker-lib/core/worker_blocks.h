/* SPDX-License-Identifier: BSD-3-Clause */
/* Which values of a collective are whose: worker_blocks.c. */
#ifndef WORKER_BLOCKS_H
#define WORKER_BLOCKS_H

#include "worker_reduce.h"

/* Sets members, total, block, gives and takes. -EINVAL: they are not those of this call. */
int worker_blocks_begin(
	const struct hd_worker *worker,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
);
/* Values that arrive, and that leave. */
uint64_t worker_blocks_due(const struct hd_worker *worker, const struct worker_reduce *r);
uint64_t worker_blocks_to_send(const struct hd_worker *worker, const struct worker_reduce *r);
/* Where these values are in `in`, and in `out`. False: they are not this worker's to give, or to take. */
bool worker_blocks_given(
	const struct worker_reduce *r,
	uint64_t first,
	uint64_t count,
	uint64_t *at
);
bool worker_blocks_taken(
	const struct hd_worker *worker,
	const struct worker_reduce *r,
	uint64_t first,
	uint64_t count,
	uint64_t *at
);
/* Copies this worker's own block, if it does not come back to it. */
void worker_blocks_copy(const struct hd_worker *worker, const struct worker_reduce *r);

#endif
