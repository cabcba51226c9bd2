/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch on the path: the common behaviour of its executors, in C, in P4 on bmv2 or on DPDK's SWX pipeline.
 *
 *                 +--------------------------------------- executor -------------------------------------+
 *      frame ---->| not a chunk for us ------------------------------------------> forward, flood        |
 *      of a port  | chunk for us: token -> lease -> member, slot                                         |===> copies
 *                 |   not the last of its members: added, taken        drop (counted as absorbed)        |
 *                 |   the last one: the sum instead of the values ---> copies to members, or receivers   |
 *                 |   a repeated one whose sum is there -------------> that sum: member, or receivers    |
 *                 +--------------------------------------------------------------------------------------+
 *
 * Slots. A lease has slot_count slots, each with two cells (the version bit of chunk.slot). A member sends chunk c in
 * slot c % slot_count, version c / slot_count % 2, once it has the sum of chunk c - slot_count. So at most slot_count
 * chunks are in flight, and a member that sends c has received the previous sum of this slot, which stays in the other
 * cell for members that have not. A cell is marked with its sum (round, chunk): an older chunk is stale, a newer one
 * begins a new sum, one of the same sum is added once for each member.
 *
 * Sums are of int32 lanes in network order with one exponent a chunk (native: fp32 too). An overflow sets NOT_FINITE in
 * the result. Every chunk proposes an exponent for the next chunk in its slot; the result has the greatest.
 *
 * Source: the slot discipline is SwitchML's (Sapio et al., NSDI 2021, algorithms 2 and 3); marking cells, and the
 * token, are ours.
 */
#ifndef HD_SWITCH_H
#define HD_SWITCH_H

#include "hd_switch_numbers.h"
#include "hd_types.h"

/* The destination of a copy: all fields of a result that differ between its receivers. */
struct hd_switch_copy {
	uint16_t port; /* of the switch */
	uint8_t mac[6];
	uint32_t ipv4;
	uint16_t udp_port;
	uint64_t token; /* written to the copy */
};

struct hd_switch_member {
	uint64_t token; /* of its chunks: random, not 0, unique among all leases */
	uint16_t worker; /* rank */
	struct hd_switch_copy copy; /* destination of its results */
};

/* Slots for one group, for the time of its grant. */
struct hd_switch_lease {
	uint16_t id; /* < HD_SWITCH_LEASES_MAX */
	uint32_t job;
	uint16_t epoch;
	uint8_t attempt;
	uint16_t shard;
	uint8_t dtype; /* HD_DTYPE_FIXED32; native: HD_DTYPE_FP32 too */
	uint16_t count; /* values of every chunk; in P4 HD_SWITCH_LANES */
	uint16_t first_slot, slot_count; /* first_slot: of the P4 executors' registers only */
	uint64_t waits; /* bit i: members[i] is waited for; initially all */
	uint32_t member_count; /* 1 .. HD_SWITCH_MEMBERS_MAX */
	const struct hd_switch_member *members; /* copied */
	uint32_t receiver_count; /* 0: results go to the members */
	const struct hd_switch_copy
		*receivers; /* copied; their answers (RESULT without values) go to the members */
};

/* Each packet adds to exactly one of the first group; `copies` counts the copies of results and answers. */
#define HD_SWITCH_COUNTERS(C)                                                                      \
	C(forwarded, "ordinary frames sent to one port")                                           \
	C(flooded, "ordinary frames flooded to all ports but the one they came from")              \
	C(routed, "ordinary frames routed by their IPv4 address")                                  \
	C(absorbed, "chunks added to a sum that is not complete yet")                              \
	C(completed, "chunks that completed a sum")                                                \
	C(repeated, "chunks received again and answered with their sum")                           \
	C(answered, "acknowledgements of a receiver, passed to the members")                       \
	C(drop_duplicate, "chunks received again before their sum was complete")                   \
	C(drop_malformed,                                                                          \
	  "chunks to the service address with a wrong version, type, length or count")             \
	C(drop_token, "chunks without a valid token")                                              \
	C(drop_lease, "chunks whose job, epoch, attempt, shard or type is not that of the lease")  \
	C(drop_member, "chunks whose worker is not the token's, or was removed from the lease")    \
	C(drop_slot, "chunks of a slot beyond the lease")                                          \
	C(drop_exponent, "chunks with an exponent other than that of their sum")                   \
	C(drop_stale, "chunks of a sum older than the one in their cell")                          \
	C(drop_ttl, "ordinary frames whose time to live expired")                                  \
	C(drop_no_route, "ordinary frames without a route, or with a route back to their port")    \
	C(drop_simulated, "frames dropped by the loss simulation")                                 \
	C(copies, "frames sent to deliver results and acknowledgements")                           \
	C(overtaken, "sums discarded incomplete: a newer sum took their cell")                     \
	C(not_finite, "sums with an overflow, a NaN or an Inf")

enum hd_switch_counter {
#define HD_SWITCH_COUNTER_ENUM(name, help) HD_SWITCH_COUNTER_##name,
	HD_SWITCH_COUNTERS(HD_SWITCH_COUNTER_ENUM)
#undef HD_SWITCH_COUNTER_ENUM
	HD_SWITCH_COUNTER_COUNT
};

/* The result of processing a frame. */
enum hd_switch_verdict {
	HD_SWITCH_DROP,
	HD_SWITCH_FORWARD, /* unchanged, or routed: to `port` */
	HD_SWITCH_FLOOD, /* to all ports except its own */
	HD_SWITCH_COPY /* rewritten for each copy that `copy` selects of `lease` */
};

/* A frame, from Ethernet's header on. */
struct hd_switch_packet {
	uint8_t *data; /* may be changed in place; a result is as long as its last chunk */
	uint32_t bytes;
	uint16_t port; /* in: where it arrived; out: FORWARD's */
	uint8_t verdict;
	uint8_t copy; /* an index, HD_SWITCH_COPY_MEMBERS or HD_SWITCH_COPY_RECEIVERS */
	uint16_t lease;
	void *handle; /* for its owner */
};

#endif
