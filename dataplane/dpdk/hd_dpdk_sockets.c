/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets behind virtual ports. af_packet and af_xdp offer DPDK no receive interrupts, but each of their queues is
 * a socket of this process: sleeping on it wakes within about 11 us, where naps of that length would cost half a core.
 * The sockets are found as the descriptors that appear while the port is set up.
 */
#include "hd_dpdk_port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <sys/socket.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif
#define SEND_BUFFER_BYTES (64 << 20) /* above the ring's capacity, as skbs are larger than frames */

static bool is_port_socket(int fd) {
	int domain = 0;
	socklen_t bytes = sizeof domain;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) < 0)
		return false;
	return domain == AF_PACKET || domain == AF_XDP;
}

void dpdk_list_sockets(bool present[DPDK_FDS_MAX]) {
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;

	for (int fd = 0; fd < DPDK_FDS_MAX; fd++)
		present[fd] = false;
	while (folder && (entry = readdir(folder))) {
		long fd = strtol(entry->d_name, NULL, 10);

		if (fd > 2 && fd < DPDK_FDS_MAX && is_port_socket((int)fd))
			present[fd] = true;
	}
	if (folder)
		closedir(folder);
}

/* Without a filter the frames are dropped, and counted, one by one. */
static void attach(int fd, struct sock_filter *program, unsigned short count) {
	const struct sock_fprog filter = {.len = count, .filter = program};

	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

/*
 * Only ARP and IPv4 for our address need copying into the ring. Otherwise frames that the host's kernel sends on this
 * interface would be copied too, and wake us for nothing.
 */
static void filter_packets(int fd, uint32_t ipv4) {
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 7, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_ARP, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 30), /* IPv4: destination */
		BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 38), /* ARP: target */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ipv4, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};

	attach(fd, program, sizeof program / sizeof program[0]);
}

/* Passes frames received on the interface, not those that the kernel sends on it. */
static void filter_outgoing(int fd) {
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};

	attach(fd, program, sizeof program / sizeof program[0]);
}

static void prepare(const struct dpdk_port *port, int fd, uint32_t only_ipv4) {
	int bytes = SEND_BUFFER_BYTES;

	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	/* With the kernel's default size a burst of jumbo frames would stall in the ring. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	if (port->kind == DPDK_AF_PACKET && only_ipv4 != 0)
		filter_packets(fd, only_ipv4);
	else if (port->kind == DPDK_AF_PACKET)
		filter_outgoing(fd);
}

void dpdk_adopt_sockets(
	struct dpdk_port *port,
	const bool before[DPDK_FDS_MAX],
	uint32_t only_ipv4
) {
	bool now[DPDK_FDS_MAX];

	dpdk_list_sockets(now);
	for (int fd = 0; fd < DPDK_FDS_MAX; fd++) {
		if (!now[fd] || before[fd] || port->descriptor_count == DPDK_DESCRIPTORS_MAX)
			continue;
		prepare(port, fd, only_ipv4);
		port->descriptor[port->descriptor_count++] = fd;
	}
}

/*
 * A frame for which the interface's queue has no room stays in af_packet's ring until the next send call. This call
 * sends the ring's frames; 0: none was left.
 */
bool dpdk_kick_port(const struct dpdk_port *port) {
	bool left = false;

	if (port->kind != DPDK_AF_PACKET)
		return false;
	for (uint32_t i = 0; i < port->descriptor_count; i++) {
		ssize_t n = send(port->descriptor[i], NULL, 0, MSG_DONTWAIT);

		left |= n > 0 || (n < 0 && (errno == ENOBUFS || errno == EAGAIN));
	}
	return left;
}

uint32_t dpdk_clear_port_errors(const struct dpdk_port *port) {
	uint32_t errors = 0;

	for (uint32_t i = 0; i < port->descriptor_count; i++) {
		int error = 0;
		socklen_t bytes = sizeof error;

		if (getsockopt(port->descriptor[i], SOL_SOCKET, SO_ERROR, &error, &bytes) == 0)
			errors += error != 0;
	}
	return errors;
}

/* Each queue of af_packet and af_xdp is one socket, and both PMDs open them in the order of the queues. */
static int socket_of(const struct dpdk_port *port, uint16_t queue) {
	bool socket = port->kind == DPDK_AF_PACKET || port->kind == DPDK_AF_XDP;

	return socket && queue < port->descriptor_count ? port->descriptor[queue] : -1;
}

/* Reading resets the kernel's counter, so the caller keeps the sum: two readers may meet. */
static uint64_t packet_lost(_Atomic uint64_t *lost, int fd) {
	struct tpacket_stats stats = {0};
	socklen_t bytes = sizeof stats;

	if (getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) < 0)
		stats.tp_drops = 0;
	return atomic_fetch_add(lost, stats.tp_drops) + stats.tp_drops;
}

static uint64_t xdp_lost(int fd) {
	struct xdp_statistics stats = {0};
	socklen_t bytes = sizeof stats;

	if (getsockopt(fd, SOL_XDP, XDP_STATISTICS, &stats, &bytes) < 0)
		return 0;
	return stats.rx_dropped + stats.rx_ring_full;
}

uint64_t dpdk_port_lost(const struct dpdk_port *port, uint16_t queue, _Atomic uint64_t *lost) {
	int fd = socket_of(port, queue);
	struct rte_eth_stats stats;

	if (fd >= 0)
		return port->kind == DPDK_AF_PACKET ? packet_lost(lost, fd) : xdp_lost(fd);
	/* Other ports have one queue. */
	return rte_eth_stats_get(port->id, &stats) == 0 ? stats.imissed : 0;
}

uint64_t dpdk_port_backlog_bytes(const struct dpdk_port *port, uint16_t queue) {
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t bytes = sizeof info;
	int fd = socket_of(port, queue);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &bytes) < 0)
		return 0;
	return info[SK_MEMINFO_WMEM_ALLOC];
}
