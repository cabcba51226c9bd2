/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The P4 program on DPDK's pipeline as an executor of vectors: HEDDLE_SPEC names the compiled text. Frames go through
 * in the memory of a packet buffer: room before and behind.
 */
#include "golden.h"
#include "hd_dpdk_port.h"
#include "hd_limits.h"
#include "hd_swx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct swx {
	struct hd_switch_executor x;
	struct hd_switch_self self;
	uint16_t ports;
	char error[HD_TEXT_BYTES_MAX];
	uint8_t room[HD_SWITCH_HEADROOM_BYTES + GOLDEN_FRAME_MAX + HD_SWX_ROOM_BYTES];
};

static void *swx_create(const struct golden_config *config) {
	static const struct dpdk_eal eal = {.prefix = "heddle-golden", .memory_bytes = 128 << 20};
	struct swx *swx = calloc(1, sizeof *swx);
	const char *path = getenv("HEDDLE_SPEC");

	if (!swx || !path)
		abort();
	swx->self
		= (struct hd_switch_self){.ipv4 = config->service, .udp_port = HD_SWITCH_UDP_PORT};
	memcpy(swx->self.mac, config->mac, 6);
	memcpy(swx->self.router_mac, config->router_mac, 6);
	swx->ports = config->ports;
	if (dpdk_start_eal(&eal, swx->error, sizeof swx->error) < 0
	    || hd_swx_open(path, "golden", &swx->self, &swx->x, swx->error, sizeof swx->error)
		    < 0) {
		(void)fprintf(stderr, "%s\n", swx->error);
		abort();
	}
	return swx;
}

static void swx_destroy(void *self) {
	struct swx *swx = self;

	swx->x.ops->destroy(swx->x.self);
	free(swx);
}

static int said(const struct swx *swx, int code) {
	if (code < 0)
		(void)fprintf(stderr, "%s\n", swx->error);
	return code;
}

static int swx_mac_set(void *self, const uint8_t mac[6], uint16_t port) {
	struct swx *swx = self;

	return said(
		swx, swx->x.ops->mac_set(swx->x.self, mac, port, swx->error, sizeof swx->error)
	);
}

static int swx_route_set(void *self, const struct golden_route *route) {
	struct swx *swx = self;
	struct hd_switch_route to
		= {.prefix = route->prefix, .bits = route->bits, .port = route->port};

	memcpy(to.mac, route->mac, 6);
	return said(swx, swx->x.ops->route_set(swx->x.self, &to, swx->error, sizeof swx->error));
}

static int swx_lease_set(void *self, const struct hd_switch_lease *lease) {
	struct swx *swx = self;

	return said(swx, swx->x.ops->lease_set(swx->x.self, lease, swx->error, sizeof swx->error));
}

static int swx_lease_waits(void *self, uint16_t id, uint64_t waits) {
	struct swx *swx = self;

	return said(
		swx, swx->x.ops->lease_waits(swx->x.self, id, waits, swx->error, sizeof swx->error)
	);
}

static int swx_lease_end(void *self, uint16_t id) {
	struct swx *swx = self;

	return said(swx, swx->x.ops->lease_end(swx->x.self, id, swx->error, sizeof swx->error));
}

static int swx_simulate(void *self, uint32_t seed, uint32_t threshold) {
	struct swx *swx = self;

	return said(
		swx,
		swx->x.ops->simulate(swx->x.self, seed, threshold, swx->error, sizeof swx->error)
	);
}

static void keep(struct golden_outs *outs, uint16_t port, const struct hd_switch_packet *packet) {
	struct golden_out *out = &outs->out[outs->count++];

	out->port = port;
	out->bytes = packet->bytes;
	memcpy(out->frame, packet->data, packet->bytes);
}

static void send_copies(
	const struct swx *swx,
	const struct hd_switch_packet *packet,
	struct golden_outs *outs
) {
	const struct hd_switch_copy *copies;
	size_t count = swx->x.ops->copies(swx->x.self, packet, &copies);

	for (size_t i = 0; i < count; i++) {
		hd_switch_address(&swx->self, &copies[i], packet->data);
		keep(outs, copies[i].port, packet);
	}
}

static void swx_frame(
	void *self,
	uint16_t port,
	const uint8_t *frame,
	uint32_t bytes,
	struct golden_outs *outs
) {
	struct swx *swx = self;
	struct hd_switch_packet packet
		= {.data = swx->room + HD_SWITCH_HEADROOM_BYTES, .bytes = bytes, .port = port};

	/* Earlier contents of a buffer must not matter. */
	memset(swx->room, 0xff, sizeof swx->room);
	memcpy(packet.data, frame, bytes);
	outs->count = 0;
	swx->x.ops->burst(swx->x.self, &packet, 1);
	if (packet.verdict == HD_SWITCH_FORWARD)
		keep(outs, packet.port, &packet);
	for (uint16_t i = 0; packet.verdict == HD_SWITCH_FLOOD && i < swx->ports; i++)
		if (i != port)
			keep(outs, i, &packet);
	if (packet.verdict == HD_SWITCH_COPY)
		send_copies(swx, &packet, outs);
	golden_sort(outs);
}

static void swx_counters(void *self, uint64_t counters[HD_SWITCH_COUNTER_COUNT]) {
	struct swx *swx = self;

	swx->x.ops->counters(swx->x.self, counters);
}

const struct golden_executor golden_swx = {
	.name = "swx",
	.create = swx_create,
	.destroy = swx_destroy,
	.mac_set = swx_mac_set,
	.route_set = swx_route_set,
	.lease_set = swx_lease_set,
	.lease_waits = swx_lease_waits,
	.lease_end = swx_lease_end,
	.simulate = swx_simulate,
	.frame = swx_frame,
	.counters = swx_counters,
};
