/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the reader of problems and the writer of their plans. */
#ifndef HD_PROBLEM_INTERNAL_H
#define HD_PROBLEM_INTERNAL_H

#include "hd_json.h"
#include "hd_problem.h"

#define SECONDS_MAX 1e9
#define UNITS_MAX 1e18
#define READ_NUMBERS(in, wanted) hd_json_numbers(in, wanted, sizeof(wanted) / sizeof *(wanted))

struct hd_problem_id {
	const json_t *value;
};

/* An aggregator by the links of its host. */
struct hd_problem_aggregator {
	struct hd_plan_path in, out; /* towards it, away from it */
};

struct hd_problem {
	struct hd_plan_input input;
	json_t *root; /* holds every name and id */
	json_t *links, *jobs, *tenants; /* name -> index */
	double *capacity;
	struct hd_plan_busy *busy;
	struct hd_plan_item *items;
	struct hd_problem_id
		*ids; /* [item_count] as they were written, in order: id 1 is the first */
	struct hd_plan_tenant tenant[HD_JOBS_MAX];
	struct hd_plan_job job[HD_JOBS_MAX];
	struct hd_plan_job defaults; /* of the root */
	bool listed_jobs, listed_tenants;
	json_t *aggregator_names; /* name -> index */
	uint32_t aggregator_count;
	bool streaming;
	struct hd_problem_aggregator aggregator[HD_PLAN_AGGREGATORS_MAX];
	double memory[HD_PLAN_AGGREGATORS_MAX];
};

struct hd_problem_reader {
	struct hd_json_reader json;
	struct hd_problem *problem;
};

/* --- hd_problem.c: used by all readers --- */
/* Adds a name; its index is the number of names so far. 0, -ENOMEM, -EINVAL with a text when it is a duplicate. */
int hd_problem_add_name(
	const struct hd_problem_reader *reader,
	const char *prefix,
	json_t *index,
	const char *name
);
/* Its index, or -ENOENT. */
int hd_problem_find_name(const json_t *index, const char *name);

/* --- hd_problem_links.c --- */
int hd_problem_read_links(
	const struct hd_problem_reader *reader,
	const struct hd_json_object *root
);
int hd_problem_read_busy(const struct hd_problem_reader *reader, const struct hd_json_object *root);
/* Index of the link that the value names, or -EINVAL with a text. */
int hd_problem_link(const struct hd_problem_reader *reader, const char *field, const json_t *value);

/* --- hd_problem_group.c --- */
int hd_problem_read_aggregators(
	const struct hd_problem_reader *reader,
	const struct hd_json_object *root
);
json_t *hd_problem_groups(const struct hd_problem *problem, const struct hd_plan_grouped *grouped);
const char *hd_problem_aggregator_name(const struct hd_problem *problem, uint32_t aggregator);
/* --- hd_problem_plan.c --- */
json_t *hd_problem_id_of(const struct hd_problem *problem, uint64_t id);
json_t *hd_problem_segments_of(const struct hd_plan_entry *entry);
/* after, after_group or after_token, if it waits for one. */
void hd_problem_tell_after(
	const struct hd_problem *problem,
	const struct hd_plan_entry *entries,
	const struct hd_plan_entry *entry,
	json_t *json
);

#endif
