/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An executor of a switch that only remembers what its agent told it. It aborts when it is told what must not be: an
 * id or slots in use, a token twice, members who come back. Members are at port (address & 63).
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
	int fail_neighbour, fail_set, fail_waits, fail_counters; /* -errno that they return */
};

extern const struct hd_switch_agent_ops executor_ops;

#endif
