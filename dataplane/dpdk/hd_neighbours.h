/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who has which Ethernet address: what ARP (RFC 826) has taught, bounded and ageing. Pure.
 *
 *               resolve()             learn()              FRESH_US without news
 *   (unknown) ------------> ASKED ---------------> KNOWN ----------------------> KNOWN, old
 *       ^        ask           | no answer: ask again     ^                          | resolve():
 *       |                      | GIVE_UP_US               +--- learn() --------------+ ask the station
 *       +---- drop() ----------+----------------------------------- GIVE_UP_US ------+ itself
 *
 * Only who was asked for, who is known, or who asked for us is learnt: nobody can fill the table with
 * stations that we never speak to. When it is full, the one that was used longest ago gives way.
 */
#ifndef HD_NEIGHBOURS_H
#define HD_NEIGHBOURS_H

#include "hd_frame.h"

#define HD_NEIGHBOUR_WAITING_MAX 32 /* packets held for one unknown address */
#define HD_NEIGHBOUR_FRESH_US 30000000
#define HD_NEIGHBOUR_RETRY_US 250000 /* between two questions about one address */
#define HD_NEIGHBOUR_GIVE_UP_US 3000000
#define HD_NEIGHBOUR_LOCK_US 1000000 /* an address changes its station at most this often */

struct hd_neighbours;

/* What comes of a call; called during it, and must not call back into the table. */
struct hd_neighbour_ops {
	/* Sends a question; mac NULL: to everybody. */
	void (*ask)(void *owner, uint32_t ipv4, const struct hd_mac *mac);
	/* The address of a held packet is known now. */
	void (*send)(void *owner, void *packet, const struct hd_mac *mac);
	/* A held packet's address does not answer, or too many wait. */
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
/* Drops what is held. */
void hd_neighbours_destroy(struct hd_neighbours *neighbours);

/* True: *mac is set. False: it was asked for; the packet may be held until it is known. O(1). */
bool hd_neighbours_resolve(
	struct hd_neighbours *neighbours,
	hd_ns now,
	uint32_t ipv4,
	struct hd_mac *mac
);
/* Whether resolve() would say true; asks nobody. */
bool hd_neighbours_knows(const struct hd_neighbours *neighbours, uint32_t ipv4);
/* Right after resolve() said false. The oldest held packet gives way (drop) when there are too many. */
void hd_neighbours_hold(struct hd_neighbours *neighbours, uint32_t ipv4, void *packet);

/* An ARP packet said so. `for_us`: it asked for our address, so its sender is about to speak to us. */
void hd_neighbours_learn(
	struct hd_neighbours *neighbours,
	hd_ns now,
	uint32_t ipv4,
	const struct hd_mac *mac,
	bool for_us
);

/* Asks again, gives up. To be called at hd_neighbours_deadline(), HD_NEVER while nobody is asked for. */
void hd_neighbours_tick(struct hd_neighbours *neighbours, hd_ns now);
hd_ns hd_neighbours_deadline(const struct hd_neighbours *neighbours);

uint32_t hd_neighbours_count(const struct hd_neighbours *neighbours);
const struct hd_neighbour_stats *hd_neighbours_stats(const struct hd_neighbours *neighbours);

#endif
