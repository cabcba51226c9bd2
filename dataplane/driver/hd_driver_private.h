/* SPDX-License-Identifier: BSD-3-Clause */
/* A driver is an object of one of these classes; hd_driver.c only selects it. */
#ifndef HD_DRIVER_PRIVATE_H
#define HD_DRIVER_PRIVATE_H

#include "hd_driver.h"

struct hd_driver_ops {
	const char *name;
	int (*open
	)(const struct hd_driver_config *config, void **self, char *error, size_t error_bytes);
	void (*close)(void *self);
	void (*abandon)(void *self);
	struct hd_addr (*bound)(const void *self);
	uint32_t (*receive_window)(const void *self);
	int (*run)(void *self, struct hd_node node);
	int (*poll)(void *self, struct hd_node node, hd_ns until);
	void (*stop)(void *self);
	void (*wake)(void *self);
	int (*fd)(const void *self);
	size_t (*counters)(const void *self, struct hd_driver_counter *counters);
	void (*stats)(const void *self, struct hd_stats *stats); /* its queues; may be NULL */
};

extern const struct hd_driver_ops hd_driver_udp;
extern const struct hd_driver_ops hd_driver_dpdk; /* if it was built */

/* Sets *port from the driver's counters. */
void hd_driver_port_stats(
	const struct hd_driver_counter *counters,
	size_t count,
	struct hd_port_stats *port
);

#endif
