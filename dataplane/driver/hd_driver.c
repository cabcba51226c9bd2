/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_driver.h"
#include "hd_driver_private.h"
#include "hd_wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hd_driver {
	const struct hd_driver_ops *ops;
	void *self;
};

static const struct hd_driver_ops *const drivers[] = {
	&hd_driver_udp,
#ifdef HD_WITH_DPDK
	&hd_driver_dpdk,
#endif
};

static const struct hd_driver_ops *find(const char *name) {
	for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++)
		if (strcmp(drivers[i]->name, name) == 0)
			return drivers[i];
	return NULL;
}

static int unknown(const char *name, char *error, size_t error_bytes) {
	if (strcmp(name, "dpdk") == 0) {
		(void)snprintf(error, error_bytes, "driver: this build has no dpdk");
		return -ENOTSUP;
	}
	(void)snprintf(error, error_bytes, "driver: '%s' (udp or dpdk)", name);
	return -EINVAL;
}

int hd_driver_open(
	const struct hd_driver_config *config,
	struct hd_driver **driver,
	char *error,
	size_t error_bytes
) {
	const char *name = config->options.driver ? config->options.driver : "udp";
	const struct hd_driver_ops *ops = find(name);
	struct hd_driver *d;
	int code;

	if (!ops)
		return unknown(name, error, error_bytes);
	d = calloc(1, sizeof *d);
	if (!d) {
		(void)snprintf(error, error_bytes, "no memory");
		return -ENOMEM;
	}
	d->ops = ops;
	code = ops->open(config, &d->self, error, error_bytes);
	if (code < 0) {
		free(d);
		return code;
	}
	*driver = d;
	return 0;
}

void hd_driver_close(struct hd_driver *driver) {
	if (!driver)
		return;
	driver->ops->close(driver->self);
	free(driver);
}

void hd_driver_abandon(struct hd_driver *driver) {
	if (!driver)
		return;
	driver->ops->abandon(driver->self);
	free(driver);
}

struct hd_addr hd_driver_bound(const struct hd_driver *driver) {
	return driver->ops->bound(driver->self);
}

uint32_t hd_driver_receive_window(const struct hd_driver *driver) {
	return driver->ops->receive_window(driver->self);
}

int hd_driver_run(struct hd_driver *driver, struct hd_node node) {
	return driver->ops->run(driver->self, node);
}

int hd_driver_poll(struct hd_driver *driver, struct hd_node node, hd_ns until) {
	return driver->ops->poll(driver->self, node, until);
}

void hd_driver_stop(struct hd_driver *driver) {
	driver->ops->stop(driver->self);
}

void hd_driver_wake(struct hd_driver *driver) {
	driver->ops->wake(driver->self);
}

int hd_driver_fd(const struct hd_driver *driver) {
	return driver->ops->fd(driver->self);
}

size_t hd_driver_counters(
	const struct hd_driver *driver,
	struct hd_driver_counter counters[HD_DRIVER_COUNTERS_MAX]
) {
	return driver->ops->counters(driver->self, counters);
}

hd_ns hd_driver_now(void) {
	return hd_wait_now();
}

/* --- ports and queues ------------------------------------------------------------------------ */

const char *hd_driver_name(const struct hd_driver *driver) {
	return driver->ops->name;
}

void hd_driver_stats(const struct hd_driver *driver, struct hd_stats *stats) {
	struct hd_driver_counter counters[HD_DRIVER_COUNTERS_MAX];
	const char *labels[] = {"0", driver->ops->name};
	struct hd_port_stats port = {0};
	size_t count = hd_driver_counters(driver, counters);

	hd_driver_port_stats(counters, count, &port);
	hd_stats_add(stats, &hd_port_group, labels, &port);
	if (driver->ops->stats)
		driver->ops->stats(driver->self, stats);
}
