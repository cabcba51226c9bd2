/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulls: the model is sent once to each of some aggregators, as many as gain time; every pull comes from the source
 * with the earliest finish.
 *
 *   server's link  |=copy 1=|=copy 2=|==p5==|==p6==|
 *   aggregator 1            |==p1==|==p2==|
 *   aggregator 2                     |==p3==|==p4==|
 */
#include "hd_plan_group_internal.h"

#include <math.h>

struct seed {
	uint32_t aggregator;
	struct hd_plan_entry copy;
};

/* Sends a copy to that aggregator without one that gets it first. False: there is none. */
static bool
sow(struct hd_plan_grouper *g, const struct hd_group_list *list, struct seed *seeds, uint32_t *count
) {
	const double amount = hd_group_item(g, list->entries[0])->amount;
	struct hd_group_transfer best = {.count = 0};
	double least = INFINITY;
	uint32_t chosen = HD_PLAN_NONE;

	for (uint32_t a = 0; a < g->in->aggregator_count; a++) {
		const struct hd_plan_path *trunk = hd_group_trunk(g, list, a);
		bool has = false;

		for (uint32_t s = 0; s < *count; s++)
			has |= seeds[s].aggregator == a;
		if (has || !trunk || g->memory[a] < amount)
			continue;
		const struct hd_group_transfer copy
			= {trunk->links, trunk->count, HD_PLAN_NONE, amount, 0, 0};
		const double finish = hd_plan_key(hd_group_finish(g, &copy));
		if (finish < least) {
			least = finish;
			best = copy;
			chosen = a;
		}
	}
	if (chosen == HD_PLAN_NONE)
		return false;
	seeds[*count].aggregator = chosen;
	hd_group_place(g, &best, false, &seeds[*count].copy);
	++*count;
	return true;
}

/* The source with the earliest finish for the list's member at `index`: a seed, or `count` for the server. The transfer
 * is placed. */
static uint32_t
draw(struct hd_plan_grouper *g,
     const struct hd_group_list *list,
     uint32_t index,
     const struct seed *seeds,
     uint32_t count) {
	const struct hd_plan_item *item = hd_group_item(g, list->entries[index]);
	const struct hd_plan_item *first = hd_group_item(g, list->entries[0]);
	const bool same = item->kind == first->kind && !(item->amount < first->amount)
		&& !(item->amount > first->amount);
	struct hd_group_transfer best = hd_group_direct(g, list->entries[index]);
	double least = hd_plan_key(hd_group_finish(g, &best));
	struct hd_plan_entry entry;
	uint32_t from = count;

	for (uint32_t s = 0; same && s < count; s++) {
		const struct hd_plan_path *path
			= hd_group_path(g, list, index, seeds[s].aggregator);

		if (!path)
			continue;
		const struct hd_group_transfer relay = {
			path->links,
			path->count,
			list->entries[index],
			item->amount,
			hd_group_ready(
				g,
				&seeds[s].copy,
				path,
				(struct hd_group_flow){item->amount, item->amount}
			),
			0,
		};
		const double finish = hd_plan_key(hd_group_finish(g, &relay));
		/* Of equal ones the relay: it leaves the server's link to others. */
		if (finish < least || (finish <= least && from == count)) {
			least = finish;
			best = relay;
			from = s;
		}
	}
	hd_group_place(g, &best, false, &entry);
	return from;
}

/* Assigns a source to each pull, with this number of copies: into g->best and g->picked. False: one of them gains
 * nothing. */
static bool assign(struct hd_plan_grouper *g, const struct hd_group_list *list, uint32_t copies) {
	const struct hd_group_mark mark = hd_group_mark(g);
	struct seed seeds[HD_PLAN_AGGREGATORS_MAX];
	uint32_t count = 0, picked = 0;
	bool gains = true;

	hd_group_rewind(g);
	hd_group_replay(g, 0, list->entries[0], false);
	while (count < copies && gains)
		gains = sow(g, list, seeds, &count);
	for (uint32_t i = 0; gains && i < list->count; i++) {
		g->drawn[i] = draw(g, list, i, seeds, count);
		gains = hd_group_may_work(g);
	}
	hd_group_undo(g, mark);
	for (uint32_t s = 0; gains && s < count; s++) {
		g->best[s] = (struct hd_group_choice){seeds[s].aggregator, picked, 0, 0, 0};
		for (uint32_t i = 0; i < list->count; i++)
			if (g->drawn[i] == s)
				g->picked[picked++] = i;
		g->best[s].count = picked - g->best[s].first;
		gains = g->best[s].count >= 2;
	}
	g->best_count = gains ? count : 0;
	return gains;
}

static struct hd_group_score score_of(struct hd_plan_grouper *g, const struct hd_group_list *list) {
	const struct hd_group_mark mark = hd_group_mark(g);

	hd_group_rewind(g);
	hd_group_replay(g, 0, list->end, false);
	for (uint32_t i = 0; i < list->count; i++)
		g->score.last = fmax(g->score.last, g->entries[list->entries[i]].finish);
	hd_group_undo(g, mark);
	return g->score;
}

void hd_group_search_pulls(struct hd_plan_grouper *g, const struct hd_group_list *list) {
	const struct hd_group_score direct = score_of(g, list);
	struct hd_group_score best = direct;
	uint32_t best_copies = 0;

	for (uint32_t copies = 1; copies <= g->in->aggregator_count; copies++) {
		if (!assign(g, list, copies))
			break;
		const uint32_t groups = g->group_count;
		hd_group_decide(g, list);
		const struct hd_group_score score = score_of(g, list);
		hd_group_undecide(g, groups);
		if (!hd_group_better(score, best, direct))
			continue;
		best = score;
		best_copies = copies;
	}
	g->best_count = 0;
	if (best_copies == 0 || !assign(g, list, best_copies))
		return;
	for (uint32_t c = 0; c < g->best_count; c++)
		g->best[c].direct = direct.last;
}
