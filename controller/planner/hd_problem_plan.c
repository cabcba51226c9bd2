/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_problem_internal.h"

const struct hd_plan_input *hd_problem_input(const struct hd_problem *problem) {
	return &problem->input;
}

json_t *hd_problem_id_of(const struct hd_problem *problem, uint64_t id) {
	return id == 0 ? json_null() : json_deep_copy(problem->ids[id - 1].value);
}

static json_t *link_name(const struct hd_problem *problem, uint32_t link) {
	const json_t *links = json_object_get(problem->root, "links");

	if (link == HD_PLAN_NONE)
		return json_null();
	return json_deep_copy(json_object_get(json_array_get(links, link), "name"));
}

static json_t *why_of(const struct hd_problem *problem, const struct hd_plan_entry *entry) {
	const struct hd_plan_why *why = &entry->why;
	const bool pull = problem->items[entry->item].direction == HD_PLAN_PULL;
	json_t *json = json_pack("{s:f}", "finish", why->finish);

	json_object_set_new(json, "runner_up", hd_problem_id_of(problem, why->runner_up));
	if (why->runner_up != 0)
		json_object_set_new(json, "runner_up_finish", json_real(why->runner_up_finish));
	if (!pull) {
		json_object_set_new(json, "deadline", json_integer(why->deadline));
		json_object_set_new(json, "slack", json_integer((json_int_t)why->slack));
	}
	return json;
}

json_t *hd_problem_segments_of(const struct hd_plan_entry *entry) {
	json_t *list = json_array();

	for (uint8_t s = 0; s < entry->segment_count; s++)
		json_array_append_new(
			list,
			json_pack(
				"{s:f, s:f, s:f}",
				"start",
				entry->segment[s].start,
				"end",
				entry->segment[s].end,
				"rate",
				entry->segment[s].rate
			)
		);
	return list;
}

static json_t *drop_of(const struct hd_problem *problem, const struct hd_plan_entry *entry) {
	json_t *json = json_object();

	json_object_set_new(json, "id", hd_problem_id_of(problem, problem->items[entry->item].id));
	json_object_set_new(
		json,
		"reason",
		json_string(entry->why.rule == HD_PLAN_DROP_IDLES ? "idles" : "bound")
	);
	json_object_set_new(json, "why", why_of(problem, entry));
	return json;
}

void hd_problem_tell_after(
	const struct hd_problem *problem,
	const struct hd_plan_entry *entries,
	const struct hd_plan_entry *entry,
	json_t *json
) {
	const uint32_t after = entry->after;

	if (entry->after_token != 0)
		json_object_set_new(
			json, "after_token", json_integer((json_int_t)entry->after_token)
		);
	if (after == HD_PLAN_NONE)
		return;
	if ((after & HD_PLAN_AFTER_GROUP) != 0)
		json_object_set_new(
			json,
			"after_group",
			json_integer((json_int_t)(after & ~HD_PLAN_AFTER_GROUP) + 1)
		);
	else
		json_object_set_new(
			json,
			"after",
			hd_problem_id_of(problem, problem->items[entries[after].item].id)
		);
}

static json_t *order_of(
	const struct hd_problem *problem,
	const struct hd_plan_entry *entries,
	const struct hd_plan_entry *entry,
	const struct hd_plan_grouped *grouped
) {
	const uint32_t group = !grouped || !grouped->group_of ? HD_PLAN_NONE :
								grouped->group_of[entry - entries];
	const struct hd_plan_item *item = &problem->items[entry->item];
	json_t *json = json_object();

	json_object_set_new(json, "id", hd_problem_id_of(problem, item->id));
	json_object_set_new(
		json,
		"position",
		item->direction == HD_PLAN_PULL ? json_null() :
						  json_integer((json_int_t)entry->position)
	);
	json_object_set_new(json, "start", json_real(entry->start));
	json_object_set_new(json, "finish", json_real(entry->finish));
	json_object_set_new(json, "commit", json_real(entry->commit));
	if (item->direction == HD_PLAN_PUSH)
		json_object_set_new(
			json, "delay", json_integer((json_int_t)(entry->position - item->version))
		);
	json_object_set_new(json, "rule", json_string(hd_plan_rule_name(entry->why.rule)));
	json_object_set_new(json, "why", why_of(problem, entry));
	json_object_set_new(json, "bottleneck", link_name(problem, entry->bottleneck));
	hd_problem_tell_after(problem, entries, entry, json);
	if (group != HD_PLAN_NONE) {
		json_object_set_new(json, "group", json_integer((json_int_t)group + 1));
		json_object_set_new(
			json,
			"aggregator",
			json_string(hd_problem_aggregator_name(
				problem, grouped->groups[group].aggregator
			))
		);
	}
	json_object_set_new(json, "segments", hd_problem_segments_of(entry));
	return json;
}

json_t *hd_problem_plan(
	const struct hd_problem *problem,
	const struct hd_plan_entry *entries,
	uint32_t count,
	const struct hd_plan_grouped *grouped
) {
	json_t *order = json_array(), *drops = json_array(), *plan = json_object();
	double sum = 0;
	uint32_t pushes = 0;

	if (grouped)
		entries = grouped->entries;
	for (uint32_t e = 0; e < count; e++) {
		const struct hd_plan_entry *entry = &entries[e];

		if (entry->dropped) {
			json_array_append_new(drops, drop_of(problem, entry));
			continue;
		}
		json_array_append_new(order, order_of(problem, entries, entry, grouped));
		if (problem->items[entry->item].direction == HD_PLAN_PUSH) {
			sum += entry->commit;
			pushes++;
		}
	}
	json_object_set_new(plan, "order", order);
	json_object_set_new(plan, "drops", drops);
	json_object_set_new(
		plan, "mean_commit", pushes == 0 ? json_null() : json_real(sum / pushes)
	);
	if (grouped)
		json_object_set_new(plan, "groups", hd_problem_groups(problem, grouped));
	return plan;
}
