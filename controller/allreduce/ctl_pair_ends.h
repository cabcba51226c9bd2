/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/allreduce: pairs from request to end.
 *
 *   ctl_pair_tell.c   what the ends are told
 *   ctl_pair_begin.c  when a pair begins, and when it is void
 *   ctl_pair_ask.c    messages of workers and aggregators, nodes that come and go
 */
#ifndef CTL_PAIR_ENDS_H
#define CTL_PAIR_ENDS_H

#include "ctl_pairs.h"
#include "ctl_transfers.h"

/* --- ctl_pair_tell.c --- */
/* GROUP and REDUCE, to both ends. */
void ctl_pair_send(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_pair *pair,
	struct hd_sink *sink
);
/* The aggregator forgets the group. */
void ctl_pair_void_group(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	enum hd_reason reason,
	struct hd_sink *sink
);
void ctl_pair_send_void(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	enum ctl_end end,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* The receiver has it. */
void ctl_pair_send_reduced(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	struct hd_sink *sink
);
/* This end is told why there will be no such pair. */
void ctl_pair_send_drop(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	enum ctl_end end,
	const struct ctl_denial *denial,
	struct hd_sink *sink
);
/* Asks this end what it knows of the channel. */
void ctl_pair_send_question(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	enum ctl_end end,
	struct hd_sink *sink
);

/* --- ctl_pair_begin.c --- */
/* Begins the pair when both ends have asked; asks, or gives up an end, whose time has come. May forget the pair. */
void ctl_pair_consider(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_pair *pair,
	struct hd_sink *sink
);
/* The other end is told that this one ends it, or is lost; the pair is forgotten. */
void ctl_pair_give_up(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_pair *pair,
	enum ctl_end end,
	const char *why,
	struct hd_sink *sink
);
/* The attempt in progress is void: both ends ask again. */
void ctl_pair_fail(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_pair *pair,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* The receiver has it: so the sender is done. The pair is forgotten. */
void ctl_pair_deliver(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_pair *pair,
	struct hd_sink *sink
);

/* --- ctl_pair_ask.c --- */
/* Messages with a channel. */
void ctl_pair_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *request,
	struct hd_sink *sink
);
void ctl_pair_cancel(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_cancel *cancel,
	struct hd_sink *sink
);
void ctl_pair_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *report,
	struct hd_sink *sink
);
/* A worker says what it knows of a channel. */
void ctl_pair_answer(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_channel *answer,
	struct hd_sink *sink
);
/* An aggregator's report about a group. True when the group is a pair's. */
bool ctl_pair_group_report(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct hd_msg_report *report,
	struct hd_sink *sink
);
/* A worker registers: a new process of it, or one that was here before. */
void ctl_pair_attach(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	bool is_new,
	struct hd_sink *sink
);
void ctl_pair_worker_down(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	struct hd_sink *sink
);
/* `delivered`: it has ended with its worker, when all its values had arrived. */
void ctl_pair_aggregator_down(
	struct hd_controller *c,
	const struct ctl_node *aggregator,
	bool delivered,
	struct hd_sink *sink
);
/* Pairs that wait for a time, for an aggregator, or for the end of others. */
void ctl_pair_check(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);

#endif
