/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the table of transfers, what of each link they take, grants and drops. */
#ifndef CTL_TRANSFERS_H
#define CTL_TRANSFERS_H

#include "ctl_core.h"

/* What a grant is given with besides its entry. */
struct ctl_grant_with {
	uint64_t after; /* token of what it waits for; 0: nothing */
	uint32_t behind; /* transfers of ours that wait for it */
};

/* --- ctl_transfers.c --- */
/* A pending transfer like this one, which has what was asked for, in the table. NULL: limit or memory. */
struct ctl_transfer *ctl_transfer_add(struct hd_controller *c, const struct ctl_transfer *like);
/* The name of a transfer of the job. The chunks of one between hosts are sealed, unless the job's workers want it
 * otherwise; a switch on the path adds chunks up, and has no key. */
uint64_t ctl_token(struct hd_controller *c, const struct ctl_job *job, bool between_hosts);
void ctl_transfer_enter(struct ctl_transfer *transfer, enum ctl_transfer_state state);
/* It has a token: granted, or a credit. */
void ctl_transfer_open(struct hd_controller *c, struct ctl_transfer *transfer, uint64_t token);
void ctl_transfer_unroute(struct hd_controller *c, struct ctl_transfer *transfer);
/* Gives it another path. */
void ctl_transfer_reroute(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_way *way
);
/* Works out the path once both ends are known; false while they are not. */
bool ctl_transfer_route(struct hd_controller *c, struct ctl_transfer *transfer);
/* It leaves the table. */
void ctl_credit_freed(struct ctl_transfer *t);
/* Out of every table, and freed. */
void ctl_transfer_free(struct hd_controller *c, struct ctl_transfer *transfer);

/* --- ctl_grant.c --- */
struct hd_event ctl_transfer_event(
	const struct hd_controller *c,
	const struct ctl_transfer *t,
	enum hd_event_kind kind,
	enum hd_reason reason
);
void ctl_record_decision(
	const struct hd_controller *c,
	const struct ctl_transfer *t,
	const struct ctl_why *why,
	const char *what,
	enum hd_reason reason
);
/* Says EXPECT and GRANT of an open transfer (again). */
int ctl_grant_say(struct hd_controller *c, struct ctl_transfer *transfer, struct hd_sink *sink);
/* The entry's times into the books. */
void ctl_grant_book(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry
);
/* Grants this worker's push of the round before it asks. NULL: limit or memory. */
struct ctl_transfer *ctl_grant_ahead(
	struct hd_controller *c,
	struct ctl_node *worker,
	uint32_t round,
	uint64_t bytes,
	hd_ns expires
);
/* Opens a group's sum, or its copy, whose members are open; says nothing. */
void ctl_grant_sum(
	struct hd_controller *c,
	struct ctl_transfer *sum,
	const struct hd_plan_entry *entry,
	const struct ctl_grant_with *with
);
/* So many bytes were granted to the job. */
void ctl_job_granted(struct ctl_job *job, uint8_t direction, uint64_t bytes);
/* A granted pull of the job has ended. */
void ctl_job_pulled(struct ctl_job *job, bool delivered);
/* Opens it and counts it; says nothing. */
void ctl_grant_open(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry,
	const struct ctl_grant_with *with,
	struct hd_sink *sink
);
/* Grants one entry of the latest plan. 0, or -errno: then it stays pending. */
int ctl_grant(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry,
	const struct ctl_grant_with *with,
	struct hd_sink *sink
);
/* A grant is taken back. */
void ctl_void_count(struct hd_controller *c, struct ctl_transfer *transfer);
/* Voids one of a group, which is told of by the group's other ends. */
void ctl_void_quietly(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	enum hd_reason reason,
	struct hd_sink *sink
);

/* --- ctl_book.c --- */
/* Nothing is reserved for it: it is expected between these. */
void ctl_book_nothing(struct ctl_transfer *t, hd_ns start, hd_ns finish);
/* An earlier life granted it, and so many bytes are still to come. */
void ctl_book_restored(struct hd_controller *c, struct ctl_transfer *t, uint64_t left);
/* The members of a sum by slots begin with it. */
void ctl_book_slots(struct ctl_group *group);
/* It could not begin before `at`, and goes on from there as it was to. */
void ctl_book_begins(struct ctl_transfer *t, hd_ns at);
/* Brings every open transfer's reservation up to date and fills scratch.busy. 0 or -ENOMEM. */
int ctl_book_project(struct hd_controller *c);
/* It is held whole: the network is free again, and what it took is a sample. */
void ctl_report_held(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_msg_report *message,
	struct hd_sink *sink
);

/* --- ctl_scratch.c --- */
/* Room for all links, and for so much that is pending. 0 or -ENOMEM. */
int ctl_scratch_links(struct hd_controller *c);
int ctl_scratch_items(struct ctl_scratch *scratch, uint32_t count);
void ctl_scratch_fini(struct ctl_scratch *scratch);

/* --- ctl_drop.c --- */
/* The numbers of the decision, with names for the update that would otherwise have gone. */
struct ctl_why ctl_why_of(const struct hd_controller *c, const struct hd_plan_entry *entry);
void ctl_log_drop(struct hd_controller *c, const struct ctl_drop *drop);
/* Why a plan dropped an entry. */
enum hd_reason ctl_drop_reason(const struct hd_plan_entry *entry);
void ctl_drop(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* Answers a request that never came into the table. */
void ctl_drop_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *request,
	enum hd_reason reason,
	struct hd_sink *sink
);

#endif
