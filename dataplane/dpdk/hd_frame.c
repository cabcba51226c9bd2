/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_frame.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_ARP 0x0806
#define IPV4_BYTES 20
#define IPV4_FRAGMENT 0x3fff /* more fragments, or an offset */
#define IPV4_DONT_FRAGMENT 0x4000
#define IPV4_TTL 64
#define PROTOCOL_ICMP 1
#define PROTOCOL_UDP 17
#define UDP_BYTES 8
#define ICMP_BYTES 8
#define ICMP_ECHO_REQUEST 8
#define ARP_BYTES 28
#define ARP_REQUEST 1
#define ARP_REPLY 2

static const struct hd_mac broadcast_mac = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

const char *hd_frame_reason_name(enum hd_frame_reason reason) {
	static const char *const names[HD_FRAME_REASON_COUNT]
		= {"",
#define HD_FRAME_REASON_NAME(name, text, help) #text,
		   HD_FRAME_REASONS(HD_FRAME_REASON_NAME)
#undef HD_FRAME_REASON_NAME
		};

	return reason < HD_FRAME_REASON_COUNT ? names[reason] : "";
}

/* --- checksums ----------------------------------------------------------------------------- */

/* The sum may be computed in this machine's byte order (RFC 1071, section 2B), in words of any size. */
uint64_t hd_frame_sum(const uint8_t *data, size_t bytes) {
	uint64_t low = 0, high = 0;

	for (; bytes >= 8; data += 8, bytes -= 8) {
		uint64_t word;

		memcpy(&word, data, 8);
		low += word & UINT32_MAX;
		high += word >> 32;
	}
	if (bytes > 0) {
		uint64_t word = 0;

		memcpy(&word, data, bytes);
		low += word & UINT32_MAX;
		high += word >> 32;
	}
	return low + high;
}

static uint16_t fold(uint64_t sum) {
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	return (uint16_t)sum;
}

uint16_t hd_frame_fold(uint64_t sum) {
	return (uint16_t)~fold(sum);
}

/* For UDP over this IPv4 header, in this machine's order as above. */
static uint64_t pseudo_sum(const uint8_t *ip, size_t udp_bytes) {
	uint8_t rest[4] = {0, PROTOCOL_UDP};

	hd_put16(rest + 2, (uint16_t)udp_bytes);
	return hd_frame_sum(ip + 12, 8) + hd_frame_sum(rest, sizeof rest);
}

static uint16_t load_sum(const uint8_t *field) {
	uint16_t value;

	memcpy(&value, field, sizeof value);
	return value;
}

static void store_sum(uint8_t *field, uint16_t value) {
	memcpy(field, &value, sizeof value);
}

/* --- parsing ------------------------------------------------------------------------------- */

static bool same_mac(const uint8_t *a, const struct hd_mac *b) {
	return memcmp(a, b->bytes, HD_MAC_BYTES) == 0;
}

/* The address of a single station: not a group's, not all zeros. */
static bool is_station(const uint8_t *mac) {
	static const uint8_t zeros[HD_MAC_BYTES];

	return (mac[0] & 1) == 0 && memcmp(mac, zeros, HD_MAC_BYTES) != 0;
}

/* Could be a host of this network: not 0/8, not loopback, not multicast, reserved or broadcast. */
static bool is_host(uint32_t ipv4) {
	return ipv4 >> 24 != 0 && ipv4 >> 24 != 127 && ipv4 < 0xe0000000;
}

static enum hd_frame_kind drop(struct hd_frame *out, enum hd_frame_reason reason) {
	out->kind = HD_FRAME_DROP;
	out->reason = reason;
	return HD_FRAME_DROP;
}

static enum hd_frame_kind keep(struct hd_frame *out, enum hd_frame_kind kind) {
	out->kind = kind;
	return kind;
}

static enum hd_frame_kind parse_arp(
	const struct hd_frame_self *self,
	const uint8_t *arp,
	size_t bytes,
	struct hd_frame *out
) {
	static const uint8_t form[6] = {0, 1, 0x08, 0x00, HD_MAC_BYTES, 4};
	uint16_t operation;

	if (bytes < ARP_BYTES)
		return drop(out, HD_FRAME_RUNT);
	operation = hd_get16(arp + 6);
	if (memcmp(arp, form, sizeof form) != 0
	    || (operation != ARP_REQUEST && operation != ARP_REPLY))
		return drop(out, HD_FRAME_ARP_FORM);
	out->source = hd_get32(arp + 14);
	out->target = hd_get32(arp + 24);
	out->request = operation == ARP_REQUEST;
	/* Rejects ARP in the name of another station, or in ours. */
	if (!same_mac(arp + 8, &out->source_mac) || !is_host(out->source)
	    || out->source == self->ipv4)
		return drop(out, HD_FRAME_ARP_SENDER);
	return keep(out, HD_FRAME_ARP);
}

static enum hd_frame_kind
parse_icmp(const uint8_t *icmp, size_t bytes, unsigned checked, struct hd_frame *out) {
	if (bytes < ICMP_BYTES)
		return drop(out, HD_FRAME_RUNT);
	if (icmp[0] != ICMP_ECHO_REQUEST || icmp[1] != 0)
		return drop(out, HD_FRAME_ICMP_TYPE);
	if (!(checked & HD_FRAME_L4_GOOD) && hd_frame_fold(hd_frame_sum(icmp, bytes)) != 0)
		return drop(out, HD_FRAME_ICMP_CHECKSUM);
	out->data = icmp;
	out->bytes = bytes;
	return keep(out, HD_FRAME_ECHO);
}

/* 0 in the field: the sender computed none. */
static bool udp_sum_good(
	const struct hd_frame_self *self,
	const uint8_t *ip,
	const uint8_t *udp,
	size_t bytes,
	struct hd_frame *out
) {
	uint16_t field = load_sum(udp + 6);
	uint64_t pseudo = pseudo_sum(ip, bytes);

	if (field == 0)
		return true;
	if (hd_frame_fold(pseudo + hd_frame_sum(udp, bytes)) == 0)
		return true;
	out->unfinished = self->unfinished_sums && field == fold(pseudo);
	return out->unfinished;
}

static enum hd_frame_kind parse_udp(
	const struct hd_frame_self *self,
	const uint8_t *ip,
	const uint8_t *udp,
	size_t bytes,
	struct hd_frame *out,
	unsigned checked
) {
	size_t length;

	if (bytes < UDP_BYTES)
		return drop(out, HD_FRAME_RUNT);
	length = hd_get16(udp + 4);
	if (length < UDP_BYTES || length > bytes)
		return drop(out, HD_FRAME_UDP_LENGTH);
	out->source_port = hd_get16(udp);
	if (hd_get16(udp + 2) != self->port || out->source_port == 0)
		return drop(out, HD_FRAME_UDP_PORT);
	if (!(checked & HD_FRAME_L4_GOOD) && !udp_sum_good(self, ip, udp, length, out))
		return drop(out, HD_FRAME_UDP_CHECKSUM);
	out->data = udp + UDP_BYTES;
	out->bytes = length - UDP_BYTES;
	return keep(out, HD_FRAME_UDP);
}

/* After the length checks; `bytes` is the packet's length by its header. */
static enum hd_frame_kind parse_packet(
	const struct hd_frame_self *self,
	const uint8_t *ip,
	size_t bytes,
	struct hd_frame *out,
	unsigned checked
) {
	size_t header = (size_t)(ip[0] & 15) * 4;

	if (!(checked & HD_FRAME_IP_GOOD) && hd_frame_fold(hd_frame_sum(ip, header)) != 0)
		return drop(out, HD_FRAME_IP_CHECKSUM);
	if (hd_get32(ip + 16) != self->ipv4)
		return drop(out, HD_FRAME_OTHER_IP);
	out->source = hd_get32(ip + 12);
	if (!is_host(out->source) || out->source == self->ipv4)
		return drop(out, HD_FRAME_SOURCE_IP);
	if (hd_get16(ip + 6) & IPV4_FRAGMENT)
		return drop(out, HD_FRAME_FRAGMENT);
	if (ip[9] == PROTOCOL_UDP)
		return parse_udp(self, ip, ip + header, bytes - header, out, checked);
	if (ip[9] == PROTOCOL_ICMP)
		return parse_icmp(ip + header, bytes - header, checked, out);
	return drop(out, HD_FRAME_PROTOCOL);
}

static enum hd_frame_kind parse_ipv4(
	const struct hd_frame_self *self,
	const uint8_t *ip,
	size_t bytes,
	struct hd_frame *out,
	unsigned checked
) {
	size_t header, total;

	if (bytes < IPV4_BYTES)
		return drop(out, HD_FRAME_RUNT);
	header = (size_t)(ip[0] & 15) * 4;
	total = hd_get16(ip + 2);
	if (ip[0] >> 4 != 4 || header < IPV4_BYTES || total < header)
		return drop(out, HD_FRAME_IP_HEADER);
	/* Longer frames are padded; shorter ones were truncated. */
	if (total > bytes)
		return drop(out, HD_FRAME_TRUNCATED);
	return parse_packet(self, ip, total, out, checked);
}

enum hd_frame_kind hd_frame_parse(
	const struct hd_frame_self *self,
	const uint8_t *frame,
	size_t bytes,
	unsigned checked,
	struct hd_frame *out
) {
	bool to_us, to_all;
	uint16_t type;

	memset(out, 0, sizeof *out);
	if (bytes < HD_ETHERNET_BYTES)
		return drop(out, HD_FRAME_RUNT);
	memcpy(out->source_mac.bytes, frame + HD_MAC_BYTES, HD_MAC_BYTES);
	to_us = same_mac(frame, &self->mac);
	to_all = same_mac(frame, &broadcast_mac);
	type = hd_get16(frame + 12);
	/* Only a request may be broadcast. */
	if (!to_us && !(to_all && type == ETHERTYPE_ARP))
		return drop(out, HD_FRAME_OTHER_MAC);
	if (!is_station(out->source_mac.bytes) || same_mac(self->mac.bytes, &out->source_mac))
		return drop(out, HD_FRAME_SOURCE_MAC);
	frame += HD_ETHERNET_BYTES;
	bytes -= HD_ETHERNET_BYTES;
	if (type == ETHERTYPE_ARP)
		return parse_arp(self, frame, bytes, out);
	if (type == ETHERTYPE_IPV4)
		return parse_ipv4(self, frame, bytes, out, checked);
	return drop(out, HD_FRAME_ETHERTYPE);
}

/* --- building ------------------------------------------------------------------------------ */

static void put_ethernet(
	const struct hd_frame_self *self,
	const struct hd_mac *to,
	uint16_t type,
	uint8_t *frame
) {
	memcpy(frame, to->bytes, HD_MAC_BYTES);
	memcpy(frame + HD_MAC_BYTES, self->mac.bytes, HD_MAC_BYTES);
	hd_put16(frame + 12, type);
}

static void put_ipv4(
	const struct hd_frame_self *self,
	uint32_t to,
	uint8_t protocol,
	size_t bytes,
	uint8_t *ip
) {
	memset(ip, 0, IPV4_BYTES);
	ip[0] = 0x45;
	hd_put16(ip + 2, (uint16_t)bytes);
	hd_put16(ip + 6, IPV4_DONT_FRAGMENT); /* so the identification may be 0 (RFC 6864) */
	ip[8] = IPV4_TTL;
	ip[9] = protocol;
	hd_put32(ip + 12, self->ipv4);
	hd_put32(ip + 16, to);
}

void hd_frame_put_udp(
	const struct hd_frame_self *self,
	const struct hd_frame_to *to,
	uint8_t *frame,
	size_t payload_bytes,
	unsigned offload
) {
	uint8_t *ip = frame + HD_ETHERNET_BYTES, *udp = ip + IPV4_BYTES;
	size_t udp_bytes = UDP_BYTES + payload_bytes;
	uint16_t sum;

	put_ethernet(self, &to->mac, ETHERTYPE_IPV4, frame);
	put_ipv4(self, to->ipv4, PROTOCOL_UDP, IPV4_BYTES + udp_bytes, ip);
	if (!(offload & HD_FRAME_OFFLOAD_IP))
		store_sum(ip + 10, hd_frame_fold(hd_frame_sum(ip, IPV4_BYTES)));
	hd_put16(udp, self->port);
	hd_put16(udp + 2, to->port);
	hd_put16(udp + 4, (uint16_t)udp_bytes);
	hd_put16(udp + 6, 0);
	if (offload & HD_FRAME_OFFLOAD_UDP) {
		store_sum(udp + 6, fold(pseudo_sum(ip, udp_bytes)));
		return;
	}
	sum = hd_frame_fold(pseudo_sum(ip, udp_bytes) + hd_frame_sum(udp, udp_bytes));
	store_sum(udp + 6, sum ? sum : UINT16_MAX); /* 0 would mean no checksum */
}

static void
put_arp(const struct hd_frame_self *self,
	uint16_t operation,
	uint32_t ipv4,
	const struct hd_mac *target,
	uint8_t *frame) {
	uint8_t *arp = frame + HD_ETHERNET_BYTES;

	memset(arp, 0, HD_FRAME_ARP_BYTES - HD_ETHERNET_BYTES);
	hd_put16(arp, 1);
	hd_put16(arp + 2, ETHERTYPE_IPV4);
	arp[4] = HD_MAC_BYTES;
	arp[5] = 4;
	hd_put16(arp + 6, operation);
	memcpy(arp + 8, self->mac.bytes, HD_MAC_BYTES);
	hd_put32(arp + 14, self->ipv4);
	if (target)
		memcpy(arp + 18, target->bytes, HD_MAC_BYTES);
	hd_put32(arp + 24, ipv4);
}

void hd_frame_put_arp_request(
	const struct hd_frame_self *self,
	uint32_t ipv4,
	const struct hd_mac *mac,
	uint8_t *frame
) {
	put_ethernet(self, mac ? mac : &broadcast_mac, ETHERTYPE_ARP, frame);
	put_arp(self, ARP_REQUEST, ipv4, mac, frame);
}

void hd_frame_put_arp_reply(
	const struct hd_frame_self *self,
	uint32_t ipv4,
	const struct hd_mac *mac,
	uint8_t *frame
) {
	put_ethernet(self, mac, ETHERTYPE_ARP, frame);
	put_arp(self, ARP_REPLY, ipv4, mac, frame);
}

size_t hd_frame_put_echo_reply(
	const struct hd_frame_self *self,
	const struct hd_frame *in,
	uint8_t *frame,
	size_t capacity
) {
	uint8_t *ip = frame + HD_ETHERNET_BYTES, *icmp = ip + IPV4_BYTES;
	size_t bytes = HD_ETHERNET_BYTES + IPV4_BYTES + in->bytes;

	if (bytes > capacity || in->bytes < ICMP_BYTES)
		return 0;
	put_ethernet(self, &in->source_mac, ETHERTYPE_IPV4, frame);
	put_ipv4(self, in->source, PROTOCOL_ICMP, IPV4_BYTES + in->bytes, ip);
	store_sum(ip + 10, hd_frame_fold(hd_frame_sum(ip, IPV4_BYTES)));
	memcpy(icmp, in->data, in->bytes);
	icmp[0] = 0; /* echo reply */
	hd_put16(icmp + 2, 0);
	store_sum(icmp + 2, hd_frame_fold(hd_frame_sum(icmp, in->bytes)));
	return bytes;
}
