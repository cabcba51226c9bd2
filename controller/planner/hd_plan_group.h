/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grouping: which of the planned transfers go through an aggregator (MLfabric, SoCC '20, section 4.3; our
 * choices are in docs/schedule.md). Pure functions on a finished plan (hd_plan.h).
 *
 *   pushes of a job in planned order   g1  g2 | g3 g4 | g5 g6 g7 | g8
 *                                      direct   one sum   one sum  direct
 *
 *   server's link  |==g1==|==g2==|==g3+g4==|==g5+g6+g7==|==g8==|
 *   aggregator 1   |==g3==|==g4==|                               collected when the server's link comes free
 *   aggregator 2   |==g5==|==g6==|===g7====|
 *
 * and the reverse for pulls: the model leaves the server once for an aggregator, which sends it to many.
 * Positions stay as they were planned, and with them every delay and bound.
 */
#ifndef HD_PLAN_GROUP_H
#define HD_PLAN_GROUP_H

#include "hd_plan.h"

/* A group's index instead of an entry's, in `after`: the end of its sum, or of its copy. */
#define HD_PLAN_AFTER_GROUP UINT32_C(0x40000000)

struct hd_plan_way {
	uint8_t count; /* 0: on one host */
	uint32_t links[HD_PLAN_PATH_MAX];
};

/* How the network leads over an aggregator. Each returns false when it does not, or must not. */
struct hd_plan_ways {
	const void *context;
	/* Between an item's worker and the aggregator: to it of a push, from it of a pull. */
	bool (*member
	)(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_way *way);
	/* Between the aggregator and the server of the item's job: to the server of a push, from it of a pull. */
	bool (*trunk
	)(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_way *way);
};

struct hd_plan_group_input {
	const struct hd_plan_input *plan;
	const struct hd_plan_entry *entries; /* of hd_plan_run() for it */
	uint32_t entry_count;
	uint32_t aggregator_count; /* <= HD_PLAN_AGGREGATORS_MAX */
	const double *memory; /* [aggregator_count] units that groups may hold there */
	struct hd_plan_ways ways;
	/* [link_count] What one transfer is known to get of each link, which may be planned with more than that for
	 * several; NULL: the links' capacities. */
	const double *flow;
	/* [aggregator_count] It keeps nothing, as a switch: pushes go through it all at once, no faster than their sum. NULL:
	 * none is such. */
	const bool *at_once;
	/* The sum leaves while the last members still arrive: it may be collected as late as it arrives at
	 * the server. Otherwise an aggregator stores and forwards (MLfabric). */
	bool streaming;
	/* The server's link is to be spared: of all ways that end at most a tenth later than all direct, the one with
	 * the fewest transfers there. A group may be collected after that link has come free. */
	bool spare;
	uint32_t window; /* pushes and pulls of each job that are looked at; the rest goes direct */
	uint32_t work; /* transfers placed at most while searching */
};

struct hd_plan_group {
	uint8_t direction; /* enum hd_plan_direction */
	uint32_t aggregator;
	uint32_t first, count; /* in the result's members */
	uint32_t at; /* it is placed when it is this entry's turn */
	/* The one transfer between aggregator and server. `item` is its first member's. Of pushes it starts
	 * when collected, and commits all members; of pulls it finishes when the aggregator has the copy. */
	struct hd_plan_entry sum;
	struct hd_plan_way trunk;
	double amount; /* of the sum, or the copy */
	/* Why: */
	double collected; /* when the last member's last unit is at the aggregator (pulls: the copy's) */
	double limit; /* when it had to be: the server's link comes free from what goes before */
	double direct; /* when the last member would have committed, all of them direct */
};

struct hd_plan_grouped {
	/* All entries again, in the same order. Without groups: the very same. A member's transfer is that
	 * between its worker and the aggregator; it commits with its group. */
	const struct hd_plan_entry *entries;
	uint32_t group_count;
	const struct hd_plan_group *groups;
	const uint32_t *members; /* entries, each group's in planned order */
	const struct hd_plan_way *member_ways; /* between each and the aggregator */
	const uint32_t *group_of; /* [entry_count] HD_PLAN_NONE: direct; NULL without groups */
	uint32_t work; /* transfers placed */
};

struct hd_plan_grouper; /* scratch memory, reused from call to call */

int hd_plan_grouper_create(struct hd_plan_grouper **grouper);
void hd_plan_grouper_destroy(struct hd_plan_grouper *grouper);

/* Groups what gains by it. The result's storage belongs to the grouper until the next call.
 * Returns 0, -EINVAL (too many aggregators, entries that are not of the plan), -ENOMEM. */
int hd_plan_group_run(
	struct hd_plan_grouper *grouper,
	const struct hd_plan_group_input *input,
	struct hd_plan_grouped *result
);

#endif
