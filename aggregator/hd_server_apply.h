/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server: an update is added to the model, in as many calls as it takes. */
#ifndef HD_SERVER_APPLY_H
#define HD_SERVER_APPLY_H

#include "hd_server_internal.h"

void hd_apply_begin(struct hd_job *job, struct hd_incoming *in);
/* Applies as much as the call has left. True when that was all of it. */
bool hd_apply_step(struct hd_server *server, struct hd_job *job);
/* The whole step is in the buffers: they are the model from here on. */
void hd_apply_take(struct hd_server *server, struct hd_job *job);
/* Gives back what an unfinished update holds, at the end. */
void hd_apply_fini(struct hd_server *server, struct hd_job *job);

#endif
