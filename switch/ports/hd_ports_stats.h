/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch's counters as groups: ports and queues (as in any program), links, leases. The executor's counters of
 * frames are in its agent's group. */
#ifndef HD_PORTS_STATS_H
#define HD_PORTS_STATS_H

#include "hd_ports.h"
#include "hd_stat_groups.h"

extern const struct hd_stat_group
	*const hd_ports_groups[]; /* NULL after the last: groups that only a switch has */

/* Adds the rows. On the loop's thread (hd_ports_call()). */
void hd_ports_gather(
	struct hd_ports *ports,
	const struct hd_switch_executor *executor,
	struct hd_stats *stats
);

#endif
