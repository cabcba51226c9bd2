/* SPDX-License-Identifier: BSD-3-Clause */
/* What the controller said of jobs that may begin here, or not: srv_told.c. */
#ifndef SRV_TOLD_H
#define SRV_TOLD_H

#include "srv_job.h"

/* This life of the controller speaks: what another one said is void. */
void srv_told_by(struct hd_server *server, uint16_t epoch);
/* Whether the job may begin here, as far as the controller said. */
bool srv_told_may_begin(const struct hd_server *server, uint32_t job);
/*
 * Whether this peer, who joins a job, must wait: it is not here and may not begin. With a controller it may when that
 * said so, for another node may have it; of its own accord only at a server that cannot hear it.
 */
bool srv_told_waits(const struct hd_server *server, struct srv_peer *peer, uint32_t job);
/* The word by which this node is to be the server of a job that is not here; 0: none. */
uint64_t srv_told_serves(const struct hd_server *server, uint32_t job);
/* Of the newest word about a job that is not here; 0: none. */
uint64_t srv_told_generation(const struct hd_server *server, uint32_t job);
void srv_told_set(struct hd_server *server, uint32_t job, bool may, uint64_t generation);
/* Who joined this job (0: any) while it might not begin joins again. */
void srv_told_ask_joins(struct hd_server *server, uint32_t job);
/* The job is gone: so is what was said of it. */
void srv_told_forget(struct hd_server *server, uint32_t job);

#endif
