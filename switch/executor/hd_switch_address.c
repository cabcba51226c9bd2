/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the fields in which the copies of a result differ. */
#include "hd_bytes.h"
#include "hd_switch_private.h"

#define TIME_TO_LIVE 64
#define DO_NOT_FRAGMENT 0x4000
#define PROTOCOL_UDP 17

void hd_switch_address(
	const struct hd_switch_self *self,
	const struct hd_switch_copy *copy,
	uint8_t *frame
) {
	uint32_t bytes = hd_get16(frame + AT_IPV4_BYTES);
	uint32_t sum = 0x4500 + bytes + DO_NOT_FRAGMENT + (TIME_TO_LIVE << 8 | PROTOCOL_UDP);

	sum += (self->ipv4 >> 16) + (self->ipv4 & 0xffff) + (copy->ipv4 >> 16)
		+ (copy->ipv4 & 0xffff);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	memcpy(frame, copy->mac, 6);
	memcpy(frame + 6, self->mac, 6);
	hd_put16(frame + AT_ETHERTYPE, SWITCH_ETHERTYPE_IPV4);
	hd_put16(frame + AT_IPV4, 0x4500);
	hd_put16(frame + AT_IDENTIFICATION, 0);
	hd_put16(frame + AT_FRAGMENT, DO_NOT_FRAGMENT);
	hd_put16(frame + AT_TTL, TIME_TO_LIVE << 8 | PROTOCOL_UDP);
	hd_put16(frame + AT_CHECKSUM, (uint16_t)~sum);
	hd_put32(frame + AT_SOURCE, self->ipv4);
	hd_put32(frame + AT_DESTINATION, copy->ipv4);
	hd_put16(frame + AT_UDP, self->udp_port);
	hd_put16(frame + AT_UDP_DESTINATION, copy->udp_port);
	hd_put16(frame + AT_UDP_CHECKSUM, 0);
	hd_put64(frame + AT_TOKEN, copy->token);
}

const char *hd_switch_counter_name(enum hd_switch_counter counter) {
	static const char *const names[] = {
#define NAME(name, help) #name,
		HD_SWITCH_COUNTERS(NAME)
#undef NAME
	};

	return names[counter];
}

const char *hd_switch_counter_help(enum hd_switch_counter counter) {
	static const char *const helps[] = {
#define HELP(name, help) help,
		HD_SWITCH_COUNTERS(HELP)
#undef HELP
	};

	return helps[counter];
}
