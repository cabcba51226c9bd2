/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests for pushes and pulls, and their repetition. */
#ifndef WORKER_ASK_H
#define WORKER_ASK_H

#include "worker_ticket.h"

/* --- worker_step.c: synchronous jobs -------------------------------------------------------- */
/* Whether this pull has to wait for a step that an earlier push is part of. */
bool worker_waits_for_step(const struct hd_worker *worker, const struct worker_ticket *pull);
/* Tells the server, once a session, that this worker pushes no more: steps of others need not wait for it. */
void worker_send_done(struct hd_worker *worker, const struct worker_context *ctx);
/* A version of the server, as received; that of a new process may be lower than before. */
void worker_newest(struct hd_worker *worker, hd_version version, bool server_restarted);

/* --- worker_credit.c: pushes and pulls without a request ------------------------------------ */
void worker_on_credit(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_credit *message
);
/* Whether that was the unspent credit, which is removed. */
bool worker_credit_void(struct hd_worker *worker, uint64_t token);
/* The controller's session has ended: it does not know the credits any more. */
void worker_credit_clear(struct hd_worker *worker);
/* Sends a push on the credit. False: it needs a request. */
bool worker_spend(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* Whether this pull may be requested from the server now. */
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
/* Requeues and asks. */
void worker_ask_again(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* The controller's session ended, and with it unanswered requests: these are queued again. */
void worker_requeue_asked(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum worker_asked target
);
/* The server's session ended, or a new process of it came: all transfers on the wire are queued again. */
void worker_requeue_wire(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	bool server_restarted
);
/* Queues grants of a lost controller again, if no byte of them was acknowledged: its message to the server may be lost,
 * too. */
void worker_requeue_unproven(struct hd_worker *worker, const struct worker_context *ctx);
/* The aggregator cannot be reached: the controller is told, and the server is asked. */
void worker_leave_path(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_reason reason
);

/* --- worker_stall.c ------------------------------------------------------------------------- */
void worker_stall_tick(struct hd_worker *worker, const struct worker_context *ctx);

#endif
