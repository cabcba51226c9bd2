/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aggregators of a problem. An update's path ends with its server's link (a pull's begins with it); the others are its
 * worker's:
 *
 *   push   worker's links | aggregator's `in`     aggregator's `out` | server's link
 *   pull   server's link  | aggregator's `in`     aggregator's `out` | worker's links
 *
 * A worker whose links include the aggregator's is on the aggregator's host.
 */
#include "hd_problem_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WORK_MAX 1000000 /* this plan may take longer than the controller's */

static int read_path(
	const struct hd_problem_reader *reader,
	const struct hd_json_object *in,
	const char *key,
	struct hd_plan_path *path
) {
	json_t *list = NULL, *value;
	char field[96];
	size_t k;
	int rc = hd_json_array(in, key, true, HD_PLAN_PATH_MAX - 1, &list);

	if (rc < 0)
		return rc;
	json_array_foreach(list, k, value) {
		(void)snprintf(field, sizeof field, "%s.%s[%zu]", in->prefix, key, k);
		rc = hd_problem_link(reader, field, value);
		if (rc < 0)
			return rc;
		for (uint8_t o = 0; o < path->count; o++)
			if (path->links[o] == (uint32_t)rc)
				return hd_json_fail(in->reader, field, "a link twice");
		path->links[path->count++] = (uint32_t)rc;
	}
	(void)snprintf(field, sizeof field, "%s.%s", in->prefix, key);
	return path->count == 0 ? hd_json_fail(in->reader, field, "no links") : 0;
}

static int read_one(const struct hd_problem_reader *reader, json_t *object, size_t index) {
	static const char *const keys[] = {"name", "in", "out", "memory", NULL};
	struct hd_problem *s = reader->problem;
	char prefix[64];
	const struct hd_json_object in = {&reader->json, object, prefix};
	const char *name = NULL;
	const struct hd_json_wanted wanted[] = {
		{"memory",
		 {.most = UNITS_MAX, .fallback = INFINITY, .infinite = true},
		 &s->memory[index]},
	};

	(void)snprintf(prefix, sizeof prefix, "aggregators[%zu]", index);
	int rc = hd_json_known(&in, keys);
	if (rc == 0)
		rc = hd_json_name(&in, "name", true, &name);
	if (rc == 0)
		rc = READ_NUMBERS(&in, wanted);
	if (rc == 0)
		rc = read_path(reader, &in, "in", &s->aggregator[index].in);
	if (rc == 0)
		rc = read_path(reader, &in, "out", &s->aggregator[index].out);
	if (rc < 0)
		return rc;
	return hd_problem_add_name(reader, prefix, s->aggregator_names, name);
}

int hd_problem_read_aggregators(
	const struct hd_problem_reader *reader,
	const struct hd_json_object *root
) {
	const json_t *streaming = json_object_get(root->object, "streaming");
	struct hd_problem *s = reader->problem;
	json_t *list = NULL, *object;
	size_t i;
	int rc = hd_json_array(root, "aggregators", false, HD_PLAN_AGGREGATORS_MAX, &list);

	if (rc < 0)
		return rc;
	if (streaming && !json_is_boolean(streaming))
		return hd_json_fail(&reader->json, "streaming", "must be true or false");
	s->streaming = json_is_true(streaming);
	s->aggregator_count = (uint32_t)json_array_size(list);
	json_array_foreach(list, i, object) {
		rc = read_one(reader, object, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* --- paths --- */

static bool crosses(const struct hd_plan_path *path, uint32_t link) {
	for (uint8_t k = 0; k < path->count; k++)
		if (path->links[k] == link)
			return true;
	return false;
}

/* `first`, then `second`; false when that is too long, or has a link twice. */
static bool
join(const struct hd_plan_path *first, const struct hd_plan_path *second, struct hd_plan_path *path
) {
	*path = *first;
	for (uint8_t k = 0; k < second->count; k++) {
		if (path->count == HD_PLAN_PATH_MAX || crosses(path, second->links[k]))
			return false;
		path->links[path->count++] = second->links[k];
	}
	return true;
}

/* An item's path without its server's link, and that link. */
static void
split(const struct hd_plan_item *item, struct hd_plan_path *own, struct hd_plan_path *server) {
	const bool push = item->direction == HD_PLAN_PUSH;

	*own = *server = (struct hd_plan_path){.count = 0};
	for (uint8_t k = 0; k < item->path_count; k++) {
		struct hd_plan_path *path = k == (push ? item->path_count - 1 : 0) ? server : own;

		path->links[path->count++] = item->path[k];
	}
}

static bool
member(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_path *path) {
	const struct hd_problem *s = context;
	const struct hd_problem_aggregator *a = &s->aggregator[aggregator];
	const bool push = s->items[item].direction == HD_PLAN_PUSH;
	struct hd_plan_path own, server;

	split(&s->items[item], &own, &server);
	path->count = 0;
	if (crosses(&own, push ? a->out.links[0] : a->in.links[a->in.count - 1]))
		return true;
	return push ? join(&own, &a->in, path) : join(&a->out, &own, path);
}

static bool
trunk(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_path *path) {
	const struct hd_problem *s = context;
	const struct hd_problem_aggregator *a = &s->aggregator[aggregator];
	struct hd_plan_path own, server;

	split(&s->items[item], &own, &server);
	return s->items[item].direction == HD_PLAN_PUSH ? join(&a->out, &server, path) :
							  join(&server, &a->in, path);
}

bool hd_problem_group_input(
	const struct hd_problem *problem,
	const struct hd_plan_entry *entries,
	uint32_t count,
	struct hd_plan_group_input *input
) {
	*input = (struct hd_plan_group_input){
		.plan = &problem->input,
		.entries = entries,
		.entry_count = count,
		.aggregator_count = problem->aggregator_count,
		.memory = problem->memory,
		.paths = {problem, member, trunk},
		.streaming = problem->streaming,
		.window = HD_PENDING_MAX,
		.work = WORK_MAX,
	};
	return problem->aggregator_count > 0;
}

/* --- output --- */

const char *hd_problem_aggregator_name(const struct hd_problem *problem, uint32_t aggregator) {
	const json_t *list = json_object_get(problem->root, "aggregators");

	return json_string_value(json_object_get(json_array_get(list, aggregator), "name"));
}

static json_t *group_of(
	const struct hd_problem *problem,
	const struct hd_plan_grouped *grouped,
	const struct hd_plan_group *group
) {
	const bool pull = group->direction == HD_PLAN_PULL;
	json_t *json = json_object(), *members = json_array(), *why = json_object();

	for (uint32_t m = 0; m < group->count; m++) {
		const uint32_t item = grouped->entries[grouped->members[group->first + m]].item;

		json_array_append_new(members, hd_problem_id_of(problem, problem->items[item].id));
	}
	json_object_set_new(
		json,
		"aggregator",
		json_string(hd_problem_aggregator_name(problem, group->aggregator))
	);
	json_object_set_new(json, "direction", json_string(pull ? "pull" : "push"));
	json_object_set_new(json, "members", members);
	json_object_set_new(json, "start", json_real(group->sum.start));
	json_object_set_new(json, "finish", json_real(group->sum.finish));
	json_object_set_new(json, "commit", json_real(group->sum.commit));
	json_object_set_new(why, "collected", json_real(group->collected));
	if (!pull)
		json_object_set_new(why, "limit", json_real(group->limit));
	json_object_set_new(why, "direct", json_real(group->direct));
	json_object_set_new(json, "why", why);
	hd_problem_tell_after(problem, grouped->entries, &group->sum, json);
	json_object_set_new(json, "segments", hd_problem_segments_of(&group->sum));
	return json;
}

json_t *hd_problem_groups(const struct hd_problem *problem, const struct hd_plan_grouped *grouped) {
	json_t *list = json_array();

	for (uint32_t g = 0; g < grouped->group_count; g++)
		json_array_append_new(list, group_of(problem, grouped, &grouped->groups[g]));
	return list;
}
