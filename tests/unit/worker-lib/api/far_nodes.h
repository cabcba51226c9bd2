/* SPDX-License-Identifier: BSD-3-Clause */
/* A controller and an aggregator, the real cores, on the loopback interface; and workers of their jobs. */
#ifndef FAR_NODES_H
#define FAR_NODES_H

#include "heddle.h"

#include <stdbool.h>

struct far_nodes;

/* They serve until far_nodes_stop(). */
struct far_nodes *far_nodes_start(void);
void far_nodes_stop(struct far_nodes *nodes);
/* A worker of a job without a model. HEDDLE_WORLD_SIZE says how many it has. */
struct heddle *far_nodes_join(struct far_nodes *nodes, const char *job, const char *host, int rank);
/* Before they join: called with each error that one of them logs, in its thread. */
void far_nodes_on_error(struct far_nodes *nodes, void (*heed)(const char *text));
/* Whether this is the newest error that one of the workers has logged. */
bool far_nodes_logged(struct far_nodes *nodes, const char *text);

#endif
