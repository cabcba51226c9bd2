/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums that come through the slots of a switch: srv_stream.c. */
#ifndef SRV_STREAM_H
#define SRV_STREAM_H

#include "srv_incoming.h"

/* A packet of type RESULT: taken and answered, or dropped and counted by reason. */
void srv_stream_result(struct srv_turn *turn, const struct hd_packet *packet);

/* --- srv_assembly.c --------------------------------------------------------------------------- */
/* Takes a chunk of this transfer. True: it is held, now or already. */
bool srv_incoming_chunk(
	struct srv_turn *turn,
	struct srv_incoming *in,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);

#endif
