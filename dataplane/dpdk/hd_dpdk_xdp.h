/* SPDX-License-Identifier: BSD-3-Clause */
/* The steering program of an af_xdp port (dataplane/bpf/steer.bpf.c): loading it, and its owner. */
#ifndef HD_DPDK_XDP_H
#define HD_DPDK_XDP_H

#include "hd_types.h"

/* The program as a file in memory: a descriptor for `xdp_prog=/proc/self/fd/N`, or -errno. */
int dpdk_xdp_file(void);
/*
 * Removes a steering program of a killed process from an interface. -EBUSY when another program is there, or the
 * process is alive; *who says which.
 */
int dpdk_xdp_clear(int interface, char *who, size_t who_bytes);
/* Sets the node's address and port in the interface's program, which then starts to steer. 0 or -errno. */
int dpdk_xdp_steer(int interface, uint32_t ipv4, uint16_t port);

#endif
