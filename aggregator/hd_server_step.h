/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of synchronous jobs, for the server core's files only: see hd_server_step.c. */
#ifndef HD_SERVER_STEP_H
#define HD_SERVER_STEP_H

#include "hd_server_internal.h"

/* Of what is committed with `in`: the updates in all; the next transfer, NULL after the last. */
uint32_t hd_commit_parts(const struct hd_incoming *in);
struct hd_incoming *hd_commit_after(const struct hd_incoming *in);
/* Whether a push of it is in its job's step. */
bool hd_member_stepped(const struct hd_member *member);
/* Adds what is complete. False: the call's step was used up before that. */
bool hd_step_gather(struct hd_turn *turn, struct hd_job *job);
/* The next member, which is complete, is added from here on. False: there is no memory for the sum just now. */
bool hd_step_take(struct hd_server *server, struct hd_job *job, struct hd_incoming *in);
/* Adds as much of it as the call has left. True: all of it is in the sum, and its own buffer free. */
bool hd_step_add(struct hd_server *server, struct hd_job *job);
/* The first member, when the step has all that it waits for; what it goes by is settled then. */
struct hd_incoming *hd_step_due(const struct hd_turn *turn, struct hd_job *job);
/* Updates that the step will have, as things stand; 0: the job is not synchronous. */
uint32_t hd_step_needs(const struct hd_server *server, const struct hd_job *job);
/* How many are here, push on and have no update in the step; the lowest rank of these (HD_WORKERS_MAX: none). */
uint32_t hd_step_missing(const struct hd_server *server, const struct hd_job *job, uint16_t *first);
/* The step is not due. Says so when it waits for long; returns when to look again. */
hd_ns hd_step_watch(struct hd_turn *turn, struct hd_job *job);
/* Squared L2 norm of the mean, scaled. */
double hd_step_norm2(struct hd_job *job);
/* STEPPED, before its members are told of. */
void hd_step_event(struct hd_turn *turn, const struct hd_job *job);
/* STEP to whoever is not in it. The version is the step's, its members are still there. */
void hd_step_tell(struct hd_turn *turn, const struct hd_job *job);
/* Its members have ended, or end without it. */
void hd_step_end(struct hd_job *job);
/* Somebody has joined. */
void hd_step_joined(const struct hd_server *server, struct hd_job *job);
/* A process without a past is about to join as this member: when nobody else is here, N are waited for once more. */
void hd_step_anew(
	const struct hd_server *server,
	struct hd_job *job,
	const struct hd_member *member
);
void hd_step_fini(struct hd_server *server, struct hd_job *job);

#endif
