/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of a driver around a node, whatever moves the packets. One round:
 *
 *   sleep until packets, a timer, wake() or stop() -> receive -> woken -> the driver's timers -> the core's
 *
 * The driver's thread runs it; stop() and wake() of hd_wait may come from any thread.
 */
#ifndef HD_LOOP_H
#define HD_LOOP_H

#include "hd_node.h"
#include "hd_wait.h"

/* What a driver brings. */
struct hd_loop_ops {
	/* Sleeps until `until` at the latest (not at all when that is past), takes what has come, and hands it to the
	 * node. 1: something came, 0: nothing, or -errno. */
	int (*receive)(void *driver, struct hd_node node, hd_ns now, hd_ns until);
	/* Lets leave what the core has sent. */
	void (*flush)(void *driver);
	/* Timers of the driver's own; both NULL: it has none. */
	hd_ns (*deadline)(const void *driver);
	void (*tick)(void *driver, hd_ns now);
};

struct hd_loop {
	const struct hd_loop_ops *ops;
	void *driver;
	struct hd_sink *sink;
	/* Called after hd_wait_wake(), with a sink to hand to the core; may be NULL. */
	void (*woken)(void *owner, hd_ns now, struct hd_sink *sink);
	void *owner;
	struct hd_wait wait;
	hd_ns now; /* of the call into the core that is under way */
	uint64_t polls, idle_polls; /* rounds; of these, with nothing to do */
};

/* One round, which sleeps until `until` at the latest. 0 or -errno. */
int hd_loop_poll(struct hd_loop *loop, struct hd_node node, hd_ns until);

#endif
