/* SPDX-License-Identifier: BSD-3-Clause */
/* Random operations on a switch, from a seed: leases that come and go, members that send, and much that is wrong. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "golden.h"
#include "hd_random.h"

#define TRAFFIC_LEASES 6
#define TRAFFIC_PORTS 8
#define TRAFFIC_SERVICE 0x0a000001 /* 10.0.0.1 */

struct traffic_lease {
	bool live;
	struct hd_switch_lease is;
	struct hd_switch_member members[HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy receivers[HD_SWITCH_RECEIVERS_MAX];
	uint32_t front, round; /* about where its members are */
};

struct traffic {
	struct hd_random random;
	bool portable; /* only what every executor can do: 32 lanes of fixed point, whole frames */
	struct traffic_lease leases[TRAFFIC_LEASES];
	uint32_t packet;
};

enum traffic_kind {
	TRAFFIC_FRAME,
	TRAFFIC_LEASE_SET,
	TRAFFIC_LEASE_WAITS,
	TRAFFIC_LEASE_END,
	TRAFFIC_SIMULATE
};

struct traffic_op {
	enum traffic_kind kind;
	const struct hd_switch_lease *lease;
	uint16_t id;
	uint64_t waits;
	uint32_t seed, threshold;
	uint16_t port;
	bool honest; /* a chunk as its member would send it */
	uint32_t bytes;
	uint8_t frame[GOLDEN_FRAME_MAX];
};

extern const struct golden_config traffic_config;
/* MAC addresses and routes that the ordinary frames go by. */
void traffic_tables(const struct golden_executor *executor, void *self);

void traffic_init(struct traffic *traffic, uint64_t seed, bool portable);
void traffic_next(struct traffic *traffic, struct traffic_op *op);
/* Does what is no frame; returns what the executor said. */
int traffic_control(
	const struct golden_executor *executor,
	void *self,
	const struct traffic_op *op
);

/* --- frames, of big-endian fields at their places ---------------------------------------------- */

void traffic_put(uint8_t *at, size_t bytes, uint64_t value);
/* Ethernet, IPv4 and UDP around `payload` bytes that lie at 42; returns the frame's bytes. */
uint32_t traffic_udp(uint8_t *frame, uint32_t from, uint32_t to, uint16_t port, uint32_t payload);
/* Writes the packet of member `index` for `chunk`; values are 0. */
uint32_t traffic_chunk(
	const struct traffic_lease *lease,
	uint32_t index,
	uint32_t round,
	uint32_t chunk,
	uint8_t *frame
);
void traffic_ip_checksum(uint8_t *frame);
/* A lease of `members` members and `receivers` receivers, for chunks of 32 lanes. */
void traffic_make_lease(
	struct traffic_lease *lease,
	struct hd_random *random,
	uint16_t id,
	uint32_t members,
	uint32_t receivers
);

#endif
