/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the controller asks every node for: the counters of its dataplane, in one list that all kinds of nodes share.
 *
 *   node: gathered counters (hd_stats.h) --sum--> struct --encode--> STATS.values --decode--> controller
 *
 * Each value is the sum of the stats that `from` names, GROUP.STAT apart by spaces (`*`: of any group), over all rows
 * of the group; seconds become microseconds. A node that has none of them says 0.
 *
 *   STATS.values:  id:8 value:varint, again and again    id: the place in the list, ascending; no values of 0
 *   varint:        7 bits a byte, the least first; bit 7: there are more (LEB128), as short as it can be
 *
 * The list is the wire: append only. Ids that are not known are skipped, so that nodes may be newer than a controller.
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
	S(chunks_resent, "packets", "data chunks sent again", COUNTER, "transfer.chunks_resent") \
	S(control_sent, "packets", "control packets sent", COUNTER, "endpoint.sent") \
	S(control_resent, "packets", "control packets sent again", COUNTER, "endpoint.resent") \
	S(duplicates, "packets", "data chunks received that were there already", COUNTER, \
		"*.duplicates switch.drop_duplicate") \
	S(processor_us, "us", "processor time of the threads that move packets", COUNTER, \
		"core.user_seconds core.system_seconds") \
	S(wakeups, "wakeups", "times that the threads that move packets were woken", COUNTER, "core.wakeups") \
	S(queue_bytes, "bytes", "bytes that wait in queues now", GAUGE, "queue.backlog_bytes") \
	S(queue_limit_bytes, "bytes", "bytes that the queues can hold", GAUGE, "queue.limit_bytes") \
	S(drop_missed, "packets", "nobody took them in time: full socket buffer or ring", COUNTER, "port.rx_missed") \
	S(drop_broken, "packets", "truncated, checksum, length", COUNTER, "port.rx_errors") \
	S(drop_no_buffer, "packets", "no packet buffer", COUNTER, "port.rx_no_buffer") \
	S(drop_unsent, "packets", \
		"could not leave: full buffer or ring, no buffer, no route, too long, refused by the kernel", COUNTER, \
		"port.tx_errors") \
	S(drop_malformed, "packets", "not decodable", COUNTER, "*.drop_malformed") \
	S(drop_version, "packets", "another wire version", COUNTER, "endpoint.drop_version") \
	S(drop_type, "packets", "a type that the node does not take", COUNTER, "*.drop_type") \
	S(drop_token, "packets", "no such transfer or lease: forged, late, or too early", COUNTER, "*.drop_token") \
	S(drop_source, "packets", "not from the address of the sender's session", COUNTER, "*.drop_source") \
	S(drop_mac, "packets", "forged or spoilt: the MAC differs", COUNTER, "*.drop_mac") \
	S(drop_mismatch, "packets", "header or size disagrees with the transfer", COUNTER, "*.drop_mismatch") \
	S(drop_memory, "packets", "no buffer free for the update just then", COUNTER, "*.drop_memory") \
	S(drop_early, "packets", "before their turn, and no room to keep them", COUNTER, "*.drop_early") \
	S(drop_tag, "packets", "control: wrong authentication tag", COUNTER, "endpoint.drop_tag") \
	S(drop_replay, "packets", "control: replayed", COUNTER, "endpoint.drop_replay") \
	S(drop_session, "packets", "control: no such session", COUNTER, "endpoint.drop_unknown_session") \
	S(drop_key, "packets", "control: no such key", COUNTER, "endpoint.drop_unknown_key") \
	S(drop_window, "packets", "control: fragments beyond the window", COUNTER, "endpoint.drop_out_of_window") \
	S(drop_role, "packets", "control: role not served", COUNTER, "endpoint.drop_role") \
	S(drop_address, "packets", "control: asked for, or from, another address", COUNTER, "endpoint.drop_address") \
	S(drop_candidates, "packets", "hellos that gave way to newer ones", COUNTER, "endpoint.drop_candidates") \
	S(drop_lease, "packets", "switch: not of the lease: job, epoch, member, slot, exponent, stale", COUNTER, \
		"switch.drop_lease switch.drop_member switch.drop_slot switch.drop_exponent switch.drop_stale") \
	S(drop_route, "packets", "switch: ordinary frames without a way out, or at the end of their time to live", \
		COUNTER, "switch.drop_ttl switch.drop_no_route") \
	S(drop_simulated, "packets", "switch: lost on purpose", COUNTER, "switch.drop_simulated")
/* clang-format on */

#define HD_DATAPLANE_FIELD(name, unit, help, kind, from) uint64_t name;
struct hd_dataplane {
	HD_DATAPLANE_STATS(HD_DATAPLANE_FIELD)
};
#undef HD_DATAPLANE_FIELD

#define HD_DATAPLANE_COUNT (sizeof(struct hd_dataplane) / sizeof(uint64_t))
#define HD_DATAPLANE_VALUE_MAX                                                                     \
	(UINT64_C(1) << 62) /* of any node's word; so has JSON's reader room */
#define HD_DATAPLANE_BYTES_MAX (HD_DATAPLANE_COUNT * 10)

extern const struct hd_stat hd_dataplane_stats[HD_DATAPLANE_COUNT];
extern const struct hd_stat_group hd_dataplane_group; /* of these; no labels */

/* The value of this place in the list. */
static inline uint64_t *hd_dataplane_at(struct hd_dataplane *dataplane, size_t index) {
	return (uint64_t *)dataplane + index;
}
static inline uint64_t hd_dataplane_get(const struct hd_dataplane *dataplane, size_t index) {
	return ((const uint64_t *)dataplane)[index];
}
/* Adds; the sum stops at HD_DATAPLANE_VALUE_MAX, which it has not passed. */
static inline void hd_dataplane_add(uint64_t *sum, uint64_t more) {
	uint64_t room = HD_DATAPLANE_VALUE_MAX - *sum;

	*sum += more < room ? more : room;
}
/* Whether it counts packets that were dropped, and for which reason; NULL: it does not. */
const char *hd_dataplane_reason(size_t index);

/* Adds what was gathered; values stop at HD_DATAPLANE_VALUE_MAX. */
void hd_dataplane_sum(struct hd_dataplane *dataplane, const struct hd_stats *stats);
/* Returns the bytes written. */
size_t
hd_dataplane_encode(const struct hd_dataplane *dataplane, uint8_t data[HD_DATAPLANE_BYTES_MAX]);
/* 0; -EBADMSG (ids do not ascend, a value of 0, too long or beyond HD_DATAPLANE_VALUE_MAX) with *dataplane
 * undefined. */
int hd_dataplane_decode(struct hd_dataplane *dataplane, const uint8_t *data, size_t bytes);

#endif
