/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: limits of the core, and the numbers that it decides by. */
#ifndef CTL_LIMITS_H
#define CTL_LIMITS_H

#include "hd_cc.h"
#include "hd_limits.h"
#include "hd_types.h"

/* Limits of this core; each bounds a table or a wait. */
#define CTL_BUCKETS 16384 /* of each hash over transfers; a power of two */
#define CTL_WORKER_PENDING_MAX 256 /* requests of one worker that wait or run */
#define CTL_DROPS_KEPT 256
#define CTL_PASSAGES_KEPT 8 /* rounds of a job through slots, for what others had beside them */
#define CTL_PAST_KEPT 1024 /* ended transfers remembered for the estimate's "beside" */
#define CTL_SAMPLE_GRANTED 0.9 /* of the granted rate: below, the network was the limit ... */
#define CTL_SAMPLE_PACED 1.15 /* ... and above, its own pacing; between, partly */
#define CTL_SAMPLE_PROBE 1.25 /* a sender paces at most at so many times its grant */
#define CTL_SAMPLE_FASTEST 1e15 /* bytes/s: as fast as can be */
#define CTL_SAMPLE_LATE 0.04 /* of a transfer's time: reports of others may be so late */
#define CTL_SAMPLE_LOWER_NS (2 * HD_MS) /* shorter transfers never lower an estimate */
#define CTL_SAMPLE_WAIT_NS (300 * HD_MS) /* at most, for transfers that overlapped to end */
#define CTL_SETTLE_NS (100 * HD_MS) /* how long a server that registered may take to say STATE */
#define CTL_PROMOTE_CALM_NS                                                                        \
	(60 * HD_SECOND) /* a promotion so soon after another one waits for the server: */
#define CTL_PROMOTE_TIMES 4 /* so many detection times, each further one so many times as long */
#define CTL_PROMOTE_STEPS 3 /* up to the time of this one */
#define CTL_PROMOTE_ASK_NS                                                                         \
	(250 * HD_MS) /* a server that begins a session anew may take so long to say who it is */
#define CTL_HORIZON_NS (2 * HD_MS) /* least look-ahead of grants */
#define CTL_REPLAN_MAX_NS (50 * HD_MS) /* the longest time that pending requests go unplanned */
#define CTL_ITEM_NS (4 * HD_US) /* a pass's cost for each item, twice over: spaces the passes */
#define CTL_EAGER_PENDING_MAX 64 /* an idle path plans at once only below this many pending */
#define CTL_STUCK_NS (10 * HD_SECOND) /* a granted transfer is void when it is this late ... */
#define CTL_STUCK_FACTOR 64 /* ... and this many times its planned duration */
#define CTL_CHECK_NS (50 * HD_MS) /* how often slow timers are looked at while any may run */
#define CTL_LINK_LOCAL 0 /* both ends on one host; link l of the topology is l + 1 here */
#define CTL_LOCAL_BYTES_PER_S 1e15 /* what the planner takes it for: nobody waits there */
#define CTL_FIT_STEPS_MAX 256 /* positions that the books try for one transfer */
#define CTL_CC_WEIGHT_MAX 256
#define CTL_CREDIT_TAU 2 /* credits need a bound of so many times the workers */
#define CTL_CREDIT_REST_NS HD_SECOND /* no new ones after they stood in the way of a request */
/* Of a frame's bytes on a link, what a data chunk of ours carries in their place. */
#define CTL_PAYLOAD_SHARE                                                                          \
	((double)HD_CHUNK_BYTES_DEFAULT / (HD_CHUNK_BYTES_DEFAULT + HD_CHUNK_OVERHEAD_BYTES))
#define CTL_WEIGHT_MAX 1000.0 /* of a job, against 1 */
#define CTL_PROBE_LOAD 0.009 /* of a link at most, in packet trains */
#define CTL_WEIGHT_MIN 1e-3
#define CTL_SETTINGS_MAX 16
#define CTL_KEEP_SOON_NS HD_SECOND /* jobs that come and go are told of together */
#define CTL_HOSTS_GONE_MAX 1024 /* of a star: hosts that are remembered though nobody is there */
#define CTL_ENDED_SHOWN 64 /* newest ended jobs in the table of jobs */
#define CTL_DRAINED_MAX 256 /* hosts drained at once */
#define CTL_DIRECTIONS 3 /* of transfers: pushes, pulls, copies */
#define CTL_DELAYS 1025 /* delays of applied updates that are told apart; the last one: or more */

#define CTL_SUMS_KEPT 64 /* newest all-reduces of a job, by which makings are told apart */
#define CTL_REFUSALS_KEPT                                                                          \
	8 /* jobs whose groups an aggregator refused; of more it is asked again sooner */

#endif
