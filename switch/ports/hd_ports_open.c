/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening: devargs, EAL, memory for ports and queues, then each port. */
#include "hd_ports_private.h"

#include <rte_errno.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHER_MEMORY (96u << 20) /* besides frames: pieces, an executor's tables and registers */
#define PIECES 16383u
#define PIECE_BYTES (RTE_PKTMBUF_HEADROOM + 128)
#define COPIES 1024u /* besides the queues' capacity */
#define PACKET_BUFFERS 256u /* of a port that copies: few are outside of queues */
#define POOL_CACHE 256

static void name_port(struct switch_port *port) {
	const char *interface = strstr(port->eth.devargs, "iface=");
	const char *name = interface ? interface + strlen("iface=") : port->eth.devargs;

	(void)snprintf(port->name, sizeof port->name, "%.*s", (int)strcspn(name, ","), name);
}

static int read_ports(
	struct hd_ports *p,
	const struct hd_ports_config *config,
	char *error,
	size_t error_bytes
) {
	for (uint32_t i = 0; i < p->count; i++) {
		struct switch_port *port = &p->ports[i];
		int code = dpdk_read_devargs(
			config->links[i].devargs, &port->eth, error, error_bytes
		);

		if (code == 0)
			code = hd_switch_queue_create(&config->links[i].queue, &port->queue);
		if (code < 0)
			return code;
		name_port(port);
	}
	return 0;
}

/* Every buffer may wait in a queue, from any port. */
static uint32_t queued(const struct hd_ports *p) {
	uint32_t frames = 0;

	for (uint32_t i = 0; i < p->count; i++)
		frames += hd_switch_queue_config(p->ports[i].queue)->limit_frames;
	return frames;
}

static bool shares(const struct switch_port *port) {
	return port->eth.kind != DPDK_AF_XDP;
}

/* The number and size of the buffers in the common pool, and in an af_xdp port's own. */
static uint32_t plan_buffers(struct hd_ports *p, uint16_t *room) {
	uint32_t waiting = queued(p), shared = waiting + COPIES;

	*room = RTE_MBUF_DEFAULT_BUF_SIZE;
	for (uint32_t i = 0; i < p->count; i++) {
		struct dpdk_port *eth = &p->ports[i].eth;

		*room = RTE_MAX(*room, eth->buffer_bytes);
		if (eth->kind == DPDK_AF_PACKET)
			eth->buffers = PACKET_BUFFERS;
		else if (eth->kind == DPDK_AF_XDP)
			eth->buffers += waiting;
		if (shares(&p->ports[i])) {
			shared += eth->buffers;
			eth->buffers = 0;
		}
	}
	return shared;
}

static int
make_pools(struct hd_ports *p, uint32_t buffers, uint16_t room, char *error, size_t error_bytes) {
	p->pool = rte_pktmbuf_pool_create(
		"heddle-frames", buffers, POOL_CACHE, 0, room, SOCKET_ID_ANY
	);
	p->pieces = rte_pktmbuf_pool_create(
		"heddle-pieces", PIECES, POOL_CACHE, 0, PIECE_BYTES, SOCKET_ID_ANY
	);
	if (p->pool && p->pieces)
		return 0;
	(void)snprintf(
		error,
		error_bytes,
		"port: %u buffers of %u bytes: %s",
		buffers,
		room,
		rte_strerror(rte_errno)
	);
	return -ENOMEM;
}

static int
open_port(struct hd_ports *p, struct switch_port *port, char *error, size_t error_bytes) {
	static const struct dpdk_wish wish = {
		.send_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS,
		.promiscuous = true,
	};
	int code;

	if (shares(port)) {
		port->eth.pool = p->pool;
		port->eth.lent_pool = true;
	}
	code = dpdk_open_ethdev(&port->eth, &wish, error, error_bytes);
	if (code < 0)
		return code;
	port->limited = hd_switch_queue_config(port->queue)->rate_bps > 0;
	port->chains = port->eth.offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (port->eth.descriptor_count == 0)
		p->naps = true;
	return 0;
}

int ports_watch(struct hd_ports *p) {
	int code = 0;

	for (uint32_t i = 0; i < p->count; i++) {
		const struct dpdk_port *eth = &p->ports[i].eth;

		for (uint32_t j = 0; j < eth->descriptor_count && code == 0; j++)
			code = hd_wait_watch(&p->wait, eth->descriptor[j]);
	}
	p->watched = code == 0;
	return code;
}

void ports_unwatch(struct hd_ports *p) {
	for (uint32_t i = 0; i < p->count; i++) {
		const struct dpdk_port *eth = &p->ports[i].eth;

		for (uint32_t j = 0; j < eth->descriptor_count; j++)
			hd_wait_unwatch(&p->wait, eth->descriptor[j]);
	}
	p->watched = false;
}

static int start_eal(
	const struct hd_ports *p,
	const struct hd_ports_config *config,
	uint64_t more,
	char *error,
	size_t error_bytes
) {
	struct dpdk_port *ports = calloc(p->count, sizeof *ports);
	struct dpdk_eal eal = {
		.words = config->eal,
		.prefix = config->prefix,
		.ports = ports,
		.port_count = p->count,
		.memory_bytes = OTHER_MEMORY + more,
	};
	int code;

	if (!ports)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->count; i++) {
		ports[i] = p->ports[i].eth;
		/* The buffers of an af_xdp port must be contiguous. Unused ones cost no memory. */
		if (!shares(&p->ports[i]))
			eal.memory_bytes
				+= (uint64_t)ports[i].buffers * (ports[i].buffer_bytes + 512u);
	}
	code = dpdk_start_eal(&eal, error, error_bytes);
	free(ports);
	return code;
}

int ports_open_all(
	struct hd_ports *p,
	const struct hd_ports_config *config,
	char *error,
	size_t error_bytes
) {
	uint16_t room;
	uint32_t buffers;
	int code = read_ports(p, config, error, error_bytes);

	if (code < 0)
		return code;
	buffers = plan_buffers(p, &room);
	code = start_eal(
		p,
		config,
		(uint64_t)buffers * (room + 512u) + (uint64_t)PIECES * (PIECE_BYTES + 512u),
		error,
		error_bytes
	);
	if (code == 0)
		code = make_pools(p, buffers, room, error, error_bytes);
	for (uint32_t i = 0; i < p->count && code == 0; i++) {
		code = open_port(p, &p->ports[i], error, error_bytes);
		if (p->ports[i].eth.kind == DPDK_AF_PACKET)
			p->rings |= UINT64_C(1) << i;
		p->sockets += p->ports[i].eth.descriptor_count;
	}
	if (code < 0 || p->busy_poll)
		return code;
	code = ports_watch(p);
	if (code < 0)
		(void)snprintf(error, error_bytes, "port: epoll: %s", strerror(-code));
	return code;
}

void ports_close_all(struct hd_ports *p) {
	for (uint32_t i = 0; i < p->count; i++) {
		struct switch_port *port = &p->ports[i];
		void *frame;

		rte_pktmbuf_free_bulk(port->direct, port->direct_count);
		while (port->queue && (frame = hd_switch_queue_drain(port->queue)))
			rte_pktmbuf_free(frame);
		dpdk_close_ethdev(&port->eth);
		hd_switch_queue_destroy(port->queue);
	}
	rte_mempool_free(p->pool);
	rte_mempool_free(p->pieces);
}
