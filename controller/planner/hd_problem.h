/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One moment of a network as JSON, planned by the controller's own planner: for researchers. docs/schedule.md describes
 * both formats.
 */
#ifndef HD_PROBLEM_H
#define HD_PROBLEM_H

#include "hd_plan_group.h"

#include <jansson.h>

struct hd_problem;

/* -EINVAL with "line L: field: what (limit)" in error; -ENOMEM. Total: any text gives one or the other. */
int hd_problem_parse(
	const char *text,
	struct hd_problem **problem,
	char *error,
	size_t error_bytes
);
void hd_problem_destroy(struct hd_problem *problem);
/* Lives as long as the problem. */
const struct hd_plan_input *hd_problem_input(const struct hd_problem *problem);
/* The input of grouping, for this plan. False: the problem has no aggregators. */
bool hd_problem_group_input(
	const struct hd_problem *problem,
	const struct hd_plan_entry *entries,
	uint32_t count,
	struct hd_plan_group_input *input
);
/* The plan as a JSON document, or NULL without memory; json_decref it. grouped: the result of grouping, NULL without
 * aggregators. */
json_t *hd_problem_plan(
	const struct hd_problem *problem,
	const struct hd_plan_entry *entries,
	uint32_t count,
	const struct hd_plan_grouped *grouped
);

#endif
