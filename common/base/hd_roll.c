/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_roll.h"

#include <assert.h>
#include <string.h>

#define RANK_BITS 12
#define RANK_MASK ((INT64_C(1) << RANK_BITS) - 1)
#define SURE (INT64_C(1) << 62)

static_assert(HD_WORKERS_MAX <= 1 << RANK_BITS, "a rank fits");
static_assert(HD_ROLL_STEPS_MAX < UINT64_C(1) << (62 - RANK_BITS), "a step and one fits");

/* From the top: sure, step + 1 (0: no model), the complement of the rank. */
void hd_roll_pack(const struct hd_roll_answer *answer, int64_t values[HD_ROLL_VALUES]) {
	const int64_t made = answer->has_model ? (int64_t)answer->step + 1 : 0;
	const bool sure = answer->has_model && answer->sure;

	assert(answer->rank < HD_WORKERS_MAX && answer->step < HD_ROLL_STEPS_MAX);
	values[0] = (sure ? SURE : 0) | made << RANK_BITS | (RANK_MASK - answer->rank);
	values[1] = sure ? -made : 0;
}

struct hd_roll hd_roll_read(const int64_t maxima[HD_ROLL_VALUES]) {
	const int64_t made = (maxima[0] & (SURE - 1)) >> RANK_BITS;

	return (struct hd_roll){
		.source = (uint32_t)(RANK_MASK - (maxima[0] & RANK_MASK)),
		.complete = (maxima[0] & SURE) && -maxima[1] == made,
		.any = made > 0,
		.step = made > 0 ? (uint64_t)made - 1 : 0,
	};
}

void hd_equal_pack(const uint8_t hash[HD_HASH_BYTES], int64_t values[HD_EQUAL_VALUES]) {
	for (int i = 0; i < HD_EQUAL_VALUES / 2; i++) {
		memcpy(&values[i], hash + 8 * (size_t)i, 8);
		values[i + HD_EQUAL_VALUES / 2] = ~values[i];
	}
}

/* The greatest complement is the complement of the least. */
bool hd_equal_read(const int64_t maxima[HD_EQUAL_VALUES]) {
	for (int i = 0; i < HD_EQUAL_VALUES / 2; i++)
		if (maxima[i] != ~maxima[i + HD_EQUAL_VALUES / 2])
			return false;
	return true;
}
