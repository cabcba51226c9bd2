/* SPDX-License-Identifier: BSD-3-Clause */
/* From ports to the executor, and by its verdicts to queues: the replication engine. */
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

/* The last copy is the frame itself: no other copy needs its headers any more. */
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

/* Learns stations from ARP, even in frames that are dropped here. */
static inline void look(struct hd_ports *p, uint32_t in, const struct hd_switch_packet *packet) {
	if (unlikely(
		    packet->verdict != HD_SWITCH_COPY
		    && hd_get16(packet->data + 12) == RTE_ETHER_TYPE_ARP
	    ))
		(void)hd_switch_stations_learn(
			p->stations, p->now, (uint16_t)in, packet->data, packet->bytes
		);
}

/*
 * A result may have moved, and may be shorter than the chunk (padding). Unchanged fields are not written: stores to a
 * frame's buffer cost more than all reads of it.
 */
static inline void set_frame(struct rte_mbuf *frame, const struct hd_switch_packet *packet) {
	if (likely(packet->data == rte_pktmbuf_mtod(frame, uint8_t *)
		   && packet->bytes == frame->data_len))
		return;
	frame->data_off = (uint16_t)(packet->data - (uint8_t *)frame->buf_addr);
	frame->data_len = (uint16_t)packet->bytes;
	frame->pkt_len = packet->bytes;
}

/* Most frames are ordinary and leave like the previous one: they need no call. Returns their number. */
static inline uint16_t
put_alike(struct hd_ports *p, uint32_t in, const struct hd_switch_packet *packets, uint16_t count) {
	const uint16_t out = packets[0].port;
	struct rte_mbuf **place;
	uint32_t bytes = 0;
	uint16_t n = 0;

	count = RTE_MIN(count, ports_direct_room(p, out));
	place = ports_direct_place(p, out);
	for (; n < count && packets[n].verdict == HD_SWITCH_FORWARD && packets[n].port == out;
	     n++) {
		look(p, in, &packets[n]);
		place[n] = packets[n].handle;
		set_frame(place[n], &packets[n]);
		bytes += packets[n].bytes;
	}
	if (n > 0)
		ports_put_direct(p, out, n, bytes);
	return n;
}

static inline void dispatch_all(
	struct hd_ports *p,
	uint32_t in,
	const struct hd_switch_packet *packets,
	uint16_t count
) {
	for (uint16_t i = 0; i < count;) {
		const struct hd_switch_packet *packet = &packets[i];
		uint16_t alike = 0;

		if (packet->verdict == HD_SWITCH_FORWARD && packet->port < p->count)
			alike = put_alike(p, in, packet, (uint16_t)(count - i));
		if (alike == 0) {
			look(p, in, packet);
			set_frame(packet->handle, packet);
			dispatch(p, in, packet);
			alike = 1;
		}
		i = (uint16_t)(i + alike);
	}
}

/* Frames in pieces are longer than any port's MTU. No data is read here: the executor prefetches it. */
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
		struct hd_switch_packet *packet = &packets[kept];
		struct rte_mbuf *frame = frames[i];

		if (unlikely(frame->nb_segs > 1)) {
			bytes += frame->pkt_len;
			counts->segmented++;
			rte_pktmbuf_free(frame);
			continue;
		}
		bytes += frame->data_len;
		if (unlikely(frame->ol_flags & ~(RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)))
			frame->ol_flags &= RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
		/* The executor sets the other fields. */
		packet->data = rte_pktmbuf_mtod(frame, uint8_t *);
		packet->bytes = frame->data_len;
		packet->port = (uint16_t)in;
		packet->handle = frame;
		kept++;
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
	if (ports_is_timed(p))
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
