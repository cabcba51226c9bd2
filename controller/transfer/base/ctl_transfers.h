/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the table of transfers, their reservations, grants and drops. */
#ifndef CTL_TRANSFERS_H
#define CTL_TRANSFERS_H

#include "ctl_core.h"

/* The parameters of a grant besides its entry. */
struct ctl_grant_with {
	uint64_t after; /* token of the transfer that it waits for; 0: none */
	uint32_t behind; /* transfers of ours that wait for it */
};

/* --- ctl_transfers.c --- */
/* Adds a pending transfer with the fields of this request. NULL: limit or memory. */
struct ctl_transfer *ctl_transfer_add(struct hd_controller *c, const struct ctl_transfer *like);
/* A token for a transfer of the job. Chunks between hosts carry a MAC, unless the job's workers declare otherwise; a
 * switch on the path adds chunks, and has no key. */
uint64_t ctl_token(struct hd_controller *c, const struct ctl_job *job, bool between_hosts);
void ctl_transfer_enter(struct ctl_transfer *transfer, enum ctl_transfer_state state);
/* Gives it a token: granted, or a credit. */
void ctl_transfer_open(struct hd_controller *c, struct ctl_transfer *transfer, uint64_t token);
void ctl_transfer_unroute(struct hd_controller *c, struct ctl_transfer *transfer);
/* Changes its path. */
void ctl_transfer_reroute(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_path *path
);
/* Finds the path once both ends are known; false before. */
bool ctl_transfer_route(struct hd_controller *c, struct ctl_transfer *transfer);
/* The transfer leaves the table. */
void ctl_credit_freed(struct ctl_transfer *t);
/* Removes it from all tables, and frees it. */
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
/* Sends EXPECT and GRANT of an open transfer (again). */
int ctl_grant_send(struct hd_controller *c, struct ctl_transfer *transfer, struct hd_sink *sink);
/* Sets the entry's times as reservations. */
void ctl_grant_reserve(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry
);
/* Grants this worker's next push before the worker asks. NULL: limit or memory. */
struct ctl_transfer *ctl_grant_ahead(
	struct hd_controller *c,
	struct ctl_node *worker,
	uint32_t round,
	uint64_t bytes,
	hd_ns expires
);
/* Opens a group's sum, or its copy, whose members are open; sends nothing. */
void ctl_grant_sum(
	struct hd_controller *c,
	struct ctl_transfer *sum,
	const struct hd_plan_entry *entry,
	const struct ctl_grant_with *with
);
/* Counts bytes that were granted to the job. */
void ctl_job_granted(struct ctl_job *job, uint8_t direction, uint64_t bytes);
/* A granted pull of the job has ended. */
void ctl_job_pulled(struct ctl_job *job, bool delivered);
/* Opens and counts the transfer; sends nothing. */
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
/* Counts a void of a grant. */
void ctl_void_count(struct hd_controller *c, struct ctl_transfer *transfer);
/* Voids a member of a group; the group's messages tell the other nodes. */
void ctl_void_quietly(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	enum hd_reason reason,
	struct hd_sink *sink
);

/* --- ctl_reserve.c --- */
/* The transfer has no reservation, only an expected start and finish. */
void ctl_reserve_nothing(struct ctl_transfer *t, hd_ns start, hd_ns finish);
/* A grant of an earlier controller process, with `left` bytes still to come. */
void ctl_reserve_restored(struct hd_controller *c, struct ctl_transfer *t, uint64_t left);
/* Lets the reservations of members whose sum goes through slots begin with the sum's. */
void ctl_reserve_slots(struct ctl_group *group);
/* The transfer could not begin before `at`; its reservation moves there. */
void ctl_reserve_from(struct ctl_transfer *t, hd_ns at);
/* Updates every open transfer's reservation and fills scratch.busy. 0 or -ENOMEM. */
int ctl_reserve_project(struct hd_controller *c);
/* The transfer is held: its reservation ends, and its rate becomes a sample. */
void ctl_report_held(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_msg_report *message,
	struct hd_sink *sink
);

/* --- ctl_scratch.c --- */
/* Tables for all links, and for `count` pending transfers. 0 or -ENOMEM. */
int ctl_scratch_links(struct hd_controller *c);
int ctl_scratch_items(struct ctl_scratch *scratch, uint32_t count);
void ctl_scratch_fini(struct ctl_scratch *scratch);

/* --- ctl_drop.c --- */
/* The numbers of the decision, and the name of the update that would have been granted instead. */
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
/* Refuses a request that is not in the table. `sum_id` and `words` are those of DROP; NULL: none. */
struct ctl_denial {
	enum hd_reason reason;
	uint64_t sum_id;
	bool restart; /* of a channel: its pairs are counted from 1 again */
	const char *words;
	uint32_t open_round; /* a collective in which the worker can still take part; 0: none */
};
void ctl_refuse_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *request,
	const struct ctl_denial *denial,
	struct hd_sink *sink
);
void ctl_drop_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *request,
	enum hd_reason reason,
	struct hd_sink *sink
);

#endif
