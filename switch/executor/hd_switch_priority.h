/* SPDX-License-Identifier: BSD-3-Clause */
/* Two checks of a frame that leaves the switch: its priority class, and whether it can carry a congestion mark. Pure;
 * any bytes. */
#ifndef HD_SWITCH_PRIORITY_H
#define HD_SWITCH_PRIORITY_H

#include "hd_switch_queue.h"

/* For a frame from Ethernet's header on: ARP, and control packets of the fabric (CONTROL and HELLO, by their first
 * bytes, with UDP port 4773 at either end) are HD_SWITCH_CLASS_CONTROL, from any sender. */
enum hd_switch_class hd_switch_class_of(const uint8_t *frame, size_t bytes);

/* Sets "congestion experienced" (RFC 3168) in a frame of IPv4 or IPv6 whose sender supports it; otherwise returns false
 * and changes nothing. */
bool hd_switch_mark_congestion(uint8_t *frame, size_t bytes);

#endif
