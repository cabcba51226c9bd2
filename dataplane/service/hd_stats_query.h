/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives other threads a node's counters. A node has one thread, which owns its core. A reader (an HTTP thread,
 * rte_telemetry's thread) asks here; the node's thread is woken and copies the counters, and the reader renders them
 * while the node continues. Without readers it costs nothing.
 *
 *   reader: hd_stats_query_read(visit) --wake--> node's thread: hd_stats_query_serve(fill) --> reader: visit(counters)
 */
#ifndef HD_STATS_QUERY_H
#define HD_STATS_QUERY_H

#include "hd_stats.h"

struct hd_stats_query;

/* wake() must make the node's thread call hd_stats_query_serve() soon. NULL: no memory. */
struct hd_stats_query *hd_stats_query_open(void (*wake)(void *owner), void *owner);
/* All readers must have ended. */
void hd_stats_query_close(struct hd_stats_query *query);
/* The node's thread: fills the counters if a reader waits. */
void hd_stats_query_serve(
	struct hd_stats_query *query,
	void (*fill)(void *owner, struct hd_stats *stats),
	void *owner
);
/* Any other thread: waits for fresh counters, at most timeout_ms, and passes them to visit. 0 or -ETIMEDOUT (the node's
 * thread is stuck, or has ended). Readers take turns. */
int hd_stats_query_read(
	struct hd_stats_query *query,
	unsigned timeout_ms,
	void (*visit)(void *owner, const struct hd_stats *stats),
	void *owner
);

#endif
