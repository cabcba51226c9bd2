// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Drops a share of the UDP packets that pass a tc hook, at random. LOSS_PER_10000 is given with -D. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#ifndef LOSS_PER_10000
#define LOSS_PER_10000 100
#endif

static __u32 (*random_u32)(void) = (void *)BPF_FUNC_get_prandom_u32;

__attribute__((section("classifier"), used)) int drop_some(struct __sk_buff *skb) {
	/* Only what is as big as data: acknowledgements and ARP pass. */
	if (skb->len < 1000)
		return TC_ACT_OK;
	return random_u32() % 10000 < LOSS_PER_10000 ? TC_ACT_SHOT : TC_ACT_OK;
}

__attribute__((section("license"), used)) const char _license[] = "Dual BSD/GPL";
