/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server core keeps for a job: memory, checkpoints, summary. Private to aggregator/. */
#ifndef SRV_KEEP_H
#define SRV_KEEP_H

#include "hd_event.h"

struct hd_incarnation;
struct srv_buffer;
struct srv_job;
struct srv_member;
struct srv_round;
struct hd_server;
struct srv_turn;

/* --- srv_memory.c ----------------------------------------------------------------------------- */
/* Keeps the current model and momentum unchanged until released, and reserves buffers for the copies that a commit then
 * makes. 0 or -ENOMEM. Not while an update is being applied. */
int srv_state_hold(struct hd_server *server, struct srv_job *job, struct srv_buffer *held[2]);
void srv_state_release(struct hd_server *server, struct srv_job *job, struct srv_buffer *held[2]);
/* Allocates until the job owns `count` buffers, which it then keeps. 0 or -ENOMEM (beyond memory_bytes). */
int srv_memory_guarantee(struct hd_server *server, struct srv_job *job, uint32_t count);
struct srv_buffer *srv_buffer_get(struct hd_server *server, struct srv_job *job);
void srv_buffer_put(struct hd_server *server, struct srv_job *job, struct srv_buffer *buffer);
void srv_memory_fini(struct hd_server *server, struct srv_job *job);
uint64_t srv_memory_left(const struct hd_server *server);

/* --- srv_state.c ------------------------------------------------------------------------------ */
struct srv_state {
	struct srv_buffer *model, *momentum; /* the job takes them over */
	hd_version version;
	const struct hd_incarnation *prior;
	uint32_t prior_count;
};
/* Replaces the job's state by one that a replica received. Not while an update is being applied. */
void srv_state_replace(struct hd_server *server, struct srv_job *job, const struct srv_state *by);
/* Computes the norms of model and momentum; commits update them from then on. */
void srv_state_measure(struct srv_job *job);
/* A promoted replica: this node is the job's server, with this generation and incarnation. */
void srv_state_succeed(struct srv_job *job, uint64_t generation, uint16_t incarnation);

/* --- srv_checkpoint.c ------------------------------------------------------------------------- */
/* Begins one if it is due, or `asked`. */
void srv_checkpoint_consider(struct srv_turn *turn, struct srv_job *job, bool asked);
/* True when nothing of this job is left to write. */
bool srv_checkpoint_settled(const struct hd_server *server, const struct srv_job *job);
/* Releases what unfinished checkpoints hold, when the job ends. */
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
/* A pull ended; time since its grant. */
void srv_summary_pulled(
	struct hd_server *server,
	struct srv_job *job,
	hd_ns took,
	enum hd_reason reason
);
/* Reports the summary if it is due, after asking for the last checkpoint. Once a call. */
void srv_summary_consider(struct srv_turn *turn, struct srv_job *job);
void srv_summary_tell(struct srv_turn *turn, struct srv_job *job);

#endif
