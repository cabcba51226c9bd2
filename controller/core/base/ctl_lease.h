/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: leases of slots at switches on the path, through which all-reduces go.
 *
 *   everybody has asked --> a lease of just these workers? --yes-----------------------> REDUCE(slots)
 *                             | no                                                    ^
 *                             v                                                       |
 *                           a switch that fits? --SLOTS--> the switch --REPORT(applied)
 *                             | no: why                       | REPORT(failed), or silent for CTL_LEASE_WAIT_NS
 *                             v                               v
 *                           shards over aggregators <---------+
 *
 * A job has one lease at most, kept from round to round while the same workers take part: such a round costs no word
 * to the switch. It has as many slots as chunks are on their way at the rate of the slowest link (rate times round
 * trip), not as the model has, and at most its share of the switch's: one part for each job that uses it. It is given
 * back when no round went through it for CTL_LEASE_IDLE_NS, or when another job needs slots between two rounds of it.
 *
 * A switch is used when all workers' ways to it are apart (so each way between two of them passes it), when it can
 * add their chunks, and when the slowest link is done no later than with aggregators.
 *
 * A worker that goes is taken out of the lease at once, so that the others need not wait for it; when its values are
 * in some chunks only, they see that, ask again, and the lease is void with every round on it.
 */
#ifndef CTL_LEASE_H
#define CTL_LEASE_H

#include "ctl_reduce.h"
#include "hd_switch_numbers.h"

#define CTL_LEASE_WAIT_NS (500 * HD_MS) /* for the switch's answer */
#define CTL_LEASE_REST_NS HD_SECOND /* after it refused one, or was silent */
#define CTL_LEASE_IDLE_NS (10 * HD_SECOND) /* kept so long without a round */
/* So long after a round its job still has its part of the links: between two rounds workers compute. */
#define CTL_LEASE_PAUSE_NS (100 * HD_MS)
#define CTL_LEASE_BUSY_NS (2 * HD_MS) /* how often a round looks whether others are through */
#define CTL_LEASE_EXPIRES_US 10000000u /* without a controller */
#define CTL_LEASE_FAILURES 2 /* of one round; then over aggregators */
#define CTL_LEASE_STILL_ALONE 16 /* of one that stood still there, and nobody else could add it */
/* Round trips that slots are counted by: with a pause of a process, but not with what a node may show once. Too many
 * do no harm, as congestion control bounds what is under way beside them. */
#define CTL_LEASE_RTT_LEAST_NS (2 * HD_MS)
#define CTL_LEASE_RTT_MOST_NS (10 * HD_MS)
/* Slots that a job is given at least, that it asks for at least where chunks are small, and at most. */
#define CTL_LEASE_SLOTS_LEAST 16
#define CTL_LEASE_SLOTS_FLOOR 64
#define CTL_LEASE_SLOTS_MOST 1024
#define CTL_LEASE_WINDOW_BYTES 131072 /* of chunks on the link: what an ordinary queue holds */
#define CTL_LEASE_LATER 1.02 /* so many times what aggregators take is not later */

/* What rounds show of their links (ctl_lease_rate.c). Shorter ones than this, or than so many round trips,
 * are of latency. */
#define CTL_LEASE_LEARN_NS (10 * HD_MS)
#define CTL_LEASE_LEARN_RTTS 16
#define CTL_LEASE_TIMES 6 /* so many rounds are judged at once */
#define CTL_LEASE_HELD 0.96 /* of what they were told: their pacing held them back */
/* Of what a link is believed to carry: so little is less. What is nearer may be of workers that are slow, and
 * congestion control sees to it. */
#define CTL_LEASE_SHORT 0.9
#define CTL_LEASE_FULL 0.9 /* of what a link is believed to carry: it may carry more */
#define CTL_LEASE_MORE 1.1 /* times what it is believed to carry: it does */
#define CTL_LEASE_RAISE 0.05 /* more are tried, and twice as much each time in a row, */
#define CTL_LEASE_RAISE_MOST 1.0 /* up to this; */
#define CTL_LEASE_SHOWS 0.7 /* of it must be seen to pass */
#define CTL_LEASE_SAME 0.97 /* of what passed before is as much */
/* Not again so soon, twice as long after each try that was wrong, up to sixteen times. */
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
	struct ctl_job *job; /* NULL: it is gone */
	uint32_t job_id;
	bool held; /* in force; else it was asked for */
	uint8_t attempt, dtype;
	uint16_t count, slots, wanted; /* values of a chunk; what it got, and would have */
	uint64_t waits;
	uint32_t seat_count;
	struct ctl_seat seats[HD_SWITCH_MEMBERS_MAX];
	uint32_t link_count; /* of all ways to the switch and back */
	uint32_t links[2 * HD_PLAN_PATH_MAX * HD_SWITCH_MEMBERS_MAX];
	double rate; /* of the slowest link, bytes/s of values */
	double seconds; /* that the round would have taken over aggregators */
	uint64_t first; /* where the next round begins in its stream */
	uint32_t turn; /* of the newest round */
	uint64_t rounds;
	hd_ns asked, used;
};
TAILQ_HEAD(ctl_leases, ctl_lease);

#endif
