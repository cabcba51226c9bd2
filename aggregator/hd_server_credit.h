/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server core: updates that were granted in advance (hd_server_credit.c). */
#ifndef HD_SERVER_CREDIT_H
#define HD_SERVER_CREDIT_H

#include "hd_server_internal.h"

void hd_credit_offer(struct hd_turn *turn, const struct hd_msg_credit *credit);
bool hd_credit_unspent(const struct hd_incoming *in);
/* Whether this chunk may belong to it. The first one says what the whole is: taken back by untake when it is
 * refused after all. */
bool hd_credit_takes(struct hd_incoming *in, const struct hd_chunk_header *header);
void hd_credit_untake(struct hd_server *server, struct hd_incoming *in);
/* Its first chunk is here: queued. False: its base is too old, and it has ended. */
bool hd_credit_spend(struct hd_turn *turn, struct hd_incoming *in);
/* Squared L2 norm of values as they travel; of a sparse update: of one chunk's. */
double hd_payload_norm2(const struct hd_job *job, uint8_t dtype, const void *values, size_t bytes);
/* Adds a chunk that was taken to the norm. */
void hd_credit_measure(struct hd_incoming *in, const struct hd_chunk_header *header);
/* Nobody spends it any more: its worker is told, the controller when it does not know. */
void hd_credit_end(
	struct hd_turn *turn,
	struct hd_incoming *in,
	enum hd_reason reason,
	bool report
);
/* All of a job's that nobody has spent. */
void hd_credit_end_all(struct hd_turn *turn, struct hd_job *job, enum hd_reason reason);

#endif
