/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: a job's replica, and the copies of updates that go to it.
 *
 *   job READY, a node of the other kind --KEEP--> server --FOLLOW(in step)--> the node may be promoted
 *   the server is gone: in step --SERVE--> its node is the server;  not in step: the job waits for the server's host
 *   it is back, --STATE--> with as much as the replica holds --SERVE--> server, which begins
 *                          with less --SERVE--> the replica's node is the server, --RETIRE--> the one that was
 *   the replica is gone: --ALONE--> server
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
	12 /* by a switch: in step with the server, and nobody keeps a sum; it takes 16 (HD_MIRROR_SUMS_MAX) */
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
	bool in_step; /* it may be promoted */
	bool held; /* the server's commits wait for it: copies go ahead */
	uint8_t state; /* enum hd_follow_state */
	hd_version version; /* that it has */
	/* Who is known to have a version, in step or not, also when the job has no server; NULL: nobody. */
	struct ctl_node *holder;
	hd_version holds;
	uint32_t behind; /* commits */
	double divergence; /* bound; < 0: not known */
	hd_ns settles_at; /* nobody plans before this: a promoted one says STATE first */
	hd_ns assign_at; /* not before: the server may say that it has one */
	double div_set; /* by the operator; < 0: the job's own */
	bool changed; /* the server has not heard of it */
	uint64_t promotions;
	double promoted_divergence; /* bound at the last promotion */
	uint64_t copies, copied_bytes;
	uint32_t sums; /* on their way to it from aggregators */
};

/* As shells say it; what aggregators are sent is told apart elsewhere. */
static inline const char *ctl_direction_name(uint8_t direction) {
	if (direction == HD_COPY)
		return "replicate";
	return direction == HD_PUSH ? "push" : "pull";
}

void ctl_replica_init(struct ctl_replica *replica);
/* FOLLOW, from the job's server; or from a node that has just registered, of what it holds. */
void ctl_replica_follow(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_follow *message,
	struct hd_sink *sink
);
/* A node that may keep jobs is there or gone, a job has a server: finds replicas for those that have none. Returns when
 * to look again. */
hd_ns ctl_replica_check(struct hd_controller *c, struct hd_sink *sink);
/* This node keeps nothing any more. */
void ctl_replica_lost(struct hd_controller *c, const struct ctl_node *node, struct hd_sink *sink);
/* The job's server is gone: its replica takes its place. False: there is none in step. */
bool ctl_replica_promote(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* A node said STATE of a job, which it has by the word of this generation (0: none). True: it is not the job's server,
 * and is told so. Else who was it so far is. */
bool ctl_replica_fence(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *node,
	uint64_t generation,
	struct hd_sink *sink
);
/* A node has begun the job with this version, and has not heard yet that it may. True: another one holds more, and is
 * the server now. */
bool ctl_replica_prefer(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *node,
	hd_version begun,
	struct hd_sink *sink
);
/* Tells the job's server that it is it: without that word no node begins a job. `generation` 0: a new one. */
void ctl_replica_serve(
	struct hd_controller *c,
	struct ctl_job *job,
	uint64_t generation,
	struct hd_sink *sink
);
/* The job's server is gone, or another one: no replica belongs to it. What one holds it keeps until the job begins. */
void ctl_replica_forget(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* Nobody needs what is held of the job outside its server: it goes. */
void ctl_replica_release(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* Tells who was its server that the job has ended: END or EVICT. */
void ctl_replica_end(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *server,
	enum hd_replica_order order,
	struct hd_sink *sink
);

/* --- copies (ctl_copy.c) --- */
void ctl_copy_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *message,
	struct hd_sink *sink
);
void ctl_copy_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *message,
	struct hd_sink *sink
);
/* Whether a copy's time has come: when nothing else wants its links, or the server waits for it. */
bool ctl_copy_may_go(const struct hd_controller *c, const struct ctl_transfer *t);
/* Ends a copy, pending or open; the replica hears why, and the worker stops. */
void ctl_copy_end(
	struct hd_controller *c,
	struct ctl_transfer *t,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* All of the job's. */
void ctl_copies_end(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* The sum of a group that is being granted goes to the job's replica as well, if that may have it: group->second. */
void ctl_copy_sum(struct hd_controller *c, struct ctl_group *group);
/* Its aggregator will not send it, or its group is over. */
void ctl_copy_sum_end(
	struct hd_controller *c,
	const struct ctl_group *group,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* Copies whose worker is not there; false: none wait. */
void ctl_copies_look(struct hd_controller *c, struct hd_sink *sink);

#endif
