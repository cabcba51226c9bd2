/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes of state_world.h. */
#ifndef STATE_PROCESS_H
#define STATE_PROCESS_H

#include "state_world.h"

void state_build(struct state_world *w);
void state_start_controller(struct state_world *w);
/* A worker and the aggregator in its process. */
void state_start_worker(struct state_worker *worker, const struct hd_worker_ops *ops);
/* It dies, or has not run. */
void state_stop_worker(struct state_worker *worker);

#endif
