/* SPDX-License-Identifier: BSD-3-Clause */
#include "forge.h"
#include "hd_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct {
	struct hd_addr to;
	enum forged_as as;
	uint64_t count;
} forger;

void forge_to(struct hd_addr to, enum forged_as as) {
	forger.to = to;
	forger.as = as;
	forger.count = 0;
}

uint64_t forge_count(void) {
	return forger.count;
}

static bool is_chunk(const struct net_packet *packet) {
	uint8_t version;

	return hd_packet_classify(packet->data, packet->bytes, &version) == HD_PACKET_CHUNK;
}

bool forge(struct net *net, const struct net_packet *packet) {
	static const float wrong = 8e6F;
	struct net_packet made = *packet;

	if (!is_chunk(packet) || !hd_addr_equal(packet->to, forger.to))
		return false;
	made.data = malloc(packet->bytes);
	memcpy(made.data, packet->data, packet->bytes);
	for (size_t at = HD_CHUNK_HEADER_BYTES; at + sizeof(wrong) <= made.bytes; at += 4)
		memcpy(made.data + at, &wrong, sizeof(wrong));
	if (forger.as == FORGED_BY_STRANGER)
		made.from = (struct hd_addr){STRANGER_IP, HD_PORT};
	else
		made.from.port++;
	assert_true(net->count < NET_PACKETS_MAX);
	net->packets[(net->first + net->count++) % NET_PACKETS_MAX] = made;
	forger.count++;
	return false;
}
