/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounded sets of numbers as descending, disjoint, non-adjacent ranges: the packets that a receiver acknowledges. */
#ifndef HD_RANGES_H
#define HD_RANGES_H

#include "hd_message.h"

/* Adds a value. At HD_SACK_RANGES_MAX ranges the lowest is dropped. Returns false if the value was in the set, or is
 * below a full set. *gap is set if it opened a new range above the others. O(1) in order. */
bool hd_ranges_add(struct hd_ranges *set, uint32_t value, bool *gap);
bool hd_ranges_has(const struct hd_ranges *set, uint32_t value);
/* True when descending, disjoint, and each first <= last. */
bool hd_ranges_valid(const struct hd_ranges *set);

/* Calls visit(user, first, last) for the values in `set` but not in `known`; both valid. O(ranges). */
void hd_ranges_each_new(
	const struct hd_ranges *set,
	const struct hd_ranges *known,
	void (*visit)(void *user, uint32_t first, uint32_t last),
	void *user
);

#endif
