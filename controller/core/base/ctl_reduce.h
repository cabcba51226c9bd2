/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: all-reduces. A round begins when every worker of the job has asked for it, or is not waited
 * for any more (ctl_wait.c); its values are cut into shards over the aggregators (hd_shards.h), each a group whose
 * inputs and outputs are the workers.
 *
 *   REQUEST(reduce) of each worker --> GROUP to the aggregators, REDUCE to the workers --> REPORT of each worker
 *
 * A job that gave its initial number of workers waits for that many once. After that a round needs all registered
 * workers, except those whose time is over; a lost worker is not waited for. A new controller waits for as many
 * workers as the newest sum had, but only for the time that they need to notice the loss of the old controller;
 * aggregators have the same time to register. A worker that ended a round, with its sum or without, repeats that in its
 * next request, as its REPORT may be lost.
 *
 * When an aggregator or a member is lost during a round, the whole round is void and all workers ask again. A worker
 * that already has its sum is not asked to repeat the round, and the others are told that it is lost. A worker that the
 * controller cannot reach may have the sum all the same: the others repeat the round, and that worker is told with its
 * next request (ctl_job.unconfirmed).
 *
 * When all members can share memory, the round goes through it, and neither through shards nor slots (ctl_shared.c).
 * When there is a switch on the path, the round goes through its slots instead of shards (ctl_lease.h).
 */
#ifndef CTL_REDUCE_H
#define CTL_REDUCE_H

#include "ctl_transfer.h"

/* Of one job in progress: a worker that has ended as many as others have in progress may ask for as many again. */
#define CTL_REDUCES_MAX (2 * HD_REDUCES_MAX)
#define CTL_REDUCE_PATIENCE_NS (10 * HD_SECOND) /* how long a round waits for an aggregator */
/* How long a job that has made rounds waits for a member that a round must have and that this process never saw: once,
 * until the job has more workers than it had. */
#define CTL_REDUCE_MEMBERS_NS (2 * HD_SECOND)
/* How long the first round of a job that said how many workers it has waits for those that have not called it, if it
 * does not say: a job's processes load their data and models at different speeds. */
#define CTL_REDUCE_FIRST_NS (30 * HD_SECOND)
/* How often the newest round is written to the state directory, while the same workers take part. */
#define CTL_REDUCE_KEEP_NS HD_SECOND

/* A call of a worker: all members of a round must call the same (ctl_call.c). */
struct ctl_call {
	uint8_t collective; /* enum hd_collective */
	uint8_t dtype, op, order; /* op: enum hd_reduce_op */
	uint16_t root; /* of a collective that has one, else 0 */
	uint16_t exact; /* members that it must have; 0: those that are there */
	uint16_t least; /* that many must have asked; 0: any number */
	uint32_t wait_ms; /* for those that have not asked; 0: the default */
	uint64_t bytes; /* of a worker's values, or of its block */
	char tag[HD_NAME_BYTES_MAX + 1];
	bool roll; /* HD_REQUEST_ROLL: matched with such calls only */
};

enum ctl_part {
	CTL_PART_NONE,
	CTL_PART_OUT, /* withdrew: not waited for */
	CTL_PART_VOID, /* in progress when the round failed: asks again, unless it has its sum */
	CTL_PART_ASKED,
	CTL_PART_STARTED, /* in progress */
	CTL_PART_GONE, /* the same, but it is lost: it may have its sum, or still get it */
	CTL_PART_GIVEN, /* it was, and is back: it receives nothing, and has given its values */
	CTL_PART_DONE
};

struct ctl_inline;
struct ctl_lease;

struct ctl_shard {
	uint64_t group;
	struct ctl_node *aggregator; /* NULL: it is gone, and no member needs it */
	uint64_t first, bytes; /* of the round's values */
	uint64_t memory; /* bytes that it takes there */
	uint32_t transfers; /* that it has there: inputs and outputs */
	uint16_t owner; /* the member whose block it is of, if there are blocks */
	uint16_t giver; /* of an all-to-all: the member that gives it to the owner */
};

struct ctl_reduce {
	TAILQ_ENTRY(ctl_reduce) entry;
	uint32_t round;
	struct ctl_call call;
	uint16_t caller; /* whose request it was */
	uint64_t room[HD_WORKERS_MAX]; /* that the member has for its result; 0: enough */
	/* Why it cannot be: each worker that asks is told; NONE: it can. */
	enum hd_reason wrong;
	char words[HD_TEXT_BYTES_MAX + 1];
	uint8_t dtype, op, order; /* of the call */
	uint64_t bytes; /* that it is about */
	bool begun;
	/* Number of the attempt: over all controller processes the largest is the newest. */
	uint64_t sum_id;
	float scale; /* of the roster of this attempt */
	hd_ns waits_from; /* since then it waits for those that have not asked; 0: none has */
	bool rooted; /* its root has asked: from then on it waits for the others */
	hd_ns alone_since; /* all have asked, but no node can add; 0: not so */
	hd_ns short_since; /* all have asked, but they are fewer than there must be; 0: not so */
	uint32_t count[CTL_PART_DONE + 1]; /* workers by part; NONE is not kept */
	uint8_t part[HD_WORKERS_MAX], attempt[HD_WORKERS_MAX];
	bool has[HD_WORKERS_MAX]; /* of a broadcast: the member has the values */
	uint16_t waiting; /* workers that call the roll, and so take no part */
	bool receives[HD_WORKERS_MAX]; /* of members in progress: it has a result to receive */
	uint32_t receiving; /* of those that are STARTED */
	uint64_t token[HD_WORKERS_MAX]; /* one of the tokens by which its worker knows it */
	float peak[HD_WORKERS_MAX]; /* largest absolute value */
	bool avoid; /* some members have values that no switch can add, */
	bool stood_still; /* or the round stalled there */
	uint32_t switch_failures; /* times that it was void there */
	struct ctl_lease *lease; /* the lease that it uses; NULL: shards, or shared memory */
	bool by_network; /* a member cannot make it in shared memory */
	uint64_t shared; /* token of the memory that it uses; 0: none */
	uint32_t turn; /* its place among the rounds there */
	/* Of a round through slots: its start; the rate that members were given (bytes/s of values; 0: none); and the
	 * longest time of a member that has the sum. */
	hd_ns begun_at, took;
	double sent_rate;
	uint32_t shard_count;
	struct ctl_shard *shards;
	struct ctl_inline *values; /* that came with requests; NULL: none */
	bool inlined; /* in progress: its result is made of them, here */
	uint32_t link_count; /* of its hosts, while it is in progress */
	uint32_t *links;
};

struct hd_controller;

#define CTL_REDUCE_WAIT_NS (10 * HD_MS) /* for memory at the aggregators, and for earlier rounds */

#endif
