/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dpdk driver: one node over one ethdev port, with the small part of the stack that it needs (ARP,
 * ICMP echo, IPv4, UDP). Any port that EAL can probe: net_af_packet, net_af_xdp, net_memif, PCI NICs.
 * The kernel has no socket on the node's UDP port, and must not have the node's address.
 *
 * EAL is started with the first port and lives as long as the process.
 */
#ifndef HD_DPDK_H
#define HD_DPDK_H

#include "hd_event.h"
#include "hd_node.h"

struct hd_dpdk;

struct hd_dpdk_config {
	/*
	 * The port as EAL writes it. Completed where that is silent: net_af_packet gets rings of at least
	 * 8 MiB and 1,024 frames that hold the interface's MTU, and qdisc_bypass=0; net_af_xdp busy_budget=0.
	 */
	const char *port;
	const char *eal; /* further EAL arguments between blanks, NULL */
	uint32_t ipv4; /* ours */
	uint8_t prefix; /* bits of our network, 0..32 */
	uint32_t gateway; /* for addresses beyond it; 0: they are not reached */
	uint16_t udp_port;
	bool busy_poll; /* never sleep */
	void (*event)(void *owner, const struct hd_event *event); /* may be NULL */
	/* Runs on the driver's thread after hd_dpdk_wake(), with a sink to hand to the core. */
	void (*woken)(void *owner, hd_ns now, struct hd_sink *sink);
	void *owner;
};

/* 0 or -errno; error says what in words. */
int hd_dpdk_open(
	const struct hd_dpdk_config *config,
	struct hd_dpdk **dpdk,
	char *error,
	size_t error_bytes
);
void hd_dpdk_close(struct hd_dpdk *dpdk);
/* In a forked child: closes the child's descriptors and leaves the parent's port alone. */
void hd_dpdk_abandon(struct hd_dpdk *dpdk);
struct hd_addr hd_dpdk_bound(const struct hd_dpdk *dpdk);
/* Half of what the receive ring holds. */
uint32_t hd_dpdk_receive_window(const struct hd_dpdk *dpdk);

/* As of hd_udp.h; all but stop and wake from one thread. */
int hd_dpdk_run(struct hd_dpdk *dpdk, struct hd_node node);
int hd_dpdk_poll(struct hd_dpdk *dpdk, struct hd_node node, hd_ns until);
void hd_dpdk_stop(struct hd_dpdk *dpdk);
void hd_dpdk_wake(struct hd_dpdk *dpdk);
int hd_dpdk_fd(const struct hd_dpdk *dpdk);

/*
 * One of the counters. What came in is
 *     received_frames = received_packets + arp_requests + arp_answers + echo_requests + drop_*
 * and what went out, as the port counts it,
 *     sent_frames = sent_packets + arp_asked + arp_answered + echo_answered
 */
struct hd_dpdk_counter {
	const char *name, *unit, *help;
	uint64_t value;
};

#define HD_DPDK_COUNTERS_MAX 64

/* One queue of the port, as the port counts it, headers included. */
struct hd_dpdk_queue {
	uint64_t packets, bytes;
	uint64_t drops; /* lost to a full ring; what is sent: given up */
	/* In: what the driver found in it when it last looked. Out: what the kernel holds of it, as the kernel accounts
	 * it; 0 for a port without a socket, which does not say. */
	uint64_t backlog_bytes;
	uint64_t limit_bytes; /* what its ring holds at the MTU */
};

/* Any thread. How many queues there are each way; in and out are filled for at most `capacity` of them. */
uint16_t hd_dpdk_queues(
	const struct hd_dpdk *dpdk,
	struct hd_dpdk_queue *in,
	struct hd_dpdk_queue *out,
	uint16_t capacity
);

/* Any thread. Returns how many were filled in. */
size_t
hd_dpdk_counters(const struct hd_dpdk *dpdk, struct hd_dpdk_counter counters[HD_DPDK_COUNTERS_MAX]);

#endif
