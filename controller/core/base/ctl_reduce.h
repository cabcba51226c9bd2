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

#include "ctl_transfer.h"

#define CTL_REDUCES_MAX 64 /* of one job under way */
#define CTL_REDUCE_PATIENCE_NS (10 * HD_SECOND) /* how long a round waits for an aggregator */
/* How often the next life is told which round has begun, while the same workers make them. */
#define CTL_REDUCE_KEEP_NS HD_SECOND

enum ctl_part {
	CTL_PART_NONE,
	CTL_PART_OUT, /* withdrew: not waited for */
	CTL_PART_VOID, /* was under way when the round failed: asks again, unless it has its sum */
	CTL_PART_ASKED,
	CTL_PART_TOLD, /* under way */
	CTL_PART_GONE, /* the same, but it is gone: it may have its sum, or get it */
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

#define CTL_REDUCE_WAIT_NS (10 * HD_MS) /* for memory at the aggregators */

#endif
