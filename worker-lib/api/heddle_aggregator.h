/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libheddle: the aggregator that runs beside the worker (heddle_aggregator.c). */
#ifndef HEDDLE_AGGREGATOR_H
#define HEDDLE_AGGREGATOR_H

#include "hd_worker.h"
#include "heddle.h"

/* Options of the aggregator beside the worker. */
struct heddle_aggregator_setup {
	const struct hd_worker_config *worker; /* of the worker that it is beside */
	uint32_t bind_ipv4; /* 0: any */
	bool other_driver; /* the worker's is not udp */
	int memory_mb; /* of the options; 0: the environment says, negative: there is none */
};

/* Sets fabric->aggregator, if the job is to have one here: heddle_aggregator_close() is due in any case. 0, -EINVAL,
 * -ENOMEM, or an errno of the socket. */
int heddle_aggregator_open(struct heddle *fabric, const struct heddle_aggregator_setup *setup);
int heddle_aggregator_start(struct heddle *fabric);
/* The worker has left, or was refused: the aggregator takes no new groups, and ends when its groups have ended. */
void heddle_aggregator_retire(struct heddle *fabric);
/* With the lock held. */
bool heddle_aggregator_runs(const struct heddle *fabric);
/* Ends it at once. */
void heddle_aggregator_close(struct heddle *fabric);
/* In a child that was forked. */
void heddle_aggregator_abandon(struct heddle *fabric);

/* --- heddle_drive.c ------------------------------------------------------------------------- */
/* With the lock held, and the worker has left: waits until the others have the sums that are made here. 0 or
 * -ETIMEDOUT. */
int heddle_wait_sums(struct heddle *fabric, hd_ns until);

#endif
