/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks are written to their place at once. Everything else (acknowledgement, completion, go) is handled once a call
 * for each update that was touched, not once a packet.
 */
#include "hd_group.h"
#include "hd_kernels.h"
#include "hd_runs.h"
#include "srv_credit.h"
#include "srv_replica.h"
#include "srv_stream.h"
#include "srv_update.h"

#include <assert.h>
#include <errno.h>

/* --- chunks ----------------------------------------------------------------------------------- */

static void incoming_started(struct srv_turn *turn, struct srv_incoming *in) {
	struct hd_event event = srv_incoming_event(in, HD_EVENT_RECV_START);

	srv_incoming_enter(in, SRV_COMING);
	/* A credit is spent at any time; a copy follows its update. Neither needs go. */
	if (in->kind != SRV_CREDIT && !srv_incoming_is_copy(in))
		hd_histogram_add(
			&turn->server->histograms.first_chunk,
			&hd_scale_time,
			turn->now - in->granted
		);
	srv_turn_event(turn, &event);
}

/* The update is unusable: malformed, or not finite where the job allows no such value. Malformed is the reason that
 * stays. */
static void incoming_spoil(struct srv_incoming *in, enum hd_reason reason) {
	assert(reason == HD_REASON_REFUSED || reason == HD_REASON_NOT_FINITE);
	if (in->spoilt != HD_REASON_REFUSED)
		in->spoilt = (uint8_t)reason;
}

static void incoming_check_runs(struct srv_incoming *in, const uint8_t *chunk, size_t bytes) {
	struct hd_runs_cursor cursor;
	struct hd_run run;
	const float *x;
	int more;

	hd_runs_begin(&cursor, chunk, bytes, in->job->values);
	while ((more = hd_runs_next(&cursor, &run, &x)) > 0)
		if (!in->job->spec.allow_not_finite
		    && hd_find_not_finite_f32(x, run.count) < run.count)
			incoming_spoil(in, HD_REASON_NOT_FINITE);
	if (more < 0)
		incoming_spoil(in, HD_REASON_REFUSED);
}

/* Converts lanes to fp32 in place: both have 4 bytes. Each chunk has its exponent; one lane that overflowed makes the
 * whole update unusable. */
static void incoming_widen(struct srv_incoming *in, const struct hd_chunk_header *header) {
	uint64_t first = (uint64_t)header->chunk * hd_recv_chunk_bytes(in->recv) / sizeof(float);
	float *values = in->buffer->data + first;
	uint32_t lanes[HD_CHUNK_BYTES_MAX / sizeof(uint32_t)];

	if (header->exponent < HD_FIXED_EXPONENT_MIN || header->exponent > HD_FIXED_EXPONENT_MAX) {
		incoming_spoil(in, HD_REASON_REFUSED);
		return;
	}
	if (header->flags & HD_CHUNK_NOT_FINITE)
		incoming_spoil(in, HD_REASON_NOT_FINITE);
	memcpy(lanes, values, header->count * sizeof *lanes);
	hd_fixed_to_f32(values, lanes, header->count, header->exponent);
}

/* Values as they are in the packet, which is in the cache: a long update is stored past it. */
static bool are_finite(uint8_t dtype, const uint8_t *payload, uint16_t count) {
	float aligned[HD_CHUNK_BYTES_MAX / sizeof(float)];

	if ((uintptr_t)payload % sizeof *aligned == 0)
		return !hd_any_not_finite(dtype, payload, count);
	memcpy(aligned, payload, count * hd_dtype_bytes(dtype));
	return !hd_any_not_finite(dtype, aligned, count);
}

/* Checks each new chunk, so that the update is not read again. */
static void incoming_check(
	struct srv_incoming *in,
	const struct hd_chunk_header *header,
	const uint8_t *payload
) {
	const void *stored = hd_recv_chunk_data(in->recv, header->chunk);
	bool finite = true;

	if (in->dtype == HD_DTYPE_FIXED32)
		incoming_widen(in, header);
	if (in->normed)
		srv_credit_measure(in, header);
	if (in->dtype == HD_DTYPE_SPARSE32)
		incoming_check_runs(in, stored, header->count * hd_dtype_bytes(in->dtype));
	else if (in->dtype == HD_DTYPE_FIXED32)
		finite = hd_find_not_finite_f32(stored, header->count) == header->count;
	else if (!in->job->spec.allow_not_finite)
		finite = are_finite(in->dtype, payload, header->count);
	if (!finite && !in->job->spec.allow_not_finite)
		incoming_spoil(in, HD_REASON_NOT_FINITE);
}

/* Whether its sender's session is at this address. A session follows its peer to a new address, and so does this. The
 * sender of a copy becomes known by its first chunk: any worker that has a session here. */
static bool
incoming_is_from(const struct srv_turn *turn, const struct srv_incoming *in, struct hd_addr from) {
	const struct srv_peer *peer = srv_incoming_peer(in);

	if (!peer && in->kind == SRV_SUM)
		return hd_addr_equal(in->sender, from); /* as MEMBERS said */
	if (!peer && srv_incoming_is_copy(in)) {
		peer = srv_peer_at(turn->server, from);
		return peer && hd_session_peer_role(peer->session) == HD_ROLE_WORKER;
	}
	return peer && hd_addr_equal(hd_session_peer(peer->session), from);
}

bool srv_incoming_chunk(
	struct srv_turn *turn,
	struct srv_incoming *in,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
) {
	struct hd_server_stats *stats = &turn->server->stats;
	bool whole = false, unspent;

	if (in->state == SRV_STARVED) { /* not granted: its token is not known to any node */
		stats->drop_token++;
		return false;
	}
	if (in->kind == SRV_CREDIT && !srv_credit_takes(in, header)) {
		stats->drop_mismatch++;
		return false;
	}
	if (!in->recv && srv_incoming_open(turn->server, in, header) < 0
	    && !(rep_ops.make_room(turn, in) && srv_incoming_open(turn->server, in, header) == 0)) {
		stats->drop_memory++;
		return false;
	}
	switch (hd_recv_chunk(in->recv, turn->now, header, payload, payload_bytes)) {
	case HD_RECV_NEW:
		incoming_check(in, header, payload);
		break;
	case HD_RECV_DONE:
		whole = true;
		in->bytes = hd_recv_stats(in->recv)->bytes_total;
		incoming_check(in, header, payload);
		break;
	case HD_RECV_DUPLICATE:
		stats->duplicates++;
		break;
	case HD_RECV_MISMATCH:
		stats->drop_mismatch++;
		srv_credit_untake(turn->server, in);
		return false;
	}
	unspent = srv_credit_unspent(in);
	if (in->state == SRV_ANNOUNCED)
		incoming_started(turn, in);
	if (whole)
		srv_incoming_enter(in, SRV_HELD);
	if (unspent && !srv_credit_spend(turn, in))
		return false;
	if (payload_bytes > in->packet_bytes)
		in->packet_bytes = (uint32_t)payload_bytes;
	in->active = turn->now;
	hd_sink_expect(turn->sink, hd_recv_whole_at(in->recv));
	stats->chunk_bytes += payload_bytes;
	srv_incoming_touch(turn->server, in);
	return true;
}

/* The session of the sender whose transfer left this tombstone; NULL: none. */
static struct srv_peer *
tombstone_peer(const struct hd_server *server, const struct srv_tombstone *tomb) {
	const struct srv_job *job;
	const struct srv_member *member;

	if (tomb->worker == HD_GROUP_WORKER)
		return srv_aggregator_find(server, tomb->sender);
	job = srv_job_find(server, tomb->job);
	member = job ? srv_job_member(job, tomb->worker) : NULL;
	return member ? member->peer : NULL;
}

/* Tells a sender that still retransmits that we hold everything. */
static void tombstone_chunk(
	struct srv_turn *turn,
	struct srv_tombstone *tomb,
	const struct hd_chunk_header *header,
	struct hd_addr from
) {
	const struct srv_peer *peer
		= tomb->copy ? srv_peer_at(turn->server, from) : tombstone_peer(turn->server, tomb);
	struct hd_message message = {.kind = HD_MSG_SACK};

	if (!tomb->done || !peer || header->job != tomb->job
	    || (header->worker != tomb->worker && tomb->worker != HD_GROUP_WORKER)) {
		turn->server->stats.drop_token++;
		return;
	}
	if (!hd_addr_equal(hd_session_peer(peer->session), from)) {
		turn->server->stats.drop_source++;
		return;
	}
	turn->server->stats.duplicates++;
	if (tomb->answered == turn->call)
		return;
	tomb->answered = turn->call;
	message.sack.token = tomb->handle.token;
	message.sack.held = tomb->chunks;
	message.sack.done = 1;
	message.sack.window_bytes = turn->server->config.receive_window_bytes;
	message.sack.packets.count = 1;
	message.sack.packets.item[0] = (struct hd_range){header->packet, header->packet};
	(void)hd_session_send_once(peer->session, &message, turn->now, turn->sink);
}

static void incoming_packet(
	struct srv_turn *turn,
	struct srv_incoming *in,
	const struct hd_packet *packet,
	const struct hd_chunk_header *header,
	const uint8_t *payload
) {
	size_t payload_bytes = packet->bytes - (size_t)(payload - packet->data);

	if (!incoming_is_from(turn, in, packet->peer)) {
		turn->server->stats.drop_source++;
		return;
	}
	if (!srv_chunk_is_true(turn, &in->seal, header, packet))
		return;
	if (srv_incoming_is_copy(in) && in->kind != SRV_SUM && !in->source)
		in->source = srv_peer_at(turn->server, packet->peer);
	(void)srv_incoming_chunk(turn, in, header, payload, payload_bytes);
}

void srv_assembly_chunk(struct srv_turn *turn, const struct hd_packet *packet) {
	struct hd_server_stats *stats = &turn->server->stats;
	struct hd_chunk_header header;
	struct srv_handle *handle;
	const uint8_t *payload;
	size_t payload_bytes;

	if (hd_chunk_decode(packet->data, packet->bytes, &header, &payload, &payload_bytes) < 0) {
		stats->drop_malformed++;
		return;
	}
	stats->chunks++;
	handle = srv_handle_find(turn->server, header.token);
	switch (handle ? handle->kind : SRV_HANDLE_OUTGOING) {
	case SRV_HANDLE_PART:
	case SRV_HANDLE_OUTGOING:
	case SRV_HANDLE_STATE_OUT:
		stats->drop_token++;
		break;
	case SRV_HANDLE_TOMBSTONE:
		tombstone_chunk(
			turn,
			hd_container_of(handle, struct srv_tombstone, handle),
			&header,
			packet->peer
		);
		break;
	case SRV_HANDLE_STATE_IN:
		rep_ops.state_packet(turn, handle, packet, &header, payload);
		break;
	case SRV_HANDLE_INCOMING:
		incoming_packet(
			turn,
			hd_container_of(handle, struct srv_incoming, handle),
			packet,
			&header,
			payload
		);
		break;
	}
}

/* --- go --------------------------------------------------------------------------------------- */

/* The bytes in flight in one round trip to the successor: its first chunk then arrives as the predecessor's last
 * does. */
static uint64_t incoming_window(const struct srv_incoming *in, const struct srv_incoming *next) {
	uint64_t least = 2 * (uint64_t)in->packet_bytes;
	const struct srv_peer *peer = srv_incoming_peer(next);
	double flight = 0;

	if (peer) {
		flight = hd_recv_rate_bps(in->recv) / 8 * 1e-9
			* (double)hd_session_rtt(peer->session);
	}
	return flight > (double)least ? (uint64_t)flight : least;
}

static void incoming_release(struct srv_turn *turn, struct srv_incoming *in) {
	struct srv_incoming *successor = LIST_FIRST(&in->successors), *next;
	uint64_t missing;

	if (in->state < SRV_COMING || !successor)
		return;
	missing = hd_recv_missing(in->recv);
	for (; successor; successor = next) {
		next = LIST_NEXT(successor, successor_link);
		if (missing <= incoming_window(in, successor))
			srv_incoming_go(turn, successor);
	}
}

/* --- once a call ------------------------------------------------------------------------------ */

static void
incoming_sack(struct srv_turn *turn, struct srv_incoming *in, const struct srv_peer *peer) {
	struct hd_message message = {.kind = HD_MSG_SACK};

	if (!peer || !hd_recv_sack_due(in->recv, turn->now))
		return;
	hd_recv_sack(in->recv, turn->now, turn->server->config.receive_window_bytes, &message.sack);
	in->chunks = message.sack.held;
	(void)hd_session_send_once(peer->session, &message, turn->now, turn->sink);
}

static void incoming_complete(struct srv_turn *turn, struct srv_incoming *in) {
	struct hd_event event = srv_incoming_event(in, HD_EVENT_RECV_END);

	event.value = hd_recv_rate_bps(in->recv);
	srv_turn_event(turn, &event);
	in->job->dirty = true;
	if (srv_incoming_is_copy(in)) {
		rep_ops.complete(turn, in);
		return;
	}
	if (!in->queued)
		srv_commit_queue(in);
}

static void incoming_settle(struct srv_turn *turn, struct srv_incoming *in) {
	const struct srv_peer *peer = srv_incoming_peer(in);

	if (!in->recv)
		return;
	incoming_sack(turn, in, peer);
	if (in->spoilt != HD_REASON_NONE) {
		srv_incoming_fail(turn, in, in->spoilt, NULL); /* at once: its sender can stop */
		return;
	}
	incoming_release(turn, in);
	/* Without a session there is no acknowledgement. The sender's next chunk in a new session asks for one. */
	hd_timer_set(
		&turn->server->timers, &in->timer, peer ? hd_recv_deadline(in->recv) : HD_NEVER
	);
	if (in->state == SRV_HELD) {
		srv_incoming_enter(in, SRV_READY);
		in->completed_at = turn->now;
		incoming_complete(turn, in);
	}
}

void srv_assembly_settle(struct srv_turn *turn) {
	struct srv_incoming_list *touched = &turn->server->touched;
	struct srv_incoming *in;

	while ((in = TAILQ_FIRST(touched))) {
		TAILQ_REMOVE(touched, in, touched_link);
		in->touched = false;
		incoming_settle(turn, in);
	}
}

void srv_assembly_timer(struct srv_turn *turn, struct srv_incoming *in) {
	if (srv_credit_unspent(in)) {
		srv_credit_end(turn, in, HD_REASON_EXPIRED, true);
		return;
	}
	srv_incoming_touch(turn->server, in);
}
