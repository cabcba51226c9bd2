/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_plan_internal.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_PROFILE 12

void hd_pool_fini(struct hd_pool *pool) {
	free(pool->items);
	free(pool->aged);
	free(pool->runs);
	free(pool->groups);
	*pool = (struct hd_pool){0};
}

static int make_room(struct hd_pool *pool, uint32_t count) {
	if (count <= pool->room && pool->runs)
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
	if (!fresh.items || !fresh.aged || !fresh.runs || !fresh.groups) {
		hd_pool_fini(&fresh);
		return -ENOMEM;
	}
	struct hd_pool old = *pool;
	*pool = fresh;
	hd_pool_fini(&old);
	return 0;
}

static bool
run_before(const struct hd_plan *plan, const struct hd_pool_run *a, const struct hd_pool_run *b) {
	return a->amount != b->amount ?
		a->amount < b->amount :
		hd_plan_tie(&plan->in->items[a->item], &plan->in->items[b->item]);
}

static void
look_at_head(const struct hd_plan *plan, const struct hd_pool *pool, struct hd_pool_run *run) {
	const struct hd_plan_item *item;

	run->item = pool->items[run->next];
	item = &plan->in->items[run->item];
	/* Without links every amount finishes at once. */
	run->amount = item->path_count == 0 ? 0 : item->amount;
	run->alone = run->rate > 0 ? run->amount / run->rate : 0;
	run->stale = fmax(run->stale, plan->states[run->item].finish);
}

/* Moves the run at `at`, whose first item is gone, to its next one and to its place among the others; a run without
 * items is removed. The next item finishes no earlier: `stale` is still valid. */
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
	run.quick = group->rate > 0 ? run.amount / group->rate : 0;
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
	uint32_t item; /* HD_PLAN_NONE: none yet */
	uint32_t second;
	double beyond; /* an item that cannot finish by then cannot be the earliest */
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
	least->beyond = hd_plan_beyond(plan->states[item].finish);
}

/* Values of the group's link for a scan. */
struct shared {
	double from; /* first time with a residual */
	double floor; /* least residual from then on */
};

static struct shared look_at_link(const struct hd_plan *plan, const struct hd_pool_group *group) {
	if (group->link == HD_PLAN_NONE)
		return (struct shared){0, INFINITY};
	const struct hd_profile *profile = &plan->profiles[group->link];
	const struct hd_profile_piece *piece = &profile->pieces[profile->pieces[0].free <= 0];
	return (struct shared){hd_profile_first_free(profile), piece->floor};
}

/* Whether runs after this one that are no faster finish no earlier: its path is clear but for the shared link; there
 * they get the same rate, and it has no larger amount. With share_min a slower one may start at a lower rate, so the
 * residual of the shared link must be enough for this one, too. */
static bool
outdoes(const struct hd_plan *plan,
	const struct hd_pool_group *group,
	const struct hd_pool_run *run,
	const struct shared *shared) {
	const struct hd_plan_class *class = &plan->classes[plan->states[run->item].class];

	return (class->least <= 0 || class->least <= shared->floor)
		&& is_clear(plan, group, run, shared->from);
}

/* The amount that the link can carry until `until` at no more than `rate`, where it has at least `least` left. */
static double
link_carries(const struct hd_profile *profile, double rate, double least, double until) {
	double sum = 0;

	for (const struct hd_profile_piece *piece = profile->pieces; piece->at < until; piece++) {
		const double end = piece[1].at < until ? piece[1].at : until;
		const double used = piece->free < rate ? piece->free : rate;

		sum += piece->free < least ? 0 : used * (end - piece->at);
	}
	return sum * (1 + 1e-9); /* an upper bound in spite of rounding */
}

/* The profile of the group's link when reading all of it costs less than walks do, else NULL. */
static const struct hd_profile *
short_profile(const struct hd_plan *plan, const struct hd_pool_group *group) {
	if (group->link == HD_PLAN_NONE || plan->profiles[group->link].count > SHORT_PROFILE)
		return NULL;
	return &plan->profiles[group->link];
}

/* The largest amount that a run of the group may finish until `until`. */
static double
group_carries(const struct hd_plan *plan, const struct hd_pool_group *group, double until) {
	const struct hd_profile *profile = short_profile(plan, group);

	return !profile || until == INFINITY ? INFINITY :
					       link_carries(profile, group->rate, 0, until);
}

/* Whether the run finishes after `until` even with all links but the shared one to itself. */
static bool run_late(
	const struct hd_plan *plan,
	const struct hd_pool_group *group,
	const struct hd_pool_run *run,
	double until
) {
	const struct hd_profile *profile = short_profile(plan, group);
	const double least = plan->in->share_min * run->rate * (1 - 1e-9);

	return profile && until < INFINITY
		&& link_carries(profile, run->rate, least, until) < run->amount;
}

/*
 * By amount, and of each run the first item only. A run is skipped when
 *   - another before it outdoes it;
 *   - it cannot finish in time: not before the link is free and not in less time than alone; nor before a finish that
 *     it had with fewer reservations; nor faster than the shared link allows.
 */
static void
scan(struct hd_plan *plan, struct hd_pool *pool, struct hd_pool_group *group, struct least *least) {
	const struct shared shared = look_at_link(plan, group);
	double fastest = -1, most = group_carries(plan, group, least->beyond);

	for (uint32_t r = 0; r < group->run_count && fastest < group->rate;) {
		struct hd_pool_run *run = &group->runs[r];

		if (shared.from + run->quick > least->beyond || run->amount > most)
			return;
		if (run->stale > least->beyond || shared.from + run->alone > least->beyond
		    || run->rate <= fastest) {
			r++;
			continue;
		}
		if (plan->states[run->item].gone) {
			renew(plan, pool, group, r);
			continue;
		}
		if (run_late(plan, group, run, least->beyond)) {
			r++;
			continue;
		}
		const double before = least->beyond;
		consider(plan, run->item, least);
		if (least->beyond < before)
			most = group_carries(plan, group, least->beyond);
		run->stale = plan->states[run->item].finish;
		if (outdoes(plan, group, run, &shared))
			fastest = run->rate;
		r++;
	}
}

static bool settled(const struct hd_plan *plan, const struct hd_pool_group *group) {
	const uint32_t item = group->least;

	return item != HD_PLAN_NONE && !plan->states[item].gone
		&& group->stamp == hd_plan_stamp(plan, item);
}

static void search(struct hd_plan *plan, struct hd_pool *pool, struct hd_pool_group *group) {
	struct least least = {HD_PLAN_NONE, HD_PLAN_NONE, INFINITY};

	if (group->least != HD_PLAN_NONE && !plan->states[group->least].gone)
		consider(plan, group->least, &least);
	if (group->second != HD_PLAN_NONE && !plan->states[group->second].gone)
		consider(plan, group->second, &least);
	scan(plan, pool, group, &least);
	group->least = least.item;
	group->second = least.second;
	group->bound = INFINITY;
	if (least.item == HD_PLAN_NONE)
		return;
	group->bound = plan->states[least.item].finish;
	group->stamp = plan->states[least.item].stamp;
}

uint32_t hd_pool_least(struct hd_plan *plan, struct hd_pool *pool, double last) {
	const uint32_t hint = pool->hint;
	uint32_t best = HD_PLAN_NONE;

	for (uint32_t g = 0; g < pool->group_count; g++) {
		/* The group of the last search first, exchanged with group 0. */
		const uint32_t at = g == 0 ? hint : g == hint ? 0 : g;
		struct hd_pool_group *group = &pool->groups[at];

		if (group->bound > last)
			continue;
		if (!settled(plan, group))
			search(plan, pool, group);
		if (group->least == HD_PLAN_NONE || group->bound > last
		    || (best != HD_PLAN_NONE && !hd_plan_before(plan, group->least, best)))
			continue;
		best = group->least;
		last = hd_plan_beyond(group->bound);
		pool->hint = at;
	}
	return best;
}

uint32_t hd_pool_first(struct hd_plan *plan, struct hd_pool *pool, double last) {
	while (pool->aged_next < pool->aged_count && plan->states[pool->aged[pool->aged_next]].gone)
		pool->aged_next++;
	if (pool->aged_next == pool->aged_count)
		return hd_pool_least(plan, pool, last);
	hd_plan_evaluate(plan, pool->aged[pool->aged_next]);
	return pool->aged[pool->aged_next];
}

static int compare_aged(const void *a, const void *b, void *context) {
	const struct hd_plan *plan = context;
	const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

	return hd_plan_goes_before(plan, i, j) ? -1 : 1;
}

/* The group of a run is the link on its path that most runs use: the shared one. */
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
		pool->groups[*known] = (struct hd_pool_group
		){.link = link, .least = HD_PLAN_NONE, .second = HD_PLAN_NONE};
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

		assert(group->runs != NULL); /* the first loop counted this group */
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
	for (uint32_t g = 0; g < pool->group_count; g++) {
		struct hd_pool_group *group = &pool->groups[g];

		for (uint32_t r = 0; r < group->run_count; r++)
			group->runs[r].quick
				= group->rate > 0 ? group->runs[r].amount / group->rate : 0;
		qsort_r(group->runs, group->run_count, sizeof *group->runs, compare_run, plan);
	}
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
	pool->hint = 0;
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
