/* SPDX-License-Identifier: BSD-3-Clause */
/* What reading a snapshot and writing its plan share. */
#ifndef HD_SNAPSHOT_INTERNAL_H
#define HD_SNAPSHOT_INTERNAL_H

#include "hd_snapshot.h"

struct hd_snapshot_id {
	const json_t *value;
};

struct hd_snapshot {
	struct hd_plan_input input;
	json_t *root; /* holds every name and id */
	json_t *links, *jobs, *tenants; /* name -> index */
	double *capacity;
	struct hd_plan_busy *busy;
	struct hd_plan_item *items;
	struct hd_snapshot_id
		*ids; /* [item_count] as they were written, in order: id 1 is the first */
	struct hd_plan_tenant tenant[HD_JOBS_MAX];
	struct hd_plan_job job[HD_JOBS_MAX];
	struct hd_plan_job defaults; /* what the root says */
	bool listed_jobs, listed_tenants;
};

#endif
