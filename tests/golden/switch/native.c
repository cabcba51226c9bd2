/* SPDX-License-Identifier: BSD-3-Clause */
/* The native core as an executor of vectors: with the replication that its owner does. */
#include "golden.h"
#include "hd_limits.h"
#include "hd_switch_core.h"

#include <stdlib.h>
#include <string.h>

struct native {
	struct hd_switch_core *core;
	struct hd_switch_self self;
	uint16_t ports;
	char error[HD_TEXT_BYTES_MAX];
};

static void *native_create(const struct golden_config *config) {
	struct native *native = calloc(1, sizeof *native);
	struct hd_switch_core_config core
		= {.self = {.ipv4 = config->service, .udp_port = HD_SWITCH_UDP_PORT},
		   .hash_key = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9},
		   .memory_bytes = 1 << 26};

	if (!native)
		abort();
	memcpy(core.self.mac, config->mac, 6);
	memcpy(core.self.router_mac, config->router_mac, 6);
	native->self = core.self;
	native->ports = config->ports;
	if (hd_switch_core_create(&core, &native->core, native->error, sizeof native->error) < 0)
		abort();
	return native;
}

static void native_destroy(void *self) {
	struct native *native = self;

	hd_switch_core_destroy(native->core);
	free(native);
}

static int native_mac_set(void *self, const uint8_t mac[6], uint16_t port) {
	struct native *native = self;

	return hd_switch_core_mac_set(native->core, mac, port, native->error, sizeof native->error);
}

static int native_route_set(void *self, const struct golden_route *route) {
	struct native *native = self;
	struct hd_switch_route to
		= {.prefix = route->prefix, .bits = route->bits, .port = route->port};

	memcpy(to.mac, route->mac, 6);
	return hd_switch_core_route_set(native->core, &to, native->error, sizeof native->error);
}

static int native_lease_set(void *self, const struct hd_switch_lease *lease) {
	struct native *native = self;

	return hd_switch_core_lease_set(native->core, lease, native->error, sizeof native->error);
}

static int native_lease_waits(void *self, uint16_t id, uint64_t waits) {
	struct native *native = self;

	return hd_switch_core_lease_waits(
		native->core, id, waits, native->error, sizeof native->error
	);
}

static int native_lease_end(void *self, uint16_t id) {
	struct native *native = self;

	return hd_switch_core_lease_end(native->core, id, native->error, sizeof native->error);
}

static int native_simulate(void *self, uint32_t seed, uint32_t threshold) {
	struct native *native = self;

	return hd_switch_core_simulate(
		native->core, seed, threshold, native->error, sizeof native->error
	);
}

static void keep(struct golden_outs *outs, uint16_t port, const uint8_t *frame, uint32_t bytes) {
	struct golden_out *out = &outs->out[outs->count++];

	out->port = port;
	out->bytes = bytes;
	memcpy(out->frame, frame, bytes);
}

static void send_copies(
	const struct native *native,
	struct hd_switch_packet *packet,
	struct golden_outs *outs
) {
	const struct hd_switch_copy *copies;
	size_t count = hd_switch_core_copies(native->core, packet, &copies);

	for (size_t i = 0; i < count; i++) {
		hd_switch_address(&native->self, &copies[i], packet->data);
		keep(outs, copies[i].port, packet->data, packet->bytes);
	}
}

/* The frame lies at the end of its memory: a sanitizer sees who reads on. */
static void native_frame(
	void *self,
	uint16_t port,
	const uint8_t *frame,
	uint32_t bytes,
	struct golden_outs *outs
) {
	const struct native *native = self;
	uint8_t *data = malloc(bytes > 0 ? bytes : 1);
	struct hd_switch_packet packet = {.data = data, .bytes = bytes, .port = port};

	if (!data)
		abort();
	memcpy(data, frame, bytes);
	outs->count = 0;
	hd_switch_core_burst(native->core, &packet, 1);
	switch (packet.verdict) {
	case HD_SWITCH_FORWARD:
		keep(outs, packet.port, data, packet.bytes);
		break;
	case HD_SWITCH_FLOOD:
		for (uint16_t i = 0; i < native->ports; i++)
			if (i != port)
				keep(outs, i, data, packet.bytes);
		break;
	case HD_SWITCH_COPY:
		send_copies(native, &packet, outs);
		break;
	default:
		break;
	}
	free(data);
	golden_sort(outs);
}

static void native_counters(void *self, uint64_t counters[HD_SWITCH_COUNTER_COUNT]) {
	const struct native *native = self;

	hd_switch_core_counters(native->core, counters);
}

const struct golden_executor golden_native = {
	.name = "native",
	.create = native_create,
	.destroy = native_destroy,
	.mac_set = native_mac_set,
	.route_set = native_route_set,
	.lease_set = native_lease_set,
	.lease_waits = native_lease_waits,
	.lease_end = native_lease_end,
	.simulate = native_simulate,
	.frame = native_frame,
	.counters = native_counters,
};
