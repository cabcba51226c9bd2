/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where IPv4 addresses are, as their own ARP packets say while they pass the switch: port and Ethernet address. For the
 * copies of results, whose receivers a lease names by address. Pure.
 *
 * Who speaks for another station's Ethernet address is not believed, and an address does not move within
 * HD_STATIONS_HOLD_NS of the last word of where it was. The oldest makes room. As everywhere with ARP, a neighbour that
 * lies in time is believed, and gets another's results with their token: who cannot trust all hosts names them
 * (hd_switch_stations_set()), and has the table closed.
 */
#ifndef HD_SWITCH_STATIONS_H
#define HD_SWITCH_STATIONS_H

#include "hd_types.h"

#define HD_STATIONS_HOLD_NS HD_SECOND
#define HD_STATIONS_ASK_NS (20 * HD_MS) /* between two questions for one address */
#define HD_STATIONS_ARP_BYTES 42

struct hd_switch_stations;

struct hd_switch_station {
	uint8_t mac[6];
	uint16_t port;
};

/* -EINVAL: capacity 0 or beyond 65,535; -ENOMEM. */
int hd_switch_stations_create(uint32_t capacity, struct hd_switch_stations **stations);
void hd_switch_stations_destroy(struct hd_switch_stations *stations);

/* A frame of any kind that came in by `port`, from Ethernet's header on. True: it was ARP, and its sender was taken. */
bool hd_switch_stations_learn(
	struct hd_switch_stations *stations,
	hd_ns now,
	uint16_t port,
	const uint8_t *frame,
	size_t bytes
);
/* For good. 0, or -ENOSPC: all of the table is set. */
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
/* Whether it is time to ask for an address that is not known; then it counts as asked for. */
bool hd_switch_stations_ask(struct hd_switch_stations *stations, hd_ns now, uint32_t ipv4);
/* The question, to everybody, in the words of RFC 5227: it claims no address. Writes HD_STATIONS_ARP_BYTES. */
void hd_switch_stations_question(const uint8_t mac[6], uint32_t ipv4, uint8_t *frame);
/* From now on nothing is learned, and nobody asked: an address is known that was set, or is not. */
void hd_switch_stations_close(struct hd_switch_stations *stations);
bool hd_switch_stations_are_closed(const struct hd_switch_stations *stations);
uint32_t hd_switch_stations_count(const struct hd_switch_stations *stations);

#endif
