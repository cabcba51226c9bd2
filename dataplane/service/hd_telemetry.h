/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's numbers through DPDK's telemetry socket, for dpdk-telemetry.py and what else reads it:
 *   /heddle/groups           names and meanings of the groups
 *   /heddle/<group>          {stat: value}, or one of these for each port, job, link ... under its name,
 *                            in which what is no letter or digit is '_'
 *   /heddle/<group>,TEXT     those of which some label contains TEXT
 *   /heddle/<group>,from=N   from the N-th on; also with a TEXT, between blanks
 * Values that are no whole numbers are texts, as telemetry has none. An answer of telemetry's is 16 KiB at most:
 * longer lists end with "next_row": N, from which the next question goes on. The driver itself has /heddle/driver.
 */
#ifndef HD_TELEMETRY_H
#define HD_TELEMETRY_H

#include "hd_desk.h"

/* Registers a command for each of the groups (NULL after the last), once a process, after EAL came up.
 * The desk answers until hd_telemetry_stop(). 0 or -errno. */
int hd_telemetry_start(struct hd_desk *desk, const struct hd_stat_group *const *groups);
void hd_telemetry_stop(void);

#endif
