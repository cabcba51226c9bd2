/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that the controller said may, or may not, begin here: srv_assignment.c. */
#ifndef SRV_ASSIGNMENT_H
#define SRV_ASSIGNMENT_H

#include "srv_job.h"

/* Messages of the controller with this epoch: those of another epoch are void. */
void srv_assignments_from(struct hd_server *server, uint16_t epoch);
/* Whether the job may begin here. */
bool srv_assignment_may_begin(const struct hd_server *server, uint32_t job);
/*
 * Whether this peer, which joins a job, must wait: the job is not here and may not begin. With a controller it may
 * begin once that said so, as another node may have it; without one it may if the controller is unreachable.
 */
bool srv_assignment_waits(const struct hd_server *server, struct srv_peer *peer, uint32_t job);
/* The generation by which this node is to serve a job that is not here; 0: none. */
uint64_t srv_assignment_serves(const struct hd_server *server, uint32_t job);
/* The newest generation of a job that is not here; 0: none. */
uint64_t srv_assignment_generation(const struct hd_server *server, uint32_t job);
void srv_assignment_set(struct hd_server *server, uint32_t job, bool may, uint64_t generation);
/* Workers that sent JOIN for this job (0: any) while it might not begin join again. */
void srv_assignment_ask_joins(struct hd_server *server, uint32_t job);
/* The job is gone: forgets what was said about it. */
void srv_assignment_forget(struct hd_server *server, uint32_t job);

#endif
