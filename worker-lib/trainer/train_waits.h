/* SPDX-License-Identifier: BSD-3-Clause */
/* The trainer's waits for the fabric. Each ends at its time, and soon after a signal. */
#ifndef TRAIN_WAITS_H
#define TRAIN_WAITS_H

#include "hd_options.h"

#define SLICE_MS 100 /* how often a wait checks for a signal or the time */
#define STOP_MS 500 /* for transfers in flight after a signal */

/* Until the job is joined, --join-ms or --seconds. An exit status; EX_OK also after a signal, or when this worker has
 * left (its machine is taken away): then there is nothing to do. */
int train_join(const struct train *train, struct heddle *fabric);
/* Until the time, or STOP_MS after a signal: then *end moves there, also for waits that follow. 0, -ETIMEDOUT or
 * another error of heddle_ticket_wait(). */
int train_wait(
	struct heddle_ticket *ticket,
	enum heddle_wait until,
	hd_ns *end,
	struct heddle_status *status
);
/* As heddle_pull(). A signal withdraws it: -ETIMEDOUT. */
int train_pull(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	int timeout_ms,
	uint64_t *version
);
/* As heddle_close(), for at most STOP_MS after a signal. */
int train_close(struct heddle *fabric, int timeout_ms);

#endif
