/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_timers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define HD_TIMERS_FIRST 64

static bool timer_before(const struct hd_timer *a, const struct hd_timer *b) {
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void timers_put(struct hd_timers *timers, uint32_t place, struct hd_timer *timer) {
	timers->heap[place] = timer;
	timer->place = place;
}

static void timers_up(struct hd_timers *timers, struct hd_timer *timer, uint32_t place) {
	while (place > 1 && timer_before(timer, timers->heap[place / 2])) {
		timers_put(timers, place, timers->heap[place / 2]);
		place /= 2;
	}
	timers_put(timers, place, timer);
}

static void timers_down(struct hd_timers *timers, struct hd_timer *timer, uint32_t place) {
	while (2 * place <= timers->count) {
		uint32_t child = 2 * place;

		if (child < timers->count
		    && timer_before(timers->heap[child + 1], timers->heap[child]))
			child++;
		if (!timer_before(timers->heap[child], timer))
			break;
		timers_put(timers, place, timers->heap[child]);
		place = child;
	}
	timers_put(timers, place, timer);
}

static void timers_remove(struct hd_timers *timers, struct hd_timer *timer) {
	uint32_t place = timer->place;
	struct hd_timer *last = timers->heap[timers->count--];

	timer->place = 0;
	if (last == timer)
		return;
	if (place > 1 && timer_before(last, timers->heap[place / 2]))
		timers_up(timers, last, place);
	else
		timers_down(timers, last, place);
}

int hd_timers_reserve(struct hd_timers *timers) {
	uint32_t capacity = timers->capacity == 0 ? HD_TIMERS_FIRST : 2 * timers->capacity;
	struct hd_timer **heap;

	if (timers->room < timers->capacity) {
		timers->room++;
		return 0;
	}
	heap = realloc(timers->heap, ((size_t)capacity + 1) * sizeof(struct hd_timer *));
	if (!heap)
		return -ENOMEM;
	timers->heap = heap;
	timers->capacity = capacity;
	timers->room++;
	return 0;
}

void hd_timers_release(struct hd_timers *timers, struct hd_timer *timer) {
	if (timer->place != 0)
		timers_remove(timers, timer);
	assert(timers->room > 0);
	timers->room--;
	assert(timers->count <= timers->room);
}

void hd_timers_fini(struct hd_timers *timers) {
	assert(timers->count == 0 && timers->room == 0);
	free(timers->heap);
	*timers = (struct hd_timers){0};
}

void hd_timer_set(struct hd_timers *timers, struct hd_timer *timer, hd_ns at) {
	if (timer->place != 0) {
		if (timer->at == at)
			return;
		timers_remove(timers, timer);
	}
	if (at == HD_NEVER)
		return;
	assert(timers->count < timers->room);
	timer->at = at;
	timer->order = ++timers->order;
	timers_up(timers, timer, ++timers->count);
}

hd_ns hd_timers_next(const struct hd_timers *timers) {
	return timers->count == 0 ? HD_NEVER : timers->heap[1]->at;
}

struct hd_timer *hd_timers_pop(struct hd_timers *timers, hd_ns now) {
	struct hd_timer *first = timers->count == 0 ? NULL : timers->heap[1];

	if (!first || first->at > now)
		return NULL;
	timers_remove(timers, first);
	return first;
}
