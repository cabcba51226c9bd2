/* SPDX-License-Identifier: BSD-3-Clause */
/* Grouping's links: reserved as in the planner, with undo after a try. */
#include "hd_plan_group_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool resize(void **array, size_t count, size_t item_bytes) {
	void *larger = realloc(*array, count * item_bytes);

	if (!larger)
		return false;
	*array = larger;
	return true;
}

#define RESIZE(array, count) resize((void **)&(array), (count), sizeof *(array))

static int make_entry_room(struct hd_plan_grouper *g, uint32_t count) {
	uint32_t room = g->entry_room == 0 ? 64 : g->entry_room;

	if (count <= g->entry_room)
		return 0;
	while (room < count)
		room *= 2;
	if (!RESIZE(g->entries, room) || !RESIZE(g->list, room) || !RESIZE(g->picked, room)
	    || !RESIZE(g->drawn, room) || !RESIZE(g->choices, room) || !RESIZE(g->best, room)
	    || !RESIZE(g->group_of, room) || !RESIZE(g->group_at, room) || !RESIZE(g->members, room)
	    || !RESIZE(g->member_paths, room) || !RESIZE(g->groups, room))
		return -ENOMEM;
	g->entry_room = room;
	return 0;
}

static int make_link_room(struct hd_plan_grouper *g, uint32_t count) {
	if (count <= g->profile_room)
		return 0;
	if (!RESIZE(g->profiles, count))
		return -ENOMEM;
	memset(g->profiles + g->profile_room, 0, (count - g->profile_room) * sizeof *g->profiles);
	g->profile_room = count;
	return 0;
}

int hd_group_setup(struct hd_plan_grouper *g) {
	const struct hd_plan_input *plan = g->in->plan;
	int rc = make_entry_room(g, g->in->entry_count + 1);

	if (rc == 0)
		rc = make_link_room(g, plan->link_count);
	for (uint32_t l = 0; rc == 0 && l < plan->link_count; l++)
		rc = hd_profile_reset(&g->profiles[l], plan->capacity[l]);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < plan->item_count; i++)
		for (uint8_t k = 0; k < plan->items[i].path_count; k++) {
			const uint32_t link = plan->items[i].path[k];

			g->profiles[link].load += plan->items[i].amount / plan->capacity[link];
		}
	g->log_count = 0;
	g->piece_count = 0;
	return hd_plan_load_busy(plan, g->profiles);
}

/* --- undo --- */

struct hd_group_mark hd_group_mark(const struct hd_plan_grouper *g) {
	return (struct hd_group_mark){g->log_count, g->piece_count};
}

void hd_group_undo(struct hd_plan_grouper *g, struct hd_group_mark mark) {
	while (g->log_count > mark.log) {
		const struct hd_group_saved *saved = &g->log[--g->log_count];
		struct hd_profile *profile = &g->profiles[saved->link];

		memcpy(profile->pieces,
		       &g->pieces[saved->pieces],
		       (saved->count + 1) * sizeof *profile->pieces);
		profile->count = saved->count;
		profile->changes = saved->changes;
	}
	g->piece_count = mark.pieces;
}

static int save(struct hd_plan_grouper *g, uint32_t link) {
	const struct hd_profile *profile = &g->profiles[link];
	const size_t need = g->piece_count + profile->count + 1;

	if (g->log_count == g->log_room) {
		const uint32_t room = g->log_room == 0 ? 256 : 2 * g->log_room;

		if (!RESIZE(g->log, room))
			return -ENOMEM;
		g->log_room = room;
	}
	if (need > g->piece_room) {
		if (!RESIZE(g->pieces, 2 * need))
			return -ENOMEM;
		g->piece_room = 2 * need;
	}
	g->log[g->log_count++]
		= (struct hd_group_saved){link, profile->count, profile->changes, g->piece_count};
	memcpy(&g->pieces[g->piece_count],
	       profile->pieces,
	       (profile->count + 1) * sizeof *profile->pieces);
	g->piece_count = need;
	return 0;
}

/* --- transfers --- */

/* The highest rate of a single transfer on these links. */
static double best_rate(const struct hd_plan_grouper *g, const uint32_t *links, uint8_t count) {
	const double *flow = g->in->flow ? g->in->flow : g->in->plan->capacity;
	double rate = INFINITY;

	for (uint8_t k = 0; k < count; k++)
		rate = fmin(rate, flow[links[k]]);
	return rate;
}

double hd_group_rate(const struct hd_plan_grouper *g, const struct hd_plan_path *path) {
	return best_rate(g, path->links, path->count);
}

static struct hd_profile_path
path_of(const struct hd_plan_grouper *g, const struct hd_group_transfer *t) {
	const double best = best_rate(g, t->links, t->count);
	const double rate = t->most > 0 ? fmin(best, t->most) : best;

	return (struct hd_profile_path){
		.profiles = g->profiles,
		.links = t->links,
		.count = t->count,
		.least = t->count == 0 ? 0 : g->in->plan->share_min * rate,
		.most = t->count == 0 || (!g->in->flow && t->most <= 0) ? 0 : rate,
		.from = t->from,
	};
}

double hd_group_finish(struct hd_plan_grouper *g, const struct hd_group_transfer *t) {
	struct hd_profile_path path = path_of(g, t);

	g->work++;
	return t->count == 0 ? t->from : hd_profile_finish(&path, t->amount);
}

double hd_group_start(struct hd_plan_grouper *g, const struct hd_group_transfer *t) {
	struct hd_profile_path path = path_of(g, t);

	hd_profile_start(&path);
	return path.from;
}

void hd_group_place(
	struct hd_plan_grouper *g,
	const struct hd_group_transfer *t,
	bool explain,
	struct hd_plan_entry *entry
) {
	const struct hd_profile_path path = path_of(g, t);

	g->work++;
	entry->start = entry->finish = t->from;
	entry->segment_count = hd_profile_segments(&path, t->amount, entry->segment);
	if (entry->segment_count > 0) {
		entry->start = entry->segment[0].start;
		entry->finish = entry->segment[entry->segment_count - 1].end;
	}
	if (explain) {
		entry->bottleneck = entry->after = HD_PLAN_NONE;
		entry->after_token = 0;
		hd_plan_find_bottleneck(&path, g->in->plan->busy, entry);
	}
	for (uint8_t k = 0; k < path.count; k++) {
		if (g->keep_log && g->status == 0)
			g->status = save(g, path.links[k]);
		for (uint8_t s = 0; g->status == 0 && s < entry->segment_count; s++)
			g->status = hd_profile_take(
				&g->profiles[path.links[k]],
				&entry->segment[s],
				s + 1 == entry->segment_count ? t->by : HD_PLAN_NONE
			);
	}
}

/*
 *   amount |            /    the output: one line at the trunk's best rate, as late as necessary
 *          |       ____/     to stay below the input; with a lower rate it stays below as well
 *          |  ____/  /
 *          |_/_____/____ time
 */
double hd_group_ready(
	const struct hd_plan_grouper *g,
	const struct hd_plan_entry *arrival,
	const struct hd_plan_path *trunk,
	struct hd_group_flow flow
) {
	const double rate = best_rate(g, trunk->links, trunk->count);
	double ready = 0, arrived = 0;

	if (!g->in->streaming || trunk->count == 0)
		return arrival->finish;
	for (uint8_t s = 0; s < arrival->segment_count; s++) {
		const struct hd_plan_segment *segment = &arrival->segment[s];
		const double came = segment->rate * (segment->end - segment->start);

		ready = fmax(ready, segment->start - arrived / rate);
		arrived = fmin(arrived + came / flow.in * flow.out, flow.out);
		ready = fmax(ready, segment->end - arrived / rate);
	}
	return ready;
}

/* A group whose transfers go at the same time begins when all its links are free, at the rate of the slowest of
 * them. */
static void set_pace(
	struct hd_plan_grouper *g,
	const struct hd_group_try *try,
	struct hd_group_transfer *trunk
) {
	struct hd_group_transfer t = *trunk;

	trunk->most = hd_group_rate(g, try->trunk);
	trunk->from = hd_group_start(g, &t);
	for (uint32_t m = 0; m < try->count; m++) {
		t.links = try->paths[m].links;
		t.count = try->paths[m].count;
		trunk->from = fmax(trunk->from, hd_group_start(g, &t));
		trunk->most = fmin(trunk->most, hd_group_rate(g, &try->paths[m]));
	}
}

double hd_group_place_all(
	struct hd_plan_grouper *g,
	struct hd_group_try *try,
	uint8_t direction,
	double since
) {
	const double amount = hd_group_size_sum(
		hd_group_size_of(g, try->entries, try->count), hd_group_item(g, try->entries[0])
	);
	struct hd_group_transfer trunk
		= {try->trunk->links, try->trunk->count, try->label, amount, 0, 0};
	double from, last = since;

	if (try->at_once)
		set_pace(g, try, &trunk);
	from = trunk.from;
	try->amount = amount;
	try->collected = 0;
	if (direction == HD_PLAN_PULL) {
		hd_group_place(g, &trunk, try->explain, &try->sum);
		try->collected = try->sum.finish;
	}
	for (uint32_t m = 0; m < try->count; m++) {
		const struct hd_plan_path *path = &try->paths[m];
		struct hd_plan_entry *entry = &g->entries[try->entries[m]];
		const double own = hd_group_item(g, try->entries[m])->amount;
		const struct hd_group_flow flow = {own, amount};
		struct hd_group_transfer t
			= {path->links, path->count, try->entries[m], own, trunk.from, trunk.most};

		if (direction == HD_PLAN_PULL)
			t.from = hd_group_ready(g, &try->sum, path, flow);
		hd_group_place(g, &t, try->explain, entry);
		entry->commit = entry->finish;
		last = fmax(last, entry->finish);
		if (!try->at_once)
			from = fmax(from, hd_group_ready(g, entry, try->trunk, flow));
		if (direction == HD_PLAN_PUSH)
			try->collected = fmax(try->collected, entry->finish);
	}
	if (direction == HD_PLAN_PULL)
		return last;
	trunk.from = from;
	hd_group_place(g, &trunk, try->explain, &try->sum);
	try->sum.commit = fmax(try->sum.finish, try->at_once ? last : since);
	for (uint32_t m = 0; m < try->count; m++)
		g->entries[try->entries[m]].commit = try->sum.commit;
	return try->sum.commit;
}
