/* SPDX-License-Identifier: BSD-3-Clause */
#include "../../tests/unit/plan_reference.h"
#include "hd_plan_internal.h"

#include <errno.h>
#include <stdlib.h>

int hd_plan_create(struct hd_plan **plan) {
	*plan = calloc(1, sizeof **plan);
	return *plan == NULL ? -ENOMEM : 0;
}

void hd_plan_destroy(struct hd_plan *plan) {
	if (plan == NULL)
		return;
	free(plan->entries);
	free(plan);
}

int hd_plan_run(
	struct hd_plan *plan,
	const struct hd_plan_input *input,
	const struct hd_plan_entry **entries,
	uint32_t *count,
	const char **error
) {
	int rc = hd_plan_check(plan, input);
	if (rc < 0) {
		*error = plan->error;
		return rc;
	}
	free(plan->entries);
	plan->entries = calloc(input->item_count + 1, sizeof *plan->entries);
	if (plan->entries == NULL)
		return -ENOMEM;
	rc = plan_reference(input, plan->entries);
	if (rc < 0)
		return rc;
	*entries = plan->entries;
	*count = input->item_count;
	return 0;
}

const char *hd_plan_rule_name(uint8_t rule) {
	static const char *const names[]
		= {"shortest", "deadline", "aged", "tenant", "drop-bound", "drop-idles"};

	return rule < sizeof names / sizeof names[0] ? names[rule] : "unknown";
}
