/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: groups, the transfers that go over an aggregator (hd_plan_group.h).
 *
 *   pushes   workers --members--> aggregator --sum--> server      GROUP, MEMBERS, a GRANT to each worker
 *   pulls    server --copy--> aggregator --members--> workers     GROUP, a GRANT to the server, an EXPECT each
 *
 * Members and sum (or copy) are open transfers like others, each on its own way. What a group holds is fixed: when a
 * member of a sum is voided, or its aggregator or server is lost, all of it is, and the others ask again. A relayed
 * pull may end alone.
 */
#ifndef CTL_GROUP_H
#define CTL_GROUP_H

#include "ctl_transfer.h"
#include "hd_plan_group.h"

#define CTL_GROUP_WINDOW 64 /* pushes and pulls of a job that are looked at for groups */
#define CTL_GATHER_INTERVALS                                                                       \
	16 /* who takes longer than this waits one for others to be grouped with */
#define CTL_GROUP_MARGIN 8 /* of a sum's time is left when its members are granted at the latest */
#define CTL_GROUP_BACKOFF_NS                                                                       \
	HD_SECOND /* an aggregator that refused a group gets none for so long */
#define CTL_GROUPS_KEPT 32 /* ended ones, for the shell */
#define CTL_GROUP_ITEM_NS (20 * HD_US) /* a look for groups costs half of it for each */
#define CTL_APART_UNKNOWN 0.5 /* how much sparse updates of a job are believed to differ, */
#define CTL_APART_LEARN 0.25 /* what a sum counts in it, */
#define CTL_APART_FORGET (1.0 / 64) /* and a push that is granted without having been merged */
#define CTL_GROUP_WORK 3000 /* transfers placed at most while searching: about a millisecond */

/* Of a sum that a switch makes: its lease, ctl_group_slots.c. */
struct ctl_group_slots {
	uint64_t name;
	struct ctl_node *node; /* NULL: gone */
	uint16_t count, slots; /* values of a chunk */
	uint32_t wanted; /* slots that rate and round trip ask for */
	double rate; /* bytes/s of values, over the slowest link; 0: unknown */
	uint8_t receivers;
	bool held; /* in force: its members were told */
	hd_ns asked;
	uint64_t results[CTL_GROUP_WINDOW]; /* tokens of what comes back to each member */
};

/* A lease whose group has ended, until its switch is told: of a sum that was applied, when its copy has ended, too. */
struct ctl_slots_over {
	TAILQ_ENTRY(ctl_slots_over) entry;
	uint64_t name;
	struct ctl_node *node;
	uint32_t job;
	uint16_t slots;
	uint64_t copy; /* its token; 0: none */
	hd_ns until; /* no longer than this */
};
TAILQ_HEAD(ctl_slots_overs, ctl_slots_over);

struct ctl_group {
	TAILQ_ENTRY(ctl_group) entry;
	uint64_t token; /* names it to its aggregator */
	uint32_t number;
	struct ctl_job *job;
	struct ctl_node *aggregator; /* NULL: gone; or a switch, */
	struct ctl_group_slots *slots; /* by these; NULL: an aggregator */
	uint8_t direction, dtype;
	uint16_t exponent; /* of fixed point */
	uint64_t bytes; /* of a merged sum: at most */
	uint32_t count, alive; /* members, and how many of them are not ended */
	struct ctl_transfer **members; /* [count] in planned order; NULL: ended */
	struct ctl_transfer *sum; /* or copy; NULL: ended */
	struct ctl_transfer *second; /* to the replica, while it is granted: it ends by itself */
	uint64_t memory; /* that it takes there */
	bool failed; /* what is left of it is voided at the end of the call */
	enum hd_reason reason;
	hd_ns made;
	hd_ns collected; /* when the aggregator had the last of what it has so far; 0: nothing */
	double collected_s, limit_s, direct_s; /* as in hd_plan_group, from `made` */
	double finish_s; /* the same: when its last member was to be committed, or had the model */
};
TAILQ_HEAD(ctl_groups, ctl_group);

/* One that has ended: what the plan said, and what came of it. */
struct ctl_group_past {
	uint32_t number, count;
	uint8_t direction;
	enum hd_reason reason; /* NONE: applied, or relayed */
	uint64_t bytes;
	hd_ns made, ended;
	double collected_s, limit_s, direct_s, finish_s;
	char job[HD_NAME_BYTES_MAX + 1], aggregator[HD_NAME_BYTES_MAX + 1];
};

struct hd_controller;

/* What grouping needs besides the planner's scratch, and what it found in the latest pass. */
struct ctl_grouping {
	struct hd_plan_grouper *grouper;
	uint32_t aggregator_count;
	struct ctl_node *aggregator[HD_PLAN_AGGREGATORS_MAX];
	double memory[HD_PLAN_AGGREGATORS_MAX];
	bool at_once
		[HD_PLAN_AGGREGATORS_MAX]; /* switches: what their slots hold is next to nothing */
	char aggregator_host[HD_PLAN_AGGREGATORS_MAX][HD_NAME_BYTES_MAX + 1]; /* they may go */
	struct hd_plan_grouped plan;
	uint64_t *sum_token; /* [room] by group of the plan: of its sum, 0: not granted */
	uint32_t *sum_behind; /* [room] transfers of ours queued behind its sum */
	uint32_t room;
	uint64_t past_count; /* all that have ended */
	struct ctl_group_past past[CTL_GROUPS_KEPT]; /* a ring */
};

#endif
