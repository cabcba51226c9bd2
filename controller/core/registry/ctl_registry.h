/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: nodes and jobs: who is there, and who serves what. */
#ifndef CTL_REGISTRY_H
#define CTL_REGISTRY_H

#include "ctl_core.h"

/* --- ctl_registry.c --- */
void ctl_register(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *message,
	struct hd_sink *sink
);

/* --- ctl_rank.c --- */
/* Another host's living process has the rank that REGISTER asks for: it was refused, for now or for good. */
bool ctl_rank_is_held(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
);

/* --- ctl_admit.c --- */
/* Too many workers register at once: this one is told when to say it again. */
bool ctl_admit_later(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
);

/* --- ctl_jobs.c --- */
/* Finds or makes; NULL at the limit. */
struct ctl_tenant *ctl_tenant_get(struct hd_controller *c, const char *name);
void ctl_tenant_weigh(const struct hd_controller *c, struct ctl_tenant *tenant);
/* Out of the table; nobody is told. */
void ctl_job_free(struct hd_controller *c, struct ctl_job *job);
/* REGISTERED; of a worker with its job, which has a server. */
void ctl_say_registered(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct ctl_job *job,
	struct hd_sink *sink
);
void ctl_job_ready(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
void ctl_job_lose_server(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* Puts the job on this server, which has it, by the word of this generation (0: a new one). */
void ctl_job_claim(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *server,
	uint64_t generation,
	struct hd_sink *sink
);
/* A former life of ours gave the job to a host whose nodes are back without it: no job in memory, nothing on disk. */
bool ctl_job_is_lost(const struct hd_controller *c, const struct ctl_job *job);
/* Finds the job a server, if it has none and there is one. */
void ctl_job_place(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);

/* --- ctl_ended.c --- */
/* A worker went, or came. */
void ctl_job_left(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_node *worker,
	enum hd_reason reason
);
void ctl_job_entered(struct hd_controller *c, struct ctl_job *job);
/* The newest of the ended jobs; the oldest gives way. */
void ctl_ended_add(struct hd_controller *c, const struct ctl_ended *like);
/* The job, which has no server yet, is this one; its workers had left it, or not. */
void ctl_job_recall(struct ctl_job *job, const struct ctl_ended *as, bool left);
/* A job of that id begins again. */
void ctl_ended_return(struct hd_controller *c, struct ctl_job *job);
/* Of any tenant, if it is "". False: there is none. */
bool ctl_ended_forget(struct hd_controller *c, const char *tenant, const char *name);
/* It as it was, in the caller's storage. */
void ctl_ended_job(const struct ctl_ended *ended, struct ctl_job *job);
/* An operator ends the job, which has no worker any more: its server and its replica are told, and it is forgotten. */
void ctl_job_evict(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* A server says that it has the job no more. False: it did not have it. */
bool ctl_job_gone(
	struct hd_controller *c,
	const struct ctl_node *server,
	const struct hd_msg_leave *leave,
	struct hd_sink *sink
);
/* At the limit: ends the job that can be missed most, if there is one. */
void ctl_jobs_make_room(struct hd_controller *c, struct hd_sink *sink);
/* Why there is no room for another one, in words. */
const char *ctl_jobs_full(const struct hd_controller *c, char *text, size_t bytes);
/* Jobs that nobody has been in for too long. Returns when to look again. */
hd_ns ctl_ended_check(struct hd_controller *c, struct hd_sink *sink);
/* Finds or makes; at the limit an idle one gives way. NULL: all are living, or no memory. */
struct ctl_job *ctl_job_get(struct hd_controller *c, uint32_t id, struct hd_sink *sink);

/* --- ctl_roster.c --- */
void ctl_roster_set(struct hd_controller *c, struct ctl_job *job, uint16_t rank, bool there);
hd_ns ctl_roster_check(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_serve.c --- */
/* FOLLOW, from the job's server; or from a node that has just registered, of what it holds. */
void ctl_replica_follow(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_follow *message,
	struct hd_sink *sink
);
/* The job's server is gone: its replica takes its place. False: none has caught up, or not yet. */
bool ctl_replica_promote(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* The server that the job waits for is away for too long: the replica takes its place. Returns when to look again. */
hd_ns ctl_replica_awaits(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* A node has registered on a host whose server is waited for, and is a new life of it: it has less than the replica. */
void ctl_replica_returned(
	struct hd_controller *c,
	const struct ctl_node *node,
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
/* A node said STATE of a job, which it has by the word of this generation (0: none). True: it is not the job's server,
 * and is told so. Else who was it so far is. */
bool ctl_replica_fence(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *node,
	uint64_t generation,
	struct hd_sink *sink
);

/* --- ctl_registry_check.c --- */
/* Those whose time is over are gone. Returns when to look again. */
hd_ns ctl_notice_check(struct hd_controller *c, struct hd_sink *sink);
/* Jobs whose settling time is over; restart grace. Returns when to look again. */
hd_ns ctl_registry_check(struct hd_controller *c, struct hd_sink *sink);
void ctl_registry_fini(struct hd_controller *c);

/* --- ctl_state.c --- */
void ctl_state(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_state *message,
	struct hd_sink *sink
);
void ctl_inflight(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_inflight *message,
	struct hd_sink *sink
);

/* --- ctl_hosts.c --- */
/* Its index in the topology, or < 0. */
int ctl_host_find(struct hd_controller *c, const struct hd_msg_register_ *m);

/* --- ctl_node_down.c --- */
/* Everything that hangs on a registered node ends; the node itself stays (role NONE). */
void ctl_node_down(
	struct hd_controller *c,
	struct ctl_node *node,
	enum hd_reason reason,
	struct hd_sink *sink
);

#endif
