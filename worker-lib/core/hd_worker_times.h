/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The times of a worker's pushes and pulls.
 *
 *   call ... request --grant_wait--> grant --first_chunk--> first chunk ... outcome
 *     `---------------------------------- whole ------------------------------'
 */
#ifndef HD_WORKER_TIMES_H
#define HD_WORKER_TIMES_H

#include "hd_histogram.h"

struct hd_worker;

struct hd_worker_times {
	/* From the newest request to the grant, at the worker (of a pull: to the message that it comes). Not of
	 * credits. */
	struct hd_histogram grant_wait;
	/* From there to the first chunk that is sent or received: includes the wait that the schedule planned. Not of
	 * credits. */
	struct hd_histogram first_chunk;
	/* From the call until it is applied, or delivered; only of those that were. */
	struct hd_histogram whole;
};

/* direction: HD_PUSH or HD_PULL. */
const struct hd_worker_times *hd_worker_times(const struct hd_worker *worker, uint8_t direction);

#endif
