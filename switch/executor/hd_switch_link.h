/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port of the switch as it is written: an ethdev's devargs, and among them what its link is to be like.
 *
 *     net_af_packet0,iface=s1-eth1,rate=1000,queue=128,ecn=64
 *     \________ of EAL _________/ \__________ ours _________/
 *
 *   rate=MBIT    of the link out of the port, Mbit/s (without: as fast as it goes)
 *   queue=KB     what may wait to leave, in each class, KiB (1024)
 *   ecn=KB       frames that find more than so much before them are marked (without: none)
 *   burst=KB     what may leave at once after a pause (500 us of the rate, at least 16)
 */
#ifndef HD_SWITCH_LINK_H
#define HD_SWITCH_LINK_H

#include "hd_switch_queue.h"

#define HD_SWITCH_PORT_TEXT_BYTES 384

struct hd_switch_link {
	char devargs[HD_SWITCH_PORT_TEXT_BYTES]; /* what is EAL's */
	struct hd_switch_queue_config queue;
};

/* 0, or -EINVAL with error in words. Pure, total. */
int hd_switch_link_read(
	const char *text,
	struct hd_switch_link *link,
	char *error,
	size_t error_bytes
);

#endif
