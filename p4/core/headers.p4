/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The headers that the program reads and writes, and its state for a frame.
 *
 *   [port 8] ethernet 14 | ipv4 20 | udp 8 | prefix 4 | chunk 52 | lanes 128
 *    pna                                     `---- 56: our header ---'
 *
 * Every field is a whole number of bytes, as DPDK's pipeline requires: bit fields are masked where they are read.
 */
#define HD_ETHERNET_BYTES 14
#define HD_IPV4_BYTES 20
#define HD_UDP_BYTES 8
#define HD_PREFIX_BYTES 4
#define HD_LANES_BYTES 128

#define HD_ETHERTYPE_IPV4 0x0800
#define HD_IPV4_FIVE_WORDS 0x45
#define HD_IPV4_FRAGMENT 0x3fff
#define HD_PROTOCOL_UDP 17

/* Before Ethernet's header, written and read by the C code around DPDK's pipeline: data that its ports do not carry. */
header hd_port_t {
	bit<16> port; /* in: the frame's port; out: its destination */
	bit<16> bytes; /* of the frame, from Ethernet's header on */
	bit<8> verdict;
	bit<8> copy;
	bit<16> lease;
}

header hd_ethernet_t {
	bit<48> dst;
	bit<48> src;
	bit<16> ether_type;
}

header hd_ipv4_t {
	bit<8> version_words;
	bit<8> tos;
	bit<16> length;
	bit<16> id;
	bit<16> fragment;
	bit<8> ttl;
	bit<8> protocol;
	bit<16> checksum;
	bit<32> src;
	bit<32> dst;
}

header hd_udp_t {
	bit<16> src;
	bit<16> dst;
	bit<16> length;
	bit<16> checksum;
}

/* The first 4 bytes of all our packets. */
header hd_prefix_t {
	bit<16> magic;
	bit<8> version_type;
	bit<8> flags;
}

/* The rest of a chunk's header (common/wire/hd_wire.h). */
header hd_chunk_t {
	bit<32> job;
	bit<16> epoch;
	bit<16> worker;
	bit<32> round;
	bit<8> attempt;
	bit<8> dtype;
	bit<16> exponent;
	bit<16> shard;
	bit<16> slot;
	bit<32> chunk;
	bit<32> packet;
	bit<64> version;
	bit<16> count;
	bit<16> next;
	bit<32> total;
	bit<64> token;
}

/* Two lanes a field: sums.p4 adds two at a time. */
header hd_lanes_t {
#define HD_PAIR(i) bit<64> v##i;
	HD_EACH_PAIR
#undef HD_PAIR
}

struct hd_headers_t {
#ifdef HD_TARGET_PNA
	hd_port_t port;
#endif
	hd_ethernet_t ethernet;
	hd_ipv4_t ipv4;
	hd_udp_t udp;
	hd_prefix_t prefix;
	hd_chunk_t chunk;
	hd_lanes_t lanes;
}

/* enum hd_switch_verdict */
#define HD_VERDICT_DROP 0
#define HD_VERDICT_FORWARD 1
#define HD_VERDICT_FLOOD 2
#define HD_VERDICT_COPY 3

/* hd_meta_t.what */
#define HD_WHAT_ORDINARY 0
#define HD_WHAT_CHUNK 1
#define HD_WHAT_ANSWER 2

/* hd_meta_t.step: the relation of a chunk to its cell. */
#define HD_STEP_NONE 0
#define HD_STEP_SAME 1 /* the cell has its sum */
#define HD_STEP_BEGIN 2 /* the cell had an older one */
#define HD_STEP_ADD 3
#define HD_STEP_REPEAT 4 /* its values are in the sum, which is complete */

struct hd_meta_t {
	/* Of the frame. */
	bit<16> port; /* its port, later its destination */
	bit<16> bytes;
	bit<32> counted; /* its counter of HD_SWITCH_COUNTERS; HD_COUNTED_NONE: not known yet */
	bit<8> what;
	bit<8> verdict;
	bit<8> copy;
	bit<8> overtaken; /* 1: it replaced an incomplete sum */
	bit<8> not_finite; /* 1: it completed a sum with an overflow */
	bit<8> known; /* 1: its token is in the table */
	/* The switch's own address. */
	bit<32> service;
	bit<48> mac;
	bit<48> router_mac;
	/* Of the token. */
	bit<16> lease;
	bit<16> worker;
	bit<64> me;
	bit<8> receiver; /* 1: a receiver's token */
	bit<8> index;
	bit<16> member_port;
	/* Of the lease. */
	bit<32> job;
	bit<16> epoch;
	bit<8> attempt;
	bit<16> shard;
	bit<16> first_slot;
	bit<16> slot_count;
	bit<64> waits;
	bit<64> all;
	bit<16> members;
	bit<16> receivers;
	/* Of the cell. */
	bit<32> cell;
	bit<64> k;
	bit<64> cell_key;
	bit<64> seen;
	bit<8> step;
	bit<8> flags;
	bit<16> exponent;
	bit<16> next;
	bit<64> overflow;
}
