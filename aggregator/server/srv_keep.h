/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server core keeps for a job: memory, checkpoints, how it went. Private to aggregator/. */
#ifndef SRV_KEEP_H
#define SRV_KEEP_H

#include "hd_event.h"

struct hd_life;
struct srv_buffer;
struct srv_job;
struct srv_member;
struct srv_round;
struct hd_server;
struct srv_turn;

/* --- srv_memory.c ----------------------------------------------------------------------------- */
/* Keeps the present model and momentum as they are, until released; what a commit must copy them into is set aside.
 * 0 or -ENOMEM. Not while an update is being applied. */
int srv_state_hold(struct hd_server *server, struct srv_job *job, struct srv_buffer *held[2]);
void srv_state_release(struct hd_server *server, struct srv_job *job, struct srv_buffer *held[2]);
/* Allocates until the job owns `count` buffers: its floor. 0 or -ENOMEM (beyond memory_bytes). */
int srv_memory_guarantee(struct hd_server *server, struct srv_job *job, uint32_t count);
struct srv_buffer *srv_buffer_get(struct hd_server *server, struct srv_job *job);
void srv_buffer_put(struct hd_server *server, struct srv_job *job, struct srv_buffer *buffer);
void srv_memory_fini(struct hd_server *server, struct srv_job *job);
uint64_t srv_memory_left(const struct hd_server *server);

/* --- srv_state.c ------------------------------------------------------------------------------ */
struct srv_state {
	struct srv_buffer *model, *momentum; /* the job's from then on */
	hd_version version;
	const struct hd_life *lives;
	uint32_t life_count;
};
/* A replica has got a whole state: the job is at that. Not while an update is being applied. */
void srv_state_replace(struct hd_server *server, struct srv_job *job, const struct srv_state *by);
/* The norms of model and momentum, which commits keep from then on. */
void srv_state_measure(struct srv_job *job);
/* A replica begins its life as the job's server, of this generation. */
void srv_state_succeed(struct srv_job *job, uint64_t generation, uint16_t incarnation);

/* --- srv_checkpoint.c ------------------------------------------------------------------------- */
/* Begins one when it is due, or `now` when asked. */
void srv_checkpoint_consider(struct srv_turn *turn, struct srv_job *job, bool asked);
/* True when nothing of this job is left to write. */
bool srv_checkpoint_settled(const struct hd_server *server, const struct srv_job *job);
/* Gives what begun checkpoints hold back, at the end. */
void srv_checkpoint_fini(struct hd_server *server, struct srv_job *job);

/* --- srv_summary.c ---------------------------------------------------------------------------- */
void srv_summary_applied(
	struct hd_server *server,
	struct srv_job *job,
	struct srv_member *member,
	uint32_t delay,
	bool direct
);
/* A round ended, dropped or failed. */
void srv_summary_ended(
	struct srv_job *job,
	struct srv_member *member,
	const struct srv_round *round
);
void srv_summary_interrupted(struct srv_job *job, enum hd_reason reason);
/* A pull ended, so long after its grant. */
void srv_summary_pulled(
	struct hd_server *server,
	struct srv_job *job,
	hd_ns took,
	enum hd_reason reason
);
/* Tells the summary when it is due; asks for the last checkpoint before. Once a call. */
void srv_summary_consider(struct srv_turn *turn, struct srv_job *job);
void srv_summary_tell(struct srv_turn *turn, struct srv_job *job);

#endif
