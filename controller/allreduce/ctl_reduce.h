/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: all-reduces. A round begins when every worker of the job has asked for it; its values
 * are cut into shards over the aggregators (hd_shards.h), each a group whose inputs and outputs are the workers.
 *
 *   REQUEST(reduce) of each worker --> GROUP to the aggregators, REDUCE to the workers --> REPORT of each worker
 *
 * A job that said how many workers it begins with waits for them once. After that whoever is registered counts:
 * a worker that is gone is not waited for. A new controller waits for as many as were in the newest sum, but not
 * longer than they need to notice that the old one is gone; and it gives aggregators as long to register. Who has
 * ended a round, with its sum or without, says so with the next request, should the word have been lost.
 *
 * When an aggregator or a member is lost under way the whole round is void and everybody asks again; who has its
 * sum already is not asked to repeat it, and those that have not are told that it is lost. Who is cut off from here may
 * have it all the same: the others make it again, and that one is told with its next request (ctl_job.doubt).
 *
 * Where there is a switch on the path the round goes through its slots instead of shards (ctl_lease.h).
 */
#ifndef CTL_REDUCE_H
#define CTL_REDUCE_H

#include "ctl_types.h"

#define CTL_REDUCES_MAX 64 /* of one job under way */
#define CTL_REDUCE_PATIENCE_NS (10 * HD_SECOND) /* how long a round waits for an aggregator */
#define CTL_REDUCE_KEEP_NS HD_SECOND /* how often the next life is told which round has begun */

enum ctl_part {
	CTL_PART_NONE,
	CTL_PART_OUT, /* withdrew: not waited for */
	CTL_PART_VOID, /* was under way when the round failed: asks again, unless it has its sum */
	CTL_PART_ASKED,
	CTL_PART_TOLD, /* under way */
	CTL_PART_GONE, /* the same, but its lease has ended: it may have its sum, or get it */
	CTL_PART_DONE
};

struct ctl_lease;

struct ctl_shard {
	uint64_t group;
	struct ctl_node *aggregator;
	uint64_t bytes, memory; /* that it takes there */
};

struct ctl_reduce {
	TAILQ_ENTRY(ctl_reduce) entry;
	uint32_t round;
	uint8_t dtype, order;
	uint64_t bytes;
	bool begun;
	uint64_t
		making; /* which time it is made: of all lives of controllers the greatest is the newest */
	float scale; /* of the roster as it is made */
	hd_ns alone_since; /* everybody has asked, and nobody can add; 0: not so */
	uint32_t count[CTL_PART_DONE + 1]; /* workers by part; NONE is not kept */
	uint8_t part[HD_WORKERS_MAX], attempt[HD_WORKERS_MAX];
	uint64_t token[HD_WORKERS_MAX]; /* one of those that its worker knows it by */
	float peak[HD_WORKERS_MAX]; /* greatest absolute value */
	bool avoid; /* some of them have values that no switch can sum, */
	bool stood_still; /* or it did not get on there */
	uint32_t switch_failures; /* times that it was void there */
	struct ctl_lease *lease; /* through which it goes; NULL: over shards */
	/* Of the lease's: since when, what its members were told of the rate (bytes/s of values; 0: nothing), and how
	 * long the slowest of those that have the sum took. */
	hd_ns begun_at, took;
	double told;
	uint32_t shard_count;
	struct ctl_shard *shards;
	uint32_t link_count; /* of its hosts, while it is under way */
	uint32_t *links;
};

struct hd_controller;

/* --- ctl_reduce_table.c --- */
struct ctl_reduce *ctl_reduce_find(const struct ctl_job *job, uint32_t round);
void ctl_reduce_part(struct ctl_reduce *r, uint16_t worker, enum ctl_part part);
/* Has asked for nothing, or not again. */
bool ctl_reduce_is_idle(const struct ctl_reduce *r, uint16_t worker);
/* Whoever has ended this round already, and those that came later, are not waited for. */
void ctl_reduce_leave_out(const struct ctl_job *job, struct ctl_reduce *r);
/* NULL: limit or memory. */
struct ctl_reduce *ctl_reduce_add(struct ctl_job *job, const struct hd_msg_request *m);
void ctl_reduce_forget(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r);
/* This worker has that sum; round 0: it has none, making 0: it does not say which. Nobody makes the round again. Who
 * has one of an older making is in doubt. */
void ctl_reduce_learn(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	const struct ctl_sum *sum
);
/* Whether its sum of the round is of another making than this. */
bool ctl_reduce_has_other(
	const struct ctl_job *job,
	uint16_t worker,
	uint32_t round,
	uint64_t making
);
/* It was cut off with the sum of a round that the others made again: it goes other ways than they. */
bool ctl_reduce_is_apart(struct ctl_job *job, const struct hd_msg_request *m);
void ctl_reduce_fini(struct hd_controller *c, struct ctl_job *job);

/* --- ctl_reduce.c and others --- */
/* Sets job->formed when everybody is there who belongs to it: ctl_form.c. */
void ctl_reduce_form(struct hd_controller *c, struct ctl_job *job);
/* Tells the next life, soon, which round has begun: whoever joins then begins behind it. */
void ctl_reduce_keep(struct hd_controller *c, struct ctl_job *job);
/* The slots that these rounds go through are gone: they are void, and the lease ends. */
void ctl_reduce_lease_lost(
	struct hd_controller *c,
	struct ctl_lease *lease,
	enum hd_reason reason,
	struct hd_sink *sink
);
bool ctl_reduce_any_aggregator(const struct hd_controller *c);
/* Whether groups may be given to this node. */
bool ctl_may_add(const struct ctl_node *node);
/* --- ctl_reduce_say.c --- */
/* What a round is told with; it cannot fail any more when this is there. */
struct ctl_reduce_words {
	struct hd_group_shard *tokens; /* of each worker's shards in turn */
	uint8_t *blob[2]; /* HD_MESSAGE_BYTES_MAX each */
};
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

#define CTL_REDUCE_WAIT_NS (10 * HD_MS) /* for memory at the aggregators */
/* Bytes that rounds under way hold at an aggregator. */
uint64_t ctl_reduce_held_bytes(const struct hd_controller *c, const struct ctl_node *aggregator);
/* Cuts the values over the aggregators: sets r->shards. HOLD: not yet, others hold their memory. */
enum hd_reason
ctl_reduce_cut(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r);

/* How long that would take when nobody else was there, in s; INFINITY: it would not go. */
double
ctl_reduce_seconds(struct hd_controller *c, const struct ctl_job *job, const struct ctl_reduce *r);
/* --- ctl_reduce_sample.c --- */
/* It begins: its hosts' links are not idle. */
void ctl_reduce_occupy(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r);
/* It has ended. */
void ctl_reduce_vacate(struct hd_controller *c, struct ctl_reduce *r);
/* A worker's values have come to an aggregator. */
void ctl_reduce_came(
	struct hd_controller *c,
	const struct ctl_node *aggregator,
	const struct hd_msg_report *report
);
/* A shard of the sum has come to a worker. False: there is no such shard. */
bool ctl_reduce_went(
	struct hd_controller *c,
	const struct ctl_reduce *r,
	const struct ctl_node *worker,
	const struct hd_msg_report *report
);

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
/* A worker registers: what it has the sum of is over for the others, too. Before it is answered. */
void ctl_reduce_attach(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
);
/* Rounds that waited for a time or for an aggregator. */
void ctl_reduce_check(struct hd_controller *c, struct hd_sink *sink);
/* After a worker was attached, and after a node went down. */
void ctl_reduce_joined(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
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

#endif
