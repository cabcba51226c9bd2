/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes: what they are on the wire, how they begin, what becomes of them.
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
/* Also once it is rounded. */
bool worker_is_finite(const struct hd_push_args *args, double norm);
/* Multiplies by this grant's weight and writes it as it travels, into a copy of our own: the commit log has
 * the weight of the grant that was carried out, and says what was added. -ENOMEM, -EDOM (the weight led
 * beyond the type's range), -EIO (the packer's). `exponent`: of fixed point. `whole`: a packer has ended, too. */
int worker_make_payload(
	const struct hd_worker *worker,
	struct worker_ticket *ticket,
	float weight,
	int16_t exponent,
	bool whole
);
/* What is sent: once worker_make_payload() has succeeded. */
const void *worker_bytes(const struct worker_ticket *ticket);
/* L2. */
double worker_norm(const struct hd_push_args *args);
/* The largest absolute value. */
float worker_peak(const struct hd_push_args *args);
/* Of fixed point that nobody else adds to; 0 of other types. */
int16_t worker_exponent(const struct worker_ticket *ticket, float weight);

/* --- worker_grant.c ------------------------------------------------------------------------- */
/* A grant's segments on our clock. */
struct hd_segs worker_segments(
	const struct hd_session *session,
	const struct worker_context *ctx,
	const struct hd_msg_grant *grant
);
/* How much later than its start time a transfer begins by itself that waits for go. */
hd_ns worker_go_slack(const struct hd_session *session, const struct hd_segs *segments);
/* The server's go (ended: VOID) for this token came, and there is no grant yet. */
void worker_remember_early(struct hd_worker *worker, uint64_t token, bool ended);
/* Whether such a word came before; forgotten then. */
bool worker_take_early(struct hd_worker *worker, uint64_t token, bool ended);

/* --- worker_push.c -------------------------------------------------------------------------- */
/* Begins to send what this grant allows. 0 or -errno: then nothing has begun. */
int worker_begin_push(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
);

/* --- worker_stream.c: through the slots of a switch ----------------------------------------- */
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
/* What a receiver says. False: of none. */
bool worker_stream_result(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);

/* --- worker_copy.c: once more, to the server's replica -------------------------------------- */
void worker_on_copy_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_grant *grant
);
/* Ends one under way and says that its bytes are no more: its replica would wait until it takes them for stuck. */
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
/* The way's session has ended, or it is to be closed. */
void worker_copies_leave(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_way *way
);

/* --- worker_send.c -------------------------------------------------------------------------- */
void worker_on_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant
);
void worker_on_go(struct hd_worker *worker, const struct worker_context *ctx, uint64_t token);
/* Whoever takes the chunks, or the server, ended this transfer, not its round: it is asked for again. */
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
/* Each sees what became of what is sent since the last look. */
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
/* When its send wants to be pumped. */
hd_ns worker_send_deadline(const struct worker_ticket *ticket);

#endif
