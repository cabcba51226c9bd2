/* SPDX-License-Identifier: BSD-3-Clause */
/* Begins a granted push: packs its bytes, and creates its sender. */
#include "hd_assert.h"
#include "worker_push.h"

#include <errno.h>
#include <math.h>

static int begin_send(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
) {
	struct hd_send_config config = {
		.peer = { grant->peer_ipv4, grant->peer_port },
		.header = {
			.attempt = ticket->attempt,
			.dtype = ticket->dtype,
			.exponent = ticket->exponent, /* 0 except for fixed point */
			.job = worker->job,
			.epoch = grant->epoch,
			.worker = worker->config.rank,
			.round = ticket->pub.round,
			.version = ticket->pub.base,
			.total = ticket->credited ? (uint32_t)ticket->pub.bytes : 0,
			.token = grant->token,
		},
		.data = worker_bytes(ticket),
		.bytes = ticket->pub.bytes,
		.chunk_bytes = worker->config.chunk_bytes,
		.cc_weight = grant->cc_weight >= 1.0f ? grant->cc_weight : 1.0f,
		.segments = worker_segments(session, ctx, grant),
		.wait_go = grant->after != 0,
		.grows = ticket->packing,
	};
	bool server = session == worker->server || worker_is_server(worker, config.peer);
	int rc;

	if (hd_addr_is_none(config.peer))
		config.peer = hd_session_peer(worker->server);
	ticket->path = worker_path_to(worker, ctx, config.peer, server);
	if (!ticket->path)
		return -EMFILE;
	config.go_slack = worker_go_slack(session, &config.segments);
	config.path = &ticket->path->cc;
	config.keys = worker->config.keys;
	config.key_id = worker->config.key_id;
	rc = hd_send_create(&config, ctx->now, &ticket->send);
	if (rc < 0)
		ticket->path = NULL;
	ticket->ask_server |= rc == 0;
	if (rc == 0 && worker_take_early(worker, grant->token, false))
		hd_send_go(ticket->send, ctx->now);
	return rc;
}

int worker_begin_push(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
) {
	int rc = -EINVAL;

	hd_assert(ticket->pub.direction == HD_PUSH && !ticket->ended);
	hd_assert(!ticket->send && !ticket->slots);
	ticket->token = grant->token;
	ticket->position = grant->position;
	ticket->epoch = grant->epoch;
	ticket->pub.granted = session == worker->controller;
	if (isfinite(grant->weight) && grant->weight > 0.0f)
		rc = worker_make_payload(
			worker, ticket, grant->weight, (int16_t)grant->exponent, grant->slots != 0
		);
	if (rc == 0)
		rc = grant->slots ? worker_stream_begin(worker, ctx, session, grant, ticket) :
				    begin_send(worker, ctx, session, grant, ticket);
	if (rc < 0)
		return rc;
	hd_assert(ticket->path && (ticket->send || ticket->slots));
	ticket->progress_at = ctx->now;
	ticket->progress_bytes = 0;
	worker_activate(worker, ticket);
	worker_time_grant(worker, ctx, ticket);
	worker_set_state(worker, ticket, HD_TICKET_GRANTED);
	worker_watch_stalls(worker, ctx);
	return 0;
}
