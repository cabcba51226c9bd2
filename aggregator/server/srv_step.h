/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of synchronous jobs, for the server core's files only: see srv_step.c. */
#ifndef SRV_STEP_H
#define SRV_STEP_H

#include "srv_incoming.h"

/* Whether a step has a fixed number of updates or of workers. */
static inline bool srv_step_counts(const struct srv_job *job) {
	return job->spec.sync == HD_SYNC_N || job->spec.sync == HD_SYNC_N_BATCH;
}

/* N of the current step, or of the next. */
uint32_t srv_step_count(const struct srv_job *job);
/* Adds complete updates. False: the call's budget was used up before. */
bool srv_step_gather(struct srv_turn *turn, struct srv_job *job);
/* Makes a complete update the next member. scale: the step's from the log; 0: from the roster. False: no memory for the
 * sum. */
bool srv_step_take(
	struct hd_server *server,
	struct srv_job *job,
	struct srv_incoming *in,
	float scale
);
/* Adds as much of it as the call's budget allows. True: it is added completely, and its own buffer is free. */
bool srv_step_add(struct hd_server *server, struct srv_job *job);
/* The first member, if the step has all that it waits for; settles the step's scale then. */
struct srv_incoming *srv_step_due(const struct srv_turn *turn, struct srv_job *job);
/* Updates that the step is expected to get; 0: the job is not synchronous. */
uint32_t srv_step_needs(const struct hd_server *server, const struct srv_job *job);
/* The number of workers that are here, push and have no update in the step; the lowest of their ranks (HD_WORKERS_MAX:
 * none). */
uint32_t
srv_step_missing(const struct hd_server *server, const struct srv_job *job, uint16_t *first);
/* The step is not due. Reports a long wait; returns when to look again. */
hd_ns srv_step_watch(struct srv_turn *turn, struct srv_job *job);
/* Squared L2 norm of the mean, scaled. */
double srv_step_norm2(struct srv_job *job);
/* The event STEPPED, before the outcomes of the members. */
void srv_step_event(struct srv_turn *turn, const struct srv_job *job);
/* Sends STEP to the workers that are not in it. The version is the step's; the members are still there. */
void srv_step_tell(struct srv_turn *turn, const struct srv_job *job);
/* Resets the step: its members have ended, or end without it. */
void srv_step_end(struct srv_job *job);
/* A worker has joined. */
void srv_step_joined(const struct hd_server *server, struct srv_job *job);
/* A new process is about to join as this member: if no other worker is here, the step waits for N workers again. */
void srv_step_restart_member(
	const struct hd_server *server,
	struct srv_job *job,
	const struct srv_member *member
);
void srv_step_fini(struct hd_server *server, struct srv_job *job);

#endif
