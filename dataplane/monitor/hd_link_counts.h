/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the BPF program and its loader: an array of 64-bit byte counters for each processor, one row for each way.
 *
 *   processor * HD_COUNTS_ALL + way * HD_COUNTS_ROW      + 0: the fabric's own
 *                                                        + 1 + b: others' flows whose hash is b
 */
#ifndef HD_LINK_COUNTS_H
#define HD_LINK_COUNTS_H

#define HD_COUNTS_FLOWS 256 /* a power of two; n flows have about n^2 / 512 collisions */
#define HD_COUNTS_ROW (HD_COUNTS_FLOWS + 1)
#define HD_COUNTS_OUT 0
#define HD_COUNTS_IN 1
#define HD_COUNTS_DIRECTIONS 2
#define HD_COUNTS_ALL (HD_COUNTS_DIRECTIONS * HD_COUNTS_ROW)

#endif
