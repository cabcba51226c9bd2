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

	int type = hd_packet_classify(packet->data, packet->bytes, &version);

	return type == HD_PACKET_CHUNK || type == HD_PACKET_SEALED;
}

static void spoil(struct net_packet *made) {
	static const float wrong = 8e6F;
	const uint8_t plain = HD_WIRE_VERSION << 4 | HD_PACKET_CHUNK;
	size_t head = HD_CHUNK_HEADER_BYTES;

	if (forger.as == FORGED_PLAIN && made->data[2] != plain) {
		made->data[2] = plain;
		made->bytes -= HD_SEAL_BYTES;
	} else if (made->data[2] != plain) {
		head += HD_SEAL_BYTES;
	}
	for (size_t at = head; at + sizeof wrong <= made->bytes; at += 4)
		memcpy(made->data + at, &wrong, sizeof wrong);
}

bool forge(struct net *net, const struct net_packet *packet) {
	struct net_packet made = *packet;

	if (!is_chunk(packet) || !hd_addr_equal(packet->to, forger.to))
		return false;
	made.data = malloc(packet->bytes);
	memcpy(made.data, packet->data, packet->bytes);
	if (forger.as == FORGED_HEADER)
		made.data[3 + forger.count % 45] ^= 1; /* behind the type, before the token */
	else
		spoil(&made);
	if (forger.as == FORGED_BY_STRANGER)
		made.from = (struct hd_addr){STRANGER_IP, HD_PORT};
	else if (forger.as == FORGED_BY_PORT)
		made.from.port++;
	assert_true(net->count < NET_PACKETS_MAX);
	net->packets[(net->first + net->count++) % NET_PACKETS_MAX] = made;
	forger.count++;
	return false;
}
