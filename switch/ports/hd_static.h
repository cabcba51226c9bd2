/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configures a switch from a file (docs/switch.md, "Without a controller"): stations, routes, leases, simulated loss.
 */
#ifndef HD_STATIC_H
#define HD_STATIC_H

#include "hd_switch_executor.h"
#include "hd_switch_stations.h"

/* Sets everything in the file, in its order: entries before an error stay set. A file with stations closes their table.
 * 0, -EINVAL (the file's form), -ENOSPC (stations), the executor's error, or that of reading; error has a text without
 * the file's name. */
int hd_static_load(
	const char *path,
	const struct hd_switch_executor *executor,
	struct hd_switch_stations *stations,
	char *error,
	size_t error_bytes
);

/* "02:00:00:00:00:01". 0 or -EINVAL. */
int hd_static_mac(const char *text, uint8_t mac[6]);

#endif
