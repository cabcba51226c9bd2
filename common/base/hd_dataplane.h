/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dataplane counters that the controller asks every node for, in one list for all kinds of nodes.
 *
 *   node: gathered counters (hd_stats.h) --sum--> struct --encode--> STATS.values --decode--> controller
 *
 * Each value is the sum of the stats that `from` names (GROUP.STAT, separated by spaces; `*`: of any group) over all
 * rows of the group; seconds become microseconds. A node that has none of them has 0.
 *
 *   STATS.values:  id:8 value:varint, repeated           id: the index in the list, ascending; no values of 0
 *   varint:        7 bits a byte, lowest first; bit 7: more follow (LEB128), in the shortest form
 *
 * The list is the wire format: append only. Unknown ids are skipped, so that nodes may be newer than a controller.
 */
#ifndef HD_DATAPLANE_H
#define HD_DATAPLANE_H

#include "hd_stat_groups.h"

/* clang-format off */
#define HD_DATAPLANE_STATS(S) \
	S(rx_packets, "packets", "packets received", COUNTER, "port.rx_packets") \
	S(rx_bytes, "bytes", "payload bytes received", COUNTER, "port.rx_bytes") \
	S(tx_packets, "packets", "packets sent", COUNTER, "port.tx_packets") \
	S(tx_bytes, "bytes", "payload bytes sent", COUNTER, "port.tx_bytes") \
	S(chunks_sent, "packets", "data chunks sent", COUNTER, "transfer.chunks_sent") \
	S(chunks_resent, "packets", "data chunks retransmitted", COUNTER, "transfer.chunks_resent") \
	S(control_sent, "packets", "control packets sent", COUNTER, "endpoint.sent") \
	S(control_resent, "packets", "control packets retransmitted", COUNTER, "endpoint.resent") \
	S(duplicates, "packets", "data chunks received that had already arrived", COUNTER, \
		"*.duplicates switch.drop_duplicate") \
	S(processor_us, "us", "processor time of the threads that move packets", COUNTER, \
		"core.user_seconds core.system_seconds") \
	S(wakeups, "wakeups", "times that the threads that move packets were woken", COUNTER, "core.wakeups") \
	S(queue_bytes, "bytes", "bytes that wait in queues now", GAUGE, "queue.backlog_bytes") \
	S(queue_limit_bytes, "bytes", "bytes that the queues can hold", GAUGE, "queue.limit_bytes") \
	S(drop_missed, "packets", "not read in time: socket buffer or ring full", COUNTER, "port.rx_missed") \
	S(drop_broken, "packets", "received with an error: truncated, checksum, length", COUNTER, "port.rx_errors") \
	S(drop_no_buffer, "packets", "no packet buffer was free", COUNTER, "port.rx_no_buffer") \
	S(drop_unsent, "packets", \
		"not sent: buffer or ring full, no buffer, no route, too long, or refused by the kernel", COUNTER, \
		"port.tx_errors") \
	S(drop_malformed, "packets", "cannot be decoded", COUNTER, "*.drop_malformed") \
	S(drop_version, "packets", "another wire version", COUNTER, "endpoint.drop_version") \
	S(drop_type, "packets", "a packet type that the node does not accept", COUNTER, "*.drop_type") \
	S(drop_token, "packets", \
		"no such transfer or lease: forged token, or packet late or early", COUNTER, "*.drop_token") \
	S(drop_source, "packets", "not from the address of the sender's session", COUNTER, "*.drop_source") \
	S(drop_mac, "packets", "forged or corrupted: wrong MAC", COUNTER, "*.drop_mac") \
	S(drop_mismatch, "packets", "header or size does not match the transfer", COUNTER, "*.drop_mismatch") \
	S(drop_memory, "packets", "no buffer was free for the update", COUNTER, "*.drop_memory") \
	S(drop_early, "packets", \
		"ahead of their turn, and the buffer for early chunks was full", COUNTER, "*.drop_early") \
	S(drop_tag, "packets", "control: wrong authentication tag", COUNTER, "endpoint.drop_tag") \
	S(drop_replay, "packets", "control: replayed", COUNTER, "endpoint.drop_replay") \
	S(drop_session, "packets", "control: no such session", COUNTER, "endpoint.drop_unknown_session") \
	S(drop_key, "packets", "control: no such key", COUNTER, "endpoint.drop_unknown_key") \
	S(drop_window, "packets", "control: fragments beyond the window", COUNTER, "endpoint.drop_out_of_window") \
	S(drop_role, "packets", "control: the node does not serve this role", COUNTER, "endpoint.drop_role") \
	S(drop_address, "packets", "control: sent to, or from, another address", COUNTER, "endpoint.drop_address") \
	S(drop_candidates, "packets", "HELLOs replaced by newer ones", COUNTER, "endpoint.drop_candidates") \
	S(drop_lease, "packets", \
		"switch: does not match the lease: job, epoch, member, slot, exponent, or stale", COUNTER, \
		"switch.drop_lease switch.drop_member switch.drop_slot switch.drop_exponent switch.drop_stale") \
	S(drop_route, "packets", "switch: ordinary frames without a route, or whose time to live expired", \
		COUNTER, "switch.drop_ttl switch.drop_no_route") \
	S(drop_simulated, "packets", "switch: dropped by the loss simulation", COUNTER, "switch.drop_simulated")
/* clang-format on */

#define HD_DATAPLANE_FIELD(name, unit, help, kind, from) uint64_t name;
struct hd_dataplane {
	HD_DATAPLANE_STATS(HD_DATAPLANE_FIELD)
};
#undef HD_DATAPLANE_FIELD

#define HD_DATAPLANE_COUNT (sizeof(struct hd_dataplane) / sizeof(uint64_t))
#define HD_DATAPLANE_VALUE_MAX                                                                     \
	(UINT64_C(1) << 62) /* maximum from any node; readers of JSON hold it */
#define HD_DATAPLANE_BYTES_MAX (HD_DATAPLANE_COUNT * 10)

extern const struct hd_stat hd_dataplane_stats[HD_DATAPLANE_COUNT];
extern const struct hd_stat_group hd_dataplane_group; /* {}: no labels */

/* The value at this index of the list. */
static inline uint64_t *hd_dataplane_at(struct hd_dataplane *dataplane, size_t index) {
	return (uint64_t *)dataplane + index;
}
static inline uint64_t hd_dataplane_get(const struct hd_dataplane *dataplane, size_t index) {
	return ((const uint64_t *)dataplane)[index];
}
/* Adds, saturating at HD_DATAPLANE_VALUE_MAX, which *sum must not exceed. */
static inline void hd_dataplane_add(uint64_t *sum, uint64_t more) {
	uint64_t room = HD_DATAPLANE_VALUE_MAX - *sum;

	*sum += more < room ? more : room;
}
/* The reason if this value counts dropped packets; NULL: it does not. */
const char *hd_dataplane_reason(size_t index);

/* Adds gathered counters; values saturate at HD_DATAPLANE_VALUE_MAX. */
void hd_dataplane_sum(struct hd_dataplane *dataplane, const struct hd_stats *stats);
/* Returns the bytes written. */
size_t
hd_dataplane_encode(const struct hd_dataplane *dataplane, uint8_t data[HD_DATAPLANE_BYTES_MAX]);
/* 0; -EBADMSG (ids do not ascend, a value of 0, too long or beyond HD_DATAPLANE_VALUE_MAX) with *dataplane
 * undefined. */
int hd_dataplane_decode(struct hd_dataplane *dataplane, const uint8_t *data, size_t bytes);

#endif
