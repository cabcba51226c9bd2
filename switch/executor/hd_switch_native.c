/* SPDX-License-Identifier: BSD-3-Clause */
/* Adapts the native core to the executor interface. */
#include "hd_switch_executor.h"

static void native_destroy(void *self) {
	hd_switch_core_destroy(self);
}

static void native_burst(void *self, struct hd_switch_packet *packets, size_t count) {
	hd_switch_core_burst(self, packets, count);
}

static size_t native_copies(
	const void *self,
	const struct hd_switch_packet *packet,
	const struct hd_switch_copy **copies
) {
	return hd_switch_core_copies(self, packet, copies);
}

static int
native_lease_set(void *self, const struct hd_switch_lease *lease, char *error, size_t bytes) {
	return hd_switch_core_lease_set(self, lease, error, bytes);
}

static int native_lease_waits(void *self, uint16_t id, uint64_t waits, char *error, size_t bytes) {
	return hd_switch_core_lease_waits(self, id, waits, error, bytes);
}

static int native_lease_end(void *self, uint16_t id, char *error, size_t bytes) {
	return hd_switch_core_lease_end(self, id, error, bytes);
}

static int native_lease_stats(const void *self, uint16_t id, struct hd_switch_lease_stats *stats) {
	return hd_switch_core_lease_stats(self, id, stats);
}

static int
native_mac_set(void *self, const uint8_t mac[6], uint16_t port, char *error, size_t bytes) {
	return hd_switch_core_mac_set(self, mac, port, error, bytes);
}

static int
native_route_set(void *self, const struct hd_switch_route *route, char *error, size_t bytes) {
	return hd_switch_core_route_set(self, route, error, bytes);
}

static int
native_simulate(void *self, uint32_t seed, uint32_t threshold, char *error, size_t bytes) {
	return hd_switch_core_simulate(self, seed, threshold, error, bytes);
}

static void native_learn(void *self, hd_ns age) {
	hd_switch_core_learn(self, age);
}

static void native_time(void *self, hd_ns now) {
	hd_switch_core_time(self, now);
}

static void native_counters(const void *self, uint64_t counters[HD_SWITCH_COUNTER_COUNT]) {
	hd_switch_core_counters(self, counters);
}

static const struct hd_switch_executor_ops native_ops = {
	.name = "native",
	.destroy = native_destroy,
	.burst = native_burst,
	.copies = native_copies,
	.lease_set = native_lease_set,
	.lease_waits = native_lease_waits,
	.lease_end = native_lease_end,
	.lease_stats = native_lease_stats,
	.mac_set = native_mac_set,
	.route_set = native_route_set,
	.simulate = native_simulate,
	.learn = native_learn,
	.time = native_time,
	.counters = native_counters,
};

int hd_switch_native(
	const struct hd_switch_core_config *config,
	struct hd_switch_executor *executor,
	char *error,
	size_t error_bytes
) {
	struct hd_switch_core *core;
	int code = hd_switch_core_create(config, &core, error, error_bytes);

	if (code == 0)
		*executor = (struct hd_switch_executor){&native_ops, core};
	return code;
}
