/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes: their bytes on the wire, their begin and their end.
 *
 *   worker_payload.c, worker_grant.c --> worker_stream.c --> worker_push.c (begins) ... worker_send.c (ends)
 */
#ifndef WORKER_PUSH_H
#define WORKER_PUSH_H

#include "worker_ticket.h"

/* --- worker_payload.c ----------------------------------------------------------------------- */
/* Bytes of an update on the wire. -EINVAL (values, dtype, runs), -E2BIG (sparse, but not smaller than the model). */
int worker_payload_bytes(
	const struct hd_worker *worker,
	const struct hd_push_args *args,
	uint64_t *bytes
);
/* Also after rounding. */
bool worker_is_finite(const struct hd_push_args *args, double norm);
/* Multiplies by this grant's weight and writes the result in its type on the wire, into a copy of our own: the commit
 * log has the weight of the grant that was carried out, and so of the added values. -ENOMEM, -EDOM (the weight exceeds
 * the type's range), -EIO (the packer's). `exponent`: of fixed point. `whole`: waits for a packer, too. */
int worker_make_payload(
	const struct hd_worker *worker,
	struct worker_ticket *ticket,
	float weight,
	int16_t exponent,
	bool whole
);
/* The bytes to send, after worker_make_payload() has succeeded. */
const void *worker_bytes(const struct worker_ticket *ticket);
/* L2. */
double worker_norm(const struct hd_push_args *args);
/* The largest absolute value. */
float worker_peak(const struct hd_push_args *args);
/* For fixed point without other summands; 0 for other types. */
int16_t worker_exponent(const struct worker_ticket *ticket, float weight);

/* --- worker_grant.c ------------------------------------------------------------------------- */
/* A grant's segments on our clock. */
struct hd_segs worker_segments(
	const struct hd_session *session,
	const struct worker_context *ctx,
	const struct hd_msg_grant *grant
);
/* How much later than its start time a transfer that waits for GO begins by itself. */
hd_ns worker_go_slack(const struct hd_session *session, const struct hd_segs *segments);
/* Stores the server's GO (ended: VOID) for this token, for which there is no grant yet. */
void worker_remember_early(struct hd_worker *worker, uint64_t token, bool ended);
/* Whether such a message came before; removes it. */
bool worker_take_early(struct hd_worker *worker, uint64_t token, bool ended);

/* --- worker_push.c -------------------------------------------------------------------------- */
/* Begins to send under this grant. 0 or -errno: then nothing has begun. */
int worker_begin_push(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
);

/* --- worker_stream.c: through the slots of a switch ----------------------------------------- */
/* 0; -EINVAL: invalid slots, -EMFILE: no free path, -ENOMEM. */
int worker_stream_begin(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_session *session,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
);
/* GO. False: no such push is in progress. */
bool worker_stream_go(struct hd_worker *worker, const struct worker_context *ctx, uint64_t token);
void worker_stream_pump(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
);
/* The server has applied it. True: it continues, for the replica. */
bool worker_stream_tail(const struct worker_context *ctx, struct worker_ticket *ticket);
hd_ns worker_stream_deadline(const struct worker_ticket *ticket);
/* A receiver's report. False: of no push. */
bool worker_stream_result(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);

/* --- worker_copy.c: copies to the server's replica ------------------------------------------- */
void worker_on_copy_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_grant *grant
);
/* Ends a copy in progress and reports that its bytes are gone: otherwise its replica would wait until its timeout. */
void worker_copy_gone(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* False: the token is not that of a copy. */
bool worker_copy_void(struct hd_worker *worker, uint64_t token);
bool worker_copy_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_session *session,
	const struct hd_msg_sack *sack
);
void worker_observe_copy(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* The path's session has ended, or is about to be closed. */
void worker_copies_leave(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_path *path
);

/* --- worker_send.c -------------------------------------------------------------------------- */
void worker_on_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant
);
void worker_on_go(struct hd_worker *worker, const struct worker_context *ctx, uint64_t token);
/* The receiver of the chunks, or the server, ended this transfer, but not its round: it is requested again. */
void worker_on_void(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_void_ *void_
);
void worker_on_controller_void(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	uint64_t token
);
void worker_on_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_session *session,
	const struct hd_msg_sack *sack
);
/* Of a push whose packer has failed. */
void worker_observe_packing(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* Each checks the state of its sender. */
void worker_observe_send(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
void worker_observe_stream(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
void worker_pump_sends(struct hd_worker *worker, const struct worker_context *ctx);
/* When its sender needs to be pumped. */
hd_ns worker_send_deadline(const struct worker_ticket *ticket);

#endif
