/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the state of a node, from its session on. */
#ifndef CTL_NODE_H
#define CTL_NODE_H

#include "ctl_limits.h"
#include "ctl_readings.h"
#include "hd_endpoint.h"

#include <sys/queue.h>

struct ctl_job;

/* Of a worker: the time from the end of a transfer in one direction to its request in the other. */
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
	bool doomed; /* its queue overflowed: the session is closed at the end of the call */
	bool draining; /* its host is drained: no new grants to or from it */
	char host[HD_NAME_BYTES_MAX + 1];
	int host_index;
	struct hd_addr data; /* where chunks for it are sent */
	hd_ns registered;
	uint32_t polled; /* mark of the last POLL sent to it; 0: none */
	struct ctl_readings *readings; /* NULL: never polled */
	/* server */
	uint64_t memory_bytes;
	uint16_t incarnation; /* the newest of its jobs; 0: it has none */
	bool keeps; /* there are checkpoints on its disk */
	/* aggregator */
	uint32_t
		host_job; /* it is in the process of this job's rank `worker`, and adds for it; 0: it stands by itself */
	struct ctl_refusal {
		uint32_t job;
		hd_ns until; /* it gets no group of that job */
	} refusals[CTL_REFUSALS_KEPT];
	uint32_t pairs; /* sends that cross it, */
	uint64_t pair_bytes; /* and their memory */
	hd_ns no_groups_until; /* switch: no groups until then, as a lease failed */
	/* switch: slots for leases, values of a chunk; switch and worker: the types of such chunks */
	uint32_t slots;
	uint16_t count_min, count_max, slot_dtypes;
	hd_ns rtt_least; /* the shortest of its session so far; 0: unknown */
	/* worker */
	struct ctl_job *job;
	uint16_t worker; /* also of an aggregator with a host_job */
	uint32_t reduce_from; /* its oldest all-reduce that has not ended, as it said last */
	uint64_t shared; /* identity of the memory that it can share with others; 0: none */
	/* Which rounds wait for it (ctl_wait.c): */
	uint32_t reduce_called; /* the newest that its program has called, as far as is known */
	uint32_t
		reduce_missed; /* the newest that began without it, as it had not called; 0: none */
	bool silent; /* a round waited for it and began without it, and it has called none since */
	hd_ns silent_from; /* it registered, called, or was in a round: it is waited for from then on */
	uint32_t tracked; /* its transfers, pending and open */
	hd_ns place; /* when it may register; 0: it has not asked yet, or is registered */
	hd_ns rank_refused; /* since then a process of another host holds its rank; 0: no */
	hd_ns preempted_at; /* when its machine is taken away; 0: no notice */
	uint64_t roster_sent; /* the last change that was sent to it */
	bool observer; /* it only pulls, and is in no roster */
	struct ctl_guard {
		uint64_t decided, idles; /* its pushes, and those of them that theta dropped */
		bool last_was_idles;
	} guard;
	uint32_t push_round; /* the newest that was requested, granted in advance or reported */
	hd_ns push_ended; /* 0: none was applied yet */
	struct ctl_transfer *credit; /* its next push, granted in advance; NULL: it has to ask */
	uint8_t pull_credits; /* pulls that it may report without a request */
	struct hd_msg_drop last_drop[2]; /* by direction: sent again for a repeated request */
	struct ctl_rhythm rhythm[2]; /* by the direction of the request */
};
TAILQ_HEAD(ctl_nodes, ctl_node);

#endif
