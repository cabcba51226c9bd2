/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: leases of slots at switches on the path, through which all-reduces go.
 *
 *   all workers asked --> a lease of just these workers? --yes------------------------> REDUCE(slots)
 *                           | no                                                       ^
 *                           v                                                          |
 *                         a switch that fits? --SLOTS--> the switch --REPORT(applied)--+
 *                           | no: why                       | REPORT(failed), or no answer in CTL_LEASE_WAIT_NS
 *                           v                               v
 *                         shards over aggregators <---------+
 *
 * A job has at most one lease. It is kept from round to round while the same workers take part; such a round needs no
 * message to the switch. Its number of slots is the number of chunks in flight at the rate of the slowest link (rate
 * times round-trip time), whatever the size of the model, and at most the job's share of the switch: each job that uses
 * the switch has one share. The lease ends when no round used it for CTL_LEASE_IDLE_NS, or when another job needs slots
 * between two of its rounds.
 *
 * A switch is used when the paths from it to the workers share no link (so each path between two workers passes it),
 * when it can add their chunks, and when the slowest link needs no more time than with aggregators.
 *
 * A worker that is lost is removed from the lease at once, so that the others need not wait for it. When only some
 * chunks have its values, the others notice that and ask again; then the lease and all its rounds are void.
 */
#ifndef CTL_LEASE_H
#define CTL_LEASE_H

#include "ctl_reduce.h"
#include "hd_switch_numbers.h"

#define CTL_LEASE_WAIT_NS (500 * HD_MS) /* for the switch's answer */
#define CTL_LEASE_REST_NS HD_SECOND /* after a switch refused one, or did not answer */
#define CTL_LEASE_IDLE_NS (10 * HD_SECOND) /* kept for this time without a round */
/* For this time after a round its job keeps its share of the links: workers compute between two rounds. */
#define CTL_LEASE_PAUSE_NS (100 * HD_MS)
#define CTL_LEASE_BUSY_NS (2 * HD_MS) /* how often a waiting round checks for the end of others */
#define CTL_LEASE_EXPIRES_US 10000000u /* if no controller renews or ends it */
#define CTL_LEASE_FAILURES 2 /* of one round; then it goes over aggregators */
#define CTL_LEASE_STILL_ALONE 16 /* of a round that stalled there when no aggregator can add it */
/* Limits of the round-trip time from which the number of slots follows: long enough for a pause of a process, but not
 * for an outlier. Too many slots do no harm, as congestion control limits the bytes in flight. */
#define CTL_LEASE_RTT_LEAST_NS (2 * HD_MS)
#define CTL_LEASE_RTT_MOST_NS (10 * HD_MS)
/* Slots of a job: the minimum that it accepts, the minimum that it asks for when chunks are small, and the maximum. */
#define CTL_LEASE_SLOTS_LEAST 16
#define CTL_LEASE_SLOTS_FLOOR 64
#define CTL_LEASE_SLOTS_MOST 1024
#define CTL_LEASE_WINDOW_BYTES 131072 /* of chunks on the link: an ordinary queue holds this much */
#define CTL_LEASE_LATER 1.02 /* a switch may take this many times as long as aggregators */

/* Constants of the rates that rounds measure (ctl_lease_rate.c). Rounds shorter than this, or than this many round
 * trips, measure latency instead. */
#define CTL_LEASE_LEARN_NS (10 * HD_MS)
#define CTL_LEASE_LEARN_RTTS 16
#define CTL_LEASE_TIMES 6 /* rounds that are evaluated together */
#define CTL_LEASE_HELD 0.96 /* rounds with this share of their given rate: limited by pacing */
/* Below this share of the estimate a link carries less than estimated. Above it the workers may be slow instead, which
 * congestion control handles. */
#define CTL_LEASE_SHORT 0.9
#define CTL_LEASE_FULL 0.9 /* above this share of the estimate a link may carry more */
#define CTL_LEASE_MORE 1.1 /* above this multiple of the estimate it does carry more */
#define CTL_LEASE_RAISE 0.05 /* first step above the rate; doubles after each success in a row, */
#define CTL_LEASE_RAISE_MOST 1.0 /* up to this; */
#define CTL_LEASE_SHOWS 0.7 /* this share of the addition must be seen */
#define CTL_LEASE_SAME 0.97 /* this share of the former throughput counts as the same */
/* Time until the next try; it doubles after each failure, up to sixteen times. */
#define CTL_LEASE_TRY_NS (HD_SECOND / 2)
#define CTL_LEASE_DOUBLINGS 4

struct ctl_seat {
	uint16_t worker;
	uint64_t token, result_token;
	struct hd_addr addr;
};

struct ctl_lease {
	TAILQ_ENTRY(ctl_lease) entry;
	uint64_t name;
	struct ctl_node *node; /* the switch */
	struct ctl_job *job; /* NULL: it has ended */
	uint32_t job_id;
	bool held; /* in force; false: only requested */
	uint8_t attempt, dtype;
	uint16_t count, slots, wanted; /* values of a chunk; slots granted, slots requested */
	uint64_t waits;
	uint32_t seat_count;
	struct ctl_seat seats[HD_SWITCH_MEMBERS_MAX];
	uint32_t link_count; /* of all paths to the switch and back */
	uint32_t links[2 * HD_PLAN_PATH_MAX * HD_SWITCH_MEMBERS_MAX];
	double rate; /* of the slowest link, bytes/s of values */
	double seconds; /* estimated time of the round over aggregators */
	uint64_t first; /* offset of the next round in its stream */
	uint32_t turn; /* of the newest round */
	uint64_t rounds;
	hd_ns asked, used;
};
TAILQ_HEAD(ctl_leases, ctl_lease);

#endif
