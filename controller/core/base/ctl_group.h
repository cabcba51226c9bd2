/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: groups, the transfers that go over an aggregator (hd_plan_group.h).
 *
 *   pushes   workers --members--> aggregator --sum--> server      GROUP, MEMBERS, a GRANT to each worker
 *   pulls    server --copy--> aggregator --members--> workers     GROUP, a GRANT to the server, an EXPECT each
 *
 * Members and sum (or copy) are open transfers like others, each with its own path. A group's members are fixed: when a
 * member of a sum is voided, or its aggregator or server is lost, the whole group is voided, and the other workers ask
 * again. A relayed pull may end alone.
 */
#ifndef CTL_GROUP_H
#define CTL_GROUP_H

#include "ctl_transfer.h"
#include "hd_plan_group.h"

#define CTL_GROUP_WINDOW 64 /* pushes and pulls of a job that may be considered for groups */
#define CTL_GATHER_INTERVALS                                                                       \
	16 /* a transfer of more intervals than this waits one for others to group with */
#define CTL_GROUP_MARGIN 8 /* members of a sum are granted at least 1/8 of its time in advance */
#define CTL_GROUP_BACKOFF_NS                                                                       \
	HD_SECOND /* an aggregator that refused a group gets none for this time */
#define CTL_GROUPS_KEPT 32 /* ended ones, for the shell */
#define CTL_GROUP_ITEM_NS (20 * HD_US) /* a search for groups takes half of this for each item */
#define CTL_APART_UNKNOWN 0.5 /* first guess: the share by which a job's sparse updates differ, */
#define CTL_APART_LEARN 0.25 /* the weight of a new sum in it, */
#define CTL_APART_FORGET (1.0 / 64) /* and of a push that was granted without having been merged */
#define CTL_GROUP_WORK 3000 /* limit of placements in one search: about a millisecond */

/* A sum that a switch makes: its lease, ctl_group_slots.c. */
struct ctl_group_slots {
	uint64_t name;
	struct ctl_node *node; /* NULL: lost */
	uint16_t count, slots; /* values of a chunk */
	uint32_t wanted; /* slots for this rate and round-trip time */
	double rate; /* bytes/s of values, over the slowest link; 0: unknown */
	uint8_t receivers;
	bool held; /* in force: its members have been told */
	hd_ns asked;
	uint64_t results[CTL_GROUP_WINDOW]; /* tokens of the results to each member */
};

/* A lease whose group has ended, until its switch is told. After an applied sum the lease lasts until the copy of the
 * sum has ended, too. */
struct ctl_slots_over {
	TAILQ_ENTRY(ctl_slots_over) entry;
	uint64_t name;
	struct ctl_node *node;
	uint32_t job;
	uint16_t slots;
	uint64_t copy; /* its token; 0: none */
	hd_ns until; /* the lease ends at this time at the latest */
};
TAILQ_HEAD(ctl_slots_overs, ctl_slots_over);

struct ctl_group {
	TAILQ_ENTRY(ctl_group) entry;
	uint64_t token; /* names it to its aggregator */
	uint32_t number;
	struct ctl_job *job;
	struct ctl_node *aggregator; /* NULL: lost; or a switch, */
	struct ctl_group_slots *slots; /* with these slots; NULL: an aggregator */
	uint8_t direction, dtype;
	uint16_t exponent; /* of the fixed-point values */
	uint64_t bytes; /* of a merged sum: at most */
	uint32_t count, alive; /* members, and those that have not ended */
	struct ctl_transfer **members; /* [count] in planned order; NULL: ended */
	struct ctl_transfer *sum; /* or copy; NULL: ended */
	struct ctl_transfer *second; /* the copy to the replica, while granted; it ends by itself */
	uint64_t memory; /* bytes that the group takes there */
	bool failed; /* its open transfers are voided at the end of the call */
	enum hd_reason reason;
	hd_ns made;
	hd_ns collected; /* when the aggregator had all that it has so far; 0: nothing */
	double collected_s, limit_s, direct_s; /* as in hd_plan_group, from `made` */
	double finish_s; /* planned time of its last commit, or of the last delivery of the model */
};
TAILQ_HEAD(ctl_groups, ctl_group);

/* An ended group: the plan and its outcome. */
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

/* Tables for grouping besides the planner's scratch, and the results of the latest pass. */
struct ctl_grouping {
	struct hd_plan_grouper *grouper;
	uint32_t aggregator_count;
	struct ctl_node *aggregator[HD_PLAN_AGGREGATORS_MAX];
	double memory[HD_PLAN_AGGREGATORS_MAX];
	bool at_once[HD_PLAN_AGGREGATORS_MAX]; /* switches: their slots take almost no memory */
	/* Copied, as nodes may be lost. */
	char aggregator_host[HD_PLAN_AGGREGATORS_MAX][HD_NAME_BYTES_MAX + 1];
	struct hd_plan_grouped plan;
	uint64_t *sum_token; /* [room] by group of the plan: its sum's token, 0: not granted */
	uint32_t *sum_behind; /* [room] transfers of ours queued behind its sum */
	uint32_t room;
	uint64_t past_count; /* all groups that have ended */
	struct ctl_group_past past[CTL_GROUPS_KEPT]; /* a ring */
};

#endif
