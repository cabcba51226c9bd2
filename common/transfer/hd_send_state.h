/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to hd_send: hd_send.c sends, hd_send_ack.c handles acknowledgements. */
#ifndef HD_SEND_STATE_H
#define HD_SEND_STATE_H

#include "hd_send.h"

/*
 * packet numbers      base          largest acked        next
 *                        |                  |                |
 *   ring: ... LOST ACKED SENT ACKED LOST .. ACKED SENT SENT SENT
 *
 * Everything below base is settled; base is the oldest packet whose fate is unknown. Entries below base stay until they
 * are overwritten, so that a late acknowledgement of a LOST one is recognised.
 */
enum hd_sent_state {
	HD_SENT_NONE,
	HD_SENT_FLYING,
	HD_SENT_ACKED,
	HD_SENT_LOST
};

struct hd_sent {
	hd_ns at;
	uint32_t chunk;
	uint32_t state; /* enum hd_sent_state */
};

struct hd_send {
	struct hd_send_config config;
	struct hd_send_stats stats;
	struct hd_seal seal; /* of a sealed token */
	uint32_t chunk_count;
	uint32_t total; /* size in the last chunk; 0: none */
	uint32_t next_chunk; /* the first that was never sent */
	uint32_t available; /* chunks that may be sent: all, unless data is growing */

	struct hd_sent *ring;
	uint32_t capacity; /* of the ring: a power of 2 */
	uint32_t base, next; /* packet numbers */
	bool ring_full; /* and it cannot grow */
	uint32_t largest; /* highest packet number acknowledged; valid when any_acked */
	bool any_acked;
	struct hd_ranges seen; /* ranges of the last acknowledgement */

	uint64_t *acked; /* one bit a chunk */
	uint32_t acked_count;
	uint32_t held; /* the receiver holds all chunks below */

	uint32_t *lost; /* queue of chunks to retransmit; as large as the ring */
	uint32_t lost_head, lost_count;

	uint64_t inflight_bytes; /* on the link */
	uint32_t reorder; /* a packet this far below `largest` is lost */
	hd_ns reorder_ns; /* increased by late arrivals */
	hd_ns start_at; /* while WAITING */
	hd_ns loss_at; /* when the next packet becomes lost by time */
	hd_ns probe_from; /* last transmission or progress; the probe timeout counts from it */
	uint32_t probes_sent; /* timeouts in a row */
	uint32_t probes_due;
	uint32_t unasked_bytes; /* since the last request for an acknowledgement */

	uint32_t segment;
	uint64_t segment_bytes; /* payload sent of this segment */
	hd_ns shift; /* segments start this much earlier than planned */
	uint64_t rate_bps; /* granted, on the link; 0: none */
	bool paced; /* the grant, or missing data, limits the current rate */
	bool hungry; /* lacked data, or room at the receiver; the path has not limited it since */
	hd_ns fed_at; /* when it last got data after running out */
};

static inline uint32_t hd_send_chunk_bytes(const struct hd_send *send, uint32_t chunk) {
	uint64_t left = send->config.bytes - (uint64_t)chunk * send->config.chunk_bytes;

	return left < send->config.chunk_bytes ? (uint32_t)left : send->config.chunk_bytes;
}

static inline uint32_t hd_send_packet_bytes(const struct hd_send *send, uint32_t chunk) {
	return hd_send_chunk_bytes(send, chunk) + HD_CHUNK_OVERHEAD_BYTES;
}

static inline bool hd_send_is_acked(const struct hd_send *send, uint32_t chunk) {
	return send->acked[chunk / 64] >> (chunk % 64) & 1;
}

static inline struct hd_sent *hd_send_entry(const struct hd_send *send, uint32_t packet) {
	return &send->ring[packet & (send->capacity - 1)];
}

/* Declares packets lost by number or time; sets loss_at. Tells the path. */
void hd_send_detect_losses(struct hd_send *send, hd_ns now);
/* The probe timeout has passed. */
void hd_send_on_probe_timeout(struct hd_send *send, hd_ns now);
hd_ns hd_send_probe_at(const struct hd_send *send);
/* Ends the transfer: nothing of it counts as in flight any more. */
void hd_send_end(struct hd_send *send, hd_ns now, enum hd_send_state state, enum hd_reason reason);

#endif
