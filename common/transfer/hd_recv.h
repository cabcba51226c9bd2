/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving side of one transfer: writes chunks to their place, tracks and reports the missing ones. Duplicates and
 * stale copies are counted and change nothing.
 *
 * Acknowledgements: the owner passes a burst of packets, chunk by chunk, then calls hd_recv_sack_due(). One is due when
 * the sender asked (HD_CHUNK_ASK), at a gap, at completion, after HD_SACK_PACKETS packets, or HD_SACK_DELAY_US after
 * the first packet that is not acknowledged.
 *
 * The last acknowledgement can be lost; the sender then probes with a chunk that we hold. So the owner keeps the
 * hd_recv until the sender is known to have it, or frees it and keeps the token: each later chunk with that token is
 * answered with hd_recv_sack_done(). A few seconds are enough (the probes back off to HD_RTO_MAX_US); the sender's
 * owner also ends a transfer when it learns its outcome otherwise.
 */
#ifndef HD_RECV_H
#define HD_RECV_H

#include "hd_message.h"
#include "hd_wire.h"

struct hd_recv_config {
	uint64_t token;
	uint32_t job, round;
	uint16_t worker;
	uint8_t attempt, dtype;
	uint64_t bytes;
	uint32_t chunk_bytes; /* equals the sender's; 0: set by the first chunk */
	void *data; /* bytes long; outlives the transfer */
	/* bytes is a maximum; the last chunk has the real size in `total` (0: all of it). */
	bool open;
	bool consumed; /* the owner consumes each payload as it arrives: data is NULL */
};

struct hd_recv;

/* Returns 0, -EINVAL (no bytes, no data, or data although it is consumed, dtype unknown, bytes or chunk_bytes not a
 * multiple of its size), -EFBIG (more chunks than the wire can number), -ENOMEM. Memory: one bit a chunk. */
int hd_recv_create(const struct hd_recv_config *config, struct hd_recv **recv);
void hd_recv_destroy(struct hd_recv *recv);

enum hd_recv_result {
	HD_RECV_NEW,
	HD_RECV_DUPLICATE,
	HD_RECV_DONE, /* this chunk completed the transfer */
	HD_RECV_MISMATCH /* header disagrees with the transfer: nothing was written */
};
/* Takes one chunk with this transfer's token. The owner checks the version in the header. Cost: one copy of the
 * payload, none when it is consumed. */
enum hd_recv_result hd_recv_chunk(
	struct hd_recv *recv,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);
/* All chunks below this index were taken. */
uint32_t hd_recv_held(const struct hd_recv *recv);
/* True when this chunk was taken; false for any index beyond the transfer. */
bool hd_recv_has(const struct hd_recv *recv, uint32_t chunk);
/* The payload of a chunk that was taken (HD_RECV_NEW or HD_RECV_DONE); not when it is consumed. */
const void *hd_recv_chunk_data(const struct hd_recv *recv, uint32_t chunk);
/* Payload of a full chunk; 0 before the first chunk was taken. */
uint32_t hd_recv_chunk_bytes(const struct hd_recv *recv);
/* True when an acknowledgement should leave: call after each burst. */
bool hd_recv_sack_due(const struct hd_recv *recv, hd_ns now);
/* Fills the acknowledgement and clears the due state. window_bytes is the driver's receive room. */
void hd_recv_sack(struct hd_recv *recv, hd_ns now, uint32_t window_bytes, struct hd_msg_sack *sack);
/* The acknowledgement of a complete transfer, for a chunk that arrived again. */
void hd_recv_sack_done(
	uint64_t token,
	const struct hd_chunk_header *header,
	uint32_t window_bytes,
	struct hd_msg_sack *sack
);
/* When an acknowledgement becomes due by time (the delayed tail of a burst), or HD_NEVER. */
hd_ns hd_recv_deadline(const struct hd_recv *recv);

/* When the last byte will have come, by the rate so far; 0: unknown, or it has. */
hd_ns hd_recv_whole_at(const struct hd_recv *recv);

struct hd_recv_stats {
	uint64_t bytes_held;
	uint64_t bytes_total; /* of an open transfer: the maximum, until its end is known */
	uint64_t packets, duplicates, mismatches;
	uint64_t paced; /* packets without duplicates that were sent at the grant's limit */
	hd_ns first,
		last; /* arrival of the first chunk, and of the completing one (or the newest) */
};
const struct hd_recv_stats *hd_recv_stats(const struct hd_recv *recv);
/* Bytes not yet held, for "one window before the end"; of an open transfer before its end is known: that may still
 * come. */
uint64_t hd_recv_missing(const struct hd_recv *recv);
/* Goodput since the first chunk, bit/s; 0 before two chunks. In large enough transfers the last sixteenth is excluded:
 * its repair takes another round trip, and the successor's chunks are in between. */
double hd_recv_rate_bps(const struct hd_recv *recv);
/* Share of the packets, in thousandths, that were sent while the granted pacing was the sender's limit: the path could
 * have carried more. Duplicates do not count. 0 before the first chunk. */
uint16_t hd_recv_limited_permille(const struct hd_recv *recv);

#endif
