/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_loop.h"

static bool serve_woken(struct hd_loop *loop) {
	if (!hd_wait_woken(&loop->wait) || !loop->woken)
		return false;
	loop->now = hd_wait_now();
	loop->woken(loop->owner, loop->now, loop->sink);
	loop->ops->flush(loop->driver);
	return true;
}

static bool serve_core(struct hd_loop *loop, struct hd_node node) {
	if (node.ops->deadline(node.core) > loop->now)
		return false;
	node.ops->tick(node.core, loop->now, loop->sink);
	loop->ops->flush(loop->driver);
	return true;
}

int hd_loop_poll(struct hd_loop *loop, struct hd_node node, hd_ns until) {
	const struct hd_loop_ops *ops = loop->ops;
	bool busy;
	int came;

	until = hd_ns_min(until, node.ops->deadline(node.core));
	if (ops->deadline)
		until = hd_ns_min(until, ops->deadline(loop->driver));
	came = ops->receive(loop->driver, node, hd_wait_now(), until);
	if (came < 0)
		return came;
	busy = serve_woken(loop) || came > 0;
	loop->now = hd_wait_now();
	if (ops->deadline && ops->deadline(loop->driver) <= loop->now) {
		ops->tick(loop->driver, loop->now);
		ops->flush(loop->driver);
	}
	busy |= serve_core(loop, node);
	loop->polls++;
	loop->idle_polls += !busy;
	return 0;
}
