/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locations of IPv4 addresses, port and Ethernet address, learned from ARP packets that pass the switch. For the copies
 * of results, whose receivers a lease names by address. Pure.
 *
 * ARP in the name of another station's Ethernet address is ignored, and an address does not move within
 * HD_STATIONS_HOLD_NS of its last confirmation. A full table replaces the oldest entry. As with ARP everywhere, a
 * neighbour that lies at the right time is believed, and gets another's results with their token: where hosts are not
 * trusted, set their addresses (hd_switch_stations_set()), and close the table.
 */
#ifndef HD_SWITCH_STATIONS_H
#define HD_SWITCH_STATIONS_H

#include "hd_types.h"

#define HD_STATIONS_HOLD_NS HD_SECOND
#define HD_STATIONS_ASK_NS (20 * HD_MS) /* between two requests for one address */
#define HD_STATIONS_ARP_BYTES 42

struct hd_switch_stations;

struct hd_switch_station {
	uint8_t mac[6];
	uint16_t port;
};

/* -EINVAL: capacity 0 or beyond 65,535; -ENOMEM. */
int hd_switch_stations_create(uint32_t capacity, struct hd_switch_stations **stations);
void hd_switch_stations_destroy(struct hd_switch_stations *stations);

/* A frame of any kind that came in by `port`, from Ethernet's header on. True: it was ARP, and its sender was
 * learned. */
bool hd_switch_stations_learn(
	struct hd_switch_stations *stations,
	hd_ns now,
	uint16_t port,
	const uint8_t *frame,
	size_t bytes
);
/* Sets an address permanently. 0, or -ENOSPC: all entries are set. */
int hd_switch_stations_set(
	struct hd_switch_stations *stations,
	uint32_t ipv4,
	const struct hd_switch_station *station
);
bool hd_switch_stations_find(
	const struct hd_switch_stations *stations,
	uint32_t ipv4,
	struct hd_switch_station *station
);
/* Whether to ask for an unknown address now; then it counts as asked for. */
bool hd_switch_stations_ask(struct hd_switch_stations *stations, hd_ns now, uint32_t ipv4);
/* The broadcast request, in RFC 5227's form: it claims no address. Writes HD_STATIONS_ARP_BYTES. */
void hd_switch_stations_question(const uint8_t mac[6], uint32_t ipv4, uint8_t *frame);
/* From now on nothing is learned or asked for: only set addresses are known. */
void hd_switch_stations_close(struct hd_switch_stations *stations);
bool hd_switch_stations_are_closed(const struct hd_switch_stations *stations);
uint32_t hd_switch_stations_count(const struct hd_switch_stations *stations);

#endif
