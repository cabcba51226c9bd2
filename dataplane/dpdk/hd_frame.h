/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ethernet frames, for the small part of the stack that a node without a kernel socket needs. Pure.
 *
 *   0         14                34        42
 *   +---------+-----------------+---------+----------------------+
 *   | Ethernet| IPv4            | UDP     | payload              |   -> HD_FRAME_UDP
 *   |         | (options pass)  | ICMP    | echo request         |   -> HD_FRAME_ECHO
 *   |         | ARP for IPv4                                     |   -> HD_FRAME_ARP
 *   +---------+--------------------------------------------------+
 *   anything else, and anything inconsistent                       -> HD_FRAME_DROP, with the reason
 *
 * Formats: RFC 894, 791, 768, 792, 826; checksums: RFC 1071.
 */
#ifndef HD_FRAME_H
#define HD_FRAME_H

#include "hd_types.h"

#define HD_MAC_BYTES 6
#define HD_ETHERNET_BYTES 14
#define HD_FRAME_UDP_BYTES 42 /* Ethernet, IPv4 without options, UDP */
#define HD_FRAME_ARP_BYTES 60 /* 42 and Ethernet's minimum padding */

struct hd_mac {
	uint8_t bytes[HD_MAC_BYTES];
};

/* The addresses of this node. */
struct hd_frame_self {
	struct hd_mac mac;
	uint32_t ipv4;
	uint16_t port; /* our UDP port */
	/*
	 * The port is a virtual one next to a kernel that leaves checksums to hardware which is not there: the field
	 * holds the sum of the pseudo header only. Such packets were never on a wire. They are accepted (one more in
	 * 65,536 damaged packets passes).
	 */
	bool unfinished_sums;
};

enum hd_frame_kind {
	HD_FRAME_DROP,
	HD_FRAME_UDP,
	HD_FRAME_ARP,
	HD_FRAME_ECHO
};

/* Why a frame is dropped: X(name, help). The name is also the counter's. */
#define HD_FRAME_REASONS(X)                                                                        \
	X(RUNT, runt, "shorter than the headers that it must have")                                \
	X(OTHER_MAC, other_mac, "sent to another Ethernet address")                                \
	X(SOURCE_MAC, source_mac, "from no station's Ethernet address")                            \
	X(ETHERTYPE, ethertype, "neither IPv4 nor ARP")                                            \
	X(IP_HEADER, ip_header, "IPv4 header of an impossible version or length")                  \
	X(TRUNCATED, truncated, "ends before its IPv4 length: a superframe, or damaged")           \
	X(IP_CHECKSUM, ip_checksum, "wrong IPv4 header checksum")                                  \
	X(FRAGMENT, fragment, "a fragment of an IPv4 packet")                                      \
	X(OTHER_IP, other_ip, "sent to another IPv4 address")                                      \
	X(SOURCE_IP, source_ip, "from no host's IPv4 address, or from our own")                    \
	X(PROTOCOL, protocol, "neither UDP nor ICMP")                                              \
	X(UDP_LENGTH, udp_length, "UDP length that the packet does not have")                      \
	X(UDP_PORT, udp_port, "sent to another UDP port, or from port 0")                          \
	X(UDP_CHECKSUM, udp_checksum, "wrong UDP checksum")                                        \
	X(ICMP_TYPE, icmp_type, "ICMP other than an echo request")                                 \
	X(ICMP_CHECKSUM, icmp_checksum, "wrong ICMP checksum")                                     \
	X(ARP_FORM, arp_form, "ARP of another form than IPv4 over Ethernet")                       \
	X(ARP_SENDER, arp_sender, "ARP whose sender cannot be, or claims our address")

enum hd_frame_reason {
	HD_FRAME_OK,
#define HD_FRAME_REASON_ENUM(name, text, help) HD_FRAME_##name,
	HD_FRAME_REASONS(HD_FRAME_REASON_ENUM)
#undef HD_FRAME_REASON_ENUM
	HD_FRAME_REASON_COUNT
};

/* Checks that the port's hardware has done. */
#define HD_FRAME_IP_GOOD 1u
#define HD_FRAME_L4_GOOD 2u

struct hd_frame {
	enum hd_frame_kind kind;
	enum hd_frame_reason reason; /* of HD_FRAME_DROP */
	struct hd_mac source_mac;
	uint32_t source; /* IPv4 address; ARP: the sender's */
	uint16_t source_port; /* UDP */
	bool unfinished; /* UDP with its checksum left to hardware */
	/* UDP: the payload. ICMP: the message with its header. Within the frame. */
	const uint8_t *data;
	size_t bytes;
	/* ARP */
	bool request; /* a request; else an answer */
	uint32_t target; /* the address asked for, or the receiver */
};

/* Accepts any bytes. *out is set completely; data points into the frame. Returns out->kind. */
enum hd_frame_kind hd_frame_parse(
	const struct hd_frame_self *self,
	const uint8_t *frame,
	size_t bytes,
	unsigned checked,
	struct hd_frame *out
);

/* The counter's name of a reason, "" for HD_FRAME_OK. */
const char *hd_frame_reason_name(enum hd_frame_reason reason);

/* --- building ------------------------------------------------------------------------------ */

/* The destination of a UDP packet. */
struct hd_frame_to {
	struct hd_mac mac;
	uint32_t ipv4;
	uint16_t port;
};

/* Checksums left to hardware. */
#define HD_FRAME_OFFLOAD_IP 1u
#define HD_FRAME_OFFLOAD_UDP 2u

/*
 * Writes the HD_FRAME_UDP_BYTES of headers before a payload that is in place behind them (at most 65,507 bytes). "Don't
 * fragment" is set. Offloaded checksums are prepared for hardware: IPv4 0, UDP the sum of the pseudo header.
 */
void hd_frame_put_udp(
	const struct hd_frame_self *self,
	const struct hd_frame_to *to,
	uint8_t *frame,
	size_t payload_bytes,
	unsigned offload
);

/* Writes HD_FRAME_ARP_BYTES: a request for `ipv4` (mac NULL: broadcast), or the answer to one. */
void hd_frame_put_arp_request(
	const struct hd_frame_self *self,
	uint32_t ipv4,
	const struct hd_mac *mac,
	uint8_t *frame
);
void hd_frame_put_arp_reply(
	const struct hd_frame_self *self,
	uint32_t ipv4,
	const struct hd_mac *mac,
	uint8_t *frame
);

/* The answer to an echo request `in` (as parsed); returns its bytes, 0 when `capacity` is too small. */
size_t hd_frame_put_echo_reply(
	const struct hd_frame_self *self,
	const struct hd_frame *in,
	uint8_t *frame,
	size_t capacity
);

/* One's complement sum of bytes, to be folded; calls on even lengths may come in any order; about 8 bytes a cycle. */
uint64_t hd_frame_sum(const uint8_t *data, size_t bytes);
/* The checksum field's value for a sum, in network order. */
uint16_t hd_frame_fold(uint64_t sum);

#endif
