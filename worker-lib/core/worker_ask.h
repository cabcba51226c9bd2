/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking for pushes and pulls, and asking again. */
#ifndef WORKER_ASK_H
#define WORKER_ASK_H

#include "worker_ticket.h"

/* --- worker_step.c: synchronous jobs -------------------------------------------------------- */
/* Whether the model that this pull is for is still to be made by a step that a push before it is in. */
bool worker_waits_for_step(const struct hd_worker *worker, const struct worker_ticket *pull);
/* Tells the server, once a session, that we push no more: steps of others need not wait for that. */
void worker_say_done(struct hd_worker *worker, const struct worker_context *ctx);
/* The server's version, as it was told; of a new life it may be less than before. */
void worker_newest(struct hd_worker *worker, hd_version version, bool new_life);

/* --- worker_credit.c: pushes and pulls that need not be asked for --------------------------- */
void worker_on_credit(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_credit *message
);
/* Whether that was the one that waits to be spent: it is gone. */
bool worker_credit_void(struct hd_worker *worker, uint64_t token);
/* The controller's session has ended: it knows of nothing any more. */
void worker_credit_clear(struct hd_worker *worker);
/* Sends a push on the credit. False: it is to be asked for. */
bool worker_spend(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* Whether this pull may be asked of the server now. */
bool worker_spend_pull(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
);

/* --- worker_ask.c --------------------------------------------------------------------------- */
void worker_ask(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
void worker_ask_queued(struct hd_worker *worker, const struct worker_context *ctx);
/* Takes a ticket off the wire and back to QUEUED. */
void worker_requeue(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* Both. */
void worker_ask_anew(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* A controller session that ends takes its unanswered requests with it. */
void worker_requeue_asked(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum worker_asked whom
);
/* The server's session ended, or another life of it came: nothing on the wire counts any more. */
void worker_requeue_wire(struct hd_worker *worker, const struct worker_context *ctx, bool new_life);
/* What a controller granted that is gone, and of which nothing got through yet: its word to the server may
 * be lost with it. */
void worker_requeue_unproven(struct hd_worker *worker, const struct worker_context *ctx);
/* The aggregator cannot be reached: the controller hears it, and the server is asked. */
void worker_leave_way(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_reason reason
);

/* --- worker_stall.c ------------------------------------------------------------------------- */
void worker_stall_tick(struct hd_worker *worker, const struct worker_context *ctx);

#endif
