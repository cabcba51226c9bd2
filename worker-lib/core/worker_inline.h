/* SPDX-License-Identifier: BSD-3-Clause */
/* Short collectives, whose values go with their requests: worker_inline.c. */
#ifndef WORKER_INLINE_H
#define WORKER_INLINE_H

#include "worker_reduce.h"

/* The values of its request: all that this worker gives, if they are few enough; or none. */
struct hd_blob worker_inline_given(const struct hd_worker *worker, const struct worker_reduce *r);
/* REDUCE with the result, or with none for a worker that receives nothing. -EINVAL: it is not of this call's size. */
int worker_inline_begin(
	struct hd_worker *worker,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
);
/* Its result, after that. */
void worker_inline_deliver(
	const struct hd_worker *worker,
	const struct worker_reduce *r,
	const struct hd_blob *values
);

#endif
