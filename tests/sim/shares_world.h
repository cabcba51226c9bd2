/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two jobs on the same hosts, around one switch. The controller does not know the capacity of the links and no
 * telemetry measures them. Compares each job's share of them with its weight.
 */
#ifndef SHARES_WORLD_H
#define SHARES_WORLD_H

#include "allreduce_world.h"

#define SHARES_HOSTS 4 /* of workers, at most */
#define SHARES_JOBS 2
#define SHARES_CHUNK_BYTES 1408
#define SHARES_FRAME_BYTES (SHARES_CHUNK_BYTES + 56 + HD_SIM_FRAME_BYTES)
#define SHARES_OFF 0.05 /* wanted of the switch */

struct shares_config {
	uint32_t hosts; /* h1 .. of workers */
	uint64_t rate_bps; /* of what they share: the server's link, or without a server all */
	uint32_t wide; /* workers' links are this many times as wide; 0: 1 */
	double believed; /* factor by which the controller overestimates all links */
	float weights[SHARES_JOBS];
	bool heard; /* the switch knows its neighbours; else it has to ask for some, for each lease */
	void (*event)(void *owner, int node, const struct hd_event *event); /* of all nodes */
	void *owner;
	uint32_t start; /* us that the controller is further away: another one of the same world */
};

struct shares_member {
	int node;
	struct hd_worker *core;
};

struct shares_world {
	struct allreduce_world base; /* what the switch needs of one */
	struct shares_config config;
	struct hd_jobspec specs[SHARES_JOBS];
	int hosts[SHARES_HOSTS], server_host;
	struct shares_member members[SHARES_JOBS][SHARES_HOSTS];
};

void shares_open(struct shares_world *w, const struct shares_config *config);
/* Stops all nodes that joined besides controller, switch and workers. */
void shares_close(struct shares_world *w);
/* All links carry so much from now on. */
void shares_set_rate(struct shares_world *w, uint64_t rate_bps);
/* A worker of the job on a host; shares_close() stops it. */
const struct shares_member *shares_worker(
	struct shares_world *w,
	uint32_t job,
	uint32_t host,
	const struct hd_worker_ops *ops,
	void *owner
);
/* Bytes of values that a link carries in a time. */
double shares_line(const struct shares_world *w, hd_ns span);
/* Prints the bytes that each job got within `span`. Expects shares that differ from the weights' by `most_off` at most,
 * and that the jobs use at least the part `least` of the links' capacity. */
void shares_expect(
	const struct shares_world *w,
	const double bytes[SHARES_JOBS],
	hd_ns span,
	double most_off,
	double least
);

#endif
