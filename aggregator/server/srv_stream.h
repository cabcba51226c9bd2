/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums that come from the slots of a switch: srv_stream.c. */
#ifndef SRV_STREAM_H
#define SRV_STREAM_H

#include "srv_internal.h"

/* Whether what MEMBERS says of slots, if anything, is possible. */
bool srv_stream_fits(const struct hd_msg_members *message, uint16_t members);
/* A packet of type RESULT: taken and answered, or dropped for a counted reason. */
void srv_stream_result(struct srv_turn *turn, const struct hd_packet *packet);
/* Go, to all members. */
void srv_stream_go(struct srv_turn *turn, const struct srv_incoming *in);

/* --- srv_assembly.c ------------------------------------------------------------------- */
/* Gives it a buffer and a receiver. 0 or -ENOMEM. What a sum's chunks call themselves says the first of them
 * (NULL for all others). */
int srv_incoming_open(
	struct hd_server *server,
	struct srv_incoming *in,
	const struct hd_chunk_header *header
);
/* A chunk that came under its token. True: it is held, now or already. */
bool srv_incoming_chunk(
	struct srv_turn *turn,
	struct srv_incoming *in,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);

#endif
