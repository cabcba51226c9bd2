/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: pairs. A pair is the k-th send of one worker to another, and the k-th receive there; their
 * channel counts them (hd_message_codes.h). It begins when both ends have asked, and its values cross one aggregator:
 *
 *   REQUEST of both --> GROUP to the aggregator, REDUCE to both --> REPORT of the receiver --> REDUCED to the sender
 *
 * The controller keeps a pair only while an end waits for it. An end may have ended the pair
 * before, or under another controller process: that end is asked (CHANNEL). So nothing of a pair is saved.
 */
#ifndef CTL_PAIR_H
#define CTL_PAIR_H

#include "ctl_job.h"
#include "ctl_reduce.h"

/* Of one worker, in progress at once: each of a sender's may use a path of its own. */
#define CTL_PAIRS_OF_WORKER (HD_PATHS_MAX * 3 / 4)
/* At one aggregator: a GROUP and a VOID of each may be queued. */
#define CTL_PAIRS_AT_AGGREGATOR 512
/* Of one job, waiting or in progress. */
#define CTL_PAIRS_MAX 65536
/* How long one end waits before the other one is asked whether it has ended the pair already. */
#define CTL_PAIR_ASK_NS (100 * HD_MS)

enum ctl_end {
	CTL_END_SENDER,
	CTL_END_RECEIVER,
	CTL_ENDS
};

static inline enum ctl_end ctl_other_end(enum ctl_end end) {
	return end == CTL_END_SENDER ? CTL_END_RECEIVER : CTL_END_SENDER;
}

struct ctl_pair {
	TAILQ_ENTRY(ctl_pair) entry;
	LIST_ENTRY(ctl_pair) same; /* of its channel's bucket */
	uint32_t channel, number;
	uint16_t worker[CTL_ENDS];
	struct ctl_call call;
	uint8_t caller; /* enum ctl_end: whose call that is */
	uint8_t part[CTL_ENDS]; /* enum ctl_part; never OUT or DONE */
	uint8_t attempt[CTL_ENDS];
	uint64_t peer_boot[CTL_ENDS]; /* as in REQUEST */
	bool begun;
	uint64_t sum_id; /* of the attempt in progress, or of the last one */
	uint64_t group, token[CTL_ENDS];
	struct ctl_node *aggregator; /* NULL: none, or it is gone and has delivered */
	uint64_t memory; /* that it takes there */
	hd_ns alone_since; /* both have asked, but no aggregator is there; 0: not so */
	hd_ns ask_at; /* when the other end is to be asked; HD_NEVER: not at all */
};

#endif
