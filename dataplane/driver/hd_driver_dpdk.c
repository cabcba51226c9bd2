/* SPDX-License-Identifier: BSD-3-Clause */
/* Adapts the dpdk driver to this interface. */
#include "hd_dpdk.h"
#include "hd_driver_private.h"
#include "hd_limits.h"
#include "hd_stat_groups.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HD_DRIVER_COUNTERS_MAX == HD_DPDK_COUNTERS_MAX, "one array for both");

__attribute__((format(printf, 3, 4))) static int
refuse(char *error, size_t error_bytes, const char *format, ...) {
	va_list args;

	va_start(args, format);
	(void)vsnprintf(error, error_bytes, format, args);
	va_end(args);
	return -EINVAL;
}

static int parse_ipv4(const char *text, uint32_t *ipv4) {
	struct in_addr parsed;

	if (inet_pton(AF_INET, text, &parsed) != 1)
		return -EINVAL;
	*ipv4 = ntohl(parsed.s_addr);
	return 0;
}

/* ADDR/BITS */
static int parse_network(const char *text, struct hd_dpdk_config *dpdk) {
	const char *slash = strchr(text, '/');
	char address[INET_ADDRSTRLEN];
	unsigned long bits;
	char *end;

	if (!slash || (size_t)(slash - text) >= sizeof address || slash[1] < '0' || slash[1] > '9')
		return -EINVAL;
	memcpy(address, text, (size_t)(slash - text));
	address[slash - text] = '\0';
	bits = strtoul(slash + 1, &end, 10);
	if (*end != '\0' || bits > 32)
		return -EINVAL;
	dpdk->prefix = (uint8_t)bits;
	return parse_ipv4(address, &dpdk->ipv4);
}

static int read_config(
	const struct hd_driver_config *config,
	struct hd_dpdk_config *dpdk,
	char *error,
	size_t error_bytes
) {
	const struct hd_driver_options *o = &config->options;

	*dpdk = (struct hd_dpdk_config){
		.port = o->port,
		.eal = o->eal,
		.udp_port = config->bind.port ? config->bind.port : HD_PORT,
		.busy_poll = o->busy_poll,
		.event = config->event,
		.woken = config->woken,
		.owner = config->owner,
	};
	if (!o->port)
		return refuse(error, error_bytes, "port: missing (with driver dpdk)");
	if (!o->address)
		return refuse(error, error_bytes, "address: missing (with driver dpdk)");
	if (parse_network(o->address, dpdk) < 0)
		return refuse(error, error_bytes, "address: '%s' (as in 10.0.0.1/24)", o->address);
	if (o->gateway && parse_ipv4(o->gateway, &dpdk->gateway) < 0)
		return refuse(error, error_bytes, "gateway: '%s' (as in 10.0.0.254)", o->gateway);
	if (config->bind.ipv4 != 0 && config->bind.ipv4 != dpdk->ipv4)
		return refuse(error, error_bytes, "address: %s differs from --listen", o->address);
	return 0;
}

static int
dpdk_open(const struct hd_driver_config *config, void **self, char *error, size_t error_bytes) {
	struct hd_dpdk_config dpdk;
	struct hd_dpdk *opened;
	int code = read_config(config, &dpdk, error, error_bytes);

	if (code == 0)
		code = hd_dpdk_open(&dpdk, &opened, error, error_bytes);
	if (code == 0)
		*self = opened;
	return code;
}

static void dpdk_close(void *self) {
	hd_dpdk_close(self);
}

static void dpdk_abandon(void *self) {
	hd_dpdk_abandon(self);
}

static struct hd_addr dpdk_bound(const void *self) {
	return hd_dpdk_bound(self);
}

static uint32_t dpdk_receive_window(const void *self) {
	return hd_dpdk_receive_window(self);
}

static int dpdk_run(void *self, struct hd_node node) {
	return hd_dpdk_run(self, node);
}

static int dpdk_poll(void *self, struct hd_node node, hd_ns until) {
	return hd_dpdk_poll(self, node, until);
}

static void dpdk_stop(void *self) {
	hd_dpdk_stop(self);
}

static void dpdk_wake(void *self) {
	hd_dpdk_wake(self);
}

static int dpdk_fd(const void *self) {
	return hd_dpdk_fd(self);
}

static size_t dpdk_counters(const void *self, struct hd_driver_counter *counters) {
	struct hd_dpdk_counter all[HD_DPDK_COUNTERS_MAX];
	size_t count = hd_dpdk_counters(self, all);

	for (size_t i = 0; i < count; i++)
		counters[i] = (struct hd_driver_counter
		){all[i].name, all[i].unit, all[i].help, all[i].value};
	return count;
}

#define QUEUES_MAX 16

static void add_queue(
	const char *direction,
	uint16_t number,
	const struct hd_dpdk_queue *queue,
	struct hd_stats *stats
) {
	const struct hd_queue_stats row = {
		.packets = queue->packets,
		.bytes = queue->bytes,
		.drops = queue->drops,
		.backlog_bytes = queue->backlog_bytes,
		.limit_bytes = queue->limit_bytes,
	};
	char name[8];
	const char *labels[] = {"0", direction, name};

	(void)snprintf(name, sizeof name, "%u", number);
	hd_stats_add(stats, &hd_queue_group, labels, &row);
}

static void dpdk_stats(const void *self, struct hd_stats *stats) {
	struct hd_dpdk_queue in[QUEUES_MAX], out[QUEUES_MAX];
	uint16_t count = hd_dpdk_queues(self, in, out, QUEUES_MAX);

	for (uint16_t q = 0; q < count && q < QUEUES_MAX; q++)
		add_queue("in", q, &in[q], stats);
	for (uint16_t q = 0; q < count && q < QUEUES_MAX; q++)
		add_queue("out", q, &out[q], stats);
}

const struct hd_driver_ops hd_driver_dpdk = {
	.name = "dpdk",
	.open = dpdk_open,
	.close = dpdk_close,
	.abandon = dpdk_abandon,
	.bound = dpdk_bound,
	.receive_window = dpdk_receive_window,
	.run = dpdk_run,
	.poll = dpdk_poll,
	.stop = dpdk_stop,
	.wake = dpdk_wake,
	.fd = dpdk_fd,
	.counters = dpdk_counters,
	.stats = dpdk_stats,
};
