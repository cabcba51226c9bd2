/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of hd_slots: shared by its parts (hd_slots.c sends, hd_slots_take.c hears, hd_slots_payload.c has what a chunk
 * carries). */
#ifndef HD_SLOTS_STATE_H
#define HD_SLOTS_STATE_H

#include "hd_limits.h"
#include "hd_slots.h"
#include "hd_switch_numbers.h"

#define HD_SLOT_NONE UINT32_MAX

/*
 *   IDLE (no chunk left)     READY (in `ready`) --sent--> FLYING (in the list by `last`) --its sum--> READY, IDLE
 *                                                          |   ^
 *                                                missing --+   +-- sent again (meanwhile in `lost`)
 */
enum hd_slot_state {
	HD_SLOT_IDLE,
	HD_SLOT_READY,
	HD_SLOT_FLYING
};

struct hd_slot {
	uint32_t chunk; /* its current one */
	uint8_t state; /* enum hd_slot_state */
	uint8_t flags; /* of the header */
	uint8_t resends; /* of this chunk, saturating */
	uint8_t answers; /* of a push: bit i: receiver i has its sum */
	bool lost; /* to be retransmitted */
	bool queued; /* in the retransmission queue, which skips it if it is not lost now */
	int16_t exponent; /* of the chunk */
	int16_t next; /* its proposal for the next chunk */
	uint32_t first, last; /* numbers of its first and its newest packet */
	hd_ns first_at, last_at;
	hd_ns missed_at; /* when a later one's sum was seen; 0: none */
	uint32_t older, newer; /* FLYING: by `last` */
};

/* `lost` is a ring of slots, each at most once, first in first out; `ready` a heap of chunks, the lowest first (chunk c
 * is in slot c % slots). */
struct hd_slot_queue {
	uint32_t *item;
	uint32_t head, count;
};

struct hd_slots {
	struct hd_slots_config config;
	struct hd_slots_stats stats;
	uint32_t chunk_bytes;
	struct hd_slot *slot;
	uint8_t *payload; /* one chunk a slot, as sent */
	uint32_t values_end; /* chunks below it carry values, the others places */
	uint32_t chunk_end; /* no chunk has this index or a greater one */
	uint32_t *
		marked; /* chunks whose sums are marked: as they came, and ascending behind the last sum of values */
	uint32_t marked_count;
	bool unfit; /* a finite value of ours did not fit its chunk's exponent */
	struct hd_slot_queue ready, lost;
	uint32_t oldest, newest, flying; /* FLYING */
	uint32_t next; /* packet number */
	uint32_t largest; /* newest packet for which a sum has come */
	bool any;
	bool started; /* on the path */
	hd_ns release_at; /* pacing */
	hd_ns fed_at; /* there was nothing to send before this */
	hd_ns probe_from; /* last progress, or first transmission of a chunk; the timeout counts from it */
	uint32_t timeouts; /* in a row */
	hd_ns look_at; /* when a missing one is to be retransmitted */
};

/* On the link. */
static inline uint32_t hd_slots_packet_bytes(const struct hd_slots *slots) {
	return slots->chunk_bytes + HD_CHUNK_OVERHEAD_BYTES;
}

static inline uint32_t hd_slots_values(const struct hd_slots *slots, uint32_t chunk) {
	uint64_t left = slots->config.values - (uint64_t)chunk * slots->config.count;

	return left < slots->config.count ? (uint32_t)left : slots->config.count;
}

/* As in the header. */
static inline uint16_t hd_slots_slot(const struct hd_slots *slots, uint32_t chunk) {
	uint64_t place = slots->config.first + chunk;
	bool other = place / slots->config.slots % 2 == 1;

	return (uint16_t)(place % slots->config.slots | (other ? HD_SWITCH_SLOT_VERSION : 0U));
}

/* The round trip, if it is known. */
hd_ns hd_slots_rtt(const struct hd_slots *slots);
/* A chunk of this slot may leave. */
void hd_slots_ready(struct hd_slots *slots, hd_ns now, uint32_t index);
void hd_slots_unlink(struct hd_slots *slots, uint32_t index);
void hd_slots_end(struct hd_slots *slots, hd_ns now, enum hd_slots_state state, enum hd_reason why);

/* --- hd_slots_payload.c --- */
/* Makes the slot's chunk, once: what is sent again is the same bits. */
void hd_slots_prepare(struct hd_slots *slots, uint32_t index);
const void *hd_slots_payload(const struct hd_slots *slots, uint32_t index);
/* A chunk whose sum is marked: what is not finite in it is told later. */
void hd_slots_mark(struct hd_slots *slots, uint32_t chunk);
/* All sums of values are there: the chunks of places begin. False: there are none. */
bool hd_slots_places_begin(struct hd_slots *slots, hd_ns now);
/* The sum of a chunk of places. False: it is wrong, or says that a value did not fit. */
bool hd_slots_places_take(
	struct hd_slots *slots,
	const struct hd_chunk_header *header,
	const uint8_t *payload
);

#endif
