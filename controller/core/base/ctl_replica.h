/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: a job's replica, and the copies of updates that go to it.
 *
 *   job READY, a node of the other kind --KEEP--> server --FOLLOW(caught up)--> the node may be promoted
 *   server lost: caught up --SERVE--> its node is the server;  not yet: the job waits for the server's host
 *   it is back, --STATE--> with as much as the replica holds --SERVE--> server, which begins
 *                          with less --SERVE--> the replica's node is the server, --RETIRE--> the former server
 *   replica lost: --ALONE--> server
 *
 * When both are slow, they could be promoted in turn without end. So soon after a promotion the controller waits for
 * the server before the next one, longer each time, while its replica stays the same:
 *
 *   server lost: caught up --(a promotion was less than CTL_PROMOTE_CALM_NS ago)--> awaited
 *   awaited --(that process registers again)--> the server as before;  replica lost: no more waiting
 *           --(a new process of it registers, or the time is over)--> the replica's node is the server
 *
 * Replicas (heddle-server --replica) keep the jobs of servers, and servers those of promoted replicas.
 */
#ifndef CTL_REPLICA_H
#define CTL_REPLICA_H

#include "hd_event.h"
#include "hd_message.h"

#define CTL_DIV_MAX_LEAST 1e-12 /* the limits of an operator's setting, */
#define CTL_DIV_MAX_MOST 1e12 /* lower and upper */

#define CTL_REPLICA_SUMS_MAX                                                                       \
	4 /* in flight to a replica: one that is further behind gets a state instead */
#define CTL_REPLICA_STREAMS_MAX                                                                    \
	12 /* from a switch: at once, as no node keeps a sum; the replica takes 16 (REP_SUMS_MAX) */
#define CTL_REPLICA_SHARE                                                                          \
	0.25 /* of the path's estimate, at least, beside the transfers of the training */

struct ctl_group;
struct ctl_job;
struct ctl_node;
struct ctl_transfer;
struct hd_controller;
struct hd_sink;

struct ctl_replica {
	struct ctl_node *node; /* NULL: none */
	uint64_t generation; /* of this assignment */
	bool caught_up; /* it may be promoted */
	bool held; /* the server's commits wait for it: copies go first */
	uint8_t state; /* enum hd_follow_state */
	hd_version version; /* the version that it has */
	/* The node that is known to have a version, caught up or not, also when the job has no server; NULL: none. */
	struct ctl_node *holder;
	hd_version holds;
	uint32_t behind; /* in commits */
	double divergence; /* upper bound; < 0: unknown */
	hd_ns settles_at; /* no planning before this: a promoted server sends STATE first */
	hd_ns assign_at; /* the earliest time: the server may report that it has one */
	double div_set; /* set by the operator; < 0: the job's own */
	bool changed; /* the server has not received it */
	uint64_t promotions;
	hd_ns promoted_at; /* the last promotion */
	uint32_t swings; /* promotions in a row without a calm time between them */
	hd_ns promote_at; /* the server is lost, and may be back before; HD_NEVER: no waiting */
	uint64_t awaited; /* its process: a new process has less */
	bool alone; /* the replica is lost, and the server has yet to be told */
	double promoted_divergence; /* bound at the last promotion */
	uint64_t copies, copied_bytes;
	uint32_t sums; /* in flight to it from aggregators */
};

#endif
