/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes: tries each number of direct pushes before the first group; from there on each next group takes the pushes
 * that its aggregator can receive until the server's link becomes free, and the others go directly.
 */
#include "hd_plan_group_internal.h"

#include <math.h>
#include <string.h>

/* The grouping that spares the server's link may end this much later than one without groups. */
#define SPARE_LATER 1.1

/* The longest possible group at one aggregator. */
struct offer {
	uint32_t aggregator, count;
	double free_at; /* the server's link, for their sum */
	double collected, limit;
};

static struct hd_group_transfer trunk_of(const struct hd_plan_path *trunk, double amount) {
	return (struct hd_group_transfer){trunk->links, trunk->count, HD_PLAN_NONE, amount, 0, 0};
}

static bool same_kind(const struct hd_plan_grouper *g, uint32_t a, uint32_t b) {
	const struct hd_plan_item *x = hd_group_item(g, a), *y = hd_group_item(g, b);

	if (x->kind != y->kind)
		return false;
	return (x->room > 0 && y->room > 0)
		|| (!(x->amount < y->amount) && !(x->amount > y->amount));
}

/* Whether an aggregator, and a model, has room for this amount. */
static bool has_room(
	const struct hd_plan_grouper *g,
	const struct hd_plan_item *leader,
	struct hd_group_size size,
	uint32_t aggregator
) {
	return (leader->room <= 0 || size.all <= leader->room)
		&& hd_group_size_kept(size, leader) <= g->memory[aggregator];
}

/* Whether this member would make all others of a simultaneous sum much slower. */
static bool
is_slow(const struct hd_plan_grouper *g,
	uint32_t aggregator,
	const struct hd_plan_path *trunk,
	const struct hd_plan_path *path) {
	return hd_group_at_once(g, aggregator)
		&& hd_group_rate(g, path) < g->in->plan->share_min * hd_group_rate(g, trunk);
}

/* Reserves a member's transfer. Returns when a sum with it may start; INFINITY: it would be delayed too long. */
static double ready_with(
	struct hd_plan_grouper *g,
	const struct offer *offer,
	const struct hd_plan_path *trunk,
	struct hd_group_transfer t,
	struct hd_group_flow flow
) {
	struct hd_plan_entry entry;

	if (hd_group_at_once(g, offer->aggregator)) {
		t.from = offer->free_at;
		t.most = hd_group_rate(g, trunk);
		hd_group_place(g, &t, false, &entry);
		return entry.start;
	}
	if (!g->in->streaming && hd_group_finish(g, &t) > hd_plan_beyond(offer->limit))
		return INFINITY;
	hd_group_place(g, &t, false, &entry);
	return hd_group_ready(g, &entry, trunk, flow);
}

/* Members from `first` on that can arrive until `offer->limit`. Undoes all reservations. */
static void
collect(struct hd_plan_grouper *g,
	const struct hd_group_list *list,
	uint32_t first,
	struct offer *offer) {
	const struct hd_plan_path *trunk = hd_group_trunk(g, list, offer->aggregator);
	const struct hd_group_mark mark = hd_group_mark(g);
	const double limit = hd_plan_beyond(offer->limit);
	const struct hd_plan_item *leader = hd_group_item(g, list->entries[first]);
	struct hd_group_size size = {0, 0};

	offer->count = 0;
	offer->collected = 0;
	for (uint32_t i = first; i < list->count && offer->count < HD_GROUP_MEMBERS_MAX; i++) {
		const struct hd_plan_path *path = hd_group_path(g, list, i, offer->aggregator);
		const struct hd_plan_item *item = hd_group_item(g, list->entries[i]);

		if (!path || !hd_group_may_work(g)
		    || !same_kind(g, list->entries[first], list->entries[i]))
			break;
		hd_group_size_add(&size, item);
		if (!has_room(g, leader, size, offer->aggregator))
			break;
		const struct hd_group_transfer t
			= {path->links, path->count, list->entries[i], item->amount, 0, 0};
		/* The more members a sum has, the sooner it may start: this is a lower bound. */
		const struct hd_group_flow flow = {item->amount, hd_group_size_sum(size, leader)};
		const double ready = ready_with(g, offer, trunk, t, flow);
		if (ready > limit || is_slow(g, offer->aggregator, trunk, path))
			break;
		offer->collected = fmax(offer->collected, ready);
		offer->count++;
	}
	hd_group_undo(g, mark);
}

/* The longest group that may begin with the member at `first`; of equal ones the one that is collected first. */
static struct offer
best_offer(struct hd_plan_grouper *g, const struct hd_group_list *list, uint32_t first) {
	const double amount = hd_group_item(g, list->entries[first])->amount;
	struct offer best = {.aggregator = HD_PLAN_NONE, .count = 1};

	for (uint32_t a = 0; a < g->in->aggregator_count && hd_group_may_work(g); a++) {
		const struct hd_plan_path *trunk = hd_group_trunk(g, list, a);
		struct offer offer = {.aggregator = a};

		if (!trunk || g->memory[a] < amount)
			continue;
		struct hd_group_transfer sum = trunk_of(trunk, amount);
		sum.from = g->commit[list->job];
		offer.free_at = hd_group_start(g, &sum);
		offer.limit = g->in->spare ? INFINITY : offer.free_at;
		collect(g, list, first, &offer);
		if (g->in->spare)
			offer.limit = fmax(offer.free_at, offer.collected);
		if (offer.count > best.count
		    || (offer.count == best.count && best.aggregator != HD_PLAN_NONE
			&& hd_plan_key(offer.collected) < hd_plan_key(best.collected)))
			best = offer;
	}
	return best;
}

/* The finish of the same members without a group. */
static double
all_direct(struct hd_plan_grouper *g, const struct hd_group_list *list, struct hd_group_choice of) {
	const struct hd_group_mark mark = hd_group_mark(g);
	double last = g->commit[list->job];

	for (uint32_t i = of.first; i < of.first + of.count; i++) {
		const struct hd_group_transfer t = hd_group_direct(g, list->entries[i]);
		struct hd_plan_entry entry;

		hd_group_place(g, &t, false, &entry);
		last = fmax(last, entry.finish);
	}
	hd_group_undo(g, mark);
	return last;
}

/* Places a group that begins at `first`, if one gains time. Returns the number of its members, 0: none. */
static uint32_t
take_group(struct hd_plan_grouper *g, const struct hd_group_list *list, uint32_t first) {
	const struct offer offer = best_offer(g, list, first);
	struct hd_group_choice choice = {offer.aggregator, first, offer.count, offer.limit, 0};

	if (offer.aggregator == HD_PLAN_NONE)
		return 0;
	choice.direct = all_direct(g, list, choice);
	const struct hd_group_mark mark = hd_group_mark(g);
	struct hd_group_try try = {
		.entries = &list->entries[first],
		.paths = hd_group_path(g, list, first, offer.aggregator),
		.count = offer.count,
		.trunk = hd_group_trunk(g, list, offer.aggregator),
		.at_once = hd_group_at_once(g, offer.aggregator),
		.label = HD_PLAN_NONE,
	};
	const double commit = hd_group_place_all(g, &try, HD_PLAN_PUSH, g->commit[list->job]);
	if (hd_plan_key(commit) > hd_plan_key(choice.direct * (g->in->spare ? SPARE_LATER : 1))) {
		hd_group_undo(g, mark);
		return 0;
	}
	g->commit[list->job] = commit;
	g->memory[offer.aggregator] -= hd_group_kept(g, &list->entries[first], offer.count);
	g->score.own += commit * offer.count;
	g->score.server++;
	g->choices[g->choice_count++] = choice;
	return offer.count;
}

static uint32_t entry_after(const struct hd_group_list *list, uint32_t index) {
	return index < list->count ? list->entries[index] : list->end;
}

/* Sends the member at `index` directly, then places the plan's entries between it and the next. */
static void
send_direct(struct hd_plan_grouper *g, const struct hd_group_list *list, uint32_t index) {
	hd_group_replay(g, list->entries[index], entry_after(list, index + 1), false);
}

/* Tries from here on, with the list's next at `first`. False when no group begins there that was not tried. */
static bool try_from(struct hd_plan_grouper *g, const struct hd_group_list *list, uint32_t first) {
	uint32_t taken;

	g->choice_count = 0;
	for (uint32_t i = first; i < list->count && hd_group_may_work(g); i += taken) {
		taken = take_group(g, list, i);
		if (taken == 0 && i == first)
			return false;
		if (taken == 0) {
			send_direct(g, list, i);
			taken = 1;
			continue;
		}
		/* Entries between and after its members. */
		for (uint32_t m = i; m < i + taken; m++)
			hd_group_replay(g, list->entries[m] + 1, entry_after(list, m + 1), false);
	}
	g->score.last = g->commit[list->job];
	return hd_group_may_work(g);
}

static bool is_better(
	const struct hd_plan_grouper *g,
	struct hd_group_score a,
	struct hd_group_score b,
	struct hd_group_score direct
) {
	if (g->in->spare && a.server != b.server && a.last <= SPARE_LATER * direct.last)
		return a.server < b.server;
	return hd_group_better(a, b, direct);
}

void hd_group_search_pushes(struct hd_plan_grouper *g, const struct hd_group_list *list) {
	struct hd_group_score best;
	double commit[HD_JOBS_MAX], memory[HD_PLAN_AGGREGATORS_MAX];
	const struct hd_group_mark empty = hd_group_mark(g);

	g->best_count = 0;
	hd_group_rewind(g);
	hd_group_replay(g, 0, list->end, false);
	g->score.last = g->commit[list->job];
	best = g->score;
	const struct hd_group_score direct = best;
	hd_group_undo(g, empty);
	hd_group_rewind(g);
	hd_group_replay(g, 0, list->entries[0], false);
	for (uint32_t k = 0; k + 1 < list->count && hd_group_may_work(g); k++) {
		const struct hd_group_mark mark = hd_group_mark(g);
		const struct hd_group_score so_far = g->score;

		/* The commits so far cannot be improved. */
		if (hd_plan_key(g->commit[list->job]) >= hd_plan_key(best.last))
			break;
		memcpy(commit, g->commit, sizeof commit);
		memcpy(memory, g->memory, sizeof memory);
		if (try_from(g, list, k) && is_better(g, g->score, best, direct)) {
			best = g->score;
			g->best_count = g->choice_count;
			memcpy(g->best, g->choices, g->choice_count * sizeof *g->best);
		}
		hd_group_undo(g, mark);
		memcpy(g->commit, commit, sizeof commit);
		memcpy(g->memory, memory, sizeof memory);
		g->score = so_far;
		send_direct(g, list, k);
	}
	hd_group_undo(g, empty);
}
