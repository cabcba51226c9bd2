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
/* Adds a granted byte to the deficits of all busy tenants by weight, and subtracts it from that of the tenant that got
 * it. */
void ctl_tenant_charge(struct hd_controller *c, const struct ctl_transfer *t);
/* Marks the busy tenants, which have a transfer that waits or runs (an idle tenant keeps no deficit), and those that
 * have pushes in flight, and none pending. */
void ctl_tenants_mark(struct hd_controller *c);
/* Whether the transfer should be granted as late as possible: another tenant has a larger deficit, nothing pending, and
 * pushes in flight after which it will ask. */
bool ctl_tenant_may_wait(const struct hd_controller *c, const struct ctl_transfer *t);

/* --- ctl_group_wait.c --- */
/* A transfer in this direction ended; the worker asks for one. */
void ctl_rhythm_ended(struct ctl_node *worker, uint8_t direction, hd_ns now);
void ctl_rhythm_asked(struct ctl_node *worker, uint8_t direction, hd_ns now);
/* How long `due`, and the others of its group (`count` in all), should wait for more members, in s; 0: not at all.
 * Together they take the server's link for takes_s. */
double
ctl_group_wait_s(struct hd_controller *c, struct ctl_transfer *due, uint32_t count, double takes_s);
/* Whether these due entries of the plan should wait for more members of a group; `link` is their use of the server's
 * link. */
bool ctl_waits_for_group(
	struct hd_controller *c,
	const uint32_t *members,
	uint32_t count,
	const struct hd_plan_entry *link
);

/* --- ctl_credit.c --- */
/* A push of this worker (NULL: lost) was applied: its next one may be granted in advance. */
void ctl_credit_next(
	struct hd_controller *c,
	struct ctl_node *worker,
	uint64_t pushed_bytes,
	struct hd_sink *sink
);
/* A worker that registers may send its first pull to the server at once, if the model is small. */
void ctl_credit_joins(struct hd_controller *c, struct ctl_node *worker, struct hd_sink *sink);
/* The worker pulls: it has joined the job, and its first push may be granted in advance. */
void ctl_credit_begins(struct hd_controller *c, struct ctl_node *worker, struct hd_sink *sink);
/* A report about a credit gives the fields that only the server knew. False: it was not spent. */
bool ctl_credit_reported(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_msg_report *message
);
/* A pull on a credit has ended. */
void ctl_credit_pulled(
	struct hd_controller *c,
	struct ctl_node *worker,
	const struct hd_msg_report *message,
	struct hd_sink *sink
);
/* Takes back the credits that would not be granted any more, after an operator changed a setting. */
void ctl_credits_review(struct hd_controller *c, struct hd_sink *sink);
/* Takes back the job's unspent credits, for a request that would be dropped for its bound. False: none. */
bool ctl_credits_make_room(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);

/* --- ctl_report.c --- */
/* The newest commit of the job that its server has reported. */
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
/* Whether this transfer is planned in this pass; asked once for each, in the order of requests. */
bool ctl_sync_takes(struct hd_controller *c, const struct ctl_transfer *t);

/* --- ctl_void.c --- */
/* Gives up an open transfer: tells the server, frees it. */
void ctl_void(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* Voids open transfers that are far too late. */
void ctl_void_stuck(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_pass_input.c --- */
/* 0 or -ENOMEM: no planning. */
int ctl_pass_input(struct hd_controller *c);

#endif
