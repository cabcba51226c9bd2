/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The native executor of the switch on the path (hd_switch.h): frames in, verdicts out, changed in place. Pure: no
 * ports, no clock, no random numbers.
 *
 *   burst of frames                    the core                                    its owner
 *   ---------------                    --------                                    ---------
 *   simulator: lost on purpose?        xorshift, seeded                            drops
 *   a chunk for us?  token -> member   hash table, keyed                           drops, or hd_switch_address()
 *                    slot  -> cell     +--------+------------------+               for each of
 *                                      | key    | count x 4 bytes  |               hd_switch_core_copies()
 *                                      | seen.. | (sum so far)     |  one a slot
 *                                      +--------+------------------+  and version
 *   to the router's address?           prefixes, longest first                     sends to `port`
 *   else: by Ethernet's destination    MAC addresses, set or learned               sends to `port`, or floods
 *
 * One thread at a time. Only the calls that set something allocate, or loop over more than a burst. A call that fails
 * changes nothing and names in `error` the field and the limit that it broke.
 */
#ifndef HD_SWITCH_CORE_H
#define HD_SWITCH_CORE_H

#include "hd_switch.h"

struct hd_switch_core;

/* The switch's own addresses: source of results, destination of chunks. */
struct hd_switch_self {
	uint8_t mac[6]; /* source of results */
	uint8_t router_mac[6]; /* IPv4 frames to it are routed, and leave from it; zero: none are */
	uint32_t ipv4; /* the service address: its agent's */
	uint16_t udp_port; /* HD_SWITCH_UDP_PORT */
};

struct hd_switch_core_config {
	struct hd_switch_self self;
	uint64_t hash_key[2]; /* random, secret: key of the tables' hash */
	uint64_t memory_bytes; /* of all leases' cells */
};

/* -EINVAL (no address, port 0, multicast MAC), -ENOMEM. */
int hd_switch_core_create(
	const struct hd_switch_core_config *config,
	struct hd_switch_core **core,
	char *error,
	size_t error_bytes
);
void hd_switch_core_destroy(struct hd_switch_core *core);

/* --- leases --------------------------------------------------------------------------------- */

/*
 * Copies the lease; its cells are empty. Members not in `waits` are removed from the start (an agent that restores a
 * switch). first_slot is ignored. -EINVAL: id, slot_count, count, dtype, member_count, receiver_count, waits (none, or
 * no member's bit), a token of 0, a port. -EEXIST: id or a token is in use. -ENOMEM: more than the rest of
 * memory_bytes.
 */
int hd_switch_core_lease_set(
	struct hd_switch_core *core,
	const struct hd_switch_lease *lease,
	char *error,
	size_t error_bytes
);
/* Removes members: `waits` must be a subset of the current one. -ENOENT: no such lease. -EINVAL. */
int hd_switch_core_lease_waits(
	struct hd_switch_core *core,
	uint16_t id,
	uint64_t waits,
	char *error,
	size_t error_bytes
);
/* Frees tokens and cells. -ENOENT. */
int hd_switch_core_lease_end(
	struct hd_switch_core *core,
	uint16_t id,
	char *error,
	size_t error_bytes
);

struct hd_switch_lease_stats {
	uint64_t absorbed, completed, repeated, answered, overtaken, not_finite;
	uint64_t waits; /* the current one */
	uint32_t cells_open; /* sums begun and incomplete */
	uint32_t cells; /* 2 for each slot */
	uint64_t memory_bytes;
};

/* -ENOENT. */
int hd_switch_core_lease_stats(
	const struct hd_switch_core *core,
	uint16_t id,
	struct hd_switch_lease_stats *stats
);

/* --- ordinary frames ------------------------------------------------------------------------ */

/* Frames to `mac` leave by `port`, whatever is learned. -EINVAL: multicast or zero, port. -ENOSPC:
 * HD_SWITCH_MACS_MAX. */
int hd_switch_core_mac_set(
	struct hd_switch_core *core,
	const uint8_t mac[6],
	uint16_t port,
	char *error,
	size_t error_bytes
);
/* Removes a set or learned address. -ENOENT. */
int hd_switch_core_mac_clear(struct hd_switch_core *core, const uint8_t mac[6]);

/* Learns the port of each ordinary frame's source, and forgets it `age` after its last frame; 0: stops learning, and
 * forgets learned addresses. A full table learns nothing new. */
void hd_switch_core_learn(struct hd_switch_core *core, hd_ns age);
/* Sets the time (non-decreasing), and forgets silent sources: call it about every second. */
void hd_switch_core_time(struct hd_switch_core *core, hd_ns now);

struct hd_switch_mac {
	uint8_t mac[6];
	uint16_t port;
	bool learned;
};

/* Up to `count` of them, in no order; returns how many there are. */
size_t
hd_switch_core_macs(const struct hd_switch_core *core, struct hd_switch_mac *macs, size_t count);

/* IPv4 frames for prefix/bits sent to router_mac leave by `port` to `mac`. Replaces a route of the same prefix.
 * -EINVAL: bits > 32, a bit of the prefix beyond them, multicast or zero mac, port. -ENOSPC: HD_SWITCH_ROUTES_MAX. */
struct hd_switch_route {
	uint32_t prefix;
	uint8_t bits;
	uint16_t port;
	uint8_t mac[6];
};

int hd_switch_core_route_set(
	struct hd_switch_core *core,
	const struct hd_switch_route *route,
	char *error,
	size_t error_bytes
);
/* -ENOENT. */
int hd_switch_core_route_clear(struct hd_switch_core *core, uint32_t prefix, uint8_t bits);

/* Loses frames on purpose: about `threshold` of 2^24; 0: none. -EINVAL: beyond 2^24; seed 0. */
int hd_switch_core_simulate(
	struct hd_switch_core *core,
	uint32_t seed,
	uint32_t threshold,
	char *error,
	size_t error_bytes
);

/* --- the path ------------------------------------------------------------------------------- */

/*
 * Sets verdict and, depending on it, port, lease and copy of each packet, in order; accepts any bytes. A routed
 * FORWARD, and a COPY, are changed in place; a COPY's `bytes` is cut to the end of its IPv4 packet. Its owner writes
 * addresses and token: hd_switch_address() for each of hd_switch_core_copies().
 */
void hd_switch_core_burst(
	struct hd_switch_core *core,
	struct hd_switch_packet *packets,
	size_t count
);

/* The destinations of a packet with the verdict COPY: returns the number in *copies; valid until its lease ends. */
size_t hd_switch_core_copies(
	const struct hd_switch_core *core,
	const struct hd_switch_packet *packet,
	const struct hd_switch_copy **copies
);

/* Writes the fields in which the copies of a result or an answer differ: Ethernet, IPv4 (identification 0, don't
 * fragment, time to live 64, checksum), UDP (checksum 0) and the token. `frame` has the verdict COPY, or is a copy of
 * one. */
void hd_switch_address(
	const struct hd_switch_self *self,
	const struct hd_switch_copy *copy,
	uint8_t *frame
);

void hd_switch_core_counters(
	const struct hd_switch_core *core,
	uint64_t counters[HD_SWITCH_COUNTER_COUNT]
);

/* The counter's name and description. */
const char *hd_switch_counter_name(enum hd_switch_counter counter);
const char *hd_switch_counter_help(enum hd_switch_counter counter);

#endif
