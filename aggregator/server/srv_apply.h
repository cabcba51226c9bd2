/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server: applies an update to the model, in as many calls as it takes. */
#ifndef SRV_APPLY_H
#define SRV_APPLY_H

#include "srv_incoming.h"

void srv_apply_begin(struct srv_job *job, struct srv_incoming *in);
/* Applies as much as the call's budget allows. True: the update is complete. */
bool srv_apply_slice(struct hd_server *server, struct srv_job *job);
/* The whole step is in the buffers: makes them the model, `versions` later. */
void srv_apply_take(struct hd_server *server, struct srv_job *job, uint32_t versions);
/* Releases what an unfinished update holds, when the job ends. */
void srv_apply_fini(struct hd_server *server, struct srv_job *job);

#endif
