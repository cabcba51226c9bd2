/* SPDX-License-Identifier: BSD-3-Clause */
/* Two looks at a frame on its way out of the switch: does it go before others, and can it carry a mark. Pure, total. */
#ifndef HD_SWITCH_PRIORITY_H
#define HD_SWITCH_PRIORITY_H

#include "hd_switch_queue.h"

/* Of a frame from Ethernet's header on: ARP, and control packets of the fabric (CONTROL and HELLO, by their first
 * bytes, with UDP port 4773 at either end) are HD_SWITCH_CLASS_CONTROL. Whoever sends such goes before others. */
enum hd_switch_class hd_switch_class_of(const uint8_t *frame, size_t bytes);

/* Sets "congestion experienced" (RFC 3168) in a frame of IPv4 or IPv6 whose sender understands it; false, and nothing
 * is changed, where that is not so. */
bool hd_switch_mark_congestion(uint8_t *frame, size_t bytes);

#endif
