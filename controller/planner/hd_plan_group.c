/* SPDX-License-Identifier: BSD-3-Clause */
/* Grouping of a whole plan: searches each job's transfers in turn, then places all entries again. */
#include "hd_plan_group_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int hd_plan_grouper_create(struct hd_plan_grouper **grouper) {
	struct hd_plan_grouper *made = calloc(1, sizeof *made);

	if (!made)
		return -ENOMEM;
	*grouper = made;
	return 0;
}

void hd_plan_grouper_destroy(struct hd_plan_grouper *g) {
	if (!g)
		return;
	for (uint32_t l = 0; l < g->profile_room; l++)
		hd_profile_fini(&g->profiles[l]);
	free(g->profiles);
	free(g->log);
	free(g->pieces);
	free(g->entries);
	free(g->list);
	free(g->picked);
	free(g->drawn);
	free(g->choices);
	free(g->best);
	free(g->group_of);
	free(g->group_at);
	free(g->members);
	free(g->member_paths);
	free(g->groups);
	free(g->paths);
	free(g->path_is);
	free(g);
}

bool hd_group_better(
	struct hd_group_score a,
	struct hd_group_score b,
	struct hd_group_score direct
) {
	const double x = hd_plan_key(a.last), y = hd_plan_key(b.last);

	if (hd_plan_key(a.others) > hd_plan_key(direct.others)
	    && hd_plan_key(a.others + a.own) > hd_plan_key(direct.others + direct.own))
		return false;
	if (x != y)
		return x < y;
	if (hd_plan_key(a.own) != hd_plan_key(b.own))
		return hd_plan_key(a.own) < hd_plan_key(b.own);
	return a.server < b.server;
}

void hd_group_rewind(struct hd_plan_grouper *g) {
	for (uint32_t j = 0; j < g->in->plan->job_count; j++)
		g->commit[j] = fmax(g->in->plan->jobs[j].server_free, 0);
	g->score = (struct hd_group_score){0};
}

/* --- placing the decided groups --- */

static void place_group(struct hd_plan_grouper *g, uint32_t index, bool explain) {
	struct hd_plan_group *group = &g->groups[index];
	const uint32_t *members = &g->members[group->first];
	const uint32_t job = hd_group_item(g, members[0])->job;
	struct hd_group_try try = {
		.entries = members,
		.paths = &g->member_paths[group->first],
		.count = group->count,
		.trunk = &group->trunk,
		.at_once
		= group->direction == HD_PLAN_PUSH && hd_group_at_once(g, group->aggregator),
		.label = HD_PLAN_AFTER_GROUP | index,
		.explain = explain,
	};
	const double last = hd_group_place_all(g, &try, group->direction, g->commit[job]);

	if (group->direction == HD_PLAN_PUSH)
		g->commit[job] = last;
	g->score.server += job == g->job && group->direction == g->direction;
	for (uint32_t m = 0; m < group->count; m++)
		hd_group_count_done(g, hd_group_item(g, members[m]), g->entries[members[m]].commit);
	try.sum.item = g->in->entries[members[0]].item;
	if (group->direction == HD_PLAN_PULL)
		try.sum.commit = try.sum.finish;
	group->sum = try.sum;
	group->collected = try.collected;
	group->amount = try.amount;
}

static void place_direct(struct hd_plan_grouper *g, uint32_t e, bool explain) {
	const struct hd_group_transfer t = hd_group_direct(g, e);
	const struct hd_plan_item *item = hd_group_item(g, e);
	struct hd_plan_entry *entry = &g->entries[e];

	hd_group_place(g, &t, explain, entry);
	entry->commit = entry->finish;
	if (item->direction == HD_PLAN_PUSH) {
		entry->commit = fmax(entry->finish, g->commit[item->job]);
		g->commit[item->job] = entry->commit;
	}
	hd_group_count_done(g, item, entry->commit);
	g->score.server += item->job == g->job && item->direction == g->direction;
}

void hd_group_replay(struct hd_plan_grouper *g, uint32_t from, uint32_t end, bool explain) {
	for (uint32_t e = from; e < end && g->status == 0; e++) {
		if (g->in->entries[e].dropped)
			continue;
		/* Groups that are placed at the turn of one entry are consecutive. */
		for (uint32_t k = g->group_at[e]; k < g->group_count && g->groups[k].at == e; k++)
			place_group(g, k, explain);
		if (g->group_of[e] == HD_PLAN_NONE)
			place_direct(g, e, explain);
	}
}

void hd_group_decide(struct hd_plan_grouper *g, const struct hd_group_list *list) {
	const bool pull = list->direction == HD_PLAN_PULL;

	for (uint32_t c = 0; c < g->best_count; c++) {
		const struct hd_group_choice *choice = &g->best[c];
		struct hd_plan_group *group = &g->groups[g->group_count];

		*group = (struct hd_plan_group){
			.direction = list->direction,
			.aggregator = choice->aggregator,
			.first = g->member_count,
			.count = choice->count,
			.trunk = *hd_group_trunk(g, list, choice->aggregator),
			.limit = choice->limit,
			.direct = choice->direct,
		};
		for (uint32_t m = 0; m < choice->count; m++) {
			const uint32_t index
				= pull ? g->picked[choice->first + m] : choice->first + m;

			g->members[g->member_count] = list->entries[index];
			g->member_paths[g->member_count++]
				= *hd_group_path(g, list, index, choice->aggregator);
			g->group_of[list->entries[index]] = g->group_count;
		}
		group->at = list->entries[pull ? 0 : choice->first];
		if (g->group_at[group->at] == HD_PLAN_NONE)
			g->group_at[group->at] = g->group_count;
		g->memory[choice->aggregator]
			-= hd_group_kept(g, &g->members[group->first], group->count);
		g->group_count++;
	}
}

void hd_group_undecide(struct hd_plan_grouper *g, uint32_t groups) {
	while (g->group_count > groups) {
		const struct hd_plan_group *group = &g->groups[--g->group_count];

		for (uint32_t m = group->first; m < group->first + group->count; m++)
			g->group_of[g->members[m]] = HD_PLAN_NONE;
		g->group_at[group->at] = HD_PLAN_NONE;
		g->member_count = group->first;
		g->memory[group->aggregator]
			+= hd_group_kept(g, &g->members[group->first], group->count);
	}
}

/* --- lists --- */

/* The first transfers of a job that are not dropped. */
static void fill_list(struct hd_plan_grouper *g, struct hd_group_list *list) {
	list->entries = g->list;
	list->count = 0;
	for (uint32_t e = 0; e < g->in->entry_count && list->count < g->in->window; e++) {
		const struct hd_plan_item *item = hd_group_item(g, e);

		if (g->in->entries[e].dropped || item->job != list->job
		    || item->direction != list->direction)
			continue;
		list->entries[list->count++] = e;
		list->end = e + 1;
	}
}

/* Asks for the paths over the aggregators. */
static int ask_paths(struct hd_plan_grouper *g, const struct hd_group_list *list) {
	const struct hd_plan_paths *paths = &g->in->paths;
	const size_t need = (size_t)g->in->aggregator_count * (list->count + 1);
	size_t k = 0;

	if (need > g->path_room) {
		struct hd_plan_path *larger = realloc(g->paths, need * sizeof *larger);
		bool *is;

		if (!larger)
			return -ENOMEM;
		g->paths = larger;
		is = realloc(g->path_is, need * sizeof *is);
		if (!is)
			return -ENOMEM;
		g->path_is = is;
		g->path_room = need;
	}
	for (uint32_t a = 0; a < g->in->aggregator_count; a++)
		for (uint32_t i = 0; i < list->count; i++, k++)
			g->path_is[k] = paths->member(
				paths->context,
				g->in->entries[list->entries[i]].item,
				a,
				&g->paths[k]
			);
	for (uint32_t a = 0; a < g->in->aggregator_count; a++, k++)
		g->path_is[k] = paths->trunk(
			paths->context, g->in->entries[list->entries[0]].item, a, &g->paths[k]
		);
	return 0;
}

static int search(struct hd_plan_grouper *g, struct hd_group_list *list) {
	g->job = list->job;
	g->direction = list->direction;
	fill_list(g, list);
	const int rc = ask_paths(g, list);
	if (rc < 0)
		return rc;
	if (list->direction == HD_PLAN_PUSH)
		hd_group_search_pushes(g, list);
	else
		hd_group_search_pulls(g, list);
	if (g->status == 0)
		hd_group_decide(g, list);
	return g->status;
}

static int search_all(struct hd_plan_grouper *g) {
	uint32_t count[2][HD_JOBS_MAX] = {{0}};
	int rc = 0;

	for (uint32_t e = 0; e < g->in->entry_count; e++) {
		const struct hd_plan_item *item = hd_group_item(g, e);

		count[item->direction][item->job] += !g->in->entries[e].dropped;
	}
	for (int direction = HD_PLAN_PUSH; direction <= HD_PLAN_PULL; direction++)
		for (uint32_t j = 0; rc == 0 && j < g->in->plan->job_count; j++) {
			struct hd_group_list list = {.job = j, .direction = (uint8_t)direction};

			if (count[direction][j] >= 2 && hd_group_may_work(g))
				rc = search(g, &list);
		}
	return rc;
}

static bool input_valid(const struct hd_plan_group_input *in) {
	if (in->aggregator_count > HD_PLAN_AGGREGATORS_MAX || in->entry_count > HD_PENDING_MAX)
		return false;
	for (uint32_t e = 0; e < in->entry_count; e++)
		if (in->entries[e].item >= in->plan->item_count)
			return false;
	return true;
}

int hd_plan_group_run(
	struct hd_plan_grouper *g,
	const struct hd_plan_group_input *input,
	struct hd_plan_grouped *result
) {
	int rc = 0;

	if (!input_valid(input))
		return -EINVAL;
	*result = (struct hd_plan_grouped){.entries = input->entries};
	if (input->aggregator_count == 0 || input->entry_count < 2)
		return 0;
	g->in = input;
	g->status = 0;
	g->group_count = g->member_count = g->work = 0;
	rc = hd_group_setup(g);
	if (rc < 0)
		return rc;
	memcpy(g->entries, input->entries, input->entry_count * sizeof *g->entries);
	memcpy(g->memory, input->memory, input->aggregator_count * sizeof *g->memory);
	memset(g->group_of, 0xff, input->entry_count * sizeof *g->group_of);
	memset(g->group_at, 0xff, input->entry_count * sizeof *g->group_at);
	g->keep_log = true;
	rc = search_all(g);
	result->work = g->work;
	if (rc < 0 || g->group_count == 0)
		return rc;
	g->keep_log = false;
	hd_group_rewind(g);
	hd_group_replay(g, 0, input->entry_count, true);
	if (g->status < 0)
		return g->status;
	result->entries = g->entries;
	result->groups = g->groups;
	result->group_count = g->group_count;
	result->members = g->members;
	result->member_paths = g->member_paths;
	result->group_of = g->group_of;
	return 0;
}
