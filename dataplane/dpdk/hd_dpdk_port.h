/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One ethdev port and the EAL below it: the set-up that a node's driver and the switch share.
 *
 *   dpdk_read_devargs() for each port -> dpdk_start_eal() once -> dpdk_open_ethdev() for each -> dpdk_close_ethdev()
 *
 * Only for code that links DPDK and is compiled with its flags; programs see the driver through hd_dpdk.h.
 */
#ifndef HD_DPDK_PORT_H
#define HD_DPDK_PORT_H

#include "hd_types.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <stdatomic.h>

#define DPDK_QUEUES_MAX 16
#define DPDK_DESCRIPTORS_MAX (2 * DPDK_QUEUES_MAX)
#define DPDK_DEVARGS_BYTES 512

enum dpdk_kind {
	DPDK_OTHER,
	DPDK_AF_PACKET,
	DPDK_AF_XDP
};

/* How to sleep until the port needs service. */
enum dpdk_sleep {
	DPDK_NAPS,
	DPDK_DESCRIPTORS,
	DPDK_INTERRUPTS
};

struct dpdk_port {
	enum dpdk_kind kind;
	enum dpdk_sleep sleep;
	uint16_t id;
	bool probed, started;
	int interface; /* behind a virtual port; 0: none */
	bool steers; /* with our XDP program */
	uint16_t queues;
	uint32_t mtu;
	uint32_t ring_frames;
	uint16_t buffer_bytes; /* data room of an mbuf, headroom included */
	uint32_t buffers;
	uint64_t offloads; /* send offloads of the open port: RTE_ETH_TX_OFFLOAD_* */
	uint8_t mac[6];
	struct rte_mempool *pool;
	bool lent_pool; /* set before it is opened: another owner frees `pool` */
	int descriptor[DPDK_DESCRIPTORS_MAX];
	uint32_t descriptor_count;
	char devargs[DPDK_DEVARGS_BYTES];
};

/* --- hd_dpdk_devargs.c ----------------------------------------------------------------------- */
/* Adds missing keys to the devargs, and derives settings from them. 0 or -errno. */
int dpdk_read_devargs(const char *devargs, struct dpdk_port *port, char *error, size_t error_bytes);

/* Adds key=text unless the devargs have the key. 0 or -E2BIG. */
int dpdk_complete_devargs(struct dpdk_port *port, const char *key, const char *text);
bool dpdk_has_devarg(const struct dpdk_port *port, const char *key);
/* Whether the port needs no bus: net_af_packet and the like. */
bool dpdk_is_virtual(const struct dpdk_port *port);

/* --- hd_dpdk_eal.c ------------------------------------------------------------------------- */
struct dpdk_eal {
	const char *words; /* further EAL arguments, separated by blanks; or NULL */
	const char *prefix; /* of its files: telemetry's socket is in dpdk/<prefix> */
	const struct dpdk_port *ports; /* read, not open yet */
	size_t port_count;
	uint64_t memory_bytes; /* besides the ports' buffers */
};

/* Starts EAL, once in a process. 0 or -errno. */
int dpdk_start_eal(const struct dpdk_eal *eal, char *error, size_t error_bytes);

/* --- hd_dpdk_port.c -------------------------------------------------------------------------- */
struct dpdk_wish {
	uint64_t receive_offloads, send_offloads; /* used if the port has them */
	bool interrupts; /* receive interrupts, used if the port has them */
	bool promiscuous; /* receive frames for all stations */
	/* For af_packet: only ARP and IPv4 for this address, 0: all. */
	uint32_t only_ipv4;
};

/* Probes, configures and starts the port, and finds the sockets behind a virtual one. A failure leaves nothing open. 0
 * or -errno. */
int dpdk_open_ethdev(
	struct dpdk_port *port,
	const struct dpdk_wish *wish,
	char *error,
	size_t error_bytes
);
void dpdk_close_ethdev(struct dpdk_port *port);

/* --- hd_dpdk_sockets.c: the interfaces behind virtual ports ------------------------------------ */
#define DPDK_FDS_MAX 4096
/* Lists which descriptors of the process are packet or XDP sockets. */
void dpdk_list_sockets(bool present[DPDK_FDS_MAX]);
/* Takes the descriptors that appeared since `before` as the port's, and prepares them. */
void dpdk_adopt_sockets(
	struct dpdk_port *port,
	const bool before[DPDK_FDS_MAX],
	uint32_t only_ipv4
);
/* Makes the kernel take frames that are left in the transmit ring. True: some are still left. */
bool dpdk_kick_port(const struct dpdk_port *port);
/* Reads and clears errors that would keep a descriptor readable; returns their number. */
uint32_t dpdk_clear_port_errors(const struct dpdk_port *port);
/* Frames that a queue lost to a full receive ring since the port was opened; *lost belongs to the caller, initially 0.
 * Any thread. */
uint64_t dpdk_port_lost(const struct dpdk_port *port, uint16_t queue, _Atomic uint64_t *lost);
/* Bytes of a queue's sent frames that the kernel holds, 0 if it does not report them. Any thread. */
uint64_t dpdk_port_backlog_bytes(const struct dpdk_port *port, uint16_t queue);

#endif
