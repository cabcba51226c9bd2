/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server core: updates that were granted in advance (srv_credit.c). */
#ifndef SRV_CREDIT_H
#define SRV_CREDIT_H

#include "srv_incoming.h"

void srv_credit_offer(struct srv_turn *turn, const struct hd_msg_credit *credit);
/* Whether this chunk may belong to the update. The first one sets the properties of the whole; untake resets them if it
 * is refused after all. */
bool srv_credit_takes(struct srv_incoming *in, const struct hd_chunk_header *header);
void srv_credit_untake(struct hd_server *server, struct srv_incoming *in);
/* Its first chunk is here: queues the update. False: its base is too old, and it has ended. */
bool srv_credit_spend(struct srv_turn *turn, struct srv_incoming *in);
/* Adds a chunk that was taken to the norm. */
void srv_credit_measure(struct srv_incoming *in, const struct hd_chunk_header *header);
/* Ends all unspent credits of a job. */
void srv_credit_end_all(struct srv_turn *turn, struct srv_job *job, enum hd_reason reason);

#endif
