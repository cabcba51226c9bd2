/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: all-reduces from request to end. */
#ifndef CTL_ALLREDUCE_H
#define CTL_ALLREDUCE_H

#include "ctl_core.h"

/* --- ctl_reduce_send.c --- */
/* The buffers for a round's messages; when they are there, the round cannot fail to begin. */
struct ctl_reduce_buffers {
	struct hd_group_shard *tokens; /* the shards of each worker in turn */
	uint8_t *blob[2]; /* HD_MESSAGE_BYTES_MAX each */
};

/* --- ctl_reduce_tell.c --- */
/* The event's kind and reason, and what the round is. */
void ctl_reduce_event(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	const struct hd_event *event,
	struct hd_sink *sink
);
/* Refuses this worker's request. */
void ctl_reduce_send_drop(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	uint16_t worker,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* Drops the requests of all members, and forgets the round. */
void ctl_reduce_drop_all(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* The round cannot be (r->wrong): those that have asked are told, and are OUT. */
void ctl_reduce_tell_wrong(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
);
/* The message's token and reason. */
void ctl_reduce_send_void(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_node *node,
	const struct hd_msg_void_ *message,
	struct hd_sink *sink
);

/* This member's values are not needed any more. */
void ctl_reduce_send_reduced(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	uint16_t worker,
	struct hd_sink *sink
);

/* --- ctl_reduce.c --- */
/* The slots that a failed round used cannot be used by others either: all rounds of the lease fail with it. */
void ctl_reduce_fail(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* This worker has ended the round without its sum: the others do not wait for it. */
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
/* This worker has its sum: without its values the others cannot get theirs any more. */
void ctl_reduce_has_sum(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	uint16_t worker,
	struct hd_sink *sink
);
/* Begins the round when all workers have asked, or are not waited for any more, and there is an aggregator; a late
 * aggregator is waited for. */
void ctl_reduce_consider(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
);
/* After a worker was attached, and after a node was lost. */
void ctl_reduce_joined(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* The slots of these rounds are lost: the rounds are void, and the lease ends. */
void ctl_reduce_lease_lost(
	struct hd_controller *c,
	struct ctl_lease *lease,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* Checks rounds that wait for a time or for an aggregator. */
void ctl_reduce_check(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_reduce_nodes.c --- */
/* A worker registers, before it is answered: a round of which it has the sum is over for the others, too. */
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

/* --- ctl_reduce_send.c --- */
/* For the workers that have asked. NONE, REFUSED (too many workers), NO_MEMORY. */
enum hd_reason ctl_reduce_prepare(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	struct ctl_reduce_buffers *buffers
);
/* Sends REDUCE to the workers that are STARTED, and GROUP to the aggregators; frees the buffers. */
void ctl_reduce_send(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	struct ctl_reduce_buffers *buffers,
	struct hd_sink *sink
);

/* Sends REDUCE of a short collective once more to this member. 0, -ENOMEM. */
int ctl_reduce_send_again(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	uint16_t worker,
	struct hd_sink *sink
);

/* --- ctl_reduce_show.c --- */
#define CTL_RANKS_BYTES 80
/* Ranks, as `1, 4 and 3 more`: for which the job's oldest collective waits, and without which one began. */
struct ctl_reduce_ranks {
	char waits_for[CTL_RANKS_BYTES], left_out[CTL_RANKS_BYTES];
};
void ctl_reduce_waits(const struct ctl_job *job, struct ctl_reduce_ranks *ranks);

/* --- ctl_reduce_switch.c --- */
/* A switch's report about a lease. */
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

/* --- ctl_reduce_roll.c --- */
/* Whether this worker calls the roll while others call something else: it is late to the round. If the others call the
 * roll, these are told so, and the round is of this call. */
bool ctl_roll_must_wait(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	const struct hd_msg_request *m,
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
/* An aggregator's report about a group. True when the group belongs to an all-reduce. */
bool ctl_reduce_group_report(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct hd_msg_report *report,
	struct hd_sink *sink
);

#endif
