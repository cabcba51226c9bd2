/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounded sets of numbers as descending, disjoint, non-adjacent ranges: what a receiver says it got. */
#ifndef HD_RANGES_H
#define HD_RANGES_H

#include "hd_message.h"

/* Adds a value. At HD_SACK_RANGES_MAX ranges the lowest gives way. Returns false when it was there,
 * or lies below a full set. *gap is set when it opened a new range above the others. O(1) in order. */
bool hd_ranges_add(struct hd_ranges *set, uint32_t value, bool *gap);
bool hd_ranges_has(const struct hd_ranges *set, uint32_t value);
/* True when descending, disjoint, and each first <= last. */
bool hd_ranges_valid(const struct hd_ranges *set);

/* Calls visit(user, first, last) for what is in `set` and not in `known`; both valid. O(ranges). */
void hd_ranges_each_new(
	const struct hd_ranges *set,
	const struct hd_ranges *known,
	void (*visit)(void *user, uint32_t first, uint32_t last),
	void *user
);

#endif
