/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the steering program and its loader: the only element of its map `fabric`. */
#ifndef HD_STEER_H
#define HD_STEER_H

#include <linux/types.h>

#define HD_STEER_PROGRAM "heddle_steer" /* at most 15 bytes: the kernel truncates longer names */
#define HD_STEER_MAP "fabric"

struct hd_steer {
	__be32 ipv4; /* the node's address; 0: every frame goes to the kernel */
	__be16 port;
	__u16 reserved;
	__u32 owner; /* the process that owns the sockets */
	__u64 owner_started; /* field 22 of its /proc/PID/stat: PIDs are reused */
};

#endif
