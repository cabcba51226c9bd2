/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller's records for its history (hd_journal.h): one flat record for each job, plan, decision, completion,
 * node and command. A field that a kind does not use is 0. Times are the core's clock. Texts belong to the core and are
 * valid during the call.
 */
#ifndef HD_RECORD_H
#define HD_RECORD_H

#include "hd_types.h"

enum hd_record_kind {
	/* New or changed description: text tenant/job; bytes of the model, deadline = tau_max. */
	HD_RECORD_JOB,
	HD_RECORD_PLAN, /* a pass: count pending, granted, dropped; finish_s it covers */
	HD_RECORD_DECISION, /* granted, dropped or voided (what), with the decision's numbers */
	HD_RECORD_COMPLETION, /* reported by the receiver */
	HD_RECORD_NODE, /* what: up or down; text its host */
	HD_RECORD_COMMAND, /* what: the verb; text the command, detail the answer, who the sender */
	HD_RECORD_KINDS
};

struct hd_record {
	hd_ns at;
	enum hd_record_kind kind;
	const char *what; /* static: "granted", "up", "pause", ... */
	const char *reason; /* static: why not; "none" */
	const char *rule; /* static: of the plan */
	const char *text, *detail, *who;
	uint32_t job, round, deadline;
	uint16_t worker;
	uint8_t direction, attempt;
	bool worker_known;
	uint64_t bytes, position, count, granted, dropped;
	hd_version base, version;
	double start_s, finish_s, runner_up_s, slack; /* from `at` */
	double rate_bps, duration_s;
};

#endif
