/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: groups: planning, grants, messages, reports. */
#ifndef CTL_GROUPING_H
#define CTL_GROUPING_H

#include "ctl_core.h"

struct hd_rows;

/* --- ctl_group_plan.c --- */
/* Forms groups in the latest plan; the entries of c->scratch are those of the groups afterwards. */
void ctl_group_pass(struct hd_controller *c);
/* The plan's group of an entry, NULL: it goes directly. */
const struct hd_plan_group *ctl_group_of(const struct hd_controller *c, uint32_t entry);
/* Whether it is the first member of its group in the plan. */
bool ctl_group_leads(const struct hd_controller *c, uint32_t entry);
/* The links of an entry's transfer: its item's path, or its path between worker and aggregator. */
struct hd_plan_path ctl_entry_path(const struct hd_controller *c, uint32_t entry);
/* The entry that this one waits for; for a sum, its group's first member. HD_PLAN_NONE: none. */
uint32_t ctl_entry_before(const struct hd_controller *c, const struct hd_plan_entry *entry);
/* The token that it waits for, 0: none that the node in question knows. `group`: HD_PLAN_NONE, or the group whose sum
 * it is. */
uint64_t
ctl_entry_after(const struct hd_controller *c, const struct hd_plan_entry *entry, uint32_t group);
void ctl_grouping_fini(struct ctl_grouping *grouping);

/* --- ctl_group.c --- */
/* The total size of sparse updates up to which their sum is no larger than a dense one. */
double ctl_group_room(const struct ctl_job *job);
/* Grants a group of the latest plan as a whole. 0, or -errno: all of it stays pending. */
int ctl_group_grant(struct hd_controller *c, uint32_t group, struct hd_sink *sink);
void ctl_groups_settle(struct hd_controller *c, struct hd_sink *sink);
/* An aggregator's report. False: it is about none of these groups. */
bool ctl_group_report(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct hd_msg_report *report,
	struct hd_sink *sink
);

/* --- ctl_group_send.c --- */
/* GROUP, or SLOTS, and MEMBERS or the copy's GRANT; members are told by ctl_grant_send(). */
int ctl_group_send(struct hd_controller *c, struct ctl_group *group, struct hd_sink *sink);
void ctl_group_send_void(
	struct hd_controller *c,
	const struct ctl_group *group,
	enum hd_reason reason,
	struct hd_sink *sink
);

/* --- ctl_group_slots.c --- */
/* Whether this worker's push may use slots of the switch, and some are free. */
bool ctl_slots_may(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_transfer *t,
	const struct ctl_node *worker
);
/* Slots for a group of these; NULL: there are none. Owned by the caller. */
struct ctl_group_slots *ctl_slots_take(
	struct hd_controller *c,
	struct ctl_node *node,
	struct ctl_transfer *const *members,
	uint32_t count,
	struct hd_sink *sink
);
/* SLOTS to the switch. 0 or -errno. */
int ctl_slots_send(struct hd_controller *c, struct ctl_group *group, struct hd_sink *sink);
/* The switch's report. False: about no group's lease. */
bool ctl_slots_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *m,
	struct hd_sink *sink
);
/* This member ends, maybe before it received its grant: then it gets both messages now, and asks again. It could not
 * interpret the server's message otherwise. */
void ctl_slots_unsent(struct hd_controller *c, struct ctl_transfer *t, struct hd_sink *sink);
/* Checks leases that are unanswered or over. Returns the time of the next check. */
hd_ns ctl_slots_check(struct hd_controller *c, struct hd_sink *sink);
/* The sum was not finite: the job's next ones take another path for a while. */
void ctl_slots_spoilt(struct hd_controller *c, const struct ctl_group *group, uint8_t reason);

/* --- ctl_group_show.c --- */
extern const struct hd_row_shape ctl_groups_row_shape;
uint64_t ctl_rows_groups(const struct hd_controller *c, struct hd_rows *rows);
/* Why these go over an aggregator, as a sentence in text. */
const char *ctl_group_why(
	const struct hd_controller *c,
	const struct hd_plan_group *group,
	char *text,
	size_t bytes
);

#endif
