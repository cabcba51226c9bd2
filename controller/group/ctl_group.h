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

#include "ctl_types.h"
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

/* What grouping needs besides the planner's scratch, and what it found in the latest round. */
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

/* --- ctl_group_plan.c: in a round --- */
/* Groups what was planned; the entries of c->scratch are then those of the groups. */
void ctl_group_round(struct hd_controller *c);
/* The plan's group of an entry, NULL: direct. */
const struct hd_plan_group *ctl_group_of(const struct hd_controller *c, uint32_t entry);
/* Whether it is the first member of its group in the plan. */
bool ctl_group_leads(const struct hd_controller *c, uint32_t entry);
/* The links of an entry's transfer: its item's, or those of its way between worker and aggregator. */
struct hd_plan_way ctl_entry_way(const struct hd_controller *c, uint32_t entry);
/* The entry that this one waits for: of a sum its group's first member. HD_PLAN_NONE: none. */
uint32_t ctl_entry_before(const struct hd_controller *c, const struct hd_plan_entry *entry);
/* The token that it waits for, 0: none that the node in question knows. `group`: HD_PLAN_NONE, or of which it is the
 * sum. */
uint64_t
ctl_entry_after(const struct hd_controller *c, const struct hd_plan_entry *entry, uint32_t group);
void ctl_grouping_fini(struct ctl_grouping *grouping);

/* --- ctl_company.c: waiting for others --- */
/* A transfer of this direction ended; its worker asks for one. */
void ctl_rhythm_ended(struct ctl_node *worker, uint8_t direction, hd_ns now);
void ctl_rhythm_asked(struct ctl_node *worker, uint8_t direction, hd_ns now);
/* How long `due`, and what else goes with it (`count` in all), should wait for others, in s; 0: not at all. Together
 * they take the server's link for takes_s. */
double
ctl_company_wait(struct hd_controller *c, struct ctl_transfer *due, uint32_t count, double takes_s);

/* Whether these entries of the plan, which are due, should wait for others to go with them; `link` is what they take of
 * the server's link. */
bool ctl_waits_for_company(
	struct hd_controller *c,
	const uint32_t *members,
	uint32_t count,
	const struct hd_plan_entry *link
);

/* --- ctl_group.c: their life --- */
/* Grants a group of the latest plan whole. 0, or -errno: all of it stays pending. */
int ctl_group_grant(struct hd_controller *c, uint32_t group, struct hd_sink *sink);
/* It has ended as planned (NONE) or not: remembered, and recorded. */
void ctl_group_ended(struct hd_controller *c, const struct ctl_group *group, enum hd_reason reason);
/* A transfer of a group ends: it is the group's no more. */
void ctl_group_detach(struct hd_controller *c, struct ctl_transfer *t);
/* It cannot be kept. What is left of it is voided by ctl_groups_settle(). */
void ctl_group_fail(struct hd_controller *c, struct ctl_group *group, enum hd_reason reason);
void ctl_groups_settle(struct hd_controller *c, struct hd_sink *sink);
void ctl_group_aggregator_down(struct hd_controller *c, const struct ctl_node *aggregator);
/* An aggregator's report. False: of no group of these. */
bool ctl_group_report(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct hd_msg_report *report,
	struct hd_sink *sink
);
/* What a group of so many such updates, or a model relayed, takes of an aggregator's memory (hd_reduce.h). */
uint64_t
ctl_group_memory(const struct hd_controller *c, const struct ctl_transfer *t, uint32_t count);
/* What open groups and all-reduces leave of an aggregator's memory. */
uint64_t ctl_memory_left(const struct hd_controller *c, const struct ctl_node *aggregator);
/* Why it did not make, or keep, a group: it may get none of this job for a while. Others have shares of their own. */
void ctl_group_refused(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct ctl_job *job,
	uint8_t reason
);
/* It is in that while. */
bool ctl_group_refuses(
	const struct hd_controller *c,
	const struct ctl_node *aggregator,
	const struct ctl_job *job
);
/* How big sparse updates may be together, for their sum not to be bigger than a dense one. */
double ctl_group_room(const struct ctl_job *job);
/* A merged sum is there: learns how much its members had in common. */
void ctl_group_learn(struct ctl_transfer *sum, const struct hd_msg_report *report);
void ctl_groups_fini(struct hd_controller *c);

/* --- ctl_group_say.c: their messages --- */
/* GROUP, or SLOTS, and MEMBERS or the copy's GRANT; members are told by ctl_grant_say(). */
int ctl_group_say(struct hd_controller *c, struct ctl_group *group, struct hd_sink *sink);
void ctl_group_say_void(
	struct hd_controller *c,
	const struct ctl_group *group,
	enum hd_reason reason,
	struct hd_sink *sink
);

/* --- ctl_group_slots.c: sums that a switch makes ------------------------------------------ */
/* Groups may go through this node: an aggregator, or a switch. */
bool ctl_may_group(const struct hd_controller *c, const struct ctl_node *node);
/* There are such nodes, and they may be used. */
bool ctl_groups_possible(const struct hd_controller *c);
/* Whether this worker's push may go into slots of the switch, and some are left. */
bool ctl_slots_may(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_transfer *t,
	const struct ctl_node *worker
);
/* Slots leased to groups of the job (NULL: of all). */
uint32_t ctl_slots_leased(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_job *job
);
/* The job's leases for groups of pushes anywhere, with those whose end the switch has yet to be told. */
void ctl_slots_of(
	const struct hd_controller *c,
	const struct ctl_job *job,
	uint32_t *leases,
	uint32_t *slots
);
/* Slots for a group of these; NULL: there are none. Owned by the caller. */
struct ctl_group_slots *ctl_slots_take(
	struct hd_controller *c,
	struct ctl_node *node,
	struct ctl_transfer *const *members,
	uint32_t count,
	struct hd_sink *sink
);
void ctl_slots_book(struct ctl_group *group);
/* The sum is held: so are its members. */
void ctl_slots_held(const struct ctl_group *group);
/* SLOTS to the switch. 0 or -errno. */
int ctl_slots_say(struct hd_controller *c, struct ctl_group *group, struct hd_sink *sink);
/* What a member's GRANT says of them. */
void ctl_slots_grant(const struct ctl_transfer *t, struct hd_msg_grant *m);
/* The switch's word. False: of no group's lease. */
bool ctl_slots_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *m,
	struct hd_sink *sink
);
/* This member ends, maybe before it was told of its grant: then it hears of both now, and asks again. What the server
 * says of it makes no sense to it otherwise. */
void ctl_slots_untold(struct hd_controller *c, struct ctl_transfer *t, struct hd_sink *sink);
/* The group is over: the switch is told at the next check. */
void ctl_slots_end(struct hd_controller *c, struct ctl_group *group);
void ctl_slots_switch_down(struct hd_controller *c, const struct ctl_node *node);
/* Its sum was not finite: the job's next ones go otherwise for a while. */
void ctl_slots_spoilt(struct hd_controller *c, const struct ctl_group *group, uint8_t reason);
/* The replica does not take its copy of a sum. */
void ctl_slots_copy_lost(struct hd_controller *c, const struct ctl_transfer *copy);
/* Leases that nobody answered for, or that are over. Returns when to look again. */
hd_ns ctl_slots_check(struct hd_controller *c, struct hd_sink *sink);
void ctl_slots_fini(struct hd_controller *c);

#endif
