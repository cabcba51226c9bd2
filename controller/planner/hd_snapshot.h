/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One moment of a network as JSON, planned by the controller's own planner: a researcher's way in.
 * docs/schedule.md describes both formats.
 */
#ifndef HD_SNAPSHOT_H
#define HD_SNAPSHOT_H

#include "hd_plan_group.h"

#include <jansson.h>

struct hd_snapshot;

/* -EINVAL with "line L: field: what (limit)" in error; -ENOMEM. Total: any text gives one or the other. */
int hd_snapshot_parse(
	const char *text,
	struct hd_snapshot **snapshot,
	char *error,
	size_t error_bytes
);
void hd_snapshot_destroy(struct hd_snapshot *snapshot);
/* Lives as long as the snapshot. */
const struct hd_plan_input *hd_snapshot_input(const struct hd_snapshot *snapshot);
/* What grouping gets, of this plan. False: the snapshot has no aggregators. */
bool hd_snapshot_group_input(
	const struct hd_snapshot *snapshot,
	const struct hd_plan_entry *entries,
	uint32_t count,
	struct hd_plan_group_input *input
);
/* The plan as a JSON document, or NULL without memory; json_decref it. grouped: what grouping made of it, NULL
 * without aggregators. */
json_t *hd_snapshot_plan(
	const struct hd_snapshot *snapshot,
	const struct hd_plan_entry *entries,
	uint32_t count,
	const struct hd_plan_grouped *grouped
);

#endif
