/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An executor of a switch that only remembers its agent's calls. It aborts on calls that must not be: an id or slots in
 * use, a token twice, members that come back. Members are at port (address & 63). When it restarts it has forgotten
 * all, and calls fail until it is watched.
 */
#ifndef SWITCH_EXECUTOR_H
#define SWITCH_EXECUTOR_H

#include "hd_switch_agent.h"

struct executor {
	bool held[HD_SWITCH_LEASES_MAX];
	struct hd_switch_lease lease[HD_SWITCH_LEASES_MAX];
	struct hd_switch_member members[HD_SWITCH_LEASES_MAX][HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy receivers[HD_SWITCH_LEASES_MAX][HD_SWITCH_RECEIVERS_MAX];
	uint32_t count, sets, ends, asked;
	uint32_t unknown; /* this many lookups of a neighbour return that it is not known yet */
	int fail_neighbour, fail_set, fail_waits, fail_counters,
		fail_watch; /* -errno that they return */
	uint64_t incarnation, seen; /* of seen its user knows */
	uint32_t watched;
};

void executor_restart(struct executor *executor);
/* By a number below 18: it restarts, is away as well, or is there again. Returns the leases that it has lost. */
uint32_t executor_disturb(struct executor *executor, uint64_t dice);
void executor_recover(struct executor *executor); /* nothing fails from now on */

extern const struct hd_switch_agent_ops executor_ops;

#endif
