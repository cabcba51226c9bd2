/* SPDX-License-Identifier: BSD-3-Clause */
/* Probing, configuring and starting the port. */
#include "hd_dpdk_private.h"
#include "hd_dpdk_xdp.h"

#include <rte_dev.h>
#include <rte_errno.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(port->devargs, ","), port->devargs);
	if (rte_eth_dev_get_port_by_name(name, &id) < 0) {
		bool found = false;

		/* A PCI device's port may be named otherwise. */
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

	(void)snprintf(name, sizeof(name), "heddle-%u", port->id);
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

static struct rte_eth_conf
choose_offloads(struct dpdk_port *port, const struct rte_eth_dev_info *info) {
	struct rte_eth_conf conf = {0};

	conf.rxmode.offloads = info->rx_offload_capa
		& (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
	conf.txmode.offloads = info->tx_offload_capa
		& (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM
		   | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE);
	if (conf.txmode.offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM)
		port->offload |= HD_FRAME_OFFLOAD_IP;
	if (conf.txmode.offloads & RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
		port->offload |= HD_FRAME_OFFLOAD_UDP;
	return conf;
}

/* One thread serves all queues: as many as the devargs of a kernel's interface ask for, of others one. */
static uint16_t choose_queues(const struct dpdk_port *port, const struct rte_eth_dev_info *info) {
	uint16_t queues = RTE_MIN(info->max_rx_queues, info->max_tx_queues);

	if (port->kind == DPDK_OTHER)
		return 1;
	return RTE_MAX(1, RTE_MIN(queues, DPDK_QUEUES_MAX));
}

static int
set_queues(struct dpdk_port *port, const struct rte_eth_dev_info *info, struct rte_eth_conf conf) {
	uint16_t receive = (uint16_t)RTE_MIN(port->ring_frames, 2048u), sends = SEND_DESCRIPTORS;
	int socket = rte_eth_dev_socket_id(port->id);
	int code;

	/* Receive interrupts where the port has them; a second try without. */
	conf.intr_conf.rxq = port->kind == DPDK_OTHER;
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
	(void)info;
	return code;
}

static int start(struct hd_dpdk *d, char *error, size_t error_bytes) {
	struct dpdk_port *port = &d->port;
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	uint16_t mtu;
	int code = rte_eth_dev_info_get(port->id, &info);

	if (code == 0) {
		port->queues = choose_queues(port, &info);
		code = set_queues(port, &info, choose_offloads(port, &info));
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
	memcpy(d->self.mac.bytes, mac.addr_bytes, sizeof(d->self.mac.bytes));
	if (port->kind == DPDK_OTHER && rte_eth_dev_get_mtu(port->id, &mtu) == 0)
		port->mtu = mtu;
	/* Beside a kernel that leaves checksums to hardware, and a port that does not say so. */
	d->self.unfinished_sums
		= strncmp(port->devargs, "net_", 4) == 0 || strncmp(port->devargs, "eth_", 4) == 0;
	return 0;
}

/* Every queue's interrupt can be slept on, or none is. */
static bool watch_interrupts(struct hd_dpdk *d) {
	struct dpdk_port *port = &d->port;

	for (uint16_t q = 0; q < port->queues; q++) {
		int fd = rte_eth_dev_rx_intr_ctl_q_get_fd(port->id, q);

		if (fd < 0 || rte_eth_dev_rx_intr_enable(port->id, q) < 0
		    || hd_wait_watch(&d->loop.wait, fd) < 0) {
			port->descriptor_count = 0;
			return false;
		}
		port->descriptor[port->descriptor_count++] = fd;
	}
	return true;
}

static int choose_sleep(struct hd_dpdk *d, const bool before[DPDK_FDS_MAX]) {
	struct dpdk_port *port = &d->port;
	int code = 0;

	port->sleep = DPDK_NAPS;
	if (port->kind == DPDK_OTHER) {
		if (!d->config.busy_poll && watch_interrupts(d))
			port->sleep = DPDK_INTERRUPTS;
		return 0;
	}
	dpdk_adopt_sockets(d, before);
	for (uint32_t i = 0; i < port->descriptor_count && code == 0; i++)
		code = hd_wait_watch(&d->loop.wait, port->descriptor[i]);
	if (code == 0 && port->descriptor_count > 0)
		port->sleep = DPDK_DESCRIPTORS;
	return code;
}

/* --- the XDP program of an af_xdp port --- */

/* Hands our program over, unless the devargs name another. Returns its descriptor, -1: none, or -errno. */
static int offer_program(struct dpdk_port *port, char *error, size_t error_bytes) {
#ifdef HD_WITH_BPF
	char who[64] = "the interface", path[32];
	int fd, code = dpdk_xdp_clear(port->interface, who, sizeof(who));

	if (code < 0)
		return fail(code, error, error_bytes, "port: %s: %s", port->devargs, who);
	fd = dpdk_xdp_file();
	if (fd < 0)
		return fail(fd, error, error_bytes, "port: the XDP program");
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	code = dpdk_complete_devargs(port, "xdp_prog", path);
	if (code < 0) {
		close(fd);
		return fail(code, error, error_bytes, "port");
	}
	port->steers = true;
	return fd;
#else
	(void)port;
	(void
	)snprintf(error, error_bytes, "port: this build has no BPF program: add xdp_prog=FILE");
	return -ENOTSUP;
#endif
}

static int steer(struct hd_dpdk *d, char *error, size_t error_bytes) {
	int code = 0;

#ifdef HD_WITH_BPF
	if (d->port.steers)
		code = dpdk_xdp_steer(d->port.interface, d->self.ipv4, d->self.port);
#endif
	return code < 0 ? fail(code, error, error_bytes, "port: steering") : 0;
}

static void take_program_off(struct dpdk_port *port) {
#ifdef HD_WITH_BPF
	char who[64];

	/* DPDK does it, but not after every failure. */
	if (port->steers)
		(void)dpdk_xdp_clear(port->interface, who, sizeof(who));
#endif
	port->steers = false;
}

/* --- all of it --- */

static int set_up(struct hd_dpdk *d, char *error, size_t error_bytes) {
	bool before[DPDK_FDS_MAX];
	struct dpdk_port *port = &d->port;
	int code;

	dpdk_list_sockets(before);
	code = probe(port, error, error_bytes);
	if (code == 0)
		code = make_pool(port, error, error_bytes);
	if (code == 0)
		code = start(d, error, error_bytes);
	if (code < 0)
		return code;
	code = choose_sleep(d, before);
	if (code < 0)
		return fail(code, error, error_bytes, "port: %s: epoll", port->devargs);
	return steer(d, error, error_bytes);
}

int dpdk_open_port(struct hd_dpdk *d, char *error, size_t error_bytes) {
	struct dpdk_port *port = &d->port;
	int program = -1, code;

	if (port->kind == DPDK_AF_XDP && !dpdk_has_devarg(port, "xdp_prog")) {
		program = offer_program(port, error, error_bytes);
		if (program < 0)
			return program;
	}
	code = set_up(d, error, error_bytes);
	if (program >= 0)
		close(program);
	if (code < 0)
		dpdk_close_port(d);
	return code;
}

void dpdk_close_port(struct hd_dpdk *d) {
	struct dpdk_port *port = &d->port;
	struct rte_eth_dev_info info;

	if (port->started)
		(void)rte_eth_dev_stop(port->id);
	if (port->probed && rte_eth_dev_info_get(port->id, &info) == 0) {
		(void)rte_eth_dev_close(port->id);
		if (info.device)
			(void)rte_dev_remove(info.device);
	}
	take_program_off(port);
	rte_mempool_free(port->pool);
	port->pool = NULL;
	port->probed = port->started = false;
	port->descriptor_count = 0;
}
