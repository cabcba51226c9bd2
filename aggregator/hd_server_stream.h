/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums that come from the slots of a switch: hd_server_stream.c. */
#ifndef HD_SERVER_STREAM_H
#define HD_SERVER_STREAM_H

#include "hd_server_internal.h"

/* Whether what MEMBERS says of slots, if anything, is possible. */
bool hd_stream_fits(const struct hd_msg_members *message, uint16_t members);
/* A packet of type RESULT: taken and answered, or dropped for a counted reason. */
void hd_stream_result(struct hd_turn *turn, const struct hd_packet *packet);
/* Go, to all members. */
void hd_stream_go(struct hd_turn *turn, const struct hd_incoming *in);

/* --- hd_server_assembly.c ------------------------------------------------------------------- */
/* Gives it a buffer and a receiver. 0 or -ENOMEM. What a sum's chunks call themselves says the first of them
 * (NULL for all others). */
int hd_incoming_open(
	struct hd_server *server,
	struct hd_incoming *in,
	const struct hd_chunk_header *header
);
/* A chunk that came under its token. True: it is held, now or already. */
bool hd_incoming_chunk(
	struct hd_turn *turn,
	struct hd_incoming *in,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);

#endif
