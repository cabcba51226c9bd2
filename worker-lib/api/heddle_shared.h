/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libheddle: collectives through memory that processes of one host share (heddle_shared.c). */
#ifndef HEDDLE_SHARED_H
#define HEDDLE_SHARED_H

#include "heddle_private.h"

/* Before the core is created: what it needs to share memory, unless this process cannot, or is not to. -EINVAL,
 * -ENOMEM; heddle_shared_close() is due in any case. */
int heddle_shared_open(struct heddle *fabric, struct hd_worker_config *config);
/* The progress thread's: tells the core which rounds have ended. */
void heddle_shared_take(struct heddle *fabric, hd_ns now, struct hd_sink *sink);
/* Gives up all rounds: after it no buffer of a caller is used. */
void heddle_shared_halt(struct heddle *fabric);
/* After the core is gone. */
void heddle_shared_close(struct heddle *fabric);

#endif
