/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers shared by the P4 switch program and the C code. Both preprocessors read this file: it may only contain
 * comments and #define NAME NUMBER.
 */
#ifndef HD_SWITCH_NUMBERS_H
#define HD_SWITCH_NUMBERS_H

/* Fields of the fabric's packets; hd_wire.c compares these with its own. */
#define HD_SWITCH_UDP_PORT 4773
#define HD_SWITCH_MAGIC 0x4844
#define HD_SWITCH_WIRE_VERSION 1
#define HD_SWITCH_TYPE_CHUNK 1
#define HD_SWITCH_TYPE_RESULT 2
#define HD_SWITCH_CHUNK_HEADER_BYTES 56
#define HD_SWITCH_DTYPE_FIXED32 3
#define HD_SWITCH_FLAG_RESEND 1
#define HD_SWITCH_FLAG_ECN 2
#define HD_SWITCH_FLAG_NOT_FINITE 4
#define HD_SWITCH_FLAG_LAST 8
#define HD_SWITCH_FLAG_PARTIAL 32

/* In P4 a chunk has exactly this many lanes of 4 bytes; the last ones are 0 if it has fewer values. */
#define HD_SWITCH_LANES 32

#define HD_SWITCH_PORTS_MAX 64
#define HD_SWITCH_LEASES_MAX 256
/* Of one lease: a bit each. */
#define HD_SWITCH_MEMBERS_MAX 64
/* Of one lease whose sums go to a server and its replica. */
#define HD_SWITCH_RECEIVERS_MAX 4
/* Of all leases; each twice, as the previous result may have to be repeated. In P4: registers. */
#define HD_SWITCH_SLOTS 4096
#define HD_SWITCH_SLOT_CELLS 8192
/* chunk.slot: this bit selects one of the two. */
#define HD_SWITCH_SLOT_VERSION 0x8000

/* Copies of a packet for a lease: 0 .. 63 to its members, 64 .. 67 to its receivers; one of these: to all. */
#define HD_SWITCH_COPY_RECEIVER 64
#define HD_SWITCH_COPIES_PER_LEASE 128
#define HD_SWITCH_COPY_MEMBERS 254
#define HD_SWITCH_COPY_RECEIVERS 255

#endif
