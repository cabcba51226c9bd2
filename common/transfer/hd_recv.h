/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving side of one transfer: puts chunks where they belong, knows what is missing, and
 * says so. Duplicates and stale copies are counted and change nothing.
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
	uint32_t chunk_bytes; /* must equal the sender's: 0 = learn from the first full chunk */
	void *data; /* bytes long, 64-byte aligned; outlives the transfer */
};

struct hd_recv;

int hd_recv_create(const struct hd_recv_config *config, struct hd_recv **recv);
void hd_recv_destroy(struct hd_recv *recv);

enum hd_recv_result {
	HD_RECV_NEW,
	HD_RECV_DUPLICATE,
	HD_RECV_DONE, /* this chunk completed the transfer */
	HD_RECV_MISMATCH /* header disagrees with the transfer: nothing was written */
};
/* Takes one chunk whose token is this transfer's. */
enum hd_recv_result hd_recv_chunk(
	struct hd_recv *recv,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);
/* True when an acknowledgement should leave: call after each burst. */
bool hd_recv_sack_due(const struct hd_recv *recv, hd_ns now);
/* Fills the acknowledgement and clears the due state. window_bytes is the driver's receive room. */
void hd_recv_sack(struct hd_recv *recv, hd_ns now, uint32_t window_bytes, struct hd_msg_sack *sack);
/* When an acknowledgement becomes due by time (the delayed tail of a burst), or HD_NEVER. */
hd_ns hd_recv_deadline(const struct hd_recv *recv);

struct hd_recv_stats {
	uint64_t bytes_held, bytes_total;
	uint64_t packets, duplicates, mismatches;
	hd_ns first,
		last; /* arrival of the first chunk, and of the one that completed it (else newest) */
};
const struct hd_recv_stats *hd_recv_stats(const struct hd_recv *recv);
/* Bytes not yet held, for "one window before the end". */
uint64_t hd_recv_missing(const struct hd_recv *recv);
/* Goodput since the first chunk, bit/s; 0 before two chunks. */
double hd_recv_rate_bps(const struct hd_recv *recv);

#endif
