/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives through memory that all members share: worker_shared.c. */
#ifndef WORKER_SHARED_H
#define WORKER_SHARED_H

#include "worker_reduce.h"

/* --- worker_reduces.c ----------------------------------------------------------------------- */
/* Ends its use of shared memory. False: it is complete there, its end will be reported; not with `force`. */
bool worker_reduce_unshare(struct hd_worker *worker, struct worker_reduce *r, bool force);

/* --- worker_shared.c ------------------------------------------------------------------------ */
/* 0, -EINVAL, -EAGAIN (the memory cannot be used). */
int worker_shared_open(
	struct hd_worker *worker,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
);
/* Members that move no values in shared memory, though the controller has not lost them: by the network instead. */
void worker_shared_stalls(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
);

#endif
