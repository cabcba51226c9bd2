/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grouping: the planned transfers that go through an aggregator (MLfabric, SoCC '20, section 4.3; our choices are in
 * docs/schedule.md). Pure functions on a finished plan (hd_plan.h).
 *
 *   pushes of a job in planned order   g1  g2 | g3 g4 | g5 g6 g7 | g8
 *                                      direct   one sum   one sum  direct
 *
 *   server's link  |==g1==|==g2==|==g3+g4==|==g5+g6+g7==|==g8==|
 *   aggregator 1   |==g3==|==g4==|                               collected when the server's link becomes free
 *   aggregator 2   |==g5==|==g6==|===g7====|
 *
 * and the reverse for pulls: the model leaves the server once for an aggregator, which sends it to many. Positions stay
 * as planned, and with them every delay and bound.
 */
#ifndef HD_PLAN_GROUP_H
#define HD_PLAN_GROUP_H

#include "hd_plan.h"

/* In `after`, marks the index of a group instead of an entry: the end of its sum, or of its copy. */
#define HD_PLAN_AFTER_GROUP UINT32_C(0x40000000)

struct hd_plan_path {
	uint8_t count; /* 0: on one host */
	uint32_t links[HD_PLAN_PATH_MAX];
};

/* The paths over an aggregator. Each function returns false when there is none, or it must not be used. */
struct hd_plan_paths {
	const void *context;
	/* Between an item's worker and the aggregator: to it of a push, from it of a pull. */
	bool (*member
	)(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_path *path);
	/* Between the aggregator and the server of the item's job: to the server of a push, from it of a pull. */
	bool (*trunk
	)(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_path *path);
};

struct hd_plan_group_input {
	const struct hd_plan_input *plan;
	const struct hd_plan_entry *entries; /* of hd_plan_run() for it */
	uint32_t entry_count;
	uint32_t aggregator_count; /* <= HD_PLAN_AGGREGATORS_MAX */
	const double *memory; /* [aggregator_count] units that groups may hold there */
	struct hd_plan_paths paths;
	/* [link_count] The known rate of a single transfer on each link, which may be planned with more for several;
	 * NULL: the links' capacities. */
	const double *flow;
	/* [aggregator_count] True for a switch, which stores nothing: all pushes of a group go through it at once, no
	 * faster than their sum. NULL: none is one. */
	const bool *at_once;
	/* The sum is sent while the last members still arrive: it may be complete only when it ends at the server.
	 * Otherwise an aggregator stores and forwards (MLfabric). */
	bool streaming;
	/* Spares the server's link: of all groupings that end at most a tenth later than without groups, the one with
	 * the fewest transfers there. A group may be collected after that link has become free. */
	bool spare;
	uint32_t window; /* pushes and pulls of each job to consider; the rest goes directly */
	uint32_t work; /* transfers placed at most while searching */
};

struct hd_plan_group {
	uint8_t direction; /* enum hd_plan_direction */
	uint32_t aggregator;
	uint32_t first, count; /* in the result's members */
	uint32_t at; /* placed at the turn of this entry */
	/* The one transfer between aggregator and server. `item` is its first member's. Of pushes it starts when
	 * collected, and commits all members; of pulls it finishes when the aggregator has the copy. */
	struct hd_plan_entry sum;
	struct hd_plan_path trunk;
	double amount; /* of the sum, or the copy */
	/* Why: */
	double collected; /* when the last member's last unit is at the aggregator (pulls: the copy's) */
	double limit; /* latest time for that: the server's link becomes free */
	double direct; /* when the last member would have committed without the group */
};

struct hd_plan_grouped {
	/* All entries again, in the same order; unchanged without groups. A member's transfer is that between its
	 * worker and the aggregator; it commits with its group. */
	const struct hd_plan_entry *entries;
	uint32_t group_count;
	const struct hd_plan_group *groups;
	const uint32_t *members; /* entries, each group's in planned order */
	const struct hd_plan_path *member_paths; /* path between each and the aggregator */
	const uint32_t *group_of; /* [entry_count] HD_PLAN_NONE: direct; NULL without groups */
	uint32_t work; /* transfers placed */
};

struct hd_plan_grouper; /* scratch memory, reused from call to call */

int hd_plan_grouper_create(struct hd_plan_grouper **grouper);
void hd_plan_grouper_destroy(struct hd_plan_grouper *grouper);

/* Forms the groups that gain time. The result belongs to the grouper until the next call. Returns 0, -EINVAL (too many
 * aggregators, entries that are not of the plan), -ENOMEM. */
int hd_plan_group_run(
	struct hd_plan_grouper *grouper,
	const struct hd_plan_group_input *input,
	struct hd_plan_grouped *result
);

#endif
