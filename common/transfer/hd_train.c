/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_train.h"
#include "hd_wire.h"

#include <string.h>

static bool possible(const struct hd_msg_probe *probe) {
	return probe->token != 0 && probe->packets > HD_TRAIN_SKIP + 1
		&& probe->packets <= HD_TRAIN_PACKETS && (!probe->send || probe->peer_ipv4 != 0);
}

static void send_train(const struct hd_msg_probe *probe, struct hd_sink *sink) {
	static const uint8_t nothing[HD_TRAIN_PACKET_BYTES - HD_TRAIN_HEADER_BYTES];
	struct hd_train_header header = {.count = probe->packets, .token = probe->token};
	struct hd_addr peer = {.ipv4 = probe->peer_ipv4, .port = probe->peer_port};
	uint8_t head[HD_TRAIN_HEADER_BYTES];

	for (; header.index < header.count; header.index++) {
		hd_train_encode(&header, head);
		sink->send(sink, peer, head, sizeof(head), nothing, sizeof(nothing));
	}
}

void hd_trains_probe(
	struct hd_trains *trains,
	hd_ns now,
	const struct hd_msg_probe *probe,
	struct hd_sink *sink
) {
	if (!possible(probe)
	    || (probe->send && trains->sent_at && now < trains->sent_at + HD_TRAIN_GAP_NS)) {
		trains->refused++;
		return;
	}
	if (!probe->send) {
		trains->newest = (trains->newest + 1) % HD_TRAINS_EXPECTED_MAX;
		trains->expected[trains->newest] = (struct hd_train){.token = probe->token};
		return;
	}
	trains->sent_at = now;
	trains->sent++;
	send_train(probe, sink);
}

/* What came at the same moment as the first counted packet came no later: it is not counted. */
static void count(struct hd_train *train, hd_ns now, uint16_t index) {
	if (index < HD_TRAIN_SKIP)
		return;
	if (train->first == 0)
		train->first = train->last = now;
	if (now > train->first)
		train->counted++;
	if (now > train->last)
		train->moments++;
	train->last = now;
}

bool hd_trains_packet(
	struct hd_trains *trains,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_msg_probed *probed
) {
	struct hd_train_header header;
	struct hd_train *train = NULL;

	if (hd_train_decode(packet->data, packet->bytes, &header) == 0)
		for (uint32_t i = 0; i < HD_TRAINS_EXPECTED_MAX; i++)
			if (trains->expected[i].token == header.token)
				train = &trains->expected[i];
	if (!train || packet->bytes != HD_TRAIN_PACKET_BYTES || header.index < train->next) {
		trains->dropped++;
		return false;
	}
	train->next = (uint16_t)(header.index + 1);
	count(train, now, header.index);
	if (train->next != header.count)
		return false;
	*probed = (struct hd_msg_probed){
		.token = header.token,
		.packets = train->counted,
		.moments = train->moments,
		.duration_ns = train->last - train->first,
	};
	*train = (struct hd_train){0};
	trains->received++;
	return true;
}
