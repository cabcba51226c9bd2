/* SPDX-License-Identifier: BSD-3-Clause */
/* Pulls on the wire. */
#ifndef WORKER_PULL_H
#define WORKER_PULL_H

#include "worker_ticket.h"

/* --- worker_tombstone.c: ended transfers whose sender may not know that ---------------------- */
/* The last acknowledgement may be lost: `from` (none: the server) then repeats chunks of an ended transfer. */
void worker_add_tombstone(
	struct hd_worker *worker,
	struct hd_addr from,
	uint64_t token,
	uint32_t held
);
/* A chunk of no transfer in progress: of an ended one, or of an unknown one. */
void worker_after_end(
	struct hd_worker *worker,
	const struct hd_chunk_header *header,
	struct hd_addr from
);
/* Repeats missed acknowledgements to senders that repeat chunks. */
void worker_repeat_ends(struct hd_worker *worker, const struct worker_context *ctx);

/* --- worker_pull.c -------------------------------------------------------------------------- */
void worker_on_expect(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_expect *expect
);
/* `path`: the aggregator that sent it; NULL: the server. */
void worker_on_pull_state(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_path *path,
	const struct hd_msg_pull_state *state
);
/* False: its token is not that of a pull in progress. */
bool worker_pull_chunk(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet,
	const struct hd_chunk_header *header,
	const uint8_t *payload
);
void worker_pump_sacks(struct hd_worker *worker, const struct worker_context *ctx);

#endif
