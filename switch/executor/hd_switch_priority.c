/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_switch_numbers.h"
#include "hd_switch_priority.h"
#include "hd_wire.h"

#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define UDP_BYTES 8
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_ARP 0x0806
#define ETHERTYPE_IPV6 0x86dd
#define PROTOCOL_UDP 17
#define FRAGMENT 0x1fff /* offset of a fragment, which has no UDP header */
#define ECN_MASK 3
#define ECN_CONGESTION 3

static bool is_control(const uint8_t *ip, size_t bytes) {
	size_t header = (size_t)(ip[0] & 15) * 4;
	const uint8_t *udp = ip + header;
	uint8_t version;
	int type;

	if (ip[0] >> 4 != 4 || header < IPV4_BYTES || ip[9] != PROTOCOL_UDP
	    || (hd_get16(ip + 6) & FRAGMENT) != 0 || bytes < header + UDP_BYTES)
		return false;
	if (hd_get16(udp) != HD_SWITCH_UDP_PORT && hd_get16(udp + 2) != HD_SWITCH_UDP_PORT)
		return false;
	type = hd_packet_classify(udp + UDP_BYTES, bytes - header - UDP_BYTES, &version);
	return type == HD_PACKET_CONTROL || type == HD_PACKET_HELLO;
}

enum hd_switch_class hd_switch_class_of(const uint8_t *frame, size_t bytes) {
	uint16_t type = bytes >= ETHERNET_BYTES ? hd_get16(frame + 12) : 0;

	if (type == ETHERTYPE_ARP)
		return HD_SWITCH_CLASS_CONTROL;
	if (type == ETHERTYPE_IPV4 && bytes >= ETHERNET_BYTES + IPV4_BYTES
	    && is_control(frame + ETHERNET_BYTES, bytes - ETHERNET_BYTES))
		return HD_SWITCH_CLASS_CONTROL;
	return HD_SWITCH_CLASS_DATA;
}

/* Updates the header's checksum for the one changed word (RFC 1624, equation 3). */
static bool mark_ipv4(uint8_t *ip) {
	uint16_t before = hd_get16(ip), after;
	uint32_t sum;

	if (ip[0] >> 4 != 4 || (ip[1] & ECN_MASK) == 0)
		return false;
	ip[1] |= ECN_CONGESTION;
	after = hd_get16(ip);
	sum = (uint16_t)~hd_get16(ip + 10) + (uint32_t)(uint16_t)~before + after;
	sum = (sum & UINT16_MAX) + (sum >> 16);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	hd_put16(ip + 10, (uint16_t)~sum);
	return true;
}

/* The traffic class spans two bytes; there is no checksum. */
static bool mark_ipv6(uint8_t *ip) {
	if (ip[0] >> 4 != 6 || (ip[1] >> 4 & ECN_MASK) == 0)
		return false;
	ip[1] |= ECN_CONGESTION << 4;
	return true;
}

bool hd_switch_mark_congestion(uint8_t *frame, size_t bytes) {
	uint16_t type = bytes >= ETHERNET_BYTES ? hd_get16(frame + 12) : 0;

	if (type == ETHERTYPE_IPV4 && bytes >= ETHERNET_BYTES + IPV4_BYTES)
		return mark_ipv4(frame + ETHERNET_BYTES);
	if (type == ETHERTYPE_IPV6 && bytes >= ETHERNET_BYTES + IPV6_BYTES)
		return mark_ipv6(frame + ETHERNET_BYTES);
	return false;
}
