/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where other threads get a node's numbers. A node has one thread, which owns its core; who wants to
 * read (an HTTP thread, rte_telemetry's thread) asks at the desk, the node's thread is woken and copies
 * the counters, the reader renders them while the node goes on. Nobody asks: nothing is done.
 *
 *   reader: hd_desk_read(visit) --wake--> node's thread: hd_desk_serve(fill) --> reader: visit(counters)
 */
#ifndef HD_DESK_H
#define HD_DESK_H

#include "hd_stats.h"

struct hd_desk;

/* wake() makes the node's thread call hd_desk_serve() soon. NULL: no memory. */
struct hd_desk *hd_desk_open(void (*wake)(void *owner), void *owner);
/* No reader may be left. */
void hd_desk_close(struct hd_desk *desk);
/* The node's thread: fills the counters if somebody waits. */
void hd_desk_serve(
	struct hd_desk *desk,
	void (*fill)(void *owner, struct hd_stats *stats),
	void *owner
);
/* Any other thread: waits for fresh counters, at most timeout_ms, and hands them to visit. 0 or
 * -ETIMEDOUT (the node's thread is stuck, or has ended). Readers take turns. */
int hd_desk_read(
	struct hd_desk *desk,
	unsigned timeout_ms,
	void (*visit)(void *owner, const struct hd_stats *stats),
	void *owner
);

#endif
