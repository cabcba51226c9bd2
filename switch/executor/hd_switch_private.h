/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the switch's core. */
#ifndef HD_SWITCH_PRIVATE_H
#define HD_SWITCH_PRIVATE_H

#include "hd_bytes.h"
#include "hd_limits.h"
#include "hd_switch_core.h"
#include "hd_switch_table.h"

/*
 * Offsets in a frame for us:
 *
 *   0         14        34       42                98
 *   +---------+---------+--------+-----------------+------------
 *   | Ethernet| IPv4    | UDP    | chunk header    | values
 *   +---------+---------+--------+-----------------+------------
 */
enum switch_offset {
	AT_ETHERTYPE = 12,
	AT_IPV4 = 14,
	AT_TOS = 15,
	AT_IPV4_BYTES = 16,
	AT_IDENTIFICATION = 18,
	AT_FRAGMENT = 20,
	AT_TTL = 22,
	AT_PROTOCOL = 23,
	AT_CHECKSUM = 24,
	AT_SOURCE = 26,
	AT_DESTINATION = 30,
	AT_UDP = 34,
	AT_UDP_DESTINATION = 36,
	AT_UDP_BYTES = 38,
	AT_UDP_CHECKSUM = 40,
	AT_MAGIC = 42,
	AT_TYPE = 44,
	AT_FLAGS = 45,
	AT_JOB = 46,
	AT_EPOCH = 50,
	AT_WORKER = 52,
	AT_ROUND = 54,
	AT_ATTEMPT = 58,
	AT_DTYPE = 59,
	AT_EXPONENT = 60,
	AT_SHARD = 62,
	AT_SLOT = 64,
	AT_CHUNK = 66,
	AT_SEEN = 74,
	AT_COUNT = 82,
	AT_NEXT = 84,
	AT_TOKEN = 90,
	AT_VALUES = 98
};

#define SWITCH_ETHERNET_BYTES 14
#define SWITCH_IPV4_BYTES 20
#define SWITCH_UDP_BYTES 8
#define SWITCH_ETHERTYPE_IPV4 0x0800
#define SWITCH_LINE 64 /* bytes of a cache line */
#define SWITCH_FETCHED                                                                             \
	((size_t)6 * SWITCH_LINE) /* of a cell, prefetched; the processor fetches the rest */

/* A sum. Its lanes follow in the next line, in wire format. */
struct switch_cell {
	uint64_t key; /* round:32 chunk:32; 0: none yet */
	uint64_t seen; /* bit i: members[i] is in the sum */
	int16_t exponent;
	int16_t next; /* the greatest proposal */
	uint8_t flags;
} __attribute__((aligned(SWITCH_LINE)));

struct switch_lease {
	/* The fields checked for each chunk. */
	uint32_t job;
	uint16_t epoch, shard;
	uint16_t id;
	uint8_t attempt, dtype;
	uint16_t count, slot_count;
	uint32_t member_count, receiver_count;
	uint64_t waits, all;
	uint8_t *cells; /* 2 x slot_count of `stride` bytes; owned */
	size_t stride;
	struct hd_switch_lease_stats stats;
	uint16_t workers[HD_SWITCH_MEMBERS_MAX];
	uint64_t tokens[HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy members[HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy receivers[HD_SWITCH_RECEIVERS_MAX];
};

struct switch_simulator {
	uint32_t state, threshold;
};

struct hd_switch_core {
	struct hd_switch_self self;
	uint64_t router; /* self.router_mac as a number; 0: none */
	struct switch_simulator simulator;
	uint64_t counters[HD_SWITCH_COUNTER_COUNT];

	struct hd_switch_table tokens; /* token -> switch_token() */
	struct switch_lease *leases[HD_SWITCH_LEASES_MAX]; /* owned */
	uint64_t memory_bytes, memory_used;

	struct hd_switch_table macs; /* MAC address -> port:16, microseconds:48 */
	size_t macs_set, macs_learned;
	uint64_t now_us, age_us; /* age 0: learning is off */

	struct hd_switch_table routes; /* prefix and length -> port:16, mac:48 */
	size_t route_count;
	uint16_t route_lengths[33]; /* number of routes of each length */
	uint64_t route_bits; /* bit i: there are routes of that length */
};

/* The value of a token: lease:16, index:8, and whether it is a receiver's. */
static inline uint64_t switch_token(uint16_t lease, uint32_t index, bool receiver) {
	return (uint64_t)receiver << 24 | (uint64_t)index << 16 | lease;
}

static inline struct switch_cell *
switch_cell_at(const struct switch_lease *lease, uint32_t slot, uint32_t version) {
	size_t index = version != 0 ? (size_t)lease->slot_count + slot : slot;

	return (struct switch_cell *)(void *)(lease->cells + index * lease->stride);
}

static inline uint32_t *switch_lanes(struct switch_cell *cell) {
	return (uint32_t *)(void *)(cell + 1);
}

static inline bool switch_complete(const struct switch_lease *lease, uint64_t seen) {
	return (seen & lease->waits) == lease->waits;
}

#define SWITCH_NO_MAC UINT64_MAX
#define SWITCH_NO_PORT UINT32_MAX

/* Results of earlier look-ups in a burst: many frames come from one station, and go to one. */
struct switch_found {
	uint64_t source, target; /* SWITCH_NO_MAC: none yet */
	uint16_t in; /* the source's port */
	uint32_t out;
	/* Frames that need no look-up (switch_is_like()): their first bytes, and their ports. */
	uint64_t like[2];
	uint32_t like_in; /* SWITCH_NO_PORT: none are */
	uint16_t like_out;
};

void switch_leases_fini(struct hd_switch_core *core);

/* hd_switch_forward.c */
int switch_forward_init(struct hd_switch_core *core, const uint64_t secret[2]);
void switch_forward_fini(struct hd_switch_core *core);
/* Sets the verdict of an ordinary frame, and its counter. */
void switch_forward(
	struct hd_switch_core *core,
	struct hd_switch_packet *packet,
	struct switch_found *found
);

/* The bytes that are compared: shorter frames are processed individually. */
#define SWITCH_LIKE_BYTES (AT_FLAGS + 1)

/* The frame's first 16 bytes, as in memory, without the type of service. */
static inline uint64_t switch_head(const uint8_t *data, int half) {
	uint64_t head;

	memcpy(&head, data + (half ? 8 : 0), sizeof head);
	return half ? head & htobe64(~UINT64_C(0xff)) : head;
}

/* An ordinary frame that leaves like the previous one: no look-up. */
static inline bool switch_is_like(
	const struct hd_switch_core *core,
	const struct hd_switch_packet *packet,
	const struct switch_found *found
) {
	const uint8_t *data = packet->data;

	return packet->port == found->like_in && packet->bytes >= SWITCH_LIKE_BYTES
		&& switch_head(data, 0) == found->like[0] && switch_head(data, 1) == found->like[1]
		&& hd_get32(data + AT_DESTINATION) != core->self.ipv4;
}

/* Writes the reason and returns `code`. */
__attribute__((format(printf, 4, 5))) int
switch_refuse(int code, char *error, size_t error_bytes, const char *format, ...);

#endif
