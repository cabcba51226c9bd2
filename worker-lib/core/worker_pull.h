/* SPDX-License-Identifier: BSD-3-Clause */
/* Pulls off the wire. */
#ifndef WORKER_PULL_H
#define WORKER_PULL_H

#include "worker_ticket.h"

/* --- worker_bury.c: what has ended, whose sender may not know it ---------------------------- */
/* The last acknowledgement may be lost: `from` (none: the server) then repeats chunks of what has ended. */
void worker_bury(struct hd_worker *worker, struct hd_addr from, uint64_t token, uint32_t held);
/* A chunk of nothing that is under way: of what has ended, or of nothing at all. */
void worker_after_end(
	struct hd_worker *worker,
	const struct hd_chunk_header *header,
	struct hd_addr from
);
/* Says again what those that repeat themselves have missed. */
void worker_repeat_ends(struct hd_worker *worker, const struct worker_context *ctx);

/* --- worker_pull.c -------------------------------------------------------------------------- */
void worker_on_expect(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_expect *expect
);
/* `way`: the aggregator that says it; NULL: the server. */
void worker_on_pull_state(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_way *way,
	const struct hd_msg_pull_state *state
);
/* False: its token is not that of a pull under way. */
bool worker_pull_chunk(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet,
	const struct hd_chunk_header *header,
	const uint8_t *payload
);
void worker_pump_sacks(struct hd_worker *worker, const struct worker_context *ctx);

#endif
