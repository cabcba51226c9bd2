/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: decides what is sent when. hd_send_ack.c handles acknowledgements. */
#include "hd_assert.h"
#include "hd_send.h"
#include "hd_send_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RING_INITIAL 256
#define BURST_NS (100 * HD_US)
#define BURST_PACKETS_MIN 2
#define BURST_BYTES_SHAPER 13600 /* slow rates: fits a shaper's bucket of 15 kB */
#define BURSTS_A_WINDOW 2 /* of each of the flows that the weight represents */
#define BURST_BYTES_MAX 65536
#define LATE_BURSTS 2 /* after a late wake-up at most this many more bursts, */
#define LATE_NS HD_MS /* or the bytes due in this time, */
#define LATE_MAX_NS (10 * HD_MS) /* or in a round trip up to this, are sent */
#define PEER_WINDOW_UNKNOWN 65536
#define ASKS_A_WINDOW 6
#define PACKETS_RESERVE 100000 /* packet numbers that one poll cannot exhaust */
#define CACHE_LINE 64
#define HOLE_NS HD_MS /* a pause between segments below this is rounding, not a reservation */

_Static_assert((HD_INFLIGHT_PACKETS_MAX & (HD_INFLIGHT_PACKETS_MAX - 1)) == 0, "ring size");
_Static_assert(RING_INITIAL <= HD_INFLIGHT_PACKETS_MAX, "ring size");

static int check(const struct hd_send_config *config) {
	size_t value = hd_dtype_bytes(config->header.dtype);

	if (!config->data || !config->path || config->bytes == 0 || value == 0)
		return -EINVAL;
	if (config->chunk_bytes == 0 || config->chunk_bytes > HD_CHUNK_BYTES_MAX)
		return -EINVAL;
	if (config->bytes % value != 0 || config->chunk_bytes % value != 0)
		return -EINVAL;
	if (config->stride_bytes != 0 && config->stride_bytes < config->chunk_bytes)
		return -EINVAL;
	if (config->segments.count > HD_SEGMENTS_MAX)
		return -EINVAL;
	/* Packet numbers are never reused: half of them are reserved for retransmissions. */
	return (config->bytes - 1) / config->chunk_bytes >= UINT32_MAX / 2 ? -EFBIG : 0;
}

/* Derives the keys of a sealed transfer. */
static int seal(struct hd_send *send, const struct hd_send_config *config) {
	const struct hd_chunk_header *header = &config->header;

	if (!hd_token_is_sealed(header->token))
		return 0;
	if (!config->keys)
		return -ENOKEY;
	send->config.header.slot = config->key_id;
	return hd_seal_derive(
		&send->seal, config->keys, config->key_id, header->job, header->token
	);
}

int hd_send_create(const struct hd_send_config *config, hd_ns now, struct hd_send **out) {
	struct hd_send *send;
	int rc = check(config);

	if (rc < 0)
		return rc;
	send = calloc(1, sizeof *send);
	if (!send)
		return -ENOMEM;
	send->config = *config;
	if (config->stride_bytes == 0)
		send->config.stride_bytes = config->chunk_bytes;
	send->chunk_count = (uint32_t)((config->bytes - 1) / config->chunk_bytes + 1);
	send->available = config->grows ? 0 : send->chunk_count;
	send->hungry = config->grows;
	send->capacity = RING_INITIAL;
	send->ring = calloc(send->capacity, sizeof *send->ring);
	send->lost = calloc(send->capacity, sizeof *send->lost);
	send->acked = calloc((size_t)send->chunk_count / 64 + 1, sizeof *send->acked);
	if (!send->ring || !send->lost || !send->acked) {
		hd_send_destroy(send);
		return -ENOMEM;
	}
	rc = seal(send, config);
	if (rc < 0) {
		hd_send_destroy(send);
		return rc;
	}
	send->stats.bytes_total = config->bytes;
	send->reorder = 3;
	send->loss_at = HD_NEVER;
	send->start_at = config->segments.count > 0 ? config->segments.item[0].start_ns : now;
	if (config->wait_go)
		send->start_at = hd_ns_add(send->start_at, config->go_slack);
	*out = send;
	return 0;
}

void hd_send_end(struct hd_send *send, hd_ns now, enum hd_send_state state, enum hd_reason reason) {
	struct hd_path *path = send->config.path;

	if (send->stats.state == HD_SEND_ACTIVE) {
		path->inflight_bytes -= send->inflight_bytes;
		send->inflight_bytes = 0;
		hd_path_stop(path);
	}
	send->stats.state = state;
	send->stats.reason = reason;
	send->stats.ended = now;
}

void hd_send_destroy(struct hd_send *send) {
	if (!send)
		return;
	if (send->stats.state == HD_SEND_ACTIVE)
		hd_send_end(send, send->probe_from, HD_SEND_FAILED, HD_REASON_CANCELLED);
	free(send->acked);
	free(send->lost);
	free(send->ring);
	free(send);
}

void hd_send_cancel(struct hd_send *send, enum hd_reason reason) {
	if (send->stats.state == HD_SEND_WAITING || send->stats.state == HD_SEND_ACTIVE)
		hd_send_end(send, send->probe_from, HD_SEND_FAILED, reason);
}

/* --- segments --------------------------------------------------------------------------- */

/* Converts a granted payload rate to the rate on the link. */
static uint64_t link_rate(const struct hd_send *send, uint64_t payload_bps) {
	double full = send->config.chunk_bytes;

	return (uint64_t)((double)payload_bps * (full + HD_CHUNK_OVERHEAD_BYTES) / full);
}

static hd_ns segment_start(const struct hd_send *send, uint32_t index) {
	hd_ns start = send->config.segments.item[index].start_ns;

	return start > send->shift ? start - send->shift : 0;
}

/* Whether segment index + 1 starts at this one's planned end. */
static bool follows(const struct hd_send *send, uint32_t index) {
	const struct hd_segment *item = &send->config.segments.item[index];
	double took;

	if (item->rate_bps == 0)
		return true;
	took = (double)item->bytes * 8e9 / (double)item->rate_bps;
	return (double)item[1].start_ns <= (double)item->start_ns + took * 1.05 + (double)HOLE_NS;
}

static void enter_segment(struct hd_send *send, hd_ns now, uint32_t index) {
	send->segment = index;
	send->rate_bps = link_rate(send, send->config.segments.item[index].rate_bps);
	hd_path_set_rate(send->config.path, now, send->rate_bps);
}

/* A late transfer does not stay at a lower rate than the plan has for it by now: the rest of slower segments whose time
 * is over is sent with the next one. */
static void catch_up(struct hd_send *send, hd_ns now) {
	struct hd_segs *segments = &send->config.segments;

	while (send->segment + 1 < segments->count) {
		struct hd_segment *item = &segments->item[send->segment];

		if (send->segment_bytes >= item->bytes || item[1].rate_bps <= item->rate_bps
		    || segment_start(send, send->segment + 1) > now)
			return;
		item[1].bytes += item->bytes - send->segment_bytes;
		send->segment_bytes = 0;
		enter_segment(send, now, send->segment + 1);
	}
}

/* Advances to the current segment. Returns when new chunks may be sent: now, or at the end of a hole between segments.
 * A transfer that is early within contiguous segments keeps the current rate until the next one starts. */
static hd_ns follow_segments(struct hd_send *send, hd_ns now) {
	const struct hd_segs *segments = &send->config.segments;

	catch_up(send, now);
	while (send->segment + 1 < segments->count
	       && send->segment_bytes >= segments->item[send->segment].bytes) {
		hd_ns start = segment_start(send, send->segment + 1);

		if (start > now)
			return follows(send, send->segment) ? now : start;
		send->segment_bytes -= segments->item[send->segment].bytes;
		enter_segment(send, now, send->segment + 1);
	}
	return now;
}

static void start(struct hd_send *send, hd_ns now) {
	const struct hd_segs *segments = &send->config.segments;
	hd_ns planned = segments->count > 0 ? segments->item[0].start_ns : now;

	send->shift = planned > now ? planned - now : 0;
	send->stats.state = HD_SEND_ACTIVE;
	send->stats.started = now;
	send->probe_from = now;
	if (segments->count > 0)
		send->rate_bps = link_rate(send, segments->item[0].rate_bps);
	hd_path_start(send->config.path, now, send->config.cc_weight, send->rate_bps);
}

void hd_send_go(struct hd_send *send, hd_ns now) {
	if (send->stats.state == HD_SEND_WAITING)
		send->start_at = hd_ns_min(send->start_at, now);
}

void hd_send_flag(struct hd_send *send, uint8_t flags) {
	send->config.header.flags |= flags;
}

/* --- transmission ----------------------------------------------------------------------- */

static bool has_new(const struct hd_send *send) {
	return send->next_chunk < send->available;
}

/* Drops chunks from the queue that have arrived after all. */
static bool has_lost(struct hd_send *send) {
	while (send->lost_count > 0) {
		if (!hd_send_is_acked(send, send->lost[send->lost_head]))
			return true;
		send->lost_head = (send->lost_head + 1) & (send->capacity - 1);
		send->lost_count--;
	}
	return false;
}

/* Whether a full packet may join those in flight. One always may, so that no transfer waits for ever. If a transfer
 * without answers fills a shared window, each other one has its share of it. */
static bool window_open(const struct hd_send *send) {
	const struct hd_path *path = send->config.path;
	uint64_t packet = send->config.chunk_bytes + HD_CHUNK_OVERHEAD_BYTES;
	uint64_t window = hd_path_window(path);
	uint64_t peer = path->peer_window_bytes ? path->peer_window_bytes : PEER_WINDOW_UNKNOWN;

	if (send->inflight_bytes == 0)
		return true;
	if (window > peer)
		window = peer;
	if (path->inflight_bytes + packet <= window)
		return true;
	return path->transfers > 1 && send->inflight_bytes + packet <= window / path->transfers;
}

void hd_send_available(struct hd_send *send, hd_ns now, uint64_t bytes) {
	uint64_t chunks = bytes / send->config.chunk_bytes;
	bool starved = send->lost_count == 0 && send->next_chunk == send->available;

	if (bytes >= send->config.bytes)
		chunks = send->chunk_count;
	if (chunks <= send->available)
		return;
	send->available = (uint32_t)chunks;
	if (!starved)
		return;
	send->fed_at = now;
	send->hungry = send->hungry || window_open(send);
}

int hd_send_close(struct hd_send *send, uint64_t bytes) {
	uint64_t available = (uint64_t)send->available * send->config.chunk_bytes;
	size_t value = hd_dtype_bytes(send->config.header.dtype);

	if (!send->config.grows || bytes > send->config.bytes || bytes <= available
	    || bytes > UINT32_MAX || value == 0 || bytes % value != 0)
		return -EINVAL;
	send->config.bytes = bytes;
	send->chunk_count = (uint32_t)((bytes - 1) / send->config.chunk_bytes + 1);
	send->stats.bytes_total = bytes;
	send->total = (uint32_t)bytes;
	return 0;
}

/* Doubles ring and queue. False at the limit or without memory: then the sender waits. */
static bool grow_ring(struct hd_send *send) {
	uint32_t capacity = send->capacity * 2;
	uint32_t oldest = send->next > send->capacity ? send->next - send->capacity : 0;
	struct hd_sent *ring;
	uint32_t *lost;

	if (capacity > HD_INFLIGHT_PACKETS_MAX)
		return false;
	ring = calloc(capacity, sizeof *ring);
	lost = calloc(capacity, sizeof *lost);
	if (!ring || !lost) {
		free(ring);
		free(lost);
		return false;
	}
	for (uint32_t packet = oldest; packet != send->next; packet++)
		ring[packet & (capacity - 1)] = *hd_send_entry(send, packet);
	for (uint32_t i = 0; i < send->lost_count; i++)
		lost[i] = send->lost[(send->lost_head + i) & (send->capacity - 1)];
	free(send->ring);
	free(send->lost);
	send->ring = ring;
	send->lost = lost;
	send->lost_head = 0;
	send->capacity = capacity;
	return true;
}

static bool ring_open(struct hd_send *send) {
	send->ring_full = send->next - send->base >= send->capacity && !grow_ring(send);
	return !send->ring_full;
}

static bool wants_ack(struct hd_send *send, bool more) {
	uint64_t every = hd_path_window(send->config.path) / ASKS_A_WINDOW;

	return !more || send->unasked_bytes >= every || !window_open(send);
}

/* An update is in cold memory: prefetching its lines while the rest of the burst is built is faster than the driver's
 * copy missing one after another. */
static void fetch(const uint8_t *payload, uint32_t bytes) {
	for (uint32_t at = 0; at < bytes; at += CACHE_LINE)
		__builtin_prefetch(payload + at, 0, 2);
}

static void
transmit(struct hd_send *send, hd_ns now, uint32_t chunk, bool resend, struct hd_sink *sink) {
	const struct hd_send_config *config = &send->config;
	uint32_t bytes = hd_send_chunk_bytes(send, chunk);
	struct hd_chunk_header header = config->header;
	size_t value = hd_dtype_bytes(header.dtype);
	const uint8_t *payload
		= (const uint8_t *)config->data + (uint64_t)chunk * config->stride_bytes;
	uint8_t head[HD_CHUNK_HEADER_BYTES + HD_SEAL_BYTES];
	size_t head_bytes = HD_CHUNK_HEADER_BYTES;
	/* Includes chunks still to come, so that a sum that arrives slowly does not ask for an acknowledgement of each
	 * chunk. */
	bool more = send->next_chunk < send->chunk_count || send->lost_count > 0;

	hd_assert(value > 0); /* checked at the start */
	*hd_send_entry(send, send->next) = (struct hd_sent){now, chunk, HD_SENT_FLYING};
	send->inflight_bytes += bytes + HD_CHUNK_OVERHEAD_BYTES;
	config->path->inflight_bytes += bytes + HD_CHUNK_OVERHEAD_BYTES;
	config->path->active_at = now;
	send->probe_from = now;
	send->unasked_bytes += bytes;
	header.chunk = chunk;
	header.packet = send->next++;
	header.count = (uint16_t)(bytes / value);
	header.flags
		&= (uint8_t) ~(HD_CHUNK_RESEND | HD_CHUNK_LAST | HD_CHUNK_ASK | HD_CHUNK_PACED);
	if (resend)
		header.flags |= HD_CHUNK_RESEND;
	if (chunk == send->chunk_count - 1)
		header.flags |= HD_CHUNK_LAST;
	if (header.flags & HD_CHUNK_LAST && send->total > 0)
		header.total = send->total;
	if (send->paced)
		header.flags |= HD_CHUNK_PACED;
	if (wants_ack(send, more)) {
		header.flags |= HD_CHUNK_ASK;
		send->unasked_bytes = 0;
	}
	hd_chunk_encode(&header, head);
	if (send->seal.derived) {
		hd_seal_sign(&send->seal, head, payload, bytes, head + head_bytes);
		head_bytes += HD_SEAL_BYTES;
	} else {
		fetch(payload, bytes);
	}
	sink->send(sink, config->peer, head, head_bytes, payload, bytes);
	hd_path_count(config->path, resend);
	send->stats.packets_sent++;
	send->stats.packets_resent += resend;
}

/* Sends the next chunk that is due: lost ones first. False: none is due, or it may not be sent. */
static bool transmit_next(struct hd_send *send, hd_ns now, struct hd_sink *sink) {
	if (!ring_open(send))
		return false;
	if (has_lost(send)) {
		uint32_t chunk = send->lost[send->lost_head];

		send->lost_head = (send->lost_head + 1) & (send->capacity - 1);
		send->lost_count--;
		transmit(send, now, chunk, true, sink);
		return true;
	}
	if (!has_new(send) || follow_segments(send, now) > now)
		return false;
	send->segment_bytes += hd_send_chunk_bytes(send, send->next_chunk);
	transmit(send, now, send->next_chunk++, false, sink);
	return true;
}

/* A probe is any chunk that is due, or else the oldest unacknowledged one, regardless of windows. */
static bool transmit_probe(struct hd_send *send, hd_ns now, struct hd_sink *sink) {
	uint32_t packet = send->base;

	if (has_lost(send) || (has_new(send) && follow_segments(send, now) <= now))
		return transmit_next(send, now, sink);
	if (!ring_open(send))
		return false;
	while (packet != send->next) {
		const struct hd_sent *sent = hd_send_entry(send, packet++);

		if (sent->state == HD_SENT_FLYING && !hd_send_is_acked(send, sent->chunk)) {
			transmit(send, now, sent->chunk, true, sink);
			return true;
		}
	}
	return false;
}

/* Bytes that may be sent at once. */
static double burst_bytes(const struct hd_send *send, double rate_bps) {
	const struct hd_path *path = send->config.path;
	double packet = send->config.chunk_bytes + HD_CHUNK_OVERHEAD_BYTES;
	double of_window = path->window_bytes / (BURSTS_A_WINDOW * (double)path->weight);
	double bytes = fmax(rate_bps * BURST_NS / 8e9, fmin(of_window, BURST_BYTES_SHAPER));

	if (path->trial.began != 0) /* long bursts are a cause of loss, too */
		return BURST_PACKETS_MIN * packet;
	return fmin(fmax(bytes, BURST_PACKETS_MIN * packet), BURST_BYTES_MAX);
}

/* Whether the grant limits the transfer: it sets the pacing rate, and no window was closed for a round trip. */
static bool limited_by_grant(const struct hd_send *send, hd_ns now, uint64_t rate) {
	const struct hd_path *path = send->config.path;

	if (send->rate_bps == 0 || rate < send->rate_bps)
		return false;
	return rate < hd_path_pacing_bps(path, now, 0)
		&& (path->full_at == 0 || now - path->full_at > path->srtt);
}

/* With a long round trip, including our own late wake-ups, a millisecond is too little: the shortfall from the grant
 * would look like the network's limit, the next grant would be lower, and so on. The window limits what is sent at
 * once. */
static hd_ns late_ns(const struct hd_path *path) {
	return hd_ns_max(LATE_NS, hd_ns_min(path->srtt, LATE_MAX_NS));
}

/* Before this there was nothing to send: the transfer's start, the end of a hole between segments, or new data. */
static hd_ns paused_until(const struct hd_send *send) {
	hd_ns from = hd_ns_max(send->stats.started, send->fed_at);

	if (send->config.segments.count == 0)
		return from;
	return hd_ns_max(from, segment_start(send, send->segment));
}

/* Whether the receiver, not the network, limits it: it has no room yet. */
static bool held_by_receiver(const struct hd_path *path) {
	return path->peer_window_bytes > 0 && path->peer_window_bytes < hd_path_window(path);
}

static bool
send_burst(struct hd_send *send, hd_ns now, size_t budget, size_t *sent, struct hd_sink *sink) {
	struct hd_path *path = send->config.path;
	uint64_t before = send->inflight_bytes, bytes, rate;
	double per_byte, quantum;
	bool blocked = false;
	hd_ns late;

	follow_segments(send, now);
	rate = hd_path_pacing_bps(path, now, send->rate_bps);
	send->paced = send->hungry || limited_by_grant(send, now, rate);
	per_byte = 8e9 / (double)rate;
	quantum = burst_bytes(send, (double)rate);
	while (*sent < budget && (double)(send->inflight_bytes - before) < quantum) {
		blocked = !window_open(send);
		if (blocked || !transmit_next(send, now, sink))
			break;
		(*sent)++;
	}
	if (blocked) {
		path->full_at = now;
		send->hungry = held_by_receiver(path);
	}
	bytes = send->inflight_bytes - before;
	if (bytes == 0)
		return false;
	/* A late wake-up or acknowledgement is made up for, a pause is not. */
	late = hd_ns_max((hd_ns)(quantum * per_byte * LATE_BURSTS), late_ns(path));
	late = hd_ns_min(late, now - hd_ns_min(paused_until(send), now));
	path->release_at = hd_ns_max(path->release_at, now > late ? now - late : 0);
	path->release_at = hd_ns_add(path->release_at, (hd_ns)((double)bytes * per_byte));
	if (send->paced && !blocked)
		send->stats.limited += (hd_ns)((double)bytes * per_byte);
	return true;
}

/* When the next chunk may be sent by pacing, window and segments. */
static hd_ns ready_at(const struct hd_send *send) {
	const struct hd_segs *segments = &send->config.segments;
	hd_ns at = send->config.path->release_at;

	if (send->lost_count == 0 && !has_new(send))
		return HD_NEVER;
	if (!window_open(send))
		return HD_NEVER;
	if (send->ring_full && send->next - send->base >= send->capacity)
		return HD_NEVER;
	if (send->lost_count > 0 || send->segment + 1 >= segments->count
	    || send->segment_bytes < segments->item[send->segment].bytes
	    || follows(send, send->segment))
		return at;
	return hd_ns_max(at, segment_start(send, send->segment + 1));
}

static void run_timers(struct hd_send *send, hd_ns now) {
	if (now >= send->loss_at)
		hd_send_detect_losses(send, now);
	if (now >= hd_send_probe_at(send))
		hd_send_on_probe_timeout(send, now);
}

size_t hd_send_poll(struct hd_send *send, hd_ns now, size_t budget, struct hd_sink *sink) {
	size_t sent = 0;

	if (send->stats.state == HD_SEND_WAITING && now >= send->start_at)
		start(send, now);
	if (send->stats.state == HD_SEND_ACTIVE && send->next > UINT32_MAX - PACKETS_RESERVE)
		hd_send_end(send, now, HD_SEND_FAILED, HD_REASON_TIMEOUT);
	if (send->stats.state != HD_SEND_ACTIVE)
		return 0;
	run_timers(send, now);
	if (budget > PACKETS_RESERVE)
		budget = PACKETS_RESERVE;
	while (send->probes_due > 0 && sent < budget) {
		send->probes_due--;
		sent += transmit_probe(send, now, sink);
	}
	while (sent < budget && send->config.path->release_at <= now)
		if (!send_burst(send, now, budget, &sent, sink))
			break;
	return sent;
}

hd_ns hd_send_deadline(const struct hd_send *send) {
	if (send->stats.state == HD_SEND_WAITING)
		return send->start_at;
	if (send->stats.state != HD_SEND_ACTIVE)
		return HD_NEVER;
	if (send->probes_due > 0)
		return 0;
	return hd_ns_min(hd_ns_min(send->loss_at, hd_send_probe_at(send)), ready_at(send));
}

const struct hd_send_stats *hd_send_stats(const struct hd_send *send) {
	return &send->stats;
}

uint64_t hd_send_reached(const struct hd_send *send) {
	uint64_t bytes = (uint64_t)send->next_chunk * send->config.chunk_bytes;

	return bytes < send->config.bytes ? bytes : send->config.bytes;
}

uint64_t hd_send_token(const struct hd_send *send) {
	return send->config.header.token;
}
