/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The P4 program (p4/pna.p4, compiled to a text) on DPDK's SWX pipeline, as an executor.
 *
 *   burst -> [port 8 | frame ... | zeros] -> pipeline: parser, tables, registers -> [port 8 | frame] -> verdicts
 *             ^ its port, its length                                                 ^ its destination
 *
 * The pipeline has one port; an 8-byte header before each frame (hd_port_t of the program) carries what pipeline ports
 * do not. The pipeline parses without checking lengths: up to HD_SWX_ROOM_BYTES from a frame's first byte must be
 * writable, and are zeroed behind it. It replicates nothing: the owner of the ports makes the copies.
 *
 * The program is a text that DPDK interprets, or a shared object that p4/native made of it, which runs 4 to 5 times as
 * fast and behaves the same.
 *
 * EAL must have been started. Names are unique in a process; tables change by a commit, which takes at least 100 us.
 */
#ifndef HD_SWX_H
#define HD_SWX_H

#include "hd_switch_executor.h"

/* The bytes of a frame that the program's parser may read. */
#define HD_SWX_ROOM_BYTES (14 + 20 + 8 + HD_SWITCH_CHUNK_HEADER_BYTES + 4 * HD_SWITCH_LANES)

/* 0 or -errno (-EINVAL: the program, or a table or register that it lacks; -ENOENT: the file), with a text in error. */
int hd_swx_open(
	const char *path,
	const char *name,
	const struct hd_switch_self *self,
	struct hd_switch_executor *executor,
	char *error,
	size_t error_bytes
);

#endif
