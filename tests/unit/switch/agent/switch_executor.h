/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An executor of a switch that only remembers what its agent told it. It aborts when it is told what must not be: an
 * id or slots in use, a token twice, members who come back. Members are at port (address & 63). When it begins anew it
 * has forgotten all, and calls fail until it is watched.
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
	uint32_t unknown; /* so many looks for a neighbour say that it is not known yet */
	int fail_neighbour, fail_set, fail_waits, fail_counters,
		fail_watch; /* -errno that they return */
	uint64_t life, seen; /* of seen its user knows */
	uint32_t watched;
};

void executor_begin_anew(struct executor *executor);
/* By a number below 18: it begins anew, is away as well, or is there again. Returns the leases that it has lost. */
uint32_t executor_disturb(struct executor *executor, uint64_t dice);
void executor_mend(struct executor *executor); /* nothing fails from now on */

extern const struct hd_switch_agent_ops executor_ops;

#endif
