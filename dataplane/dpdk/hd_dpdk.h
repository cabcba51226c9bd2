/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dpdk driver: one node over one ethdev port, with the small part of the stack that it needs (ARP, ICMP echo, IPv4,
 * UDP). Any port that EAL can probe: net_af_packet, net_af_xdp, net_memif, PCI NICs. The kernel has no socket on the
 * node's UDP port, and must not have the node's address.
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
	 * The port's devargs, as for EAL. Missing keys are added: net_af_packet gets rings of at least 8 MiB and 1,024
	 * frames that hold the interface's MTU, and qdisc_bypass=0; net_af_xdp busy_budget=0.
	 */
	const char *port;
	const char *eal; /* further EAL arguments, separated by blanks; or NULL */
	uint32_t ipv4; /* the node's address */
	uint8_t prefix; /* its network's prefix length, 0..32 */
	uint32_t gateway; /* for addresses outside it; 0: unreachable */
	uint16_t udp_port;
	bool busy_poll; /* never sleep */
	void (*event)(void *owner, const struct hd_event *event); /* may be NULL */
	/* Runs on the driver's thread after hd_dpdk_wake(), with a sink to pass to the core. */
	void (*woken)(void *owner, hd_ns now, struct hd_sink *sink);
	void *owner;
};

/* 0 or -errno; error gets a text. */
int hd_dpdk_open(
	const struct hd_dpdk_config *config,
	struct hd_dpdk **dpdk,
	char *error,
	size_t error_bytes
);
void hd_dpdk_close(struct hd_dpdk *dpdk);
/* In a forked child: closes the child's descriptors without affecting the parent's port. */
void hd_dpdk_abandon(struct hd_dpdk *dpdk);
struct hd_addr hd_dpdk_bound(const struct hd_dpdk *dpdk);
/* Half of the receive ring's capacity. */
uint32_t hd_dpdk_receive_window(const struct hd_dpdk *dpdk);

/* As in hd_udp.h; all but stop and wake from one thread. */
int hd_dpdk_run(struct hd_dpdk *dpdk, struct hd_node node);
int hd_dpdk_poll(struct hd_dpdk *dpdk, struct hd_node node, hd_ns until);
void hd_dpdk_stop(struct hd_dpdk *dpdk);
void hd_dpdk_wake(struct hd_dpdk *dpdk);
int hd_dpdk_fd(const struct hd_dpdk *dpdk);

/*
 * One of the counters. For received frames
 *     received_frames = received_packets + arp_requests + arp_answers + echo_requests + drop_*
 * and for sent frames, as counted by the port,
 *     sent_frames = sent_packets + arp_asked + arp_answered + echo_answered
 */
struct hd_dpdk_counter {
	const char *name, *unit, *help;
	uint64_t value;
};

#define HD_DPDK_COUNTERS_MAX 64

/* One queue of the port; bytes include headers. */
struct hd_dpdk_queue {
	uint64_t packets, bytes;
	uint64_t drops; /* in: lost to a full ring; out: given up */
	/* In: found in it by the driver's last look. Out: held by the kernel, by the kernel's accounting; 0 for a port
	 * without a socket. */
	uint64_t backlog_bytes;
	uint64_t limit_bytes; /* its ring's capacity at the MTU */
};

/* Any thread. The number of queues each way; fills in and out for at most `capacity` of them. */
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
