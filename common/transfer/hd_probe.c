/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_probe.h"
#include "hd_wire.h"

#include <string.h>

/* The first part of the MAC's input, as for a chunk: the header, then zeros. */
#define HEAD_BYTES HD_CHUNK_HEADER_BYTES

static bool possible(const struct hd_msg_probe *probe) {
	return hd_token_is_sealed(probe->token) && probe->packets > HD_PROBE_SKIP + 1
		&& probe->packets <= HD_PROBE_PACKETS && (!probe->send || probe->peer_ipv4 != 0);
}

static void
send_burst(const struct hd_seal *seal, const struct hd_msg_probe *probe, struct hd_sink *sink) {
	static const uint8_t nothing[HD_PROBE_PACKET_BYTES - HEAD_BYTES - HD_SEAL_BYTES];
	struct hd_probe_header header = {
		.count = probe->packets,
		.token = probe->token,
		.key = seal->key_id,
	};
	struct hd_addr peer = {.ipv4 = probe->peer_ipv4, .port = probe->peer_port};
	uint8_t head[HEAD_BYTES + HD_SEAL_BYTES] = {0};

	for (; header.index < header.count; header.index++) {
		hd_probe_encode(&header, head);
		hd_seal_sign(seal, head, nothing, sizeof nothing, head + HEAD_BYTES);
		sink->send(sink, peer, head, sizeof head, nothing, sizeof nothing);
	}
}

void hd_probes_probe(
	struct hd_probes *probes,
	hd_ns now,
	const struct hd_msg_probe *probe,
	struct hd_sink *sink
) {
	struct hd_seal seal;

	if (!possible(probe)
	    || (probe->send && probes->sent_at && now < probes->sent_at + HD_PROBE_GAP_NS)
	    || hd_seal_derive(&seal, probes->keys, probes->key_id, 0, probe->token) < 0) {
		probes->refused++;
		return;
	}
	if (!probe->send) {
		probes->newest = (probes->newest + 1) % HD_PROBES_EXPECTED_MAX;
		probes->expected[probes->newest] = (struct hd_probe){.token = probe->token};
		return;
	}
	probes->sent_at = now;
	probes->sent++;
	send_burst(&seal, probe, sink);
}

/* Packets that arrived at the same moment as the first counted one are not counted, as they were no later. */
static void count(struct hd_probe *seen, hd_ns now, uint16_t index) {
	if (index < HD_PROBE_SKIP)
		return;
	if (seen->first == 0)
		seen->first = seen->last = now;
	if (now > seen->first)
		seen->counted++;
	if (now > seen->last)
		seen->moments++;
	seen->last = now;
}

static bool
is_true(const struct hd_probes *probes,
	struct hd_probe *seen,
	const struct hd_probe_header *header,
	const struct hd_packet *packet) {
	const struct hd_chunk_header like = {.slot = header->key, .token = header->token};

	return hd_seal_check(&seen->seal, probes->keys, &like, packet->data, packet->bytes);
}

bool hd_probes_packet(
	struct hd_probes *probes,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_msg_probed *probed
) {
	struct hd_probe_header header;
	struct hd_probe *seen = NULL;

	if (hd_probe_decode(packet->data, packet->bytes, &header) == 0)
		for (uint32_t i = 0; i < HD_PROBES_EXPECTED_MAX; i++)
			if (probes->expected[i].token == header.token)
				seen = &probes->expected[i];
	if (!seen || packet->bytes != HD_PROBE_PACKET_BYTES || header.index < seen->next
	    || !is_true(probes, seen, &header, packet)) {
		probes->dropped++;
		return false;
	}
	seen->next = (uint16_t)(header.index + 1);
	count(seen, now, header.index);
	if (seen->next != header.count)
		return false;
	*probed = (struct hd_msg_probed){
		.token = header.token,
		.packets = seen->counted,
		.moments = seen->moments,
		.duration_ns = seen->last - seen->first,
	};
	*seen = (struct hd_probe){0};
	probes->received++;
	return true;
}
