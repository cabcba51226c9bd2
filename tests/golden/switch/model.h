/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of the model of the switch. */
#ifndef MODEL_H
#define MODEL_H

#include "golden.h"

#define MODEL_MACS_MAX 1024
#define MODEL_ROUTES_MAX 64
#define MODEL_LANES_MAX 2224

struct model_cell {
	uint64_t key, seen;
	int exponent, next;
	unsigned flags;
	uint8_t lanes[MODEL_LANES_MAX * 4]; /* as in packets */
};

struct model_lease {
	bool live;
	struct hd_switch_lease is;
	struct hd_switch_member members[HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy receivers[HD_SWITCH_RECEIVERS_MAX];
	struct model_cell *cells; /* slot * 2 + version */
};

struct model_mac {
	uint8_t mac[6];
	uint16_t port;
};

struct model {
	struct golden_config config;
	struct model_lease leases[HD_SWITCH_LEASES_MAX];
	struct model_mac macs[MODEL_MACS_MAX];
	struct golden_route routes[MODEL_ROUTES_MAX];
	size_t mac_count, route_count;
	uint32_t lose_state, lose_threshold;
	uint64_t counters[HD_SWITCH_COUNTER_COUNT];
	/* The frame that is being processed. */
	uint8_t frame[GOLDEN_FRAME_MAX];
	uint32_t bytes;
	uint16_t port;
	struct golden_outs *outs;
};

void model_frame(
	void *self,
	uint16_t port,
	const uint8_t *frame,
	uint32_t bytes,
	struct golden_outs *outs
);

#endif
