/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vectors of the switch, and what runs them.
 *
 *   cases.c, traffic.c --> generate (model) --> vectors.jsonl --> run model | native | ...   the same frames out,
 *                                               native.jsonl                                 the same counters
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "hd_switch.h"

#define GOLDEN_FRAME_MAX 9216
#define GOLDEN_HEADERS 98 /* of a chunk's frame, before its values */

struct golden_config {
	uint32_t service; /* the service address; its port is HD_SWITCH_UDP_PORT */
	uint8_t mac[6], router_mac[6];
	uint16_t ports; /* 0 .. ports - 1: a flood goes to all but one of them */
};

struct golden_route {
	uint32_t prefix;
	uint8_t bits;
	uint16_t port;
	uint8_t mac[6];
};

/* A frame that left. */
struct golden_out {
	uint16_t port;
	uint32_t bytes;
	uint8_t frame[GOLDEN_FRAME_MAX];
};

/* Those of one frame, in any order. */
struct golden_outs {
	size_t count;
	struct golden_out out[HD_SWITCH_PORTS_MAX];
};

/* Calls that return int: 0, or less when it is refused. */
struct golden_executor {
	const char *name;
	void *(*create)(const struct golden_config *config);
	void (*destroy)(void *self);
	int (*mac_set)(void *self, const uint8_t mac[6], uint16_t port);
	int (*route_set)(void *self, const struct golden_route *route);
	int (*lease_set)(void *self, const struct hd_switch_lease *lease);
	int (*lease_waits)(void *self, uint16_t id, uint64_t waits);
	int (*lease_end)(void *self, uint16_t id);
	int (*simulate)(void *self, uint32_t seed, uint32_t threshold);
	void (*frame
	)(void *self, uint16_t port, const uint8_t *frame, uint32_t bytes, struct golden_outs *outs
	);
	void (*counters)(void *self, uint64_t counters[HD_SWITCH_COUNTER_COUNT]);
};

extern const struct golden_executor golden_model;
extern const struct golden_executor golden_native;
extern const struct golden_executor golden_swx; /* where DPDK is */

/* By port, then by bytes. */
void golden_sort(struct golden_outs *outs);

#endif
