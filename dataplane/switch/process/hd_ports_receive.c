/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports to the executor, and its verdicts to queues: the replication engine. */
#include "hd_bytes.h"
#include "hd_ports_private.h"

#include <rte_ether.h>

void ports_flood(struct hd_ports *p, uint32_t in, struct rte_mbuf *frame) {
	for (uint32_t port = 0; port < p->count; port++) {
		struct rte_mbuf *copy;

		if (port == in)
			continue;
		copy = ports_copy_flooded(p, frame);
		if (copy)
			ports_put(p, port, copy, false);
		else
			p->ports[port].counts.no_buffer++;
	}
	rte_pktmbuf_free(frame);
}

/* The last copy is the frame itself: its headers are read for no other any more. */
static void replicate(
	struct hd_ports *p,
	uint32_t in,
	const struct hd_switch_packet *packet,
	struct rte_mbuf *frame
) {
	const struct hd_switch_copy *copies;
	size_t count = p->executor.ops->copies(p->executor.self, packet, &copies);

	for (size_t i = 0; i < count; i++) {
		bool last = i + 1 == count;
		struct rte_mbuf *copy = frame;

		if (copies[i].port >= p->count) {
			p->ports[in].counts.no_port++;
			continue;
		}
		if (!last)
			copy = ports_copy_addressed(p, frame, p->ports[copies[i].port].chains);
		if (!copy) {
			p->ports[copies[i].port].counts.no_buffer++;
			continue;
		}
		hd_switch_address(&p->self, &copies[i], rte_pktmbuf_mtod(copy, uint8_t *));
		ports_put(p, copies[i].port, copy, true);
		if (last)
			return;
	}
	rte_pktmbuf_free(frame);
}

static void dispatch(struct hd_ports *p, uint32_t in, const struct hd_switch_packet *packet) {
	struct rte_mbuf *frame = packet->handle;

	switch (packet->verdict) {
	case HD_SWITCH_FORWARD:
		if (packet->port < p->count) {
			ports_put(p, packet->port, frame, false);
			return;
		}
		p->ports[in].counts.no_port++;
		break;
	case HD_SWITCH_FLOOD:
		ports_flood(p, in, frame);
		return;
	case HD_SWITCH_COPY:
		replicate(p, in, packet, frame);
		return;
	default:
		break;
	}
	rte_pktmbuf_free(frame);
}

/* ARP says who is where. What is dropped here may come from a station all the same. */
static inline void look(struct hd_ports *p, uint32_t in, const struct hd_switch_packet *packet) {
	if (unlikely(
		    packet->verdict != HD_SWITCH_COPY
		    && hd_get16(packet->data + 12) == RTE_ETHER_TYPE_ARP
	    ))
		(void)hd_switch_stations_learn(
			p->stations, p->now, (uint16_t)in, packet->data, packet->bytes
		);
}

/* Most frames are ordinary ones to a link without a rate: they pass without a call. */
static inline void dispatch_all(
	struct hd_ports *p,
	uint32_t in,
	const struct hd_switch_packet *packets,
	uint16_t count
) {
	for (uint16_t i = 0; i < count; i++) {
		const struct hd_switch_packet *packet = &packets[i];
		struct rte_mbuf *frame = packet->handle;

		look(p, in, packet);
		/* A result may have moved, and may be shorter than what came (padding). */
		frame->data_off = (uint16_t)(packet->data - (uint8_t *)frame->buf_addr);
		frame->data_len = (uint16_t)packet->bytes;
		frame->pkt_len = packet->bytes;
		if (likely(packet->verdict == HD_SWITCH_FORWARD && packet->port < p->count
			   && ports_is_direct(p, packet->port)))
			ports_put_direct(p, packet->port, frame);
		else
			dispatch(p, in, packet);
	}
}

/* Frames in pieces are longer than any port's MTU. Nothing of the data is read here: the executor fetches it. */
static uint16_t
prepare(struct hd_ports *p,
	uint32_t in,
	struct rte_mbuf **frames,
	uint16_t count,
	struct hd_switch_packet *packets) {
	struct hd_ports_counts *counts = &p->ports[in].counts;
	uint64_t bytes = 0;
	uint16_t kept = 0;

	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *frame = frames[i];

		bytes += frame->pkt_len;
		if (unlikely(frame->nb_segs > 1)) {
			counts->segmented++;
			rte_pktmbuf_free(frame);
			continue;
		}
		frame->ol_flags &= RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
		packets[kept++] = (struct hd_switch_packet){
			.data = rte_pktmbuf_mtod(frame, uint8_t *),
			.bytes = frame->data_len,
			.port = (uint16_t)in,
			.handle = frame,
		};
	}
	counts->received_bytes += bytes;
	counts->received += count;
	counts->bursts++;
	return kept;
}

static uint16_t take_burst(struct hd_ports *p, uint32_t in, uint16_t queue) {
	struct rte_mbuf *frames[PORTS_BURST];
	struct hd_switch_packet packets[PORTS_BURST];
	uint16_t count = rte_eth_rx_burst(p->ports[in].eth.id, queue, frames, PORTS_BURST), kept;

	if (count == 0)
		return 0;
	kept = prepare(p, in, frames, count, packets);
	p->executor.ops->burst(p->executor.self, packets, kept);
	dispatch_all(p, in, packets, kept);
	p->now = hd_wait_now();
	ports_send(p);
	return count;
}

uint32_t ports_receive(struct hd_ports *p) {
	uint32_t total = 0;

	for (int round = 0; round < PORTS_ROUNDS_MAX; round++) {
		uint32_t before = total;

		for (uint32_t in = 0; in < p->count; in++)
			for (uint16_t queue = 0; queue < p->ports[in].eth.queues; queue++)
				total += take_burst(p, in, queue);
		if (total == before)
			break;
	}
	return total;
}
