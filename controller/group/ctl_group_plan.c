/* SPDX-License-Identifier: BSD-3-Clause */
/* Grouping in a planning pass: the aggregators, the paths over them, and which transfers of the latest plan form a
 * group. */
#include "ctl_base.h"
#include "ctl_grouping.h"
#include "hd_text.h"

#include <stdlib.h>
#include <string.h>

/* --- aggregators --- */

/* Transfers that need the host's links. */
static uint32_t use_of(const struct hd_controller *c, const struct ctl_node *node) {
	uint32_t away, towards;

	if (hd_topology_links_of(c->config.topology, node->host_index, &away, &towards) < 0)
		return 0;
	return c->link_use[away + 1] + c->link_use[towards + 1];
}

/* Beyond HD_PLAN_AGGREGATORS_MAX candidates, the one with the busiest links is left out. */
static void consider(struct hd_controller *c, struct ctl_node *node) {
	struct ctl_grouping *g = &c->grouping;
	uint32_t worst = 0;

	if (g->aggregator_count < HD_PLAN_AGGREGATORS_MAX) {
		g->aggregator[g->aggregator_count++] = node;
		return;
	}
	for (uint32_t a = 1; a < g->aggregator_count; a++)
		if (use_of(c, g->aggregator[a]) > use_of(c, g->aggregator[worst]))
			worst = a;
	if (use_of(c, node) < use_of(c, g->aggregator[worst]))
		g->aggregator[worst] = node;
}

static void find_aggregators(struct hd_controller *c) {
	struct ctl_grouping *g = &c->grouping;
	struct ctl_node *node;

	g->aggregator_count = 0;
	if (!ctl_groups_possible(c))
		return;
	TAILQ_FOREACH (node, &c->nodes, entry)
		if (ctl_may_group(c, node) && ctl_memory_left(c, node) > 0)
			consider(c, node);
	for (uint32_t a = 0; a < g->aggregator_count; a++) {
		g->memory[a] = (double)ctl_memory_left(c, g->aggregator[a]);
		g->at_once[a] = g->aggregator[a]->role == HD_ROLE_SWITCH;
		hd_text_copy(
			g->aggregator_host[a], sizeof g->aggregator_host[a], g->aggregator[a]->host
		);
	}
}

/* --- paths --- */

static bool
path_between(const struct hd_controller *c, int from, int to, struct hd_plan_path *path) {
	int count = ctl_path(c, from, to, path->links);

	path->count = count > 0 ? (uint8_t)count : 0;
	return count > 0;
}

/* Updates that cannot be added go directly; so does a pull that may turn out to need no bytes. */
static bool may_share(const struct hd_controller *c, const struct ctl_transfer *t, double memory) {
	/* Each copy is of another update. */
	if (t->direction == HD_COPY || (double)ctl_group_memory(c, t, CTL_GROUP_WINDOW) > memory)
		return false;
	if (t->direction == HD_PUSH)
		return true;
	return !t->conditional || t->have < t->job->version;
}

static bool
member(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_path *path) {
	const struct hd_controller *c = context;
	const struct ctl_transfer *t = c->scratch.item_transfer[item];
	const struct ctl_node *worker = ctl_worker(t->job, t->worker);
	const struct ctl_node *node = c->grouping.aggregator[aggregator];

	if (!worker || worker->doomed || ctl_group_refuses(c, node, t->job)
	    || !may_share(c, t, c->grouping.memory[aggregator]))
		return false;
	if (node->role == HD_ROLE_SWITCH && !ctl_slots_may(c, node, t, worker))
		return false;
	/* A worker that will be preempted has no time to wait for others. */
	if (t->direction == HD_PUSH && worker->preempted_at)
		return false;
	return t->direction == HD_PUSH ?
		path_between(c, worker->host_index, node->host_index, path) :
		path_between(c, node->host_index, worker->host_index, path);
}

static bool
trunk(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_path *path) {
	const struct hd_controller *c = context;
	const struct ctl_transfer *t = c->scratch.item_transfer[item];
	const struct ctl_node *server = t->job->server;
	const struct ctl_node *node = c->grouping.aggregator[aggregator];

	if (!server || server->doomed)
		return false;
	return t->direction == HD_PUSH ?
		path_between(c, node->host_index, server->host_index, path) :
		path_between(c, server->host_index, node->host_index, path);
}

/* --- the pass --- */

static bool make_room(struct ctl_grouping *g) {
	uint32_t count = g->plan.group_count;
	uint64_t *tokens;
	uint32_t *behind;

	if (count <= g->room)
		return true;
	tokens = realloc(g->sum_token, count * sizeof *tokens);
	if (!tokens)
		return false;
	g->sum_token = tokens;
	behind = realloc(g->sum_behind, count * sizeof *behind);
	if (!behind)
		return false;
	g->sum_behind = behind;
	g->room = count;
	return true;
}

void ctl_group_pass(struct hd_controller *c) {
	struct ctl_grouping *g = &c->grouping;
	struct hd_plan_group_input input = {
		.plan = &c->scratch.input,
		.entries = c->scratch.entries,
		.entry_count = c->scratch.entry_count,
		.memory = g->memory,
		.paths = {c, member, trunk},
		.flow = c->scratch.flow,
		.at_once = g->at_once,
		.streaming = true,
		.spare = c->spare_server,
		.window = CTL_GROUP_WINDOW,
		.work = CTL_GROUP_WORK,
	};

	g->plan.group_count = 0;
	find_aggregators(c);
	if (g->aggregator_count == 0 || c->scratch.entry_count < 2)
		return;
	input.aggregator_count = g->aggregator_count;
	if ((!g->grouper && hd_plan_grouper_create(&g->grouper) < 0)
	    || hd_plan_group_run(g->grouper, &input, &g->plan) < 0 || !make_room(g)) {
		g->plan.group_count = 0; /* without memory all transfers go directly */
		return;
	}
	if (g->plan.group_count > 0) {
		memset(g->sum_token, 0, g->plan.group_count * sizeof *g->sum_token);
		memset(g->sum_behind, 0, g->plan.group_count * sizeof *g->sum_behind);
	}
	c->scratch.entries = g->plan.entries;
}

const struct hd_plan_group *ctl_group_of(const struct hd_controller *c, uint32_t entry) {
	const struct hd_plan_grouped *plan = &c->grouping.plan;

	if (plan->group_count == 0 || plan->group_of[entry] == HD_PLAN_NONE)
		return NULL;
	return &plan->groups[plan->group_of[entry]];
}

bool ctl_group_leads(const struct hd_controller *c, uint32_t entry) {
	const struct hd_plan_group *group = ctl_group_of(c, entry);

	return group && c->grouping.plan.members[group->first] == entry;
}

struct hd_plan_path ctl_entry_path(const struct hd_controller *c, uint32_t entry) {
	const struct hd_plan_grouped *plan = &c->grouping.plan;
	const struct hd_plan_group *group = ctl_group_of(c, entry);
	const struct hd_plan_item *item = &c->scratch.items[c->scratch.entries[entry].item];
	struct hd_plan_path path = {.count = item->path_count};

	for (uint32_t m = 0; group && m < group->count; m++)
		if (plan->members[group->first + m] == entry)
			return plan->member_paths[group->first + m];
	memcpy(path.links, item->path, sizeof path.links);
	return path;
}

/* --- which transfer waits for which --- */

static bool waits_for_group(const struct hd_plan_entry *entry) {
	return entry->after != HD_PLAN_NONE && (entry->after & HD_PLAN_AFTER_GROUP) != 0;
}

uint32_t ctl_entry_before(const struct hd_controller *c, const struct hd_plan_entry *entry) {
	const struct hd_plan_grouped *plan = &c->grouping.plan;

	if (waits_for_group(entry))
		return plan->members[plan->groups[entry->after & ~HD_PLAN_AFTER_GROUP].first];
	return entry->after;
}

/* The node that sends GO to a transfer, or starts it itself: for pushes the receiver, for pulls the sender. That is the
 * server, unless it is a member's transfer. */
static const struct ctl_node *starter_of_entry(const struct hd_controller *c, uint32_t entry) {
	const struct hd_plan_group *group = ctl_group_of(c, entry);
	const struct ctl_transfer *t = c->scratch.item_transfer[c->scratch.entries[entry].item];

	if (group)
		return c->grouping.aggregator[group->aggregator];
	return t ? t->job->server : NULL;
}

static const struct ctl_node *starter_of(const struct ctl_transfer *t) {
	return t->group && !t->is_sum ? t->group->aggregator : t->job->server;
}

uint64_t
ctl_entry_after(const struct hd_controller *c, const struct hd_plan_entry *entry, uint32_t group) {
	const struct ctl_scratch *s = &c->scratch;
	const struct ctl_transfer *self = s->item_transfer[entry->item], *before;
	const struct ctl_node *starter;

	if (!self)
		return 0;
	/* Without groups the server starts all transfers; a pull of another server is never waited for. */
	starter = group != HD_PLAN_NONE ? self->job->server :
					  starter_of_entry(c, (uint32_t)(entry - s->entries));
	if (waits_for_group(entry)) {
		uint32_t index = entry->after & ~HD_PLAN_AFTER_GROUP;
		uint32_t first = c->grouping.plan.members[c->grouping.plan.groups[index].first];

		before = s->item_transfer[s->entries[first].item];
		return before && before->job->server == starter ? c->grouping.sum_token[index] : 0;
	}
	before = entry->after != HD_PLAN_NONE ? s->item_transfer[s->entries[entry->after].item] :
						ctl_transfer_by_token(c, entry->after_token);
	if (!before || !ctl_transfer_is_open(before) || starter_of(before) != starter)
		return 0;
	return before->token;
}

void ctl_grouping_fini(struct ctl_grouping *g) {
	hd_plan_grouper_destroy(g->grouper);
	free(g->sum_token);
	free(g->sum_behind);
}
