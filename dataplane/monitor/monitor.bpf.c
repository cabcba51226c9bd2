// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts the bytes of frames at a network card's tc hooks: the fabric's own, and all others by a hash of their flow.
 * Passes every frame. Straight line: one parse, one array element.
 */
#include "hd_link_counts.h"

/* Its types come first: the headers below do not include it. */
/* clang-format off */
#include <linux/bpf.h>
/* clang-format on */
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

/* Ethernet, IPv4 and TCP with timestamps, for each segment of a superframe. */
#define OVERHEAD 66
#define FRAGMENT_OFFSET 0x1fff

/* Mapped into the reader's memory: reading takes no system call. Each processor has its own counters. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, HD_COUNTS_ALL); /* the loader multiplies it by the processors */
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

volatile const __u16 fabric_port = 4773;

struct flow {
	__u32 addresses; /* folded; both directions may differ: they are counted apart anyway */
	__u32 ports;
	__u8 protocol;
};

static __always_inline __u32 fold(const struct in6_addr *a) {
	return a->in6_u.u6_addr32[0] ^ a->in6_u.u6_addr32[1] ^ a->in6_u.u6_addr32[2]
		^ a->in6_u.u6_addr32[3];
}

/* 0 or 1 + hash: the index within a row. */
static __always_inline __u32 classify(const struct __sk_buff *skb) {
	const void *data = (const void *)(unsigned long)skb->data;
	const void *end = (const void *)(unsigned long)skb->data_end;
	const struct ethhdr *eth = data;
	struct flow flow = {0};
	const __u16 *ports = NULL;
	__u32 hash;

	if ((const void *)(eth + 1) > end)
		return 1;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		const struct iphdr *ip = (const void *)(eth + 1);

		if ((const void *)(ip + 1) > end)
			return 1;
		flow.addresses = ip->saddr * 0x9e3779b1u ^ ip->daddr;
		flow.protocol = ip->protocol;
		if (!(ip->frag_off & bpf_htons(FRAGMENT_OFFSET)))
			ports = (const void *)ip + ip->ihl * 4;
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		const struct ipv6hdr *ip = (const void *)(eth + 1);

		if ((const void *)(ip + 1) > end)
			return 1;
		flow.addresses = fold(&ip->saddr) * 0x9e3779b1u ^ fold(&ip->daddr);
		flow.protocol = ip->nexthdr;
		ports = (const void *)(ip + 1);
	}
	if (ports && (flow.protocol == IPPROTO_UDP || flow.protocol == IPPROTO_TCP)
	    && (const void *)(ports + 2) <= end) {
		if (flow.protocol == IPPROTO_UDP
		    && (ports[0] == bpf_htons(fabric_port) || ports[1] == bpf_htons(fabric_port)))
			return 0;
		flow.ports = (__u32)ports[0] << 16 | ports[1];
	}
	hash = (flow.addresses ^ flow.ports * 0x85ebca6bu ^ flow.protocol) * 0xc2b2ae35u;
	return 1 + (hash >> 24) % HD_COUNTS_FLOWS;
}

static __always_inline int count(const struct __sk_buff *skb, __u32 direction) {
	__u32 index = bpf_get_smp_processor_id() * HD_COUNTS_ALL + direction * HD_COUNTS_ROW
		+ classify(skb);
	__u64 *bytes = bpf_map_lookup_elem(&counts, &index);

	if (bytes) {
		*bytes += skb->len;
		if (skb->gso_segs > 1)
			*bytes += (__u64)(skb->gso_segs - 1) * OVERHEAD;
	}
	return TC_ACT_UNSPEC; /* later filters decide */
}

SEC("tc") int count_out(struct __sk_buff *skb) {
	return count(skb, HD_COUNTS_OUT);
}

SEC("tc") int count_in(struct __sk_buff *skb) {
	return count(skb, HD_COUNTS_IN);
}

char _license[] SEC("license") = "Dual BSD/GPL";
