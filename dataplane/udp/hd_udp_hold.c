/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the socket is looked at.
 *
 *   few packets:    | x        | x      |  x       each wakes the thread
 *   many packets:   |xx|xx|xx|xx|xx|xx|xx|xx       so would each train of these, and waking costs more than the train
 *                   |   hold    |   hold    |      asleep without the socket: all that came is taken at once
 *
 * Packets keep the time at which the kernel got them, so round trips and rates are those of the network. A hold is
 * over when a transfer is expected to be whole, and there is none while no chunks come, so it delays no end of a
 * transfer, and no control message but those beside chunks.
 */
#include "hd_udp_private.h"

static void end_window(struct udp_hold *hold, hd_ns now, hd_ns took) {
	hold->windows = hold->count * HD_MS >= UDP_HOLD_RATE * took ? hold->windows + 1 : 0;
	hold->span = 0;
	if (hold->windows >= UDP_HOLD_WINDOWS)
		hold->span = hd_ns_min(UDP_HOLD_PACKETS * took / hold->count, UDP_HOLD_MOST);
	if (hold->span < UDP_HOLD_LEAST)
		hold->span = 0;
	hold->from = now;
	hold->count = 0;
}

void udp_hold_note(struct udp_hold *hold, hd_ns now, uint32_t packets, hd_ns whole_at) {
	const hd_ns took = now - hold->from;

	hold->count += packets;
	if (took >= UDP_HOLD_WINDOW)
		end_window(hold, now, took);
	hold->until = whole_at < HD_NEVER ? hd_ns_min(hd_ns_add(now, hold->span), whole_at) : 0;
}
