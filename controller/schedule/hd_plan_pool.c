/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_plan_internal.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void hd_pool_fini(struct hd_pool *pool) {
	free(pool->items);
	free(pool->aged);
	free(pool->runs);
	free(pool->groups);
	*pool = (struct hd_pool){0};
}

static int make_room(struct hd_pool *pool, uint32_t count) {
	if (count <= pool->room && pool->runs != NULL)
		return 0;
	uint32_t room = pool->room == 0 ? 16 : pool->room;
	while (room < count)
		room *= 2;
	struct hd_pool fresh = {
		.items = malloc(room * sizeof *fresh.items),
		.aged = malloc(room * sizeof *fresh.aged),
		.runs = malloc(room * sizeof *fresh.runs),
		.groups = malloc(room * sizeof *fresh.groups),
		.room = room,
	};
	if (fresh.items == NULL || fresh.aged == NULL || fresh.runs == NULL
	    || fresh.groups == NULL) {
		hd_pool_fini(&fresh);
		return -ENOMEM;
	}
	struct hd_pool old = *pool;
	*pool = fresh;
	hd_pool_fini(&old);
	return 0;
}

static bool tie_before(const struct hd_plan *plan, uint32_t a, uint32_t b) {
	const struct hd_plan_item *x = &plan->in->items[a], *y = &plan->in->items[b];

	return x->version != y->version ? x->version < y->version : x->id < y->id;
}

static bool
run_before(const struct hd_plan *plan, const struct hd_pool_run *a, const struct hd_pool_run *b) {
	return a->amount != b->amount ? a->amount < b->amount : tie_before(plan, a->item, b->item);
}

static void
look_at_head(const struct hd_plan *plan, const struct hd_pool *pool, struct hd_pool_run *run) {
	const struct hd_plan_item *item;

	run->item = pool->items[run->next];
	item = &plan->in->items[run->item];
	/* Without links every amount finishes at once. */
	run->amount = item->path_count == 0 ? 0 : item->amount;
	run->alone = run->rate > 0 ? run->amount / run->rate : 0;
}

/* Brings the run at `at`, whose first item is gone, to its next one and to its place among the others;
 * a run without items leaves. The next item finishes no earlier: `stale` stays. */
static void
renew(struct hd_plan *plan, struct hd_pool *pool, struct hd_pool_group *group, uint32_t at) {
	struct hd_pool_run run = group->runs[at];

	while (run.next < run.end && plan->states[pool->items[run.next]].gone)
		run.next++;
	if (run.next == run.end) {
		group->run_count--;
		memmove(&group->runs[at], &group->runs[at + 1], (group->run_count - at) * sizeof run
		);
		return;
	}
	look_at_head(plan, pool, &run);
	for (; at + 1 < group->run_count && run_before(plan, &group->runs[at + 1], &run); at++)
		group->runs[at] = group->runs[at + 1];
	group->runs[at] = run;
}

/* Whether all links of the run's path but the group's have all their capacity from `from` on. */
static bool is_clear(
	const struct hd_plan *plan,
	const struct hd_pool_group *group,
	const struct hd_pool_run *run,
	double from
) {
	const struct hd_plan_class *class = &plan->classes[plan->states[run->item].class];

	for (uint8_t k = 0; k < class->count; k++) {
		const struct hd_profile *profile = &plan->profiles[class->links[k]];

		if (class->links[k] != group->link && profile->pieces[profile->count - 1].at > from)
			return false;
	}
	return true;
}

struct least {
	uint32_t item; /* HD_PLAN_NONE: nothing yet */
	uint32_t second;
	double beyond; /* what cannot finish by then cannot be the least */
};

static void consider(struct hd_plan *plan, uint32_t item, struct least *least) {
	hd_plan_evaluate(plan, item);
	if (item == least->item || item == least->second)
		return;
	if (least->item != HD_PLAN_NONE && !hd_plan_before(plan, item, least->item)) {
		if (least->second == HD_PLAN_NONE || hd_plan_before(plan, item, least->second))
			least->second = item;
		return;
	}
	least->second = least->item;
	least->item = item;
	least->beyond = plan->states[item].finish * (1 + 1e-10); /* keys may round up */
}

/*
 * By amount, and of each run the first item only. A run is passed over when
 *   - a run before it has a path that is no slower and clear but for the shared link: on the shared
 *     link they get the same, and the other needs no more;
 *   - it cannot finish in time: not before the link is free and not in less than it would take alone;
 *     nor before a finish that it had when less was promised.
 */
static void
scan(struct hd_plan *plan, struct hd_pool *pool, struct hd_pool_group *group, struct least *least) {
	const double from = group->link == HD_PLAN_NONE ?
		0 :
		hd_profile_first_free(&plan->profiles[group->link]);
	/* With share_min a slower path may start on less: only equals outdo each other. */
	const bool strict = plan->in->share_min > 0;
	double fastest = -1;

	for (uint32_t r = 0; r < group->run_count && (strict || fastest < group->rate);) {
		struct hd_pool_run *run = &group->runs[r];

		if (plan->states[run->item].gone) {
			renew(plan, pool, group, r);
			continue;
		}
		r++;
		if (strict ? run->rate == fastest : run->rate <= fastest)
			continue;
		if (group->rate > 0 && from + run->amount / group->rate > least->beyond)
			return;
		if (from + run->alone <= least->beyond && run->stale <= least->beyond) {
			consider(plan, run->item, least);
			run->stale = plan->states[run->item].finish;
		}
		if (is_clear(plan, group, run, from))
			fastest = run->rate;
	}
}

uint32_t hd_pool_least(struct hd_plan *plan, struct hd_pool *pool) {
	struct least least = {HD_PLAN_NONE, HD_PLAN_NONE, INFINITY};

	for (int h = 0; h < 2; h++)
		if (pool->hints[h] != HD_PLAN_NONE && !plan->states[pool->hints[h]].gone)
			consider(plan, pool->hints[h], &least);
	for (uint32_t g = 0; g < pool->group_count; g++)
		scan(plan, pool, &pool->groups[g], &least);
	pool->hints[0] = least.item;
	pool->hints[1] = least.second;
	return least.item;
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

static uint32_t find_group(struct hd_plan *plan, struct hd_pool *pool, uint32_t link) {
	uint32_t *known = link == HD_PLAN_NONE ? &plan->no_link_group : &plan->link_group[link];

	if (*known == HD_PLAN_NONE) {
		*known = pool->group_count++;
		pool->groups[*known] = (struct hd_pool_group){.link = link};
	}
	return *known;
}

static int compare_run(const void *a, const void *b, void *context) {
	return run_before(context, a, b) ? -1 : 1;
}

static const struct hd_plan_class *
class_of(const struct hd_plan *plan, const struct hd_pool *pool, uint32_t first) {
	return &plan->classes[plan->states[pool->items[first]].class];
}

/* Makes the groups from the runs, which begin at firsts[]: their counts first, then their runs. */
static void
build_groups(struct hd_plan *plan, struct hd_pool *pool, const uint32_t *firsts, uint32_t count) {
	uint32_t used = 0;

	for (uint32_t r = 0; r < count; r++) {
		const struct hd_plan_class *class = class_of(plan, pool, firsts[r]);

		for (uint8_t k = 0; k < class->count; k++)
			plan->link_uses[class->links[k]]++;
	}
	for (uint32_t r = 0; r < count; r++) {
		const uint32_t link = shared_link(plan, class_of(plan, pool, firsts[r]));

		pool->groups[find_group(plan, pool, link)].run_count++;
	}
	for (uint32_t g = 0; g < pool->group_count; g++) {
		pool->groups[g].runs = pool->runs + used;
		used += pool->groups[g].run_count;
		pool->groups[g].run_count = 0;
	}
	for (uint32_t r = 0; r < count; r++) {
		const struct hd_plan_class *class = class_of(plan, pool, firsts[r]);
		const uint32_t link = shared_link(plan, class);
		struct hd_pool_group *group = &pool->groups[find_group(plan, pool, link)];

		assert(group->runs != NULL); /* it was found when they were counted */
		struct hd_pool_run *run = &group->runs[group->run_count++];
		*run = (struct hd_pool_run){
			.next = firsts[r],
			.end = r + 1 < count ? firsts[r + 1] : pool->count,
			.rate = class->rate,
		};
		look_at_head(plan, pool, run);
		group->rate = fmax(group->rate, class->rate);
	}
	for (uint32_t r = 0; r < count; r++) {
		const struct hd_plan_class *class = class_of(plan, pool, firsts[r]);

		for (uint8_t k = 0; k < class->count; k++) {
			plan->link_uses[class->links[k]] = 0;
			plan->link_group[class->links[k]] = HD_PLAN_NONE;
		}
	}
	plan->no_link_group = HD_PLAN_NONE;
	for (uint32_t g = 0; g < pool->group_count; g++)
		qsort_r(pool->groups[g].runs,
			pool->groups[g].run_count,
			sizeof *pool->runs,
			compare_run,
			plan);
}

int hd_pool_build(
	struct hd_plan *plan,
	struct hd_pool *pool,
	const uint32_t *items,
	uint32_t count,
	int64_t limit
) {
	uint32_t run_count = 0;

	if (make_room(pool, count) < 0)
		return -ENOMEM;
	pool->limit = limit;
	pool->count = count;
	pool->aged_count = pool->aged_next = pool->group_count = 0;
	pool->hints[0] = pool->hints[1] = HD_PLAN_NONE;
	if (count == 0)
		return 0;
	memcpy(pool->items, items, count * sizeof *items);
	for (uint32_t i = 0; i < count; i++) {
		const struct hd_plan_state *state = &plan->states[items[i]];

		if (state->aged)
			pool->aged[pool->aged_count++] = items[i];
		if (i == 0 || state->class != plan->states[items[i - 1]].class)
			plan->scratch[run_count++] = i;
	}
	if (pool->aged_count > 1)
		qsort_r(pool->aged, pool->aged_count, sizeof *pool->aged, compare_aged, plan);
	build_groups(plan, pool, plan->scratch, run_count);
	return 0;
}
