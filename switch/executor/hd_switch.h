/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch on the path: what every executor of it does, whether in C, in P4 on bmv2 or on DPDK's SWX pipeline.
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
 * slot c % slot_count, version c / slot_count % 2, once it has the sum of chunk c - slot_count: so at most slot_count
 * chunks are under way, and who sends c has seen the sum before it in this slot, while that one stays in the other
 * cell for those that have not. A cell remembers whose sum it has (round, chunk): what is older is stale, what is
 * newer begins a new sum, what is the same is added once for each member.
 *
 * Sums are of int32 lanes in network order with one exponent a chunk (native: fp32 too). An overflow sets NOT_FINITE
 * in the result. Every chunk proposes an exponent for the one that follows in its slot; the result names the greatest.
 *
 * Source: the slot discipline is SwitchML's (Sapio et al., NSDI 2021, algorithms 2 and 3); that a cell names its sum,
 * and the token, are ours.
 */
#ifndef HD_SWITCH_H
#define HD_SWITCH_H

#include "hd_switch_numbers.h"
#include "hd_types.h"

/* Where a copy goes: everything of a result that differs between its receivers. */
struct hd_switch_copy {
	uint16_t port; /* of the switch */
	uint8_t mac[6];
	uint32_t ipv4;
	uint16_t udp_port;
	uint64_t token; /* it carries this one */
};

struct hd_switch_member {
	uint64_t token; /* of its chunks: random, never 0, no other member's of any lease */
	uint16_t worker; /* rank */
	struct hd_switch_copy copy; /* of the results to it */
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
	uint16_t first_slot, slot_count; /* of the P4 executors' registers; native ones allocate */
	uint64_t waits; /* bit i: members[i] is waited for; all of them, at first */
	uint32_t member_count; /* 1 .. HD_SWITCH_MEMBERS_MAX */
	const struct hd_switch_member *members; /* copied */
	uint32_t receiver_count; /* 0: results go to the members */
	const struct hd_switch_copy *
		receivers; /* copied; what they answer (RESULT without values) goes to the members */
};

/* Each packet adds to exactly one of the first group; `copies` counts what leaves for a result or an answer. */
#define HD_SWITCH_COUNTERS(C)                                                                      \
	C(forwarded, "ordinary frames sent to one port")                                           \
	C(flooded, "ordinary frames sent to all ports but their own")                              \
	C(routed, "ordinary frames sent on by their network address")                              \
	C(absorbed, "chunks that were added, with others still to come")                           \
	C(completed, "chunks that completed a sum")                                                \
	C(repeated, "chunks that came again and were answered with their sum")                     \
	C(answered, "answers of a receiver, passed to the members")                                \
	C(drop_duplicate, "chunks that came again before their sum was complete")                  \
	C(drop_malformed, "chunks for us with a wrong version, type, length or count")             \
	C(drop_token, "chunks without a live token")                                               \
	C(drop_lease, "chunks whose job, epoch, attempt, shard or type is not the lease's")        \
	C(drop_member, "chunks whose worker is not the token's, or is not waited for any more")    \
	C(drop_slot, "chunks of a slot beyond the lease")                                          \
	C(drop_exponent, "chunks with another exponent than their sum")                            \
	C(drop_stale, "chunks of a sum before the one in their cell")                              \
	C(drop_ttl, "ordinary frames at the end of their time to live")                            \
	C(drop_no_route, "ordinary frames without a way out, or back to where they came from")     \
	C(drop_simulated, "frames lost on purpose")                                                \
	C(copies, "frames that left for results and answers")                                      \
	C(overtaken, "sums given up incomplete, as a newer one took their cell")                   \
	C(not_finite, "sums with an overflow, a NaN or an Inf")

enum hd_switch_counter {
#define HD_SWITCH_COUNTER_ENUM(name, help) HD_SWITCH_COUNTER_##name,
	HD_SWITCH_COUNTERS(HD_SWITCH_COUNTER_ENUM)
#undef HD_SWITCH_COUNTER_ENUM
	HD_SWITCH_COUNTER_COUNT
};

/* What becomes of a frame. */
enum hd_switch_verdict {
	HD_SWITCH_DROP,
	HD_SWITCH_FORWARD, /* as it is, or routed: to `port` */
	HD_SWITCH_FLOOD, /* to all ports but the one it came from */
	HD_SWITCH_COPY /* rewritten for each copy that `copy` names of `lease`, hd_switch_address() */
};

/* A frame from Ethernet's header on. */
struct hd_switch_packet {
	uint8_t *
		data; /* may be changed in place; a result has the length of the chunk that completed it */
	uint32_t bytes;
	uint16_t port; /* in: where it came from; out: FORWARD's */
	uint8_t verdict;
	uint8_t copy; /* an index, HD_SWITCH_COPY_MEMBERS or HD_SWITCH_COPY_RECEIVERS */
	uint16_t lease;
	void *handle; /* its owner's */
};

#endif
