/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_roll.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

int hd_state_write(const struct hd_state *state, char text[HD_STATE_BYTES]) {
	int length;

	memset(text, 0, HD_STATE_BYTES);
	length = snprintf(
		text,
		HD_STATE_BYTES,
		"%llu %d %d %s",
		(unsigned long long)state->step,
		state->ended,
		state->owned,
		state->settings
	);
	return length < HD_STATE_BYTES ? 0 : -E2BIG;
}

static bool is_flag(const char *text) {
	return text[0] == ' ' && (text[1] == '0' || text[1] == '1');
}

int hd_state_read(const char text[HD_STATE_BYTES], struct hd_state *state) {
	unsigned long long step;
	char *end;

	if (!memchr(text, '\0', HD_STATE_BYTES) || text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	step = strtoull(text, &end, 10);
	if (errno != 0 || step >= HD_ROLL_STEPS_MAX || !is_flag(end) || !is_flag(end + 2)
	    || end[4] != ' ')
		return -EINVAL;
	*state = (struct hd_state){step, end[1] == '1', end[3] == '1', end + 5};
	return 0;
}

bool hd_settings_differ(const char *theirs, const char *ours, char words[HD_SETTINGS_WORDS]) {
	for (;;) {
		const int a = (int)strcspn(theirs, " "), b = (int)strcspn(ours, " ");

		if (a != b || strncmp(theirs, ours, (size_t)a) != 0) {
			(void
			)snprintf(words, HD_SETTINGS_WORDS, "%.*s, not %.*s", a, theirs, b, ours);
			return true;
		}
		if (theirs[a] == '\0' && ours[a] == '\0')
			return false;
		theirs += a + (theirs[a] == ' ');
		ours += b + (ours[b] == ' ');
	}
}
