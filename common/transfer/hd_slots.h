/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One member's end of a sum that is made in slots of the switch on its path; the switch's end is in
 * switch/executor/hd_switch.h.
 *
 *      values  | 0 | 1 | 2 | .. | S-1 | S | S+1 | ..      chunk c: slot c % S, cell c / S % 2
 *                |                      ^
 *      sums      +--- the sum of 0 -----+                 lets chunk S leave, in the same slot
 *
 * At most S chunks (slots of the lease) are under way. A sum is the acknowledgement: nothing else comes back. A chunk
 * is sent again when sums of chunks that left after it have come, or when nothing came for the timeout; the
 * switch answers with the sum, or goes on waiting for the others. So a sum that is missing may be our own loss, that of
 * another member or of the way back: one chunk more is the price of not knowing.
 *
 * Fixed point. Every chunk proposes the least exponent with which the chunk that follows in its slot cannot overflow:
 * members times the greatest absolute value of ours fits. The sum says the greatest proposal, which all members use.
 * The first S chunks have the lease's. Nothing is rounded with an exponent that is too small in silence: such a chunk,
 * and one with a NaN or an Inf, is marked, and the sum of a marked chunk is NaN, all of it, at every member.
 *
 * How fast. Pacing and a window as of any transfer (hd_cc.h): the granted rate, marks, losses that are known to be our
 * own; the slots bound the window besides.
 * Chunks leave in their order, so that all members' windows hold the same ones.
 *
 * A push is the other way to use it: lanes are ready, all with one exponent, and nothing comes back but the word of
 * the sums' receivers (a server, its replica) that they hold it. Who has not all of these words of a chunk sends it
 * again, and the switch repeats the sum to all receivers.
 *
 * Members. The sums of a round are taken only when all have the same members, this one among them; else FAILED.
 *
 * Source: the slots are SwitchML's (Sapio et al., NSDI 2021, algorithm 4). Ours: repair by what came later instead of
 * a fixed timer, the exponent of the next chunk in the present one's header (its streams send it one window
 * late), members of every sum.
 */
#ifndef HD_SLOTS_H
#define HD_SLOTS_H

#include "hd_cc.h"
#include "hd_event.h"
#include "hd_node.h"
#include "hd_wire.h"

/* `packet` of a chunk in a slot: the member's index and the number of the packet, so that a sum says whose chunk
 * completed it, and which copy. */
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
	uint32_t job, round; /* round: > 0, of the lease's counting */
	uint16_t epoch, shard, worker;
	uint8_t attempt;
	uint8_t dtype; /* of the slots: HD_DTYPE_FIXED32 or HD_DTYPE_FP32 */
	int16_t exponent; /* of the first chunk in each slot; FP32: 0 */
	uint8_t member; /* our bit in the sums' members */
	uint8_t members; /* how many are waited for: the most that a sum has */
	uint16_t slots;
	uint64_t
		first; /* place of chunk 0 in the lease's stream, which goes on from round to round; slot and cell
			 * follow from a chunk's place. Whoever begins a round holds all sums of those before */
	uint16_t count; /* values of every chunk; the last one is filled up with 0 */
	uint64_t token; /* of our chunks */
	uint64_t result_token; /* of the sums */
	uint64_t rate_bps; /* granted, on the link; 0: what congestion control allows */
	const float *in; /* outlive it */
	float *out;
	uint64_t values; /* > 0 */
	bool average; /* out is the sum divided by the number of members in it */
	const uint32_t *lanes; /* of a push, of `exponent`, instead of in and out; outlive it */
	uint8_t receivers; /* of a push: so many hold each sum */
	struct hd_path *path; /* outlives it */
};

struct hd_slots;

/* Starts at once. Returns 0, -EINVAL (no values, arrays or path; members, slots, count, dtype or exponent that
 * no lease has), -EFBIG (more chunks than packets have numbers for), -ENOMEM. Memory: a chunk and 64 bytes a
 * slot. */
int hd_slots_create(const struct hd_slots_config *config, hd_ns now, struct hd_slots **slots);
void hd_slots_destroy(struct hd_slots *slots);

enum hd_slots_result {
	HD_SLOTS_NEW,
	HD_SLOTS_DUPLICATE,
	HD_SLOTS_END, /* this sum ended it: DONE, or FAILED */
	HD_SLOTS_MISMATCH /* it disagrees with the lease or with what we sent: nothing happened */
};
/* Takes a RESULT under the token of the sums. Cost: one conversion of the payload. Poll after each burst. */
enum hd_slots_result hd_slots_take(
	struct hd_slots *slots,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
);
/* Sends what is due, at most `budget` packets, all of one size. Returns the packets sent. Payloads of one
 * call are unchanged until the next. */
size_t hd_slots_poll(struct hd_slots *slots, hd_ns now, size_t budget, struct hd_sink *sink);
/* When hd_slots_poll() wants to be called: pacing, repair, or HD_NEVER. */
hd_ns hd_slots_deadline(const struct hd_slots *slots);

struct hd_slots_stats {
	enum hd_slots_state state;
	enum hd_reason
		reason; /* FAILED: lease (sums are made without us), void (members changed within the
				* round), timeout (no packet numbers left) */
	uint64_t members; /* in the sums; 0: none came yet */
	uint32_t chunks, sums; /* in all; held, of a push by all receivers */
	uint64_t packets_sent, packets_resent, timeouts;
	uint64_t repeated; /* sums that came for a chunk of ours alone, which was sent again */
	uint64_t duplicates, mismatches;
	uint64_t
		lost; /* chunks that were lost on our own links, or their sums, as far as that is known */
	uint64_t marked; /* sums with a congestion mark */
	uint64_t not_finite; /* chunks whose sum is none: overflow, NaN, Inf */
	hd_ns started, ended;
};
const struct hd_slots_stats *hd_slots_stats(const struct hd_slots *slots);
uint64_t hd_slots_token(const struct hd_slots *slots);

#endif
