/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the life of all-reduces. */
#ifndef CTL_ALLREDUCE_H
#define CTL_ALLREDUCE_H

#include "ctl_core.h"

/* --- ctl_reduce_say.c --- */
/* What a round is told with; it cannot fail any more when this is there. */
struct ctl_reduce_words {
	struct hd_group_shard *tokens; /* of each worker's shards in turn */
	uint8_t *blob[2]; /* HD_MESSAGE_BYTES_MAX each */
};

/* --- ctl_reduce.c --- */
/* Slots that one round leaves in the middle are no others' either: all rounds of the lease go with it. */
void ctl_reduce_fail(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* This worker has ended the round without its sum: nobody waits for it there. */
void ctl_reduce_drop_out(
	struct hd_controller *c,
	struct ctl_job *job,
	uint32_t round,
	uint16_t worker,
	struct hd_sink *sink
);
void ctl_reduce_settle(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
);
/* It has its sum: the others can not get theirs without it any more. */
void ctl_reduce_has_sum(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	uint16_t worker,
	struct hd_sink *sink
);
/* Whether everybody has asked, and there is somebody to add: a late aggregator is waited for. */
void ctl_reduce_consider(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
);
/* After a worker was attached, and after a node went down. */
void ctl_reduce_joined(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* The slots that these rounds go through are gone: they are void, and the lease ends. */
void ctl_reduce_lease_lost(
	struct hd_controller *c,
	struct ctl_lease *lease,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* A worker registers: what it has the sum of is over for the others, too. Before it is answered. */
void ctl_reduce_attach(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
);
void ctl_reduce_worker_down(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	struct hd_sink *sink
);
void ctl_reduce_aggregator_down(
	struct hd_controller *c,
	const struct ctl_node *aggregator,
	struct hd_sink *sink
);
/* Rounds that waited for a time or for an aggregator. */
void ctl_reduce_check(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_reduce_say.c --- */
/* For those that have asked. NONE, REFUSED (too many workers), NO_MEMORY. */
enum hd_reason ctl_reduce_prepare(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	struct ctl_reduce_words *words
);
/* Tells those that are TOLD and the aggregators; frees the words. */
void ctl_reduce_say(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	struct ctl_reduce_words *words,
	struct hd_sink *sink
);

/* --- ctl_reduce_switch.c --- */
/* A switch's word on a lease. */
void ctl_lease_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *m,
	struct hd_sink *sink
);
void ctl_lease_switch_down(
	struct hd_controller *c,
	const struct ctl_node *node,
	struct hd_sink *sink
);

/* --- ctl_reduce_ask.c --- */
void ctl_reduce_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *request,
	struct hd_sink *sink
);
void ctl_reduce_cancel(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_cancel *cancel,
	struct hd_sink *sink
);
/* A worker has its sum, or could not get it. */
void ctl_reduce_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *report,
	struct hd_sink *sink
);
/* An aggregator's word on a group. True when it was one of these. */
bool ctl_reduce_group_report(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct hd_msg_report *report,
	struct hd_sink *sink
);

#endif
