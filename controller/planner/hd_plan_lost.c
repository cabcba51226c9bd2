/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drops the pushes that cannot meet their deadlines in any order, before the rest is ordered: a push whose last
 * position has passed, and in each prefix of deadlines with more pushes than positions, the longest (Moore and
 * Hodgson's rule; feasible sets are a matroid, so the number of kept pushes is the largest possible and they are the
 * shortest). Deadlines are positions, not times: no more are lost later.
 */
#include "hd_plan_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static int compare_due(const void *a, const void *b) {
	const struct hd_plan_sort *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	return x->item < y->item ? -1 : 1;
}

/* Drops late pushes, lists the others by job and deadline. */
static void list_by_due(struct hd_plan *plan) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < plan->in->item_count; i++) {
		const struct hd_plan_item *item = &plan->in->items[i];

		if (item->direction != HD_PLAN_PUSH)
			continue;
		if (hd_plan_deadline(plan, i) < 1) {
			hd_plan_decide(plan, i, HD_PLAN_DROP_BOUND, HD_PLAN_NONE, 1);
			continue;
		}
		plan->sorting[count++] = (struct hd_plan_sort){
			.group = item->job,
			.version = item->version,
			.item = i,
		};
	}
	qsort(plan->sorting, count, sizeof *plan->sorting, compare_due);
	for (uint32_t k = 0; k < count; k++) {
		struct hd_plan_owner *owner = &plan->owners[plan->sorting[k].group];

		plan->by_due[k] = plan->sorting[k].item;
		if (owner->due_count++ == 0)
			owner->by_due = &plan->by_due[k];
	}
}

/* A heap of items whose top goes last. */
static void heap_push(struct hd_plan *plan, uint32_t count, uint32_t item) {
	uint32_t *heap = plan->gather, at = count;

	while (at > 0 && hd_plan_before(plan, heap[(at - 1) / 2], item)) {
		heap[at] = heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap[at] = item;
}

/* Removes the top of a heap of count + 1. */
static void heap_pop(struct hd_plan *plan, uint32_t count) {
	uint32_t *heap = plan->gather, at = 0;
	const uint32_t moved = heap[count];

	for (uint32_t child = 1; child < count; child = 2 * at + 1) {
		if (child + 1 < count && hd_plan_before(plan, heap[child], heap[child + 1]))
			child++;
		if (!hd_plan_before(plan, moved, heap[child]))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moved;
}

static bool all_fit(const struct hd_plan *plan, const struct hd_plan_owner *owner) {
	for (uint32_t k = 0; k < owner->due_count; k++)
		if (hd_plan_deadline(plan, owner->by_due[k]) < (int64_t)k + 1)
			return false;
	return true;
}

static void drop_longest(struct hd_plan *plan, struct hd_plan_owner *owner) {
	uint32_t held = 0, kept = 0;

	if (all_fit(plan, owner))
		return;
	for (uint32_t k = 0; k < owner->due_count; k++) {
		const uint32_t item = owner->by_due[k];
		const int64_t deadline = hd_plan_deadline(plan, item);
		const bool last = k + 1 == owner->due_count
			|| hd_plan_deadline(plan, owner->by_due[k + 1]) != deadline;

		hd_plan_evaluate(plan, item);
		heap_push(plan, held++, item);
		while (last && held > deadline) {
			const uint32_t lost = plan->gather[0];

			heap_pop(plan, --held);
			hd_plan_decide(
				plan, lost, HD_PLAN_DROP_BOUND, plan->gather[0], deadline + 1
			);
		}
	}
	for (uint32_t k = 0; k < owner->due_count; k++)
		if (!plan->states[owner->by_due[k]].gone)
			owner->by_due[kept++] = owner->by_due[k];
	owner->due_count = kept;
}

static int build_due(struct hd_plan *plan, struct hd_plan_owner *owner) {
	if (hd_due_reserve(&owner->due, owner->due_count) < 0)
		return -ENOMEM;
	hd_due_clear(&owner->due);
	if (owner->due_count == 0)
		return 0;
	for (uint32_t k = 0; k < owner->due_count; k++) {
		const uint32_t item = owner->by_due[k];

		plan->states[item].leaf = hd_due_add(&owner->due, hd_plan_deadline(plan, item));
	}
	hd_due_build(&owner->due);
	return 0;
}

/* The pools of all jobs, from the items by rank. */
static int build_pools(struct hd_plan *plan) {
	const struct hd_plan_item *items = plan->in->items;
	uint32_t r = 0;

	for (uint32_t j = 0; j < plan->in->job_count; j++) {
		struct hd_plan_owner *owner = &plan->owners[j];

		for (int direction = HD_PLAN_PUSH; direction <= HD_PLAN_PULL; direction++) {
			struct hd_pool *pool
				= direction == HD_PLAN_PUSH ? &owner->pools[0] : &owner->pulls;
			uint32_t count = 0;

			for (; r < plan->in->item_count && items[plan->order[r]].job == j
			     && items[plan->order[r]].direction == direction;
			     r++)
				if (!plan->states[plan->order[r]].gone)
					plan->gather[count++] = plan->order[r];
			if (hd_pool_build(plan, pool, plan->gather, count, INT64_MAX) < 0)
				return -ENOMEM;
		}
		owner->pool_count = 1;
	}
	return 0;
}

int hd_plan_open_jobs(struct hd_plan *plan) {
	for (uint32_t j = 0; j < plan->in->job_count; j++) {
		struct hd_plan_owner *owner = &plan->owners[j];

		owner->next = 1;
		owner->commit = fmax(plan->in->jobs[j].server_free, 0);
		owner->due_count = owner->due_next = owner->pending = 0;
		owner->pick = HD_PLAN_NONE;
	}
	for (uint32_t i = 0; i < plan->in->item_count; i++) {
		plan->owners[plan->in->items[i].job].pending++;
		plan->tenant_pending[plan->in->jobs[plan->in->items[i].job].tenant]++;
	}
	list_by_due(plan);
	for (uint32_t j = 0; j < plan->in->job_count; j++) {
		drop_longest(plan, &plan->owners[j]);
		if (build_due(plan, &plan->owners[j]) < 0)
			return -ENOMEM;
	}
	return build_pools(plan);
}
