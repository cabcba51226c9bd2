/* SPDX-License-Identifier: BSD-3-Clause */
/* The top of the worker's core: sessions and messages, the ends that they report, members, leaving. */
#ifndef WORKER_SESSION_H
#define WORKER_SESSION_H

#include "worker_core.h"

/* --- worker_dispatch.c ---------------------------------------------------------------------- */
extern const struct hd_endpoint_ops worker_endpoint_ops;
/* Checks a constant table. */
bool worker_routes_are_valid(void);

/* --- worker_packet.c ------------------------------------------------------------------------ */
void worker_on_packet(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet
);

/* --- worker_session.c ----------------------------------------------------------------------- */
void worker_start(struct hd_worker *worker, const struct worker_context *ctx);
void worker_session_opened(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session
);
void worker_session_closed(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text
);
void worker_on_registered(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_registered *message
);
void worker_on_joined(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_joined *message
);
void worker_on_refuse(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	bool by_server,
	const struct hd_msg_refuse *message
);
void worker_on_wait(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	bool by_server,
	const struct hd_msg_wait *message
);
void worker_session_tick(struct hd_worker *worker, const struct worker_context *ctx);
hd_ns worker_session_deadline(const struct hd_worker *worker);

/* --- worker_leave.c ------------------------------------------------------------------------- */
hd_ns worker_leave_deadline(const struct hd_worker *worker);

/* --- worker_outcome.c ----------------------------------------------------------------------- */
void worker_on_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_drop *drop
);
void worker_on_outcome(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_outcome *outcome
);
void worker_on_durable(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	hd_version durable
);
void worker_fail_all(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum hd_reason reason
);
/* Releases applied pushes, oldest first, until at most this many bytes are kept for a restart of the server. */
void worker_trim_kept(struct hd_worker *worker, const struct worker_context *ctx, uint64_t bytes);

/* --- worker_federated.c: federated jobs --------------------------------------------------------- */
void worker_on_round(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_round *message
);
void worker_on_lack(struct hd_worker *worker, const struct hd_msg_lack *message);

/* --- worker_members.c ----------------------------------------------------------------------- */
/* Sends the notice, if there is one. */
void worker_send_notice(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session
);
void worker_members_tick(struct hd_worker *worker, const struct worker_context *ctx);
/* When the worker leaves even with transfers in progress; HD_NEVER without a notice. */
hd_ns worker_leave_at(const struct hd_worker *worker);
hd_ns worker_members_deadline(const struct hd_worker *worker);
void worker_on_roster(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_roster *message
);
/* The controller sends this worker away. */
void worker_on_notice(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_notice *message
);

/* --- worker_observe.c ----------------------------------------------------------------------- */
/* Sends the reports since the last OBSERVE to the controller, when it is time. */
void worker_observe_tick(struct hd_worker *worker, const struct worker_context *ctx);
hd_ns worker_observe_deadline(const struct hd_worker *worker);

/* --- worker_stats.c ------------------------------------------------------------------------- */
/* Answers the controller's POLL with this node's counters. */
void worker_on_poll(
	const struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_poll *poll
);

#endif
