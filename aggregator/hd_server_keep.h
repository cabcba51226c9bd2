/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server core keeps for a job: memory, checkpoints, how it went. Private to aggregator/. */
#ifndef HD_SERVER_KEEP_H
#define HD_SERVER_KEEP_H

#include "hd_event.h"

struct hd_buffer;
struct hd_job;
struct hd_member;
struct hd_round;
struct hd_server;
struct hd_turn;

/* --- hd_server_memory.c --------------------------------------------------------------------- */
/* Keeps the present model and momentum as they are, until released; what a commit must copy them into is set aside.
 * 0 or -ENOMEM. Not while an update is being applied. */
int hd_state_hold(struct hd_server *server, struct hd_job *job, struct hd_buffer *held[2]);
void hd_state_release(struct hd_server *server, struct hd_job *job, struct hd_buffer *held[2]);
/* Allocates until the job owns `count` buffers: its floor. 0 or -ENOMEM (beyond memory_bytes). */
int hd_memory_guarantee(struct hd_server *server, struct hd_job *job, uint32_t count);
struct hd_buffer *hd_buffer_get(struct hd_server *server, struct hd_job *job);
void hd_buffer_put(struct hd_server *server, struct hd_job *job, struct hd_buffer *buffer);
void hd_memory_fini(struct hd_server *server, struct hd_job *job);
uint64_t hd_memory_left(const struct hd_server *server);

/* --- hd_server_checkpoint.c ----------------------------------------------------------------- */
/* Begins one when it is due, or `now` when asked. */
void hd_checkpoint_consider(struct hd_turn *turn, struct hd_job *job, bool asked);
/* True when nothing of this job is left to write. */
bool hd_checkpoint_settled(const struct hd_server *server, const struct hd_job *job);
/* Tells every worker of the job what is durable now. */
void hd_durable_tell(struct hd_turn *turn, const struct hd_job *job);
/* Gives what begun checkpoints hold back, at the end. */
void hd_checkpoint_fini(struct hd_server *server, struct hd_job *job);

/* --- hd_server_report.c --------------------------------------------------------------------- */
void hd_report_applied(struct hd_job *job, struct hd_member *member, uint32_t delay, bool direct);
/* A round ended, dropped or failed. */
void hd_report_ended(struct hd_job *job, struct hd_member *member, const struct hd_round *round);
void hd_report_interrupted(struct hd_job *job, enum hd_reason reason);
/* Tells the report when it is due; asks for the last checkpoint before. Once a call. */
void hd_report_consider(struct hd_turn *turn, struct hd_job *job);
void hd_report_tell(struct hd_turn *turn, struct hd_job *job);

#endif
