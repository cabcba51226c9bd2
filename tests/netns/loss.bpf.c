// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Drops a share of the packets that pass a tc hook, at random. LOSS_PER_10000 is given with -D; with -DLOSS_UDP each
 * UDP packet may be lost, else what is as big as data. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#define ETHERTYPE_AT 12
#define IP_PROTOCOL_AT 23
#define UDP 17

#ifndef LOSS_PER_10000
#define LOSS_PER_10000 100
#endif

static __u32 (*random_u32)(void) = (void *)BPF_FUNC_get_prandom_u32;
static long (*load_bytes)(const struct __sk_buff *skb, __u32 at, void *to, __u32 bytes)
	= (void *)BPF_FUNC_skb_load_bytes;

static int may_be_lost(const struct __sk_buff *skb) {
#ifdef LOSS_UDP
	__u8 head[IP_PROTOCOL_AT + 1];

	return load_bytes(skb, 0, head, sizeof head) == 0 && head[ETHERTYPE_AT] == 0x08
		&& head[ETHERTYPE_AT + 1] == 0 && head[IP_PROTOCOL_AT] == UDP;
#else
	return skb->len >= 1000; /* acknowledgements and ARP pass */
#endif
}

__attribute__((section("classifier"), used)) int drop_some(struct __sk_buff *skb) {
	if (!may_be_lost(skb))
		return TC_ACT_OK;
	return random_u32() % 10000 < LOSS_PER_10000 ? TC_ACT_SHOT : TC_ACT_OK;
}

__attribute__((section("license"), used)) const char _license[] = "Dual BSD/GPL";
