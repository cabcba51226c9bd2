/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of synchronous jobs, for the server core's files only: see srv_step.c. */
#ifndef SRV_STEP_H
#define SRV_STEP_H

#include "srv_incoming.h"

/* Whether its steps have a number of updates, or of workers. */
static inline bool srv_step_counts(const struct srv_job *job) {
	return job->spec.sync == HD_SYNC_N || job->spec.sync == HD_SYNC_N_BATCH;
}

/* N of the step under way, or of the next. */
uint32_t srv_step_count(const struct srv_job *job);
/* Adds what is complete. False: the call's budget was used up before that. */
bool srv_step_gather(struct srv_turn *turn, struct srv_job *job);
/* The next member, which is complete, is added from here on. scale: of the step, where the log says it; 0: the roster
 * does. False: there is no memory for the sum just now. */
bool srv_step_take(
	struct hd_server *server,
	struct srv_job *job,
	struct srv_incoming *in,
	float scale
);
/* Adds as much of it as the call has left. True: all of it is in the sum, and its own buffer free. */
bool srv_step_add(struct hd_server *server, struct srv_job *job);
/* The first member, when the step has all that it waits for; what it goes by is settled then. */
struct srv_incoming *srv_step_due(const struct srv_turn *turn, struct srv_job *job);
/* Updates that the step will have, as things stand; 0: the job is not synchronous. */
uint32_t srv_step_needs(const struct hd_server *server, const struct srv_job *job);
/* How many are here, push on and have no update in the step; the lowest rank of these (HD_WORKERS_MAX: none). */
uint32_t
srv_step_missing(const struct hd_server *server, const struct srv_job *job, uint16_t *first);
/* The step is not due. Says so when it waits for long; returns when to look again. */
hd_ns srv_step_watch(struct srv_turn *turn, struct srv_job *job);
/* Squared L2 norm of the mean, scaled. */
double srv_step_norm2(struct srv_job *job);
/* STEPPED, before its members are told of. */
void srv_step_event(struct srv_turn *turn, const struct srv_job *job);
/* STEP to whoever is not in it. The version is the step's, its members are still there. */
void srv_step_tell(struct srv_turn *turn, const struct srv_job *job);
/* Its members have ended, or end without it. */
void srv_step_end(struct srv_job *job);
/* Somebody has joined. */
void srv_step_joined(const struct hd_server *server, struct srv_job *job);
/* A process without a past is about to join as this member: when nobody else is here, N are waited for once more. */
void srv_step_anew(
	const struct hd_server *server,
	struct srv_job *job,
	const struct srv_member *member
);
void srv_step_fini(struct hd_server *server, struct srv_job *job);

#endif
