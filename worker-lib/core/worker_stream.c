/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A push through the slots of a switch on the path, which adds it to others and sends the sum to the server, and to its
 * replica if there is one:
 *
 *     grant, slots > 0 --> chunks into the lease's slots --> | switch | --> sums --> server, replica
 *                          chunk c + slots may be sent  <--- |        | <-- "held" of each of these
 *
 * The lease belongs to this one group. As for a push over an aggregator, a voided member asks again, and the server
 * reports the outcome. In contrast to that, the server has every chunk that all receivers hold.
 *
 * The server may have applied a sum of which the replica still lacks a part. Then the push's chunks continue, in slots
 * that the controller keeps for it, until the replica has reported that it holds them all, or for HD_SUM_TAIL_US; the
 * push itself ends meanwhile (worker_stream_tail()).
 */
#include "hd_group.h"
#include "hd_slots.h"
#include "hd_switch_numbers.h"
#include "worker_push.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POLL_BUDGET 256 /* packets of one push in one call */
#define RATE_SPARE 1.25 /* multiple of the granted rate that may be tried */

static bool is_active(const struct worker_ticket *ticket) {
	return ticket->slots && !ticket->cancelling
		&& hd_slots_stats(ticket->slots)->state == HD_SLOTS_ACTIVE;
}

/* The granted rate of payload, in bits on the link; 0: no limit. */
static uint64_t link_rate(const struct hd_segs *segments, uint16_t count) {
	double bytes = (double)count * sizeof(uint32_t), rate = 0;

	for (uint32_t i = 0; i < segments->count; i++)
		if ((double)segments->item[i].rate_bps > rate)
			rate = (double)segments->item[i].rate_bps;
	return (uint64_t)(rate * RATE_SPARE * (bytes + HD_CHUNK_OVERHEAD_BYTES) / bytes);
}

static bool is_possible(
	const struct hd_worker *worker,
	const struct hd_msg_grant *grant,
	const struct worker_ticket *ticket
) {
	return ticket->dtype == HD_DTYPE_FIXED32 && grant->count > 0
		&& grant->count <= worker->config.chunk_bytes / sizeof(uint32_t)
		&& grant->receivers > 0 && grant->receivers <= HD_SWITCH_RECEIVERS_MAX
		&& grant->peer_ipv4 != 0 && grant->peer_port != 0;
}

/* The chunks for the replica outlive the packer's memory: copies them. */
static int keep_packed(struct worker_ticket *ticket) {
	if (!ticket->pack || ticket->packed == ticket->payload)
		return 0;
	free(ticket->payload);
	ticket->payload = malloc(ticket->pub.bytes);
	if (!ticket->payload)
		return -ENOMEM;
	ticket->packed = memcpy(ticket->payload, ticket->packed, ticket->pub.bytes);
	return 0;
}

int worker_stream_begin(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_session *session,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
) {
	const struct hd_segs segments = worker_segments(session, ctx, grant);
	struct hd_slots_config config = {
		.peer = {grant->peer_ipv4, grant->peer_port},
		.job = worker->job,
		.round = 1,
		.epoch = grant->epoch,
		.worker = worker->config.rank,
		.attempt = 1,
		.dtype = HD_DTYPE_FIXED32,
		.exponent = ticket->exponent,
		.member = grant->member,
		.members = grant->members,
		.slots = grant->slots,
		.count = grant->count,
		.token = grant->token,
		.result_token = grant->result_token,
		.rate_bps = link_rate(&segments, grant->count ? grant->count : 1),
		.values = ticket->values,
		.receivers = grant->receivers,
	};
	int rc;

	if (!is_possible(worker, grant, ticket))
		return -EINVAL;
	rc = keep_packed(ticket);
	if (rc < 0)
		return rc;
	config.lanes = worker_bytes(ticket);
	ticket->path = worker_path_plain(worker, ctx, config.peer);
	if (!ticket->path)
		return -EMFILE;
	config.path = &ticket->path->cc;
	rc = hd_slots_create(&config, ctx->now, &ticket->slots);
	if (rc < 0) {
		ticket->path = NULL;
		return rc;
	}
	ticket->ask_server = true;
	ticket->result_token = grant->result_token;
	ticket->slots_at = segments.count ? segments.item[0].start_ns : ctx->now;
	if (worker_take_early(worker, grant->token, false))
		ticket->slots_at = ctx->now;
	else if (grant->after)
		ticket->slots_at = hd_ns_add(ticket->slots_at, worker_go_slack(session, &segments));
	return 0;
}

bool worker_stream_go(struct hd_worker *worker, const struct worker_context *ctx, uint64_t token) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->active, active_link) {
		if (!ticket->slots || ticket->token != token)
			continue;
		ticket->slots_at = hd_ns_min(ticket->slots_at, ctx->now);
		return true;
	}
	return false;
}

void worker_stream_pump(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
) {
	const struct hd_slots_stats *stats;

	if (!is_active(ticket) || ctx->now < ticket->slots_at)
		return;
	(void)hd_slots_poll(ticket->slots, ctx->now, POLL_BUDGET, ctx->sink);
	stats = hd_slots_stats(ticket->slots);
	/* A begin or a failure here is reported in the next call. */
	if (stats->state == HD_SLOTS_FAILED
	    || (ticket->pub.state == HD_TICKET_GRANTED && stats->packets_sent > 0))
		worker->observe_due = true;
}

bool worker_stream_tail(const struct worker_context *ctx, struct worker_ticket *ticket) {
	if (!is_active(ticket))
		return false;
	ticket->tail_until = hd_ns_add(ctx->now, HD_SUM_TAIL_US * HD_US);
	return true;
}

hd_ns worker_stream_deadline(const struct worker_ticket *ticket) {
	hd_ns at;

	if (!is_active(ticket))
		return HD_NEVER;
	at = hd_ns_max(ticket->slots_at, hd_slots_deadline(ticket->slots));
	return ticket->tail_until ? hd_ns_min(at, ticket->tail_until) : at;
}

bool worker_stream_result(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
) {
	struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->active, active_link)
		if (ticket->slots && ticket->result_token == header->token)
			break;
	if (!ticket || header->token == 0)
		return false;
	if (hd_slots_take(ticket->slots, ctx->now, header, payload, payload_bytes)
	    == HD_SLOTS_MISMATCH)
		worker->stats.drop_mismatch++;
	return true;
}
