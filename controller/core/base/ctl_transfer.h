/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: transfers from their request to their end, and the records of ended ones. */
#ifndef CTL_TRANSFER_H
#define CTL_TRANSFER_H

#include "ctl_job.h"
#include "hd_message.h"
#include "hd_plan.h"

struct ctl_span {
	hd_ns start, end;
	double rate; /* bytes a second */
};

/* Only ctl_transfer_enter() changes it. In all states but the first the transfer is open: it has a token. */
enum ctl_transfer_state {
	CTL_PENDING, /* asked for */
	CTL_CREDITED, /* granted in advance: base and bytes are unknown before it is reported */
	CTL_GRANTED, /* its bytes arrive */
	CTL_HELD /* every byte has arrived; only the commit is pending */
};

/* A decision and its numbers, for the shell and the DROP message. */
struct ctl_why {
	struct hd_plan_why plan;
	hd_ns decided;
	uint32_t runner_up_round;
	uint16_t runner_up_worker;
};

struct ctl_transfer {
	TAILQ_ENTRY(ctl_transfer) entry; /* pending: by arrival; open: by grant */
	LIST_ENTRY(ctl_transfer) by_key, by_token;
	enum ctl_transfer_state state;
	uint64_t id; /* by arrival; ties in the plan go to the smaller */
	struct ctl_job *job;
	uint16_t worker;
	uint32_t round;
	uint8_t direction, attempt, dtype;
	bool conditional;
	uint64_t bytes;
	float norm, peak;
	hd_version base, have;
	hd_ns asked;
	uint8_t path_count; /* 0: unknown (no server, or rebuilt before its worker registered) */
	uint32_t path[HD_PLAN_PATH_MAX];
	uint32_t item; /* its index in the input of pass `item_pass` */
	uint64_t item_pass;
	/* valid after the grant */
	uint64_t token, position, after;
	uint64_t planned; /* the version counter that its commit should make */
	float asked_weight; /* the weight of a federated job's push; 1: any other */
	float weight, cc_weight;
	hd_ns granted, start, finish; /* as granted */
	struct hd_segs segments; /* relative to `granted` */
	struct ctl_why why;
	struct ctl_group *group; /* its group; NULL: none */
	uint32_t group_slot; /* its index among the members */
	bool is_sum; /* a group's sum, or a copy of one: of no worker */
	bool tracked; /* counted in its worker's node */
	bool restored; /* known from INFLIGHT: granted by an earlier process, or sent directly */
	bool credit; /* it was granted in advance */
	uint8_t reserved_count;
	struct ctl_span reserved[HD_SEGMENTS_MAX]; /* its remaining reservation */
	hd_ns overrun_since; /* 0: on time */
	hd_ns group_wait_since; /* due since then, but waits for others to group with; 0: no */
	hd_ns group_wait_until;
};
TAILQ_HEAD(ctl_transfers, ctl_transfer);
LIST_HEAD(ctl_bucket, ctl_transfer);

/* A decision against an update, kept for the shell. */
struct ctl_drop {
	hd_ns at;
	uint32_t job;
	uint16_t worker;
	uint8_t direction, attempt, reason;
	uint32_t round;
	uint64_t bytes;
	hd_version base;
	struct ctl_why why;
};

struct ctl_past {
	hd_ns start, end;
	double rate; /* bytes a second */
	double most; /* the highest rate at any moment */
	uint64_t token, bytes;
	double limited; /* the share of its time in which its own pacing was the limit */
	bool beside; /* no sample of its own: it only ran beside others */
	uint8_t path_count;
	uint32_t path[HD_PLAN_PATH_MAX];
};

#endif
