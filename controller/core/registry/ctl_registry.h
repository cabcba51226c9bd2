/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the registered nodes, the jobs, and which server has which job. */
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
/* Whether a living process of another host has the rank that REGISTER asks for. Then it was refused, for now or for
 * good. */
bool ctl_rank_is_held(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
);

/* --- ctl_admit.c --- */
/* Too many workers register at once: tells this one when to try again. */
bool ctl_admit_later(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
);

/* --- ctl_jobs.c --- */
/* Finds or creates; NULL at the limit. */
struct ctl_tenant *ctl_tenant_get(struct hd_controller *c, const char *name);
void ctl_tenant_weigh(const struct hd_controller *c, struct ctl_tenant *tenant);
/* Removes the job from the table; sends nothing. */
void ctl_job_free(struct hd_controller *c, struct ctl_job *job);
/* REGISTERED; for a worker with its job, which has a server. */
void ctl_send_registered(
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
/* Assigns the job to this server, which has it, with this generation (0: a new one). */
void ctl_job_claim(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *server,
	uint64_t generation,
	struct hd_sink *sink
);
/* An earlier controller process assigned the job to a host whose nodes have registered without it: neither in memory
 * nor on disk. */
bool ctl_job_is_lost(const struct hd_controller *c, const struct ctl_job *job);
/* Assigns the job to a server, if it has none and there is one. */
void ctl_job_place(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);

/* --- ctl_ended.c --- */
/* A worker left or was lost, or registered. */
void ctl_job_left(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_node *worker,
	enum hd_reason reason
);
void ctl_job_entered(struct hd_controller *c, struct ctl_job *job);
/* Adds the newest of the ended jobs; the oldest is removed. */
void ctl_ended_add(struct hd_controller *c, const struct ctl_ended *like);
/* The job, which has no server yet, continues this ended one; `left`: its workers had left it. */
void ctl_job_recall(struct ctl_job *job, const struct ctl_ended *as, bool left);
/* A job with that id begins again. */
void ctl_ended_return(struct hd_controller *c, struct ctl_job *job);
/* Any tenant's, if tenant is "". False: there is none. */
bool ctl_ended_forget(struct hd_controller *c, const char *tenant, const char *name);
/* Its last state, in the caller's storage. */
void ctl_ended_job(const struct ctl_ended *ended, struct ctl_job *job);
/* An operator ends the job, which has no workers: its server and its replica are told, and the job is removed. */
void ctl_job_evict(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* A server reports that it does not have the job any more. False: it did not have it. */
bool ctl_job_gone(
	struct hd_controller *c,
	const struct ctl_node *server,
	const struct hd_msg_leave *leave,
	struct hd_sink *sink
);
/* At the limit: ends the least needed job, if one may end. */
void ctl_jobs_make_room(struct hd_controller *c, struct hd_sink *sink);
/* Why there is no room for another one, as a text. */
const char *ctl_jobs_full(const struct hd_controller *c, char *text, size_t bytes);
/* Ends jobs that have been idle for too long. Returns the time of the next check. */
hd_ns ctl_ended_check(struct hd_controller *c, struct hd_sink *sink);
/* Finds or creates; at the limit an idle job is ended. NULL: all are living, or no memory. */
struct ctl_job *ctl_job_get(struct hd_controller *c, uint32_t id, struct hd_sink *sink);

/* --- ctl_roster.c --- */
void ctl_roster_set(struct hd_controller *c, struct ctl_job *job, uint16_t rank, bool present);
hd_ns ctl_roster_check(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_serve.c --- */
/* FOLLOW of the job's server, or of a node that has just registered, about the version that it holds. */
void ctl_replica_follow(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_follow *message,
	struct hd_sink *sink
);
/* The job's server is lost: its replica takes its place. False: none has caught up, or the server is awaited. */
bool ctl_replica_promote(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* When the awaited server is away for too long, the replica takes its place. Returns the time of the next check. */
hd_ns ctl_replica_awaits(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* A node has registered on the host of an awaited server, as a new process: it has less than the replica. */
void ctl_replica_returned(
	struct hd_controller *c,
	const struct ctl_node *node,
	struct hd_sink *sink
);
/* A node has begun the job with this version, and has not received its SERVE yet. True: another node holds more, and is
 * the server now. */
bool ctl_replica_prefer(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *node,
	hd_version begun,
	struct hd_sink *sink
);
/* A node sent STATE of a job, which it was assigned with this generation (0: none). True: it is not the job's server,
 * and is told to retire. Otherwise the former server is. */
bool ctl_replica_fence(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *node,
	uint64_t generation,
	struct hd_sink *sink
);

/* --- ctl_registry_check.c --- */
/* Removes workers whose notice has expired. Returns the time of the next check. */
hd_ns ctl_notice_check(struct hd_controller *c, struct hd_sink *sink);
/* Checks jobs whose settling time is over, and the grace time after a restart. Returns the time of the next check. */
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
/* The host's index in the topology, or < 0. */
int ctl_host_find(struct hd_controller *c, const struct hd_msg_register_ *m);

/* --- ctl_node_down.c --- */
/* Ends all state that refers to a registered node; the node itself stays (role NONE). */
void ctl_node_down(
	struct hd_controller *c,
	struct ctl_node *node,
	enum hd_reason reason,
	struct hd_sink *sink
);

#endif
