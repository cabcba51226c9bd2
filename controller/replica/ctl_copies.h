/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: who keeps a copy of which job, and copies of updates on their way there. */
#ifndef CTL_COPIES_H
#define CTL_COPIES_H

#include "ctl_core.h"

/* --- ctl_replica.c --- */
void ctl_replica_init(struct ctl_replica *replica);
int ctl_replica_say(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *to,
	enum hd_replica_order order,
	uint64_t generation,
	struct hd_sink *sink
);
bool ctl_replica_may_keep(const struct ctl_job *job, const struct ctl_node *node);
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
/* A node that may keep jobs is there or gone, a job has a server: finds replicas for those that have none. Returns when
 * to look again. */
hd_ns ctl_replica_check(struct hd_controller *c, struct hd_sink *sink);
void ctl_replica_drop(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* This node keeps nothing any more. */
void ctl_replica_lost(struct hd_controller *c, const struct ctl_node *node, struct hd_sink *sink);
/* The job's server is gone, or another one: no replica belongs to it. What one holds it keeps until the job begins. */
void ctl_replica_forget(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* This node has this version of the job, and nobody else more. */
void ctl_replica_holds(struct ctl_replica *replica, struct ctl_node *node, hd_version version);
/* After a restart of ours: the server says whom it has. */
bool ctl_replica_adopt(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct hd_msg_follow *message
);
/* What the server says of the present one. */
void ctl_replica_told(
	struct hd_controller *c,
	struct ctl_replica *replica,
	const struct hd_msg_follow *message
);
/* An operator's bound of the divergence (< 0: the job's own), of which the server is told at the next check. */
void ctl_replica_set(struct ctl_replica *replica, double div_max);
/* Who holds most of the job is to take the server's place without having followed it. */
void ctl_replica_stand_in(struct ctl_job *job);
/* The job's server is gone, and its replica could take its place. True: not yet, as it may be back. */
bool ctl_replica_await(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_node *server,
	enum hd_reason reason
);
bool ctl_replica_is_awaiting(const struct ctl_job *job);
/* That node is the process that is waited for. */
bool ctl_replica_is_awaited(const struct ctl_job *job, const struct ctl_node *node);
/* The job has a server: the replica that was kept while one was awaited is its, or nobody's. */
void ctl_replica_resume(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* It takes the server's place: the job has no replica, and nobody else is known to hold it. */
void ctl_replica_promoted(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* Tells the job's server that it is it: without that word no node begins a job. `generation` 0: a new one. */
void ctl_replica_serve(
	struct hd_controller *c,
	struct ctl_job *job,
	uint64_t generation,
	struct hd_sink *sink
);

/* --- ctl_copy.c --- */
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
/* --- copies (ctl_copy.c) --- */
void ctl_copy_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *message,
	struct hd_sink *sink
);
/* Copies whose worker is not there; false: none wait. */
void ctl_copies_look(struct hd_controller *c, struct hd_sink *sink);
/* Whether a copy's time has come: when nothing else wants its links, or the server waits for it. */
bool ctl_copy_may_go(const struct hd_controller *c, const struct ctl_transfer *t);
/* The sum of a group that is being granted goes to the job's replica as well. NULL: it may not have it. */
struct ctl_transfer *ctl_copy_sum(struct hd_controller *c, const struct ctl_group *group);
/* Its aggregator will not send it, or its group is over. */
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
