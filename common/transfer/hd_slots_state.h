/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of hd_slots: shared by its parts (hd_slots.c sends, hd_slots_take.c hears). */
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
	uint32_t chunk; /* its present one */
	uint8_t state; /* enum hd_slot_state */
	uint8_t flags; /* of the header */
	uint8_t resends; /* of this chunk, saturating */
	uint8_t answers; /* of a push: bit i, receiver i has its sum */
	bool lost; /* to be sent again */
	bool queued; /* in the queue of those; not lost any more: it is skipped there */
	int16_t exponent; /* of the chunk */
	int16_t next; /* that it proposes */
	uint32_t first, last; /* numbers of its first and its newest packet */
	hd_ns first_at, last_at;
	hd_ns missed_at; /* a later one's sum was seen then; 0: none */
	uint32_t older, newer; /* FLYING: by `last` */
};

/* `lost` is a ring of slots, each at most once, first in first out; `ready` a heap of chunks, the least first (chunk c
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
	uint8_t *payload; /* a chunk a slot, as it was sent */
	struct hd_slot_queue ready, lost;
	uint32_t oldest, newest, flying; /* FLYING */
	uint32_t next; /* packet number */
	uint32_t largest; /* newest packet that a sum has come for */
	bool any;
	bool started; /* on the path */
	hd_ns release_at; /* pacing */
	hd_ns fed_at; /* there was nothing to send before */
	hd_ns probe_from; /* last progress, or first transmission of a chunk; the timeout counts from it */
	uint32_t timeouts; /* in a row */
	hd_ns look_at; /* when a missing one is to be sent again */
};

/* On the link. */
static inline uint32_t hd_slots_packet_bytes(const struct hd_slots *slots) {
	return slots->chunk_bytes + HD_CHUNK_OVERHEAD_BYTES;
}

static inline uint32_t hd_slots_values(const struct hd_slots *slots, uint32_t chunk) {
	uint64_t left = slots->config.values - (uint64_t)chunk * slots->config.count;

	return left < slots->config.count ? (uint32_t)left : slots->config.count;
}

/* As the header has it. */
static inline uint16_t hd_slots_slot(const struct hd_slots *slots, uint32_t chunk) {
	uint64_t place = slots->config.first + chunk;
	bool other = place / slots->config.slots % 2 == 1;

	return (uint16_t)(place % slots->config.slots | (other ? HD_SWITCH_SLOT_VERSION : 0U));
}

/* The round trip, as far as it is known. */
hd_ns hd_slots_rtt(const struct hd_slots *slots);
/* A chunk of this slot may leave. */
void hd_slots_ready(struct hd_slots *slots, hd_ns now, uint32_t index);
void hd_slots_unlink(struct hd_slots *slots, uint32_t index);
void hd_slots_end(struct hd_slots *slots, hd_ns now, enum hd_slots_state state, enum hd_reason why);

#endif
