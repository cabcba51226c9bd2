/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One interface to all executors of the switch on the path, for the ports around it and for the agent.
 *
 *   ports ---- burst(), copies() ----+--- native   C, any chunk (hd_switch_core.h)
 *   agent ---- leases, tables    ----+--- swx      the P4 program on DPDK's pipeline
 *
 * One thread at a time. Functions that set something return 0 or -errno with a text in `error`; a failure changes
 * nothing.
 */
#ifndef HD_SWITCH_EXECUTOR_H
#define HD_SWITCH_EXECUTOR_H

#include "hd_switch_core.h"

struct hd_switch_executor_ops {
	const char *name;
	void (*destroy)(void *self);
	/* Like hd_switch_core_burst(). HD_SWITCH_HEADROOM_BYTES before each frame's data must be writable. */
	void (*burst)(void *self, struct hd_switch_packet *packets, size_t count);
	size_t (*copies
	)(const void *self,
	  const struct hd_switch_packet *packet,
	  const struct hd_switch_copy **copies);
	int (*lease_set
	)(void *self, const struct hd_switch_lease *lease, char *error, size_t error_bytes);
	int (*lease_waits
	)(void *self, uint16_t id, uint64_t waits, char *error, size_t error_bytes);
	int (*lease_end)(void *self, uint16_t id, char *error, size_t error_bytes);
	/* -ENOENT, and -ENOTSUP if it is not counted by lease. */
	int (*lease_stats)(const void *self, uint16_t id, struct hd_switch_lease_stats *stats);
	int (*mac_set
	)(void *self, const uint8_t mac[6], uint16_t port, char *error, size_t error_bytes);
	int (*route_set
	)(void *self, const struct hd_switch_route *route, char *error, size_t error_bytes);
	int (*simulate
	)(void *self, uint32_t seed, uint32_t threshold, char *error, size_t error_bytes);
	/* NULL: it learns no addresses. */
	void (*learn)(void *self, hd_ns age);
	void (*time)(void *self, hd_ns now); /* NULL: not needed */
	void (*counters)(const void *self, uint64_t counters[HD_SWITCH_COUNTER_COUNT]);
};

#define HD_SWITCH_HEADROOM_BYTES 128

struct hd_switch_executor {
	const struct hd_switch_executor_ops *ops;
	void *self;
};

/* Like hd_switch_core_create(). */
int hd_switch_native(
	const struct hd_switch_core_config *config,
	struct hd_switch_executor *executor,
	char *error,
	size_t error_bytes
);

#endif
