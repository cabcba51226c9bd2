/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: limits of the core, and constants of its decisions. */
#ifndef CTL_LIMITS_H
#define CTL_LIMITS_H

#include "hd_cc.h"
#include "hd_limits.h"
#include "hd_types.h"

/* Limits of this core; each bounds a table or a wait. */
#define CTL_BUCKETS 16384 /* of each hash over transfers; a power of two */
#define CTL_WORKER_PENDING_MAX 256 /* requests of one worker that wait or run */
#define CTL_DROPS_KEPT 256
#define CTL_PASSAGES_KEPT 8 /* rounds of a job through slots, to correct samples of others */
#define CTL_PAST_KEPT 1024 /* ended transfers kept for the estimate's "beside" */
#define CTL_SAMPLE_GRANTED 0.9 /* of the granted rate: below, the network was the limit ... */
#define CTL_SAMPLE_PACED 1.15 /* ... and above, its own pacing; between, partly */
#define CTL_SAMPLE_PROBE 1.25 /* a sender's pace is at most this many times its grant */
#define CTL_SAMPLE_FASTEST 1e15 /* bytes/s: no limit */
#define CTL_SAMPLE_LATE 0.04 /* of a transfer's time: reports of others may be this late */
#define CTL_SAMPLE_LOWER_NS (2 * HD_MS) /* shorter transfers never lower an estimate */
#define CTL_SAMPLE_WAIT_NS (300 * HD_MS) /* at most, for transfers that overlapped to end */
#define CTL_SETTLE_NS (100 * HD_MS) /* time for a registered server to send STATE */
#define CTL_PROMOTE_CALM_NS                                                                        \
	(60 * HD_SECOND) /* after a promotion within this time the next one waits for the server: */
#define CTL_PROMOTE_TIMES 4 /* this many detection times, and this factor for each further wait */
#define CTL_PROMOTE_STEPS 3 /* the longest wait is the one of this promotion in a row */
#define CTL_PROMOTE_ASK_NS                                                                         \
	(250 * HD_MS) /* at least this long after a lost session: the server may be alive */
#define CTL_HORIZON_NS (2 * HD_MS) /* least look-ahead of grants */
#define CTL_REPLAN_MAX_NS (50 * HD_MS) /* the longest time that pending requests go unplanned */
#define CTL_ITEM_NS (4 * HD_US) /* twice a pass's cost for one item: sets the interval of passes */
#define CTL_EAGER_PENDING_MAX 64 /* an idle path is planned at once only below this many pending */
#define CTL_STUCK_NS (10 * HD_SECOND) /* a granted transfer is void when it is this late ... */
#define CTL_STUCK_FACTOR 64 /* ... and this many times its planned duration */
#define CTL_CHECK_NS (50 * HD_MS) /* how often slow timers are checked while any may run */
#define CTL_LINK_LOCAL 0 /* both ends on one host; link l of the topology is l + 1 here */
#define CTL_LOCAL_BYTES_PER_S 1e15 /* assumed by the planner: such transfers never wait */
#define CTL_FIT_STEPS_MAX 256 /* positions that the reservation table tries for one transfer */
#define CTL_CC_WEIGHT_MAX 256
#define CTL_CREDIT_TAU 2 /* credits need a bound of this many times the number of workers */
#define CTL_CREDIT_REST_NS HD_SECOND /* no new credits for this time after they delayed a request */
/* The share of a frame's bytes on a link that a data chunk's payload has. */
#define CTL_PAYLOAD_SHARE                                                                          \
	((double)HD_CHUNK_BYTES_DEFAULT / (HD_CHUNK_BYTES_DEFAULT + HD_CHUNK_OVERHEAD_BYTES))
#define CTL_WEIGHT_MAX 1000.0 /* of a job, against 1 */
#define CTL_PROBE_LOAD 0.009 /* of a link at most, in packet trains */
#define CTL_WEIGHT_MIN 1e-3
#define CTL_SETTINGS_MAX 16
#define CTL_KEEP_SOON_NS HD_SECOND /* jobs that come and go within this time are saved together */
#define CTL_HOSTS_GONE_MAX 1024 /* hosts of a star that stay known without a registered node */
#define CTL_ENDED_SHOWN 64 /* newest ended jobs in the table of jobs */
#define CTL_DRAINED_MAX 256 /* hosts drained at once */
#define CTL_DIRECTIONS 3 /* of transfers: pushes, pulls, copies */
#define CTL_DELAYS 1025 /* delays of applied updates with a counter each; the last one: or more */

/* Of short collectives: what one round sends to all members at once, or gets from them, and all rounds together. */
#define CTL_INLINE_ROUND_BYTES UINT64_C(131072)
#define CTL_INLINE_HELD_BYTES (UINT64_C(1) << 25)
#define CTL_PAIR_BUCKETS 256 /* of the hash table of a job's sends and receives */
#define CTL_SUMS_KEPT 64 /* newest all-reduces of a job whose attempts are remembered */
#define CTL_REFUSALS_KEPT                                                                          \
	8 /* jobs whose groups an aggregator refused; beyond that a refusal is forgotten */

#endif
