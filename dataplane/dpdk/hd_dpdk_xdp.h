/* SPDX-License-Identifier: BSD-3-Clause */
/* The steering program of an af_xdp port (dataplane/bpf/steer.bpf.c): where DPDK finds it, and whose it is. */
#ifndef HD_DPDK_XDP_H
#define HD_DPDK_XDP_H

#include "hd_types.h"

/* The program as a file in memory: a descriptor for `xdp_prog=/proc/self/fd/N`, or -errno. */
int dpdk_xdp_file(void);
/*
 * Makes room on an interface: takes off a steering program that a killed process left. -EBUSY when
 * another program is there, or the process lives; *who says which.
 */
int dpdk_xdp_clear(int interface, char *who, size_t who_bytes);
/* Tells the program on the interface what is the node's: from here on frames come. 0 or -errno. */
int dpdk_xdp_steer(int interface, uint32_t ipv4, uint16_t port);

#endif
