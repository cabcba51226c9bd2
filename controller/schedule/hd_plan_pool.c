/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_plan_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void hd_pool_fini(struct hd_pool *pool) {
	free(pool->items);
	free(pool->aged);
	free(pool->runs);
	free(pool->groups);
	free(pool->heaps);
	*pool = (struct hd_pool){0};
}

static int make_room(struct hd_pool *pool, uint32_t count) {
	if (count <= pool->room)
		return 0;
	uint32_t room = pool->room == 0 ? 16 : pool->room;
	while (room < count)
		room *= 2;
	struct hd_pool fresh = {
		.items = malloc(room * sizeof *fresh.items),
		.aged = malloc(room * sizeof *fresh.aged),
		.runs = malloc(room * sizeof *fresh.runs),
		.groups = malloc(room * sizeof *fresh.groups),
		.heaps = malloc(2 * (size_t)room * sizeof *fresh.heaps),
		.room = room,
	};
	if (fresh.items == NULL || fresh.aged == NULL || fresh.runs == NULL || fresh.groups == NULL
	    || fresh.heaps == NULL) {
		hd_pool_fini(&fresh);
		return -ENOMEM;
	}
	hd_pool_fini(pool);
	*pool = fresh;
	return 0;
}

static uint32_t head_of(const struct hd_pool *pool, uint32_t run) {
	return pool->items[pool->runs[run].next];
}

static bool tie_before(const struct hd_plan *plan, uint32_t a, uint32_t b) {
	const struct hd_plan_item *x = &plan->in->items[a], *y = &plan->in->items[b];

	return x->version != y->version ? x->version < y->version : x->id < y->id;
}

struct heap {
	const struct hd_plan *plan;
	const struct hd_pool *pool;
	struct hd_pool_place *places;
	uint32_t *count;
};

/* Order of both heaps of a group: by key, then version and id. */
static bool place_before(
	const struct heap *heap,
	const struct hd_pool_place *a,
	const struct hd_pool_place *b
) {
	if (a->key != b->key)
		return a->key < b->key;
	return tie_before(heap->plan, head_of(heap->pool, a->run), head_of(heap->pool, b->run));
}

static struct heap
heap_of(const struct hd_plan *plan,
	const struct hd_pool *pool,
	struct hd_pool_group *group,
	bool ready) {
	return (struct heap){
		.plan = plan,
		.pool = pool,
		.places = ready ? group->ready : group->waiting,
		.count = ready ? &group->ready_count : &group->waiting_count,
	};
}

static void sift_down(const struct heap *heap, uint32_t at) {
	const struct hd_pool_place moved = heap->places[at];
	const uint32_t count = *heap->count;

	for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
		if (child + 1 < count
		    && place_before(heap, &heap->places[child + 1], &heap->places[child]))
			child++;
		if (!place_before(heap, &heap->places[child], &moved))
			break;
		heap->places[at] = heap->places[child];
		at = child;
	}
	heap->places[at] = moved;
}

static void push(const struct heap *heap, struct hd_pool_place place) {
	uint32_t at = (*heap->count)++;

	while (at > 0) {
		const uint32_t parent = (at - 1) / 2;

		if (!place_before(heap, &place, &heap->places[parent]))
			break;
		heap->places[at] = heap->places[parent];
		at = parent;
	}
	heap->places[at] = place;
}

static void pop(const struct heap *heap) {
	heap->places[0] = heap->places[--*heap->count];
	if (*heap->count > 1)
		sift_down(heap, 0);
}

static void look_at_head(const struct hd_plan *plan, struct hd_pool *pool, uint32_t run) {
	struct hd_pool_run *r = &pool->runs[run];
	const uint32_t item = pool->items[r->next];
	const double rate = plan->classes[plan->states[item].class].rate;

	r->alone = rate > 0 ? plan->in->items[item].amount / rate : 0;
}

/* The heap's top run has a pending head, or the heap is empty. The next item of a run finishes no
 * earlier than the one before it: a waiting run keeps its bound. */
static void settle(const struct heap *heap, struct hd_pool *pool, bool ready) {
	while (*heap->count > 0) {
		struct hd_pool_place *top = &heap->places[0];
		struct hd_pool_run *r = &pool->runs[top->run];

		if (!heap->plan->states[pool->items[r->next]].gone)
			return;
		while (r->next < r->end && heap->plan->states[pool->items[r->next]].gone)
			r->next++;
		if (r->next == r->end) {
			pop(heap);
			continue;
		}
		look_at_head(heap->plan, pool, top->run);
		if (ready)
			top->key = hd_plan_key(r->alone);
		sift_down(heap, 0);
	}
}

static double first_free(const struct hd_plan *plan, const struct hd_pool_group *group) {
	return group->link == HD_PLAN_NONE ? 0 :
					     hd_profile_first_free(&plan->profiles[group->link]);
}

/* Waiting runs whose bound the link's first free moment has overtaken become ready. */
static void overtake(struct hd_plan *plan, struct hd_pool *pool, struct hd_pool_group *group) {
	const struct heap waiting = heap_of(plan, pool, group, false);
	const struct heap ready = heap_of(plan, pool, group, true);
	const double free = first_free(plan, group);

	for (settle(&waiting, pool, false); *waiting.count > 0; settle(&waiting, pool, false)) {
		const uint32_t run = waiting.places[0].run;
		const double alone = pool->runs[run].alone;

		if (waiting.places[0].key > hd_plan_key(free + alone))
			break;
		pop(&waiting);
		push(&ready, (struct hd_pool_place){hd_plan_key(alone), run});
	}
	settle(&ready, pool, true);
}

struct candidate {
	struct hd_pool_group *group;
	uint32_t item;
	bool ready;
	double bound;
};

static void consider(
	const struct hd_plan *plan,
	const struct hd_pool *pool,
	struct hd_pool_group *group,
	bool ready,
	struct candidate *best
) {
	const uint32_t count = ready ? group->ready_count : group->waiting_count;

	if (count == 0)
		return;
	const struct hd_pool_place top = ready ? group->ready[0] : group->waiting[0];
	const struct candidate it = {
		.group = group,
		.item = head_of(pool, top.run),
		.ready = ready,
		.bound = ready ? hd_plan_key(first_free(plan, group) + pool->runs[top.run].alone) :
				 top.key,
	};
	if (best->item == HD_PLAN_NONE || it.bound < best->bound
	    || (it.bound == best->bound && tie_before(plan, it.item, best->item)))
		*best = it;
}

/* The least bound of all; when the item's true finish is not above it, it is the least finish. Else
 * the run waits with the better bound, and the next is asked. */
uint32_t hd_pool_least(struct hd_plan *plan, struct hd_pool *pool) {
	for (;;) {
		struct candidate best = {.item = HD_PLAN_NONE};

		for (uint32_t g = 0; g < pool->group_count; g++) {
			overtake(plan, pool, &pool->groups[g]);
			consider(plan, pool, &pool->groups[g], true, &best);
			consider(plan, pool, &pool->groups[g], false, &best);
		}
		if (best.item == HD_PLAN_NONE)
			return HD_PLAN_NONE;
		hd_plan_evaluate(plan, best.item);
		if (plan->states[best.item].key <= best.bound)
			return best.item;
		const struct heap waiting = heap_of(plan, pool, best.group, false);
		const double key = plan->states[best.item].key;
		if (best.ready) {
			const struct heap ready = heap_of(plan, pool, best.group, true);
			const uint32_t run = ready.places[0].run;

			pop(&ready);
			push(&waiting, (struct hd_pool_place){key, run});
		} else {
			waiting.places[0].key = key;
			sift_down(&waiting, 0);
		}
	}
}

uint32_t hd_pool_first(struct hd_plan *plan, struct hd_pool *pool) {
	while (pool->aged_next < pool->aged_count && plan->states[pool->aged[pool->aged_next]].gone)
		pool->aged_next++;
	if (pool->aged_next == pool->aged_count)
		return hd_pool_least(plan, pool);
	hd_plan_evaluate(plan, pool->aged[pool->aged_next]);
	return pool->aged[pool->aged_next];
}

static int compare_aged(const void *a, const void *b, void *context) {
	const struct hd_plan *plan = context;
	const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

	return hd_plan_goes_before(plan, i, j) ? -1 : 1;
}

/* Each run's group is that of the link on its path that most runs use: the shared one. */
static uint32_t shared_link(const struct hd_plan *plan, const struct hd_plan_class *class) {
	uint32_t best = HD_PLAN_NONE;

	for (uint8_t k = 0; k < class->count; k++)
		if (best == HD_PLAN_NONE
		    || plan->link_uses[class->links[k]] > plan->link_uses[best])
			best = class->links[k];
	return best;
}

static const struct hd_plan_class *
class_of(const struct hd_plan *plan, const struct hd_pool *pool, uint32_t run) {
	return &plan->classes[plan->states[head_of(pool, run)].class];
}

static uint32_t find_group(struct hd_plan *plan, struct hd_pool *pool, uint32_t link) {
	uint32_t *known = link == HD_PLAN_NONE ? NULL : &plan->link_group[link];

	if (known != NULL && *known != HD_PLAN_NONE)
		return *known;
	pool->groups[pool->group_count] = (struct hd_pool_group){.link = link};
	if (known != NULL)
		*known = pool->group_count;
	return pool->group_count++;
}

/* Makes the groups and their heaps; ready_count counts first, then fills. */
static void build_groups(struct hd_plan *plan, struct hd_pool *pool) {
	uint32_t *group_of = plan->scratch, used = 0;

	for (uint32_t r = 0; r < pool->run_count; r++) {
		const struct hd_plan_class *class = class_of(plan, pool, r);

		for (uint8_t k = 0; k < class->count; k++)
			plan->link_uses[class->links[k]]++;
	}
	for (uint32_t r = 0; r < pool->run_count; r++) {
		group_of[r] = find_group(plan, pool, shared_link(plan, class_of(plan, pool, r)));
		pool->groups[group_of[r]].ready_count++;
	}
	for (uint32_t g = 0; g < pool->group_count; g++) {
		struct hd_pool_group *group = &pool->groups[g];

		group->ready = pool->heaps + used;
		group->waiting = group->ready + group->ready_count;
		used += 2 * group->ready_count;
		group->ready_count = 0;
		if (group->link != HD_PLAN_NONE)
			plan->link_group[group->link] = HD_PLAN_NONE;
	}
	for (uint32_t r = 0; r < pool->run_count; r++) {
		const struct hd_plan_class *class = class_of(plan, pool, r);
		const struct heap ready = heap_of(plan, pool, &pool->groups[group_of[r]], true);

		look_at_head(plan, pool, r);
		push(&ready, (struct hd_pool_place){hd_plan_key(pool->runs[r].alone), r});
		for (uint8_t k = 0; k < class->count; k++)
			plan->link_uses[class->links[k]] = 0;
	}
}

int hd_pool_build(
	struct hd_plan *plan,
	struct hd_pool *pool,
	const uint32_t *items,
	uint32_t count,
	int64_t limit
) {
	if (make_room(pool, count) < 0)
		return -ENOMEM;
	pool->limit = limit;
	pool->count = count;
	pool->aged_count = pool->aged_next = pool->run_count = pool->group_count = 0;
	if (count == 0)
		return 0;
	memcpy(pool->items, items, count * sizeof *items);
	for (uint32_t i = 0; i < count; i++) {
		const struct hd_plan_state *state = &plan->states[items[i]];

		if (state->aged)
			pool->aged[pool->aged_count++] = items[i];
		if (i == 0 || state->class != plan->states[items[i - 1]].class)
			pool->runs[pool->run_count++] = (struct hd_pool_run){.next = i};
		pool->runs[pool->run_count - 1].end = i + 1;
	}
	if (pool->aged_count > 1)
		qsort_r(pool->aged, pool->aged_count, sizeof *pool->aged, compare_aged, plan);
	build_groups(plan, pool);
	return 0;
}
