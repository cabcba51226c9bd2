/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An executor of the switch on the path, whichever it is: what the ports around it and who programs it see.
 *
 *   ports ---- burst(), copies() ----+--- native   C, any chunk (hd_switch_core.h)
 *   agent ---- leases, tables    ----+--- swx      the P4 program on DPDK's pipeline
 *
 * One thread at a time. What sets something returns 0 or -errno with `error` in words, and then has changed nothing.
 */
#ifndef HD_SWITCH_EXECUTOR_H
#define HD_SWITCH_EXECUTOR_H

#include "hd_switch_core.h"

struct hd_switch_executor_ops {
	const char *name;
	void (*destroy)(void *self);
	/* As hd_switch_core_burst(). Before each frame's data there must be HD_SWITCH_HEADROOM_BYTES of room. */
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
	/* -ENOENT, and -ENOTSUP where it is not known by lease. */
	int (*lease_stats)(const void *self, uint16_t id, struct hd_switch_lease_stats *stats);
	int (*mac_set
	)(void *self, const uint8_t mac[6], uint16_t port, char *error, size_t error_bytes);
	int (*route_set
	)(void *self, const struct hd_switch_route *route, char *error, size_t error_bytes);
	int (*simulate
	)(void *self, uint32_t seed, uint32_t threshold, char *error, size_t error_bytes);
	/* NULL: it learns no addresses. */
	void (*learn)(void *self, hd_ns age);
	void (*time)(void *self, hd_ns now); /* NULL: it has no use for it */
	void (*counters)(const void *self, uint64_t counters[HD_SWITCH_COUNTER_COUNT]);
};

#define HD_SWITCH_HEADROOM_BYTES 128

struct hd_switch_executor {
	const struct hd_switch_executor_ops *ops;
	void *self;
};

/* As hd_switch_core_create(). */
int hd_switch_native(
	const struct hd_switch_core_config *config,
	struct hd_switch_executor *executor,
	char *error,
	size_t error_bytes
);

#endif
