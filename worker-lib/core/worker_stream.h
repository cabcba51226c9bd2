/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes through the slots of a switch. */
#ifndef WORKER_STREAM_H
#define WORKER_STREAM_H

#include "worker_core.h"

/* 0; -EINVAL: not such slots, -EMFILE: too many ways, -ENOMEM. */
int worker_stream_begin(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_session *session,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
);
/* Go. False: no such push is under way. */
bool worker_stream_go(struct hd_worker *worker, const struct worker_context *ctx, uint64_t token);
void worker_stream_pump(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
);
/* The server has applied it. True: it goes on, for the replica. */
bool worker_stream_tail(const struct worker_context *ctx, struct worker_ticket *ticket);
hd_ns worker_stream_deadline(const struct worker_ticket *ticket);
void worker_stream_observe(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* What a receiver says. False: of none. */
bool worker_stream_result(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);

#endif
