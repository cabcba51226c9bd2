/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of a port of the switch: an ethdev's devargs, with keys for its emulated link.
 *
 *     net_af_packet0,iface=s1-eth1,rate=1000,queue=128,ecn=64
 *     \________ of EAL _________/ \__________ ours _________/
 *
 *   rate=MBIT    of the link out of the port, Mbit/s (default: unlimited)
 *   queue=KB     limit of each class's queue, KiB (1024)
 *   ecn=KB       frames that find more than this before them are marked (default: none)
 *   burst=KB     burst that may leave at once after a pause (500 us of the rate, at least 16)
 */
#ifndef HD_SWITCH_LINK_H
#define HD_SWITCH_LINK_H

#include "hd_switch_queue.h"

#define HD_SWITCH_PORT_TEXT_BYTES 384

struct hd_switch_link {
	char devargs[HD_SWITCH_PORT_TEXT_BYTES]; /* the part for EAL */
	struct hd_switch_queue_config queue;
};

/* 0, or -EINVAL with a text in error. Pure; accepts any text. */
int hd_switch_link_read(
	const char *text,
	struct hd_switch_link *link,
	char *error,
	size_t error_bytes
);

#endif
