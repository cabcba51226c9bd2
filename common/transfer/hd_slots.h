/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One member's end of a sum that is made in slots of the switch on its path; the switch's end is in
 * switch/executor/hd_switch.h.
 *
 *      values  | 0 | 1 | 2 | .. | S-1 | S | S+1 | ..      chunk c: slot c % S, cell c / S % 2
 *                |                      ^
 *      sums      +--- the sum of 0 -----+                 lets chunk S leave, in the same slot
 *
 * At most S chunks (slots of the lease) are in flight. A sum is the acknowledgement: there is no other. A chunk is
 * retransmitted when sums of chunks sent after it have come, or when nothing came for the timeout; the switch answers
 * with the sum, or continues to wait for the others. So a missing sum may be our own loss, another member's, or one on
 * the return path: the cost of not knowing is one more chunk.
 *
 * Fixed point. Every chunk proposes the least exponent with which the chunk that follows in its slot cannot overflow:
 * members times the greatest absolute value of ours fits. The sum says the greatest proposal, which all members use.
 * The first S chunks have the lease's. No proposal counts what is not finite.
 *
 * NaN and Inf have no code in fixed point. A chunk with one carries 0 instead and is marked (NOT_FINITE), and so is
 * its sum. After the last sum of values every member sends one more chunk for each marked one, in the same slots: a
 * chunk of places, whose lanes count.
 *
 *      lane i of a chunk of places    members whose value i is    NaN + 2^8 +Inf + 2^16 -Inf
 *                                     (lane 0: 2^24 for a member of which a finite value did not fit the exponent)
 *
 *      chunks  | values ........ | places .. | 0 ..  |     each slot that is used has 2, 4, ... of them: so it goes on
 *              0         values_end            chunk_end   in the cell in which it would without them, and the next
 *                                                          round's `first` holds
 *
 * A value is NaN where the sum of places counts one, or Infs of both signs, else the Inf that it counts. All other
 * values are the sum of fixed point. FAILED (not-finite): it counts a value that did not fit, or nothing at all, which
 * is an overflow in the switch. That takes an exponent that was none of these proposals.
 *
 * Rate. Pacing and a window as for any transfer (hd_cc.h): the granted rate, marks, losses known to be our own; the
 * slots bound the window too. Chunks leave in their order, so that all members' windows hold the same ones.
 *
 * A push uses it too: its lanes are given, all with one exponent, and the only answers are those of the sums' receivers
 * (a server, its replica) that they hold the sum. A member without all of these answers for a chunk sends it again, and
 * the switch repeats the sum to all receivers.
 *
 * Members. The sums of a round are taken only if all have the same members, this one among them; else FAILED.
 *
 * Source: the slots are SwitchML's (Sapio et al., NSDI 2021, algorithm 4). Ours: repair by later arrivals instead of a
 * fixed timer, the next chunk's exponent in the header of the current one (its streams send it one window late),
 * members of every sum.
 */
#ifndef HD_SLOTS_H
#define HD_SLOTS_H

#include "hd_cc.h"
#include "hd_event.h"
#include "hd_node.h"
#include "hd_wire.h"

/* `packet` of a chunk in a slot: the member's index and the packet number, so that a sum identifies the chunk, and the
 * copy, that completed it. */
#define HD_SLOTS_MEMBER_SHIFT 26
#define HD_SLOTS_PACKETS_MAX (UINT32_C(1) << HD_SLOTS_MEMBER_SHIFT)

static inline uint32_t hd_slots_packet(uint8_t member, uint32_t number) {
	return (uint32_t)member << HD_SLOTS_MEMBER_SHIFT | number;
}

enum hd_slots_state {
	HD_SLOTS_ACTIVE,
	HD_SLOTS_DONE,
	HD_SLOTS_FAILED
};

struct hd_slots_config {
	struct hd_addr peer; /* the switch's service address */
	uint32_t job, round; /* round: > 0, counted in the lease */
	uint16_t epoch, shard, worker;
	uint8_t attempt;
	uint8_t dtype; /* of the slots: HD_DTYPE_FIXED32 or HD_DTYPE_FP32 */
	int16_t exponent; /* of the first chunk in each slot; FP32: 0 */
	uint8_t member; /* our bit in the sums' members */
	uint8_t members; /* number of members: the maximum of a sum */
	uint16_t slots;
	uint64_t
		first; /* index of chunk 0 in the lease's stream, which continues from round to round; slot and cell
			  follow from a chunk's index. A member begins a round only after all sums of the earlier
			  ones */
	uint16_t count; /* values of every chunk; the last one is padded with 0 */
	uint64_t token; /* of our chunks */
	uint64_t result_token; /* of the sums */
	uint64_t rate_bps; /* granted, on the link; 0: bounded by congestion control only */
	const float *in; /* must outlive it */
	float *out;
	uint64_t values; /* > 0 */
	bool average; /* out is the sum divided by its number of members */
	const uint32_t *lanes; /* of a push, with `exponent`, instead of in and out */
	uint8_t receivers; /* of a push: nodes that hold each sum */
	struct hd_path *path; /* outlives it */
};

struct hd_slots;

/* Starts at once. Returns 0, -EINVAL (no values, arrays or path; members, slots, count, dtype or exponent that
 * no lease has), -EFBIG (more chunks than packets have numbers for), -ENOMEM. Memory: a chunk and 64 bytes a
 * slot; 4 bytes a chunk, of which only as many are touched as chunks are marked. */
int hd_slots_create(const struct hd_slots_config *config, hd_ns now, struct hd_slots **slots);
void hd_slots_destroy(struct hd_slots *slots);

enum hd_slots_result {
	HD_SLOTS_NEW,
	HD_SLOTS_DUPLICATE,
	HD_SLOTS_END, /* this sum ended it: DONE, or FAILED */
	HD_SLOTS_MISMATCH /* it disagrees with the lease or with what we sent: ignored */
};
/* Takes a RESULT with the token of the sums. Cost: one conversion of the payload. Poll after each burst. */
enum hd_slots_result hd_slots_take(
	struct hd_slots *slots,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);
/* Sends what is due, at most `budget` packets, all of one size. Returns the packets sent. Payloads of one call are
 * unchanged until the next. */
size_t hd_slots_poll(struct hd_slots *slots, hd_ns now, size_t budget, struct hd_sink *sink);
/* When hd_slots_poll() should be called: pacing, repair, or HD_NEVER. */
hd_ns hd_slots_deadline(const struct hd_slots *slots);

struct hd_slots_stats {
	enum hd_slots_state state;
	enum hd_reason
		reason; /* FAILED: lease (sums are made without us), void (members changed within the
				* round), timeout (no packet numbers left), not-finite (see above) */
	uint64_t members; /* in the sums; 0: none came yet */
	uint32_t chunks, sums; /* in all; held, for a push by all receivers */
	uint32_t
		places; /* of these chunks, those of places; 0 until the sums of values are there */
	uint64_t packets_sent, packets_resent, timeouts;
	uint64_t repeated; /* sums that came only to us, for a retransmitted chunk */
	uint64_t duplicates, mismatches;
	uint64_t lost; /* chunks, or their sums, known to be lost on our own links */
	uint64_t marked; /* sums with a congestion mark */
	uint64_t not_finite; /* sums that are marked: NaN, Inf, overflow */
	hd_ns started, ended;
};
const struct hd_slots_stats *hd_slots_stats(const struct hd_slots *slots);
uint64_t hd_slots_token(const struct hd_slots *slots);

#endif
