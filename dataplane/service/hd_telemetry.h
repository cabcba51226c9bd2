/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's counters through DPDK's telemetry socket, for dpdk-telemetry.py and other readers:
 *   /heddle/groups           names and descriptions of the groups
 *   /heddle/<group>          {stat: value}, or one of these for each port, job, link ... under its name,
 *                            in which characters other than letters and digits are '_'
 *   /heddle/<group>,TEXT     those with a label that contains TEXT
 *   /heddle/<group>,from=N   from the N-th on; also with a TEXT, separated by blanks
 * Values that are not whole numbers are texts, as telemetry has no reals. An answer is at most 16 KiB: longer lists end
 * with "next_row": N, from which the next request continues. The driver itself has /heddle/driver.
 */
#ifndef HD_TELEMETRY_H
#define HD_TELEMETRY_H

#include "hd_stats_query.h"

/* Registers a command for each of the groups (NULL after the last), once a process, after EAL has started.
 * hd_stats_query answers until hd_telemetry_stop(). 0 or -errno. */
int hd_telemetry_start(struct hd_stats_query *query, const struct hd_stat_group *const *groups);
void hd_telemetry_stop(void);

#endif
