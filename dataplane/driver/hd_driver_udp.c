/* SPDX-License-Identifier: BSD-3-Clause */
/* Adapts the udp driver to this interface. */
#include "hd_driver_private.h"
#include "hd_stat_groups.h"
#include "hd_udp.h"

#include <errno.h>
#include <stdio.h>

static int
udp_open(const struct hd_driver_config *config, void **self, char *error, size_t error_bytes) {
	const struct hd_driver_options *o = &config->options;
	const struct hd_udp_config udp = {
		.bind = config->bind,
		.event = config->event,
		.woken = config->woken,
		.owner = config->owner,
	};
	struct hd_udp *opened;
	int code;

	if (o->eal || o->port || o->address || o->gateway || o->busy_poll) {
		(void)snprintf(
			error,
			error_bytes,
			"driver: port, address, gateway, eal and busy-poll are dpdk's"
		);
		return -EINVAL;
	}
	code = hd_udp_open(&udp, &opened, error, error_bytes);
	if (code == 0)
		*self = opened;
	return code;
}

static void udp_close(void *self) {
	hd_udp_close(self);
}

static struct hd_addr udp_bound(const void *self) {
	return hd_udp_bound(self);
}

static uint32_t udp_receive_window(const void *self) {
	return hd_udp_receive_window(self);
}

static int udp_run(void *self, struct hd_node node) {
	return hd_udp_run(self, node);
}

static int udp_poll(void *self, struct hd_node node, hd_ns until) {
	return hd_udp_poll(self, node, until);
}

static void udp_stop(void *self) {
	hd_udp_stop(self);
}

static void udp_wake(void *self) {
	hd_udp_wake(self);
}

static int udp_fd(const void *self) {
	return hd_udp_fd(self);
}

static size_t udp_counters(const void *self, struct hd_driver_counter *counters) {
	const struct hd_udp_stats *s = hd_udp_stats(self);
	const struct hd_driver_counter all[] = {
		{"received_packets", "packets", "packets passed to the node", s->received_packets},
		{"received_bytes",
		 "bytes",
		 "payload of the packets passed to the node",
		 s->received_bytes},
		{"receive_calls",
		 "calls",
		 "system calls that received something",
		 s->receive_calls},
		{"receive_overflow",
		 "packets",
		 "packets lost because the socket buffer was full",
		 s->receive_overflow},
		{"truncated",
		 "packets",
		 "packets received that are longer than any packet of the fabric",
		 s->truncated},
		{"sent_packets", "packets", "packets sent", s->sent_packets},
		{"sent_bytes", "bytes", "payload of the packets sent", s->sent_bytes},
		{"send_calls", "calls", "system calls that sent something", s->send_calls},
		{"send_errors", "packets", "packets that could not be sent", s->send_errors},
		{"waited",
		 "packets",
		 "packets sent late or dropped because the socket buffer was full",
		 s->waited},
		{"drop_strangers",
		 "packets",
		 "answers to unverified addresses not sent: beyond their share of buffers",
		 s->drop_strangers},
		{"polls", "polls", "iterations of the driver's loop", s->polls},
		{"idle_polls",
		 "polls",
		 "iterations of the loop that found nothing to do",
		 s->idle_polls},
	};
	const size_t count = sizeof all / sizeof all[0];

	for (size_t i = 0; i < count; i++)
		counters[i] = all[i];
	return count;
}

static void
add_queue(const char *direction, const struct hd_queue_stats *queue, struct hd_stats *stats) {
	const char *labels[] = {"0", direction, "0"};

	hd_stats_add(stats, &hd_queue_group, labels, queue);
}

/* A socket's buffers are its queues. */
static void udp_stats(const void *self, struct hd_stats *stats) {
	const struct hd_udp_stats *s = hd_udp_stats(self);
	struct hd_queue_stats in = {
		.packets = s->received_packets,
		.bytes = s->received_bytes,
		.drops = s->receive_overflow,
	};
	struct hd_queue_stats out = {
		.packets = s->sent_packets,
		.bytes = s->sent_bytes,
		.drops = s->send_errors + s->drop_strangers,
	};
	struct hd_udp_memory memory = hd_udp_memory(self);

	in.backlog_bytes = memory.receive_bytes;
	in.limit_bytes = memory.receive_limit;
	out.backlog_bytes = memory.send_bytes;
	out.limit_bytes = memory.send_limit;
	add_queue("in", &in, stats);
	add_queue("out", &out, stats);
}

const struct hd_driver_ops hd_driver_udp = {
	.name = "udp",
	.open = udp_open,
	.close = udp_close,
	.abandon = udp_close, /* it has only descriptors and memory */
	.bound = udp_bound,
	.receive_window = udp_receive_window,
	.run = udp_run,
	.poll = udp_poll,
	.stop = udp_stop,
	.wake = udp_wake,
	.fd = udp_fd,
	.counters = udp_counters,
	.stats = udp_stats,
};
