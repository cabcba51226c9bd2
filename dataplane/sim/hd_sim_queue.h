/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event queue: a 4-ary heap by (time, insertion order). It has only the next arrival of each link, so it holds
 * hundreds of entries, not one for each packet, and stays in the first-level cache.
 */
#ifndef HD_SIM_QUEUE_H
#define HD_SIM_QUEUE_H

#include "hd_types.h"

#include <errno.h>
#include <stdlib.h>

struct sim_entry {
	hd_ns at;
	uint64_t order_kind; /* insertion order << 3 | kind */
	void *subject;
};

struct sim_queue {
	struct sim_entry *entry;
	size_t count, capacity;
};

static inline bool sim_entry_before(const struct sim_entry *a, const struct sim_entry *b) {
	return a->at != b->at ? a->at < b->at : a->order_kind < b->order_kind;
}

static inline int sim_queue_push(struct sim_queue *queue, struct sim_entry entry) {
	size_t hole = queue->count;

	if (hole == queue->capacity) {
		size_t capacity = queue->capacity ? queue->capacity * 2 : 1024;
		struct sim_entry *grown = realloc(queue->entry, capacity * sizeof *grown);

		if (!grown)
			return -ENOMEM;
		queue->entry = grown;
		queue->capacity = capacity;
	}
	queue->count++;
	while (hole > 0) {
		size_t parent = (hole - 1) / 4;

		if (!sim_entry_before(&entry, &queue->entry[parent]))
			break;
		queue->entry[hole] = queue->entry[parent];
		hole = parent;
	}
	queue->entry[hole] = entry;
	return 0;
}

static inline size_t sim_queue_least_child(const struct sim_queue *queue, size_t hole) {
	size_t first = 4 * hole + 1;
	size_t end = first + 4 < queue->count ? first + 4 : queue->count;
	size_t least = first;

	for (size_t i = first + 1; i < end; i++)
		if (sim_entry_before(&queue->entry[i], &queue->entry[least]))
			least = i;
	return least;
}

/* The queue must not be empty. */
static inline struct sim_entry sim_queue_pop(struct sim_queue *queue) {
	struct sim_entry top = queue->entry[0];
	struct sim_entry last = queue->entry[--queue->count];
	size_t hole = 0;

	while (4 * hole + 1 < queue->count) {
		size_t child = sim_queue_least_child(queue, hole);

		if (!sim_entry_before(&queue->entry[child], &last))
			break;
		queue->entry[hole] = queue->entry[child];
		hole = child;
	}
	if (queue->count > 0)
		queue->entry[hole] = last;
	return top;
}

#endif
