/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server core: updates that were granted in advance (srv_credit.c). */
#ifndef SRV_CREDIT_H
#define SRV_CREDIT_H

#include "srv_internal.h"

void srv_credit_offer(struct srv_turn *turn, const struct hd_msg_credit *credit);
void srv_credit_report(
	struct srv_turn *turn,
	const struct hd_msg_credit *credit,
	enum hd_reason reason
);
bool srv_credit_unspent(const struct srv_incoming *in);
/* Whether this chunk may belong to it. The first one says what the whole is: taken back by untake when it is
 * refused after all. */
bool srv_credit_takes(struct srv_incoming *in, const struct hd_chunk_header *header);
void srv_credit_untake(struct hd_server *server, struct srv_incoming *in);
/* Its first chunk is here: queued. False: its base is too old, and it has ended. */
bool srv_credit_spend(struct srv_turn *turn, struct srv_incoming *in);
/* Squared L2 norm of values as they travel; of a sparse update: of one chunk's. */
double
srv_payload_norm2(const struct srv_job *job, uint8_t dtype, const void *values, size_t bytes);
/* Adds a chunk that was taken to the norm. */
void srv_credit_measure(struct srv_incoming *in, const struct hd_chunk_header *header);
/* Nobody spends it any more: its worker is told, the controller when it does not know. */
void srv_credit_end(
	struct srv_turn *turn,
	struct srv_incoming *in,
	enum hd_reason reason,
	bool report
);
/* All of a job's that nobody has spent. */
void srv_credit_end_all(struct srv_turn *turn, struct srv_job *job, enum hd_reason reason);

#endif
