/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: what is known of a node, from its session on. */
#ifndef CTL_NODE_H
#define CTL_NODE_H

#include "ctl_limits.h"
#include "ctl_readings.h"
#include "hd_endpoint.h"

#include <sys/queue.h>

struct ctl_job;

/* Of a worker: how long after the end of a transfer one way it asks for one the other way. */
struct ctl_rhythm {
	hd_ns since; /* that end; 0: none, or it has asked since */
	double pause_s, spread_s; /* mean, and mean deviation */
	uint32_t seen;
};

/* One session's peer. Registered: role and the fields below are set. */
struct ctl_node {
	TAILQ_ENTRY(ctl_node) entry;
	struct hd_session *session;
	uint8_t role; /* enum hd_role; HD_ROLE_NONE until it registers */
	bool doomed; /* its queue overflowed: closed at the end of the call */
	bool draining; /* its host is drained: no new grants to or from it */
	char host[HD_NAME_BYTES_MAX + 1];
	int host_index;
	struct hd_addr data; /* where chunks for it go */
	hd_ns registered;
	uint32_t polled; /* mark of the POLL that it was sent last; 0: none */
	struct ctl_readings *readings; /* NULL: it was not asked yet */
	/* server */
	uint64_t memory_bytes;
	uint16_t incarnation; /* the newest of its jobs; 0: it has none */
	bool keeps; /* there are checkpoints on its disk */
	/* aggregator */
	struct ctl_refusal {
		uint32_t job;
		hd_ns until; /* it gets no group of that job */
	} refusals[CTL_REFUSALS_KEPT];
	hd_ns no_groups_until; /* switch: it rests, as a lease failed */
	/* switch: slots that can be leased, values of a chunk; of it and of a worker: types of such chunks */
	uint32_t slots;
	uint16_t count_min, count_max, slot_dtypes;
	hd_ns rtt_least; /* the shortest that its session has shown; 0: not known */
	/* worker */
	struct ctl_job *job;
	uint16_t worker;
	uint32_t reduce_from; /* its oldest all-reduce that has not ended, as it said last */
	uint32_t tracked; /* its transfers, pending and open */
	hd_ns place; /* when it may register; 0: it did not ask yet, or is in */
	hd_ns rank_refused; /* since then its rank is held by another host's process; 0: it is not */
	hd_ns preempted_at; /* its machine is taken away then; 0: no notice of it */
	uint64_t roster_told; /* the change that it was told of last */
	bool observer; /* it only pulls, and is in no roster */
	struct ctl_guard {
		uint64_t decided, idles; /* its pushes, and those of them that theta dropped */
		bool last_was_idles;
	} guard;
	uint32_t push_round; /* newest that was asked for, granted in advance or reported */
	hd_ns push_ended; /* 0: none was applied yet */
	struct ctl_transfer *credit; /* its next push, granted in advance; NULL: it asks */
	uint8_t pull_credits; /* pulls that it may report without having asked for them */
	struct hd_msg_drop last_drop[2]; /* by direction: repeated for a repeated request */
	struct ctl_rhythm rhythm[2]; /* by the direction that it asks for */
};
TAILQ_HEAD(ctl_nodes, ctl_node);

#endif
