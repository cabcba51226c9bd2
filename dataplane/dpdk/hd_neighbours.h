/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ethernet addresses learned by ARP (RFC 826): bounded and ageing. Pure.
 *
 *               resolve()             learn()              FRESH_US without news
 *   (unknown) ------------> ASKED ---------------> KNOWN ----------------------> KNOWN, old
 *       ^        ask           | no answer: ask again     ^                          | resolve():
 *       |                      | GIVE_UP_US               +--- learn() --------------+ ask the station
 *       +---- drop() ----------+----------------------------------- GIVE_UP_US ------+ itself
 *
 * An address is learned only if it was asked for, is known already, or asked for ours: an attacker cannot fill the
 * table with stations that we never use. A full table replaces the least recently used entry.
 */
#ifndef HD_NEIGHBOURS_H
#define HD_NEIGHBOURS_H

#include "hd_frame.h"

#define HD_NEIGHBOUR_WAITING_MAX 32 /* packets held for one unknown address */
#define HD_NEIGHBOUR_FRESH_US 30000000
#define HD_NEIGHBOUR_RETRY_US 250000 /* between two requests for one address */
#define HD_NEIGHBOUR_GIVE_UP_US 3000000
#define HD_NEIGHBOUR_LOCK_US 1000000 /* an address changes its station at most this often */

struct hd_neighbours;

/* The results of a call; called during it, and must not call back into the table. */
struct hd_neighbour_ops {
	/* Sends a request; mac NULL: broadcast. */
	void (*ask)(void *owner, uint32_t ipv4, const struct hd_mac *mac);
	/* The address of a held packet is known now. */
	void (*send)(void *owner, void *packet, const struct hd_mac *mac);
	/* A held packet's address does not answer, or too many packets wait. */
	void (*drop)(void *owner, void *packet);
};

struct hd_neighbour_stats {
	uint64_t asked, given_up, evicted, moved, ignored;
};

/* capacity: 1..65,534 addresses. 0, -EINVAL, -ENOMEM. */
int hd_neighbours_create(
	uint32_t capacity,
	const struct hd_neighbour_ops *ops,
	void *owner,
	struct hd_neighbours **neighbours
);
/* Drops held packets. */
void hd_neighbours_destroy(struct hd_neighbours *neighbours);

/* True: *mac is set. False: a request was sent; the packet may be held until the answer. O(1). */
bool hd_neighbours_resolve(
	struct hd_neighbours *neighbours,
	hd_ns now,
	uint32_t ipv4,
	struct hd_mac *mac
);
/* Whether resolve() would return true; sends no request. */
bool hd_neighbours_knows(const struct hd_neighbours *neighbours, uint32_t ipv4);
/* Call right after resolve() returned false. Drops the oldest held packet when the limit is exceeded. */
void hd_neighbours_hold(struct hd_neighbours *neighbours, uint32_t ipv4, void *packet);

/* Learns from an ARP packet. `for_us`: it asked for our address, so its sender is about to send to us. */
void hd_neighbours_learn(
	struct hd_neighbours *neighbours,
	hd_ns now,
	uint32_t ipv4,
	const struct hd_mac *mac,
	bool for_us
);

/* Repeats requests, gives up. Call it at hd_neighbours_deadline(), HD_NEVER while no request is open. */
void hd_neighbours_tick(struct hd_neighbours *neighbours, hd_ns now);
hd_ns hd_neighbours_deadline(const struct hd_neighbours *neighbours);

uint32_t hd_neighbours_count(const struct hd_neighbours *neighbours);
const struct hd_neighbour_stats *hd_neighbours_stats(const struct hd_neighbours *neighbours);

#endif
