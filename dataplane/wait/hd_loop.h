/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of a driver around a node, for any kind of driver. One poll:
 *
 *   sleep until packets, a timer, wake() or stop() -> receive -> woken -> the driver's timers -> the core's
 *
 * The driver's thread runs it; stop() and wake() of hd_wait may come from any thread.
 */
#ifndef HD_LOOP_H
#define HD_LOOP_H

#include "hd_node.h"
#include "hd_wait.h"

/* The functions of a driver. */
struct hd_loop_ops {
	/* Sleeps until `until` at the latest (not at all if that is past), and passes received packets to the node. 1:
	 * there were some, 0: none, or -errno. */
	int (*receive)(void *driver, struct hd_node node, hd_ns now, hd_ns until);
	/* Sends the core's packets. */
	void (*flush)(void *driver);
	/* The driver's own timers; both NULL: it has none. */
	hd_ns (*deadline)(const void *driver);
	void (*tick)(void *driver, hd_ns now);
};

struct hd_loop {
	const struct hd_loop_ops *ops;
	void *driver;
	struct hd_sink *sink;
	/* Called after hd_wait_wake(), with a sink to pass to the core; may be NULL. */
	void (*woken)(void *owner, hd_ns now, struct hd_sink *sink);
	void *owner;
	struct hd_wait wait;
	hd_ns now; /* of the current call into the core */
	uint64_t polls, idle_polls; /* polls; of these, with nothing to do */
};

/* One poll, which sleeps until `until` at the latest. 0 or -errno. */
int hd_loop_poll(struct hd_loop *loop, struct hd_node node, hd_ns until);

#endif
