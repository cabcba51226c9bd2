/* SPDX-License-Identifier: BSD-3-Clause */
/* Probing, configuring and starting the port. */
#include "hd_dpdk_port.h"

#include <rte_dev.h>
#include <rte_errno.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SEND_DESCRIPTORS 1024

__attribute__((format(printf, 4, 5))) static int
fail(int code, char *error, size_t error_bytes, const char *format, ...) {
	size_t used;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(error, error_bytes, format, args);
	va_end(args);
	used = strnlen(error, error_bytes);
	(void)snprintf(error + used, error_bytes - used, ": %s", rte_strerror(-code));
	return code;
}

static int probe(struct dpdk_port *port, char *error, size_t error_bytes) {
	struct rte_dev_iterator iterator;
	char name[DPDK_DEVARGS_BYTES];
	uint16_t id;
	int code = rte_dev_probe(port->devargs);

	if (code < 0 && code != -EEXIST)
		return fail(code, error, error_bytes, "port: %s", port->devargs);
	(void)snprintf(name, sizeof name, "%.*s", (int)strcspn(port->devargs, ","), port->devargs);
	if (rte_eth_dev_get_port_by_name(name, &id) < 0) {
		bool found = false;

		/* A PCI device's port may have another name. */
		RTE_ETH_FOREACH_MATCHING_DEV(id, port->devargs, &iterator) {
			found = true;
			rte_eth_iterator_cleanup(&iterator);
			break;
		}
		if (!found)
			return fail(-ENODEV, error, error_bytes, "port: %s", port->devargs);
	}
	port->id = id;
	port->probed = true;
	return 0;
}

static int make_pool(struct dpdk_port *port, char *error, size_t error_bytes) {
	char name[RTE_MEMPOOL_NAMESIZE];

	(void)snprintf(name, sizeof name, "heddle-%u", port->id);
	port->pool = rte_pktmbuf_pool_create(
		name, port->buffers, 256, 0, port->buffer_bytes, rte_eth_dev_socket_id(port->id)
	);
	if (!port->pool)
		return fail(
			-rte_errno,
			error,
			error_bytes,
			"port: %u buffers of %u bytes",
			port->buffers,
			port->buffer_bytes
		);
	return 0;
}

/* One thread serves all queues: as many as the devargs of a kernel's interface request, one for others. */
static uint16_t choose_queues(const struct dpdk_port *port, const struct rte_eth_dev_info *info) {
	uint16_t queues = RTE_MIN(info->max_rx_queues, info->max_tx_queues);

	if (port->kind == DPDK_OTHER)
		return 1;
	return RTE_MAX(1, RTE_MIN(queues, DPDK_QUEUES_MAX));
}

static int set_queues(
	struct dpdk_port *port,
	const struct rte_eth_dev_info *info,
	const struct dpdk_wish *wish
) {
	struct rte_eth_conf conf = {
		.rxmode.offloads = info->rx_offload_capa & wish->receive_offloads,
		.txmode.offloads = info->tx_offload_capa & wish->send_offloads,
	};
	uint16_t receive = (uint16_t)RTE_MIN(port->ring_frames, 2048u), sends = SEND_DESCRIPTORS;
	int socket = rte_eth_dev_socket_id(port->id);
	int code;

	/* Receive interrupts if the port has them; a second try without. */
	conf.intr_conf.rxq = port->kind == DPDK_OTHER && wish->interrupts;
	code = rte_eth_dev_configure(port->id, port->queues, port->queues, &conf);
	if (code < 0 && conf.intr_conf.rxq) {
		conf.intr_conf.rxq = 0;
		code = rte_eth_dev_configure(port->id, port->queues, port->queues, &conf);
	}
	if (code == 0 && port->kind == DPDK_OTHER)
		code = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &receive, &sends);
	if (port->kind == DPDK_AF_XDP)
		sends = receive;
	for (uint16_t q = 0; code == 0 && q < port->queues; q++) {
		code = rte_eth_rx_queue_setup(
			port->id, q, receive, (unsigned)socket, NULL, port->pool
		);
		if (code == 0)
			code = rte_eth_tx_queue_setup(port->id, q, sends, (unsigned)socket, NULL);
	}
	if (port->kind == DPDK_OTHER)
		port->ring_frames = receive;
	port->offloads = conf.txmode.offloads;
	return code;
}

static int
start(struct dpdk_port *port, const struct dpdk_wish *wish, char *error, size_t error_bytes) {
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	uint16_t mtu;
	int code = rte_eth_dev_info_get(port->id, &info);

	if (code == 0) {
		port->queues = choose_queues(port, &info);
		code = set_queues(port, &info, wish);
	}
	if (code < 0)
		return fail(code, error, error_bytes, "port: %s: configuring", port->devargs);
	code = rte_eth_dev_start(port->id);
	if (code < 0)
		return fail(code, error, error_bytes, "port: %s: starting", port->devargs);
	port->started = true;
	code = rte_eth_macaddr_get(port->id, &mac);
	if (code < 0)
		return fail(code, error, error_bytes, "port: %s: its address", port->devargs);
	memcpy(port->mac, mac.addr_bytes, sizeof port->mac);
	if (port->kind == DPDK_OTHER && rte_eth_dev_get_mtu(port->id, &mtu) == 0)
		port->mtu = mtu;
	/* Memory ports have no stations to filter. */
	if (wish->promiscuous)
		(void)rte_eth_promiscuous_enable(port->id);
	return 0;
}

int dpdk_open_ethdev(
	struct dpdk_port *port,
	const struct dpdk_wish *wish,
	char *error,
	size_t error_bytes
) {
	bool before[DPDK_FDS_MAX];
	int code;

	dpdk_list_sockets(before);
	code = probe(port, error, error_bytes);
	if (code == 0 && !port->lent_pool)
		code = make_pool(port, error, error_bytes);
	if (code == 0)
		code = start(port, wish, error, error_bytes);
	if (code < 0) {
		dpdk_close_ethdev(port);
		return code;
	}
	if (port->kind != DPDK_OTHER)
		dpdk_adopt_sockets(port, before, wish->only_ipv4);
	return 0;
}

void dpdk_close_ethdev(struct dpdk_port *port) {
	struct rte_eth_dev_info info;

	if (port->started)
		(void)rte_eth_dev_stop(port->id);
	if (port->probed && rte_eth_dev_info_get(port->id, &info) == 0) {
		(void)rte_eth_dev_close(port->id);
		if (info.device)
			(void)rte_dev_remove(info.device);
	}
	if (!port->lent_pool)
		rte_mempool_free(port->pool);
	port->pool = NULL;
	port->probed = port->started = false;
	port->descriptor_count = 0;
}
