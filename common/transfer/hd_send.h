/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending side of one transfer: cuts a buffer into chunks, paces them by the grant's segments and the path's
 * congestion control, retransmits chunks that the receiver misses.
 *
 * States:  WAITING (for go, or its start time) -> SENDING -> DONE | FAILED (cancelled, dead)
 *
 * Packet numbers are separate from chunk indices and never reused, so that an acknowledgement always identifies the
 * copy that arrived (RTT without Karn's ambiguity). A packet is lost when one sent 3 (more after reordering) later is
 * acknowledged, or 9/8 RTT after it, or at the timeout (RFC 9002 section 6).
 */
#ifndef HD_SEND_H
#define HD_SEND_H

#include "hd_cc.h"
#include "hd_event.h"
#include "hd_message.h"
#include "hd_node.h"
#include "hd_seal.h"
#include "hd_wire.h"

enum hd_send_state {
	HD_SEND_WAITING,
	HD_SEND_ACTIVE,
	HD_SEND_DONE,
	HD_SEND_FAILED
};

struct hd_send_config {
	struct hd_addr peer;
	struct hd_chunk_header
		header; /* job, worker, round, attempt, dtype, version, token, epoch, shard */
	const void *data; /* outlives the transfer */
	uint64_t bytes; /* > 0, a multiple of the dtype's size */
	uint32_t chunk_bytes; /* payload of a full chunk, a multiple of the dtype's size */
	float cc_weight; /* >= 1 */
	struct hd_segs
		segments; /* start_ns on *our* clock, absolute; count 0: bounded by cc only */
	bool wait_go; /* starts on go, or at the first segment's start plus slack */
	hd_ns go_slack; /* starts without go this long after its start time (without segments: after now); HD_NEVER:
			   never */
	struct hd_path *path; /* shared, outlives the transfer */
	uint32_t stride_bytes; /* distance of chunks in data; 0: chunk_bytes */
	const struct hd_keyring
		*keys; /* of a sealed token: the key ring; read during the call only */
	uint16_t key_id;
	bool grows; /* data grows while it is sent: initially none is available */
};

struct hd_send;

/* Returns 0, -EINVAL (no data, path or bytes; sizes not multiples of the dtype's; chunk_bytes beyond
 * HD_CHUNK_BYTES_MAX; stride below chunk_bytes; count of segments), -ENOKEY (a sealed token, and no such key), -ENOMEM,
 * -EFBIG (more chunks than the wire can number). */
int hd_send_create(const struct hd_send_config *config, hd_ns now, struct hd_send **send);
void hd_send_destroy(struct hd_send *send);

void hd_send_go(struct hd_send *send, hd_ns now);
/* Sets flags (enum hd_chunk_flag) in the headers of all chunks sent from here on. */
void hd_send_flag(struct hd_send *send, uint8_t flags);
/* For a growing transfer: the first `bytes` are final. Only whole chunks are sent, and the last one. A sender without
 * data does not measure the path: until the path's window limits it again its chunks are marked HD_CHUNK_PACED, also
 * while the receiver's window does. Get the deadline again afterwards. */
void hd_send_available(struct hd_send *send, hd_ns now, uint64_t bytes);
/* For a growing transfer: it ends here, before its maximum of `bytes`, and its last chunk has the size in `total`. Call
 * it before that chunk is available. Returns 0, -EINVAL (more bytes than the maximum, or fewer than available). */
int hd_send_close(struct hd_send *send, uint64_t bytes);
/* Processes an acknowledgement for this token. Ranges that were never sent are ignored and counted. */
void hd_send_sack(struct hd_send *send, hd_ns now, const struct hd_msg_sack *sack);
/* Stops at once; nothing more is sent. State FAILED. */
void hd_send_cancel(struct hd_send *send, enum hd_reason reason);
/* Sends what pacing and window permit now, at most `budget` packets. Returns the packets sent. If that is budget, more
 * may be due at once. */
size_t hd_send_poll(struct hd_send *send, hd_ns now, size_t budget, struct hd_sink *sink);
/* When hd_send_poll() should be called: pacing, retransmission timeout, start time, or HD_NEVER. */
hd_ns hd_send_deadline(const struct hd_send *send);

struct hd_send_stats {
	enum hd_send_state state;
	enum hd_reason reason;
	uint64_t bytes_total, bytes_acked;
	uint64_t packets_sent, packets_resent, packets_lost, timeouts, bogus_acks;
	hd_ns started, ended;
	hd_ns limited; /* time limited by the granted pacing, or by missing data, not by the path */
};
const struct hd_send_stats *hd_send_stats(const struct hd_send *send);
/* The end of the bytes sent so far, each at least once. Bytes beyond need not be in place before the hd_send_poll()
 * that may reach them. */
uint64_t hd_send_reached(const struct hd_send *send);
uint64_t hd_send_token(const struct hd_send *send);

#endif
