/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: requests, planning passes, credits, and how transfers end. */
#ifndef CTL_REQUESTS_H
#define CTL_REQUESTS_H

#include "ctl_core.h"

/* --- ctl_request.c --- */
void ctl_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *message,
	struct hd_sink *sink
);
void ctl_cancel(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_cancel *message,
	struct hd_sink *sink
);

/* --- ctl_pass.c --- */
void ctl_pass(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_fair.c --- */
/* A granted byte is owed to every busy tenant by its weight; the one that got it has paid. */
void ctl_tenant_charge(struct hd_controller *c, const struct ctl_transfer *t);
/* Which tenants are busy, as something of theirs waits or runs (one that is idle neither saves nor owes), and which
 * will ask when what they have under way is through. */
void ctl_tenants_mark(struct hd_controller *c);
/* Whether it should be granted no sooner than it must: to another tenant more is owed, which has nothing pending but
 * will when what it has under way is through. */
bool ctl_tenant_may_wait(const struct hd_controller *c, const struct ctl_transfer *t);

/* --- ctl_company.c --- */
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

/* --- ctl_credit.c --- */
/* A push of this worker (NULL: gone) was applied: its next one may be granted in advance. */
void ctl_credit_next(
	struct hd_controller *c,
	struct ctl_node *worker,
	uint64_t pushed_bytes,
	struct hd_sink *sink
);
/* A worker that registers may ask the server for its first pull, if the model is small. */
void ctl_credit_joins(struct hd_controller *c, struct ctl_node *worker, struct hd_sink *sink);
/* It pulls: it has joined the job, and its first push may be granted in advance. */
void ctl_credit_begins(struct hd_controller *c, struct ctl_node *worker, struct hd_sink *sink);
/* A report about a credit: what only the server knew is known now. False: it was not spent. */
bool ctl_credit_reported(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_msg_report *message
);
/* A pull that the server was asked for on a credit has ended. */
void ctl_credit_pulled(
	struct hd_controller *c,
	struct ctl_node *worker,
	const struct hd_msg_report *message,
	struct hd_sink *sink
);
/* Takes back what would not be given any more, after an operator changed something. */
void ctl_credits_review(struct hd_controller *c, struct hd_sink *sink);
/* Takes back the job's unspent credits, for a request that would be dropped for its bound. False: none. */
bool ctl_credits_make_room(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);

/* --- ctl_report.c --- */
/* The newest commit of the job that its server has told of. */
void ctl_job_version(struct ctl_job *job, hd_version version);
void ctl_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *message,
	struct hd_sink *sink
);

/* --- ctl_sync.c --- */
/* Before a pass: drops the pushes of synchronous jobs whose step has ended. */
void ctl_sync_pass(struct hd_controller *c, struct hd_sink *sink);
/* Whether this transfer is planned in this pass; asked once for each, in the order of asking. */
bool ctl_sync_takes(struct hd_controller *c, const struct ctl_transfer *t);

/* --- ctl_void.c --- */
/* Gives up an open transfer: tells the server, frees it. */
void ctl_void(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* Open transfers that are hopelessly late. */
void ctl_void_stuck(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_pass_input.c --- */
/* 0 or -ENOMEM: nothing is planned. */
int ctl_pass_input(struct hd_controller *c);

#endif
