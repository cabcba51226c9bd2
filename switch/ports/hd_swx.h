/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The P4 program (p4/pna.p4, compiled to a text) on DPDK's SWX pipeline, as an executor.
 *
 *   burst -> [port 8 | frame ... | zeros] -> pipeline: parser, tables, registers -> [port 8 | frame] -> verdicts
 *             ^ where it came from, its length                                       ^ where it goes
 *
 * The pipeline has one port; what its ports do not carry stands in 8 bytes before each frame (hd_port_t of the
 * program). It parses without looking at lengths: up to HD_SWX_ROOM_BYTES from a frame's first byte must be ours to
 * write, and are zeros behind it. It replicates nothing: copies are told, and made by who has the ports.
 *
 * The program is a text that DPDK interprets, or a shared object that p4/native made of it, which runs 4 to 5 times as
 * fast and behaves the same.
 *
 * EAL must be up. One in a process has a name; tables change by a commit, which takes at least 100 us.
 */
#ifndef HD_SWX_H
#define HD_SWX_H

#include "hd_switch_executor.h"

/* What the program's parser may read of a frame. */
#define HD_SWX_ROOM_BYTES (14 + 20 + 8 + HD_SWITCH_CHUNK_HEADER_BYTES + 4 * HD_SWITCH_LANES)

/* 0 or -errno (-EINVAL: the program, or a table or register that it lacks; -ENOENT: the file), error in words. */
int hd_swx_open(
	const char *path,
	const char *name,
	const struct hd_switch_self *self,
	struct hd_switch_executor *executor,
	char *error,
	size_t error_bytes
);

#endif
