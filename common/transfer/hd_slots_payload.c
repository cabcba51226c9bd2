/* SPDX-License-Identifier: BSD-3-Clause */
/* What a chunk in a slot carries: values, lanes of a push, or the places of what is not finite. */
#include "hd_assert.h"
#include "hd_bytes.h"
#include "hd_kernels.h"
#include "hd_slots.h"
#include "hd_slots_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Digits of a lane of places: how many members have what there. */
#define DIGIT_BITS 8
#define DIGIT(lane, digit) ((lane) >> (digit)*DIGIT_BITS & ((1U << DIGIT_BITS) - 1))
enum digit {
	DIGIT_NAN,
	DIGIT_PLUS,
	DIGIT_MINUS,
	DIGIT_UNFIT
};
static_assert(HD_SWITCH_MEMBERS_MAX < 1 << (DIGIT_BITS - 1), "a lane of places overflows");

/* --- values --------------------------------------------------------------------------------- */

static const float *values_of(const struct hd_slots *slots, uint32_t chunk) {
	return slots->config.in + (uint64_t)chunk * slots->config.count;
}

static const uint32_t *lanes_of(const struct hd_slots *slots, uint32_t chunk) {
	return slots->config.lanes + (uint64_t)chunk * slots->config.count;
}

/* For the chunk that follows in the slot. */
static int16_t propose(const struct hd_slots *slots, uint32_t chunk) {
	uint32_t next = chunk + slots->config.slots;
	float peak;
	int exponent;

	if (slots->config.dtype != HD_DTYPE_FIXED32)
		return 0;
	if (slots->config.lanes)
		return slots->config.exponent;
	if (next >= slots->values_end)
		return HD_FIXED_EXPONENT_MIN;
	peak = hd_peak_finite_f32(values_of(slots, next), hd_slots_values(slots, next));
	exponent = hd_fixed_exponent((double)peak * slots->config.members, slots->config.members);
	return (int16_t)(exponent < HD_FIXED_EXPONENT_MAX ? exponent : HD_FIXED_EXPONENT_MAX);
}

/* A chunk that did not fit: what is not finite becomes 0. True: it was not only that. */
static bool is_unfit(uint32_t *lanes, const float *values, uint32_t count, int exponent) {
	bool unfit = false;

	for (uint32_t i = 0; i < count; i++)
		if (isfinite(values[i]))
			unfit |= hd_fixed_from_f32(&lanes[i], &values[i], 1, 1, exponent);
		else
			lanes[i] = 0;
	return unfit;
}

/* True: the chunk is marked. */
static bool put_fixed(struct hd_slots *slots, const struct hd_slot *slot, uint32_t *lanes) {
	const float *values = values_of(slots, slot->chunk);
	uint32_t count = hd_slots_values(slots, slot->chunk);

	if (!hd_fixed_from_f32(lanes, values, count, 1, slot->exponent))
		return false;
	slots->unfit |= is_unfit(lanes, values, count, slot->exponent);
	return true;
}

static void prepare_values(struct hd_slots *slots, struct hd_slot *slot, uint8_t *payload) {
	uint32_t count = hd_slots_values(slots, slot->chunk);
	size_t bytes = count * sizeof(float);
	bool marked = false, part = count < slots->config.count;

	if (slots->config.lanes && part)
		memcpy(payload, lanes_of(slots, slot->chunk), bytes);
	else if (!slots->config.lanes && slots->config.dtype == HD_DTYPE_FIXED32)
		marked = put_fixed(slots, slot, (uint32_t *)(void *)payload);
	else if (!slots->config.lanes && part)
		memcpy(payload, values_of(slots, slot->chunk), bytes);
	if (part)
		memset(payload + bytes, 0, slots->chunk_bytes - bytes);
	slot->next = propose(slots, slot->chunk);
	slot->flags = (uint8_t
	)((marked ? HD_CHUNK_NOT_FINITE : 0)
	  | (slot->chunk == slots->values_end - 1 ? HD_CHUNK_LAST : 0));
}

/* --- places --------------------------------------------------------------------------------- */

void hd_slots_mark(struct hd_slots *slots, uint32_t chunk) {
	hd_assert(slots->marked_count < slots->values_end);
	slots->marked[slots->marked_count++] = chunk;
}

static int compare(const void *a, const void *b) {
	uint32_t x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return x < y ? -1 : x > y;
}

bool hd_slots_places_begin(struct hd_slots *slots, hd_ns now) {
	uint32_t count = slots->config.slots, marked = slots->marked_count;
	uint32_t used = marked < count ? marked : count, layers;

	if (marked == 0)
		return false;
	qsort(slots->marked, marked, sizeof *slots->marked, compare);
	layers = (marked - 1) / count + 1;
	layers += layers % 2;
	slots->chunk_end = slots->values_end + layers * count;
	slots->stats.places = used * layers;
	slots->stats.chunks += slots->stats.places;
	for (uint32_t i = 0; i < used; i++) {
		uint32_t chunk = slots->values_end + i;
		struct hd_slot *slot = &slots->slot[chunk % count];

		hd_assert(slot->state == HD_SLOT_IDLE);
		slot->chunk = chunk;
		slot->exponent = 0;
		slot->state = HD_SLOT_READY;
		hd_slots_ready(slots, now, chunk % count);
	}
	return true;
}

/* The chunk whose places this one has; false: it has none, and only makes their number even. */
static bool find_marked(const struct hd_slots *slots, uint32_t chunk, uint32_t *marked) {
	uint32_t index = chunk - slots->values_end;

	if (index >= slots->marked_count)
		return false;
	*marked = slots->marked[index];
	return true;
}

static uint32_t digit_of(float value) {
	enum digit digit = isnan(value) ? DIGIT_NAN : value > 0 ? DIGIT_PLUS : DIGIT_MINUS;

	return isfinite(value) ? 0 : 1U << digit * DIGIT_BITS;
}

static void prepare_places(struct hd_slots *slots, struct hd_slot *slot, uint8_t *payload) {
	uint32_t marked, unfit = slots->unfit ? 1U << DIGIT_UNFIT * DIGIT_BITS : 0;

	memset(payload, 0, slots->chunk_bytes);
	slot->next = 0;
	slot->flags = 0;
	if (!find_marked(slots, slot->chunk, &marked))
		return;
	for (uint32_t i = 0; i < hd_slots_values(slots, marked); i++)
		hd_put32(payload + (size_t)4 * i, digit_of(values_of(slots, marked)[i]));
	hd_put32(payload, hd_get32(payload) | unfit);
}

bool hd_slots_places_take(
	struct hd_slots *slots,
	const struct hd_chunk_header *header,
	const uint8_t *payload
) {
	uint32_t marked, lanes = 0;
	float *out;

	if (header->flags & HD_CHUNK_NOT_FINITE)
		return false;
	if (!find_marked(slots, header->chunk, &marked))
		return true;
	out = slots->config.out + (uint64_t)marked * slots->config.count;
	for (uint32_t i = 0; i < hd_slots_values(slots, marked); i++) {
		uint32_t lane = hd_get32(payload + (size_t)4 * i);
		bool plus = DIGIT(lane, DIGIT_PLUS) > 0, minus = DIGIT(lane, DIGIT_MINUS) > 0;

		lanes |= lane;
		if (DIGIT(lane, DIGIT_NAN) > 0 || (plus && minus))
			out[i] = NAN;
		else if (plus || minus)
			out[i] = plus ? INFINITY : -INFINITY;
	}
	return lanes != 0 && DIGIT(lanes, DIGIT_UNFIT) == 0;
}

/* --- both ----------------------------------------------------------------------------------- */

void hd_slots_prepare(struct hd_slots *slots, uint32_t index) {
	struct hd_slot *slot = &slots->slot[index];
	uint8_t *payload = slots->payload + (size_t)index * slots->chunk_bytes;

	if (slot->chunk < slots->values_end)
		prepare_values(slots, slot, payload);
	else
		prepare_places(slots, slot, payload);
}

/* fp32 and lanes leave from where they lie. */
const void *hd_slots_payload(const struct hd_slots *slots, uint32_t index) {
	uint32_t chunk = slots->slot[index].chunk;
	bool full
		= chunk < slots->values_end && hd_slots_values(slots, chunk) == slots->config.count;

	if (full && slots->config.lanes)
		return lanes_of(slots, chunk);
	if (full && slots->config.dtype == HD_DTYPE_FP32)
		return values_of(slots, chunk);
	return slots->payload + (size_t)index * slots->chunk_bytes;
}
