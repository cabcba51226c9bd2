/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: a job's replica, and the copies of updates that go to it.
 *
 *   job READY, a node of the other kind --KEEP--> server --FOLLOW(caught up)--> the node may be promoted
 *   the server is gone: caught up --SERVE--> its node is the server;  not yet: the job waits for the server's host
 *   it is back, --STATE--> with as much as the replica holds --SERVE--> server, which begins
 *                          with less --SERVE--> the replica's node is the server, --RETIRE--> the one that was
 *   the replica is gone: --ALONE--> server
 *
 * Two that are promoted in turn, because both are slow, would give nobody any peace. So soon after a promotion the
 * server is waited for, longer each time, while its replica stays what it is:
 *
 *   the server is gone: caught up --(a promotion was less than CTL_PROMOTE_CALM_NS ago)--> awaited
 *   awaited --(that process registers again)--> the server as before;  the replica is gone: nobody is awaited any more
 *           --(a new process of it registers, or the time is over)--> the replica's node is the server
 *
 * Replicas (heddle-server --replica) keep the jobs of servers, and servers those of promoted replicas.
 */
#ifndef CTL_REPLICA_H
#define CTL_REPLICA_H

#include "hd_event.h"
#include "hd_message.h"

#define CTL_DIV_MAX_LEAST 1e-12 /* that an operator can set, */
#define CTL_DIV_MAX_MOST 1e12 /* and the most */

#define CTL_REPLICA_SUMS_MAX                                                                       \
	4 /* on their way to a replica: what it is further behind, a state brings; */
#define CTL_REPLICA_STREAMS_MAX                                                                    \
	12 /* by a switch: as they come, and nobody keeps a sum; it takes 16 (REP_SUMS_MAX) */
#define CTL_REPLICA_SHARE                                                                          \
	0.25 /* of the way's estimate, at least, for what training goes on beside */

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
	bool held; /* the server's commits wait for it: copies go ahead */
	uint8_t state; /* enum hd_follow_state */
	hd_version version; /* that it has */
	/* Who is known to have a version, caught up or not, also when the job has no server; NULL: nobody. */
	struct ctl_node *holder;
	hd_version holds;
	uint32_t behind; /* commits */
	double divergence; /* bound; < 0: not known */
	hd_ns settles_at; /* nobody plans before this: a promoted one says STATE first */
	hd_ns assign_at; /* not before: the server may say that it has one */
	double div_set; /* by the operator; < 0: the job's own */
	bool changed; /* the server has not heard of it */
	uint64_t promotions;
	hd_ns promoted_at; /* the last of them, */
	uint32_t swings; /* which so many followed each other to, none of them after a calm time */
	hd_ns promote_at; /* the server is gone, and may be back before this; HD_NEVER: nobody waits for it */
	uint64_t awaited; /* its process: another one is a new life, and has less */
	bool alone; /* the replica is gone, which the server has yet to hear */
	double promoted_divergence; /* bound at the last promotion */
	uint64_t copies, copied_bytes;
	uint32_t sums; /* on their way to it from aggregators */
};

#endif
