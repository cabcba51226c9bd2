/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's output: events, and messages in its sessions. */
#include "worker_core.h"

#include <errno.h>

void worker_emit(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_event *event
) {
	if (!ctx->sink->event)
		return;
	if (event->at == 0)
		event->at = ctx->now;
	event->job = worker->job;
	event->worker = worker->config.rank;
	ctx->sink->event(ctx->sink, event);
}

/* -ENOTCONN without a session, else as hd_session_send(). */
int worker_tell(
	struct hd_worker *worker,
	struct hd_session *session,
	const struct worker_context *ctx,
	const struct hd_message *message
) {
	if (!session || !hd_session_is_open(session))
		return -ENOTCONN;
	return hd_session_send(session, message, ctx->now, ctx->sink);
}
