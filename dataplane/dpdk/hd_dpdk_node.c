/* SPDX-License-Identifier: BSD-3-Clause */
/* The port of a node: its offloads, how its driver sleeps on it, and its XDP program. */
#include "hd_dpdk_private.h"
#include "hd_dpdk_xdp.h"

#include <rte_errno.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

void dpdk_kick(struct hd_dpdk *d) {
	d->backlog = dpdk_kick_port(&d->port);
	if (d->backlog)
		dpdk_count(&d->counters.ring_kicks, 1);
}

/* True if every queue's interrupt can be slept on; else none is. */
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

static int choose_sleep(struct hd_dpdk *d) {
	struct dpdk_port *port = &d->port;
	int code = 0;

	port->sleep = DPDK_NAPS;
	if (port->kind == DPDK_OTHER) {
		if (!d->config.busy_poll && watch_interrupts(d))
			port->sleep = DPDK_INTERRUPTS;
		return 0;
	}
	for (uint32_t i = 0; i < port->descriptor_count && code == 0; i++)
		code = hd_wait_watch(&d->loop.wait, port->descriptor[i]);
	if (code == 0 && port->descriptor_count > 0)
		port->sleep = DPDK_DESCRIPTORS;
	return code;
}

/* --- the XDP program of an af_xdp port --- */

/* Passes our program to DPDK, unless the devargs name another. Returns its descriptor, -1: none, or -errno. */
static int offer_program(struct dpdk_port *port, char *error, size_t error_bytes) {
#ifdef HD_WITH_BPF
	char who[64] = "the interface", path[32];
	int fd, code = dpdk_xdp_clear(port->interface, who, sizeof who);

	if (code < 0)
		return fail(code, error, error_bytes, "port: %s: %s", port->devargs, who);
	fd = dpdk_xdp_file();
	if (fd < 0)
		return fail(fd, error, error_bytes, "port: the XDP program");
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
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

	/* DPDK removes it, but not after every failure. */
	if (port->steers)
		(void)dpdk_xdp_clear(port->interface, who, sizeof who);
#endif
	port->steers = false;
}

/* --- open and close --- */

static void take_identity(struct hd_dpdk *d) {
	memcpy(d->self.mac.bytes, d->port.mac, sizeof d->self.mac.bytes);
	/* The kernel next to this port leaves checksums to hardware, and the port does not report it. */
	d->self.unfinished_sums = dpdk_is_virtual(&d->port);
	if (d->port.offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM)
		d->offload |= HD_FRAME_OFFLOAD_IP;
	if (d->port.offloads & RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
		d->offload |= HD_FRAME_OFFLOAD_UDP;
}

static int set_up(struct hd_dpdk *d, char *error, size_t error_bytes) {
	const struct dpdk_wish wish = {
		.receive_offloads = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM,
		.send_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM
			| RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE,
		.interrupts = true,
		.only_ipv4 = d->self.ipv4,
	};
	int code = dpdk_open_ethdev(&d->port, &wish, error, error_bytes);

	if (code < 0)
		return code;
	take_identity(d);
	code = choose_sleep(d);
	if (code < 0)
		return fail(code, error, error_bytes, "port: %s: epoll", d->port.devargs);
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
	dpdk_close_ethdev(&d->port);
	take_program_off(&d->port);
}
