/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_ranges.h"

#include <string.h>

static void insert_at(struct hd_ranges *set, size_t at, uint32_t value) {
	if (set->count < HD_SACK_RANGES_MAX)
		set->count++;
	memmove(&set->item[at + 1], &set->item[at], (set->count - 1 - at) * sizeof set->item[0]);
	set->item[at] = (struct hd_range){value, value};
}

static void remove_at(struct hd_ranges *set, size_t at) {
	set->count--;
	memmove(&set->item[at], &set->item[at + 1], (set->count - at) * sizeof set->item[0]);
}

bool hd_ranges_add(struct hd_ranges *set, uint32_t value, bool *gap) {
	struct hd_range *top = &set->item[0];
	size_t at = 0;

	*gap = false;
	if (set->count > 0 && top->last != UINT32_MAX && value == top->last + 1) {
		top->last = value;
		return true;
	}
	while (at < set->count && value < set->item[at].first)
		at++;
	/* Now item[at] is the first range that starts at or below the value. */
	if (at < set->count && value <= set->item[at].last)
		return false;
	if (at > 0 && value + 1 == set->item[at - 1].first) {
		set->item[at - 1].first = value;
		if (at < set->count && set->item[at].last + 1 == value) {
			set->item[at - 1].first = set->item[at].first;
			remove_at(set, at);
		}
		return true;
	}
	if (at < set->count && set->item[at].last + 1 == value) {
		set->item[at].last = value;
		return true;
	}
	if (at == HD_SACK_RANGES_MAX)
		return false;
	*gap = at == 0 && (set->count > 0 || value > 0);
	insert_at(set, at, value);
	return true;
}

bool hd_ranges_has(const struct hd_ranges *set, uint32_t value) {
	for (size_t i = 0; i < set->count; i++)
		if (value >= set->item[i].first)
			return value <= set->item[i].last;
	return false;
}

bool hd_ranges_valid(const struct hd_ranges *set) {
	if (set->count > HD_SACK_RANGES_MAX)
		return false;
	for (size_t i = 0; i < set->count; i++) {
		if (set->item[i].first > set->item[i].last)
			return false;
		if (i > 0 && set->item[i].last >= set->item[i - 1].first)
			return false;
	}
	return true;
}

void hd_ranges_each_new(
	const struct hd_ranges *set,
	const struct hd_ranges *known,
	void (*visit)(void *user, uint32_t first, uint32_t last),
	void *user
) {
	size_t k = 0;

	for (size_t i = 0; i < set->count; i++) {
		uint32_t first = set->item[i].first;
		uint64_t left = (uint64_t)set->item[i].last + 1; /* the rest is [first, left) */

		while (k < known->count && known->item[k].first >= left)
			k++;
		while (k < known->count && known->item[k].last >= first) {
			if ((uint64_t)known->item[k].last + 1 < left)
				visit(user, known->item[k].last + 1, (uint32_t)(left - 1));
			left = known->item[k].first;
			if (left <= first)
				break;
			k++;
		}
		if (left > first)
			visit(user, first, (uint32_t)(left - 1));
	}
}
