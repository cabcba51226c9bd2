/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "hd_problem.h"

#include <string.h>

/* Whatever is read can be planned, and the plan holds every update once. */
static void plan_it(const struct hd_problem *problem) {
	const struct hd_plan_input *input = hd_problem_input(problem);
	const struct hd_plan_entry *entries;
	const char *error = "";
	struct hd_plan *plan;
	uint32_t count;

	CHECK(hd_plan_create(&plan) == 0);
	CHECK(hd_plan_run(plan, input, &entries, &count, &error) == 0);
	CHECK(count == input->item_count);
	struct hd_plan_grouper *grouper;
	struct hd_plan_group_input group;
	struct hd_plan_grouped grouped;
	CHECK(hd_plan_grouper_create(&grouper) == 0);
	const bool any = hd_problem_group_input(problem, entries, count, &group);
	if (any)
		CHECK(hd_plan_group_run(grouper, &group, &grouped) == 0);
	json_t *json = hd_problem_plan(problem, entries, count, any ? &grouped : NULL);
	CHECK(json != NULL);
	CHECK(json_array_size(json_object_get(json, "order"))
		      + json_array_size(json_object_get(json, "drops"))
	      == count);
	json_decref(json);
	hd_plan_grouper_destroy(grouper);
	hd_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	char *text = malloc(bytes + 1), error[80] = "";
	struct hd_problem *problem;

	CHECK(text);
	if (bytes > 0)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (hd_problem_parse(text, &problem, error, sizeof error) == 0) {
		plan_it(problem);
		hd_problem_destroy(problem);
	} else
		CHECK(strncmp(error, "line ", 5) == 0);
	free(text);
	return 0;
}
