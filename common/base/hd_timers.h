/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of one core: a binary heap of timers that are embedded in their owners. Equal times are popped in the order
 * in which they were set, so that runs repeat and waiting transfers take turns. */
#ifndef HD_TIMERS_H
#define HD_TIMERS_H

#include "hd_types.h"

struct hd_timer {
	hd_ns at;
	uint64_t order;
	uint32_t place; /* in the heap, from 1; 0: not set */
	uint8_t kind; /* set by the owner */
};

struct hd_timers {
	struct hd_timer **heap; /* heap[1..count] */
	uint32_t count;
	uint32_t room; /* timers that were reserved */
	uint32_t capacity;
	uint64_t order;
};

/* Reserves room for one more timer, so that setting it cannot fail. 0 or -ENOMEM. */
int hd_timers_reserve(struct hd_timers *timers);
/* Unsets the timer and releases its room. */
void hd_timers_release(struct hd_timers *timers, struct hd_timer *timer);
void hd_timers_fini(struct hd_timers *timers);

/* HD_NEVER unsets. O(log n). Setting the same time again keeps its place among equal times. */
void hd_timer_set(struct hd_timers *timers, struct hd_timer *timer, hd_ns at);
/* The earliest, or HD_NEVER. */
hd_ns hd_timers_next(const struct hd_timers *timers);
/* Removes and returns the earliest if it is due, else NULL. */
struct hd_timer *hd_timers_pop(struct hd_timers *timers, hd_ns now);

#endif
