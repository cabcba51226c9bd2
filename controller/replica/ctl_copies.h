/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: which node is the replica of which job, and the copies of updates that are sent to it. */
#ifndef CTL_COPIES_H
#define CTL_COPIES_H

#include "ctl_core.h"

/* --- ctl_replica.c --- */
void ctl_replica_init(struct ctl_replica *replica);
int ctl_replica_send(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *to,
	enum hd_replica_order order,
	uint64_t generation,
	struct hd_sink *sink
);
bool ctl_replica_may_keep(const struct ctl_job *job, const struct ctl_node *node);
/* No state of the job outside of its server is needed any more: it is released. */
void ctl_replica_release(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* Tells the node that was its server that the job has ended: END or EVICT. */
void ctl_replica_end(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *server,
	enum hd_replica_order order,
	struct hd_sink *sink
);
/* After a change of nodes or jobs: finds replicas for jobs that have none. Returns the time of the next check. */
hd_ns ctl_replica_check(struct hd_controller *c, struct hd_sink *sink);
void ctl_replica_drop(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* This node keeps no job any more. */
void ctl_replica_lost(struct hd_controller *c, const struct ctl_node *node, struct hd_sink *sink);
/* The job's server is lost or replaced: the job has no replica. A node keeps the state that it has until the job
 * begins. */
void ctl_replica_forget(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* This node has this version of the job, and no other node has a newer one. */
void ctl_replica_holds(struct ctl_replica *replica, struct ctl_node *node, hd_version version);
/* After a restart of the controller: the server reports its replica. */
bool ctl_replica_adopt(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct hd_msg_follow *message
);
/* The server's report about the present replica. */
void ctl_replica_reported(
	struct hd_controller *c,
	struct ctl_replica *replica,
	const struct hd_msg_follow *message
);
/* An operator's bound of the divergence (< 0: the job's own); the server is told at the next check. */
void ctl_replica_set(struct ctl_replica *replica, double div_max);
/* The node with the newest version takes the server's place although it did not follow it. */
void ctl_replica_stand_in(struct ctl_job *job);
/* The job's server is lost, and its replica could take its place. True: not yet, as the server may be back. */
bool ctl_replica_await(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_node *server,
	enum hd_reason reason
);
bool ctl_replica_is_awaiting(const struct ctl_job *job);
/* Whether that node is the awaited process. */
bool ctl_replica_is_awaited(const struct ctl_job *job, const struct ctl_node *node);
/* The job has a server: the replica that was kept meanwhile becomes its replica, or is released. */
void ctl_replica_resume(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* The replica takes the server's place: the job has no replica, and no other node is known to hold it. */
void ctl_replica_promoted(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* Sends SERVE to the job's server: no node begins a job without it. `generation` 0: a new one. */
void ctl_replica_serve(
	struct hd_controller *c,
	struct ctl_job *job,
	uint64_t generation,
	struct hd_sink *sink
);

/* --- ctl_copy.c --- */
/* Ends a copy, pending or open; the replica is told why, and the worker stops. */
void ctl_copy_end(
	struct hd_controller *c,
	struct ctl_transfer *t,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* Ends all copies of the job. */
void ctl_copies_end(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* --- copies (ctl_copy.c) --- */
void ctl_copy_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *message,
	struct hd_sink *sink
);
/* Checks copies whose worker is not registered; false: none wait. */
void ctl_copies_look(struct hd_controller *c, struct hd_sink *sink);
/* Whether a copy may be planned: no other transfer needs its links, or the server waits for it. */
bool ctl_copy_may_go(const struct hd_controller *c, const struct ctl_transfer *t);
/* Copies the sum of a group that is being granted to the job's replica as well. NULL: not possible. */
struct ctl_transfer *ctl_copy_sum(struct hd_controller *c, const struct ctl_group *group);
/* The aggregator will not send it, or its group has ended. */
void ctl_copy_sum_end(
	struct hd_controller *c,
	const struct ctl_group *group,
	enum hd_reason reason,
	struct hd_sink *sink
);
void ctl_copy_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *message,
	struct hd_sink *sink
);

#endif
