// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Passes the fabric's frames to its AF_XDP sockets, and all others, ssh included, to the kernel.
 *
 *   ARP about the node's address ----------------+
 *   IPv4 to it: UDP to its port, echo requests --+--> xsks_map[queue]
 *   anything else ----------------------------------> the kernel
 */
#include "hd_steer.h"

/* Its types come first: the headers below do not include it. */
/* clang-format off */
#include <linux/bpf.h>
/* clang-format on */
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#define FRAGMENT_OFFSET 0x1fff
#define ICMP_ECHO_REQUEST 8
#define QUEUES_MAX 64

/* The sockets by receive queue. DPDK's af_xdp looks for this name. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, QUEUES_MAX);
	__type(key, __u32);
	__type(value, __u32);
} xsks_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hd_steer);
} fabric SEC(".maps");

struct arp_ipv4 {
	__u8 form[8];
	__u8 sender_mac[6];
	__u8 sender[4];
	__u8 target_mac[6];
	__u8 target[4];
};

static __always_inline int
is_arp_for(const void *at, const void *end, const struct hd_steer *node) {
	const struct arp_ipv4 *arp = at;
	__be32 target;

	if ((const void *)(arp + 1) > end)
		return 0;
	__builtin_memcpy(&target, arp->target, sizeof(target));
	return target == node->ipv4;
}

static __always_inline int
is_ipv4_for(const void *at, const void *end, const struct hd_steer *node) {
	const struct iphdr *ip = at;
	const void *next;

	if ((const void *)(ip + 1) > end || ip->daddr != node->ipv4 || ip->ihl < 5)
		return 0;
	if (ip->frag_off & bpf_htons(FRAGMENT_OFFSET))
		return 0;
	next = at + ip->ihl * 4;
	if (ip->protocol == IPPROTO_UDP) {
		const struct udphdr *udp = next;

		return (const void *)(udp + 1) <= end && udp->dest == node->port;
	}
	if (ip->protocol == IPPROTO_ICMP) {
		const __u8 *type = next;

		return (const void *)(type + 1) <= end && *type == ICMP_ECHO_REQUEST;
	}
	return 0;
}

SEC("xdp") int heddle_steer(struct xdp_md *context) {
	const void *data = (const void *)(long)context->data;
	const void *end = (const void *)(long)context->data_end;
	const struct ethhdr *ethernet = data;
	const struct hd_steer *node;
	__u32 first = 0;
	int ours = 0;

	node = bpf_map_lookup_elem(&fabric, &first);
	if (!node || node->ipv4 == 0 || (const void *)(ethernet + 1) > end)
		return XDP_PASS;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP))
		ours = is_ipv4_for(ethernet + 1, end, node);
	else if (ethernet->h_proto == bpf_htons(ETH_P_ARP))
		ours = is_arp_for(ethernet + 1, end, node);
	/* Frames of a queue without a socket go to the kernel. */
	return ours ? (int)bpf_redirect_map(&xsks_map, context->rx_queue_index, XDP_PASS) :
		      XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
