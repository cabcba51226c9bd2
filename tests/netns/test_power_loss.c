/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 20 hosts lose power while models stream to them: chunks wait in the kernel for Ethernet addresses that no longer
 * exist, until the socket's buffer is as full as chunks may make it. The node's thread does not block: each control
 * packet to a living host leaves, and so do chunks to it, later.
 *
 * Needs root; in a network namespace of its own.
 */
#include "hd_limits.h"
#include "hd_udp.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HERE 0x0a090001u
#define LOST 0x0a090100u
#define HOSTS 20
#define TICKS 4000 /* ms: the kernel gives up an address after 3 s */
#define BUFFER_BYTES (256u << 10)
#define LATE (100 * HD_MS) /* a session ends after HD_SILENCE_US */

struct node {
	struct hd_udp *udp;
	struct hd_addr peer;
	hd_ns next;
	uint32_t ticks, took[2]; /* control packets, chunks */
};

static void check(bool good, const char *what, unsigned long long value) {
	if (good)
		return;
	(void)fprintf(stderr, "FAILED: %s: %llu\n", what, value);
	exit(1);
}

static void on_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct node *node = core;

	(void)now;
	(void)sink;
	for (size_t i = 0; i < count; i++)
		node->took[packets[i].bytes > 64]++;
}

static void on_tick(void *core, hd_ns now, struct hd_sink *sink) {
	static const uint8_t payload[HD_CHUNK_BYTES_DEFAULT];
	struct node *node = core;
	uint8_t head[56] = {0};

	node->next = hd_ns_add(now, HD_MS);
	for (uint32_t i = 0; i < HOSTS; i++)
		sink->send(
			sink,
			(struct hd_addr){LOST + i, HD_PORT},
			head,
			sizeof head,
			payload,
			sizeof payload
		);
	sink->send(sink, node->peer, head, sizeof head, NULL, 0);
	sink->send(sink, node->peer, head, sizeof head, payload, sizeof payload);
	node->ticks++;
}

static hd_ns deadline(const void *core) {
	return ((const struct node *)core)->next;
}

static const struct hd_core_ops node_ops = {on_receive, on_tick, deadline};

static void open_node(struct node *node, uint32_t send_buffer_bytes) {
	const struct hd_udp_config config = {
		.bind = {.ipv4 = HERE},
		.send_buffer_bytes = send_buffer_bytes,
	};
	char error[200];

	node->next = HD_NEVER;
	check(hd_udp_open(&config, &node->udp, error, sizeof error) == 0, error, 0);
}

static hd_ns step(struct node *node) {
	hd_ns begun = hd_udp_now();

	check(hd_udp_poll(node->udp, (struct hd_node){&node_ops, node}, begun + HD_MS) == 0,
	      "a round of the driver",
	      0);
	return hd_udp_now() - begun;
}

static void make_network(void) {
	if (unshare(CLONE_NEWNET) < 0) {
		(void)printf("skipped: needs root: it makes a network namespace\n");
		exit(77);
	}
	check(system("ip link set lo up && ip link add e0 type veth peer name e1 && ip link set e1 up && "
		     "ip link set e0 up && ip addr add 10.9.0.1/16 dev e0"
	      ) == 0,
	      "a network",
	      0);
}

int main(void) {
	struct node node = {0}, peer = {0};
	const struct hd_udp_stats *stats;
	hd_ns longest = 0;

	make_network();
	open_node(&node, BUFFER_BYTES);
	open_node(&peer, 0);
	node.peer = hd_udp_bound(peer.udp);
	node.next = 0;
	while (node.ticks < TICKS) {
		longest = hd_ns_max(longest, step(&node));
		(void)step(&peer);
	}
	stats = hd_udp_stats(node.udp);
	(void
	)printf("%u ticks, the longest round %.3f ms; %u of %u control packets, %u chunks, %llu waited, %llu given up\n",
		node.ticks,
		(double)longest / HD_MS,
		peer.took[0],
		node.ticks,
		peer.took[1],
		(unsigned long long)stats->waited,
		(unsigned long long)stats->send_errors);
	check(stats->waited > 0 && stats->send_errors > 0, "the buffer was full", stats->waited);
	check(longest < LATE, "a round takes less than 100 ms", longest / HD_US);
	check(peer.took[0] + 1 >= node.ticks, "control packets that came", peer.took[0]);
	check(peer.took[1] > 0, "chunks that came", peer.took[1]);
	hd_udp_close(node.udp);
	hd_udp_close(peer.udp);
	return 0;
}
