/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving: bursts of every queue, sorted by kind; UDP goes to the core as one burst. */
#include "hd_dpdk_private.h"

static unsigned checked_by_port(const struct rte_mbuf *frame) {
	unsigned checked = 0;

	if ((frame->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_GOOD)
		checked |= HD_FRAME_IP_GOOD;
	if ((frame->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD)
		checked |= HD_FRAME_L4_GOOD;
	return checked;
}

static void take_arp(struct hd_dpdk *d, const struct hd_frame *frame) {
	bool for_us = frame->request && frame->target == d->self.ipv4;

	dpdk_count(frame->request ? &d->counters.arp_requests : &d->counters.arp_answers, 1);
	/* A host outside our network cannot be a neighbour. */
	if ((frame->source & d->mask) != d->network)
		return;
	hd_neighbours_learn(d->neighbours, d->loop.now, frame->source, &frame->source_mac, for_us);
	if (for_us)
		dpdk_answer_arp(d, frame);
}

static void take_echo(struct hd_dpdk *d, const struct hd_frame *frame) {
	dpdk_count(&d->counters.echo_requests, 1);
	if (d->loop.now >= hd_ns_add(d->echo_at, HD_SECOND)) {
		d->echo_at = d->loop.now;
		d->echo_credit = DPDK_ECHO_PER_S;
	}
	if (d->echo_credit == 0) {
		dpdk_count(&d->counters.echo_limited, 1);
		return;
	}
	d->echo_credit--;
	dpdk_answer_echo(d, frame);
}

static void take_udp(struct hd_dpdk *d, const struct hd_frame *frame, struct hd_packet *packet) {
	*packet = (struct hd_packet){
		.peer = {.ipv4 = frame->source, .port = frame->source_port},
		.data = frame->data,
		.bytes = frame->bytes,
		.local = hd_dpdk_bound(d),
	};
	dpdk_count(&d->counters.received_packets, 1);
	dpdk_count(&d->counters.received_bytes, frame->bytes);
	if (frame->unfinished)
		dpdk_count(&d->counters.unfinished_sums, 1);
}

/* Sorts a burst; returns the number of packets for the core. */
static size_t sort(struct hd_dpdk *d, uint16_t count) {
	size_t packets = 0;

	for (uint16_t i = 0; i < count; i++) {
		const struct rte_mbuf *mbuf = d->frames[i];
		struct hd_frame frame;

		if (mbuf->nb_segs > 1) {
			dpdk_count(&d->counters.drop_segmented, 1);
			continue;
		}
		switch (hd_frame_parse(
			&d->self,
			rte_pktmbuf_mtod(mbuf, const uint8_t *),
			mbuf->data_len,
			checked_by_port(mbuf),
			&frame
		)) {
		case HD_FRAME_UDP:
			take_udp(d, &frame, &d->packets[packets++]);
			break;
		case HD_FRAME_ARP:
			take_arp(d, &frame);
			break;
		case HD_FRAME_ECHO:
			take_echo(d, &frame);
			break;
		default:
			dpdk_count(&d->counters.drop[frame.reason], 1);
		}
	}
	return packets;
}

static uint64_t bytes_of(struct rte_mbuf *const *frames, uint16_t count) {
	uint64_t bytes = 0;

	for (uint16_t i = 0; i < count; i++)
		bytes += frames[i]->pkt_len;
	return bytes;
}

static uint16_t
take_burst(struct hd_dpdk *d, struct hd_node node, uint16_t queue, uint64_t *found_bytes) {
	uint16_t count = rte_eth_rx_burst(d->port.id, queue, d->frames, DPDK_BURST);
	size_t packets;

	if (count == 0)
		return 0;
	d->loop.now = hd_wait_now();
	dpdk_count(&d->counters.receive_calls, 1);
	dpdk_count(&d->counters.received_frames, count);
	*found_bytes += bytes_of(d->frames, count);
	packets = sort(d, count);
	if (packets > 0)
		node.ops->receive(node.core, d->loop.now, d->packets, packets, &d->sink);
	dpdk_flush(d);
	rte_pktmbuf_free_bulk(d->frames, count);
	return count;
}

uint32_t dpdk_receive(struct hd_dpdk *d, struct hd_node node) {
	uint64_t found[DPDK_QUEUES_MAX] = {0};
	uint32_t total = 0;

	for (int round = 0; round < DPDK_ROUNDS_MAX; round++) {
		bool more = false;

		for (uint16_t queue = 0; queue < d->port.queues; queue++) {
			uint16_t count = take_burst(d, node, queue, &found[queue]);

			total += count;
			more |= count == DPDK_BURST;
		}
		if (!more)
			break;
	}
	for (uint16_t queue = 0; queue < d->port.queues; queue++)
		atomic_store_explicit(
			&d->queue[queue].found_bytes, found[queue], memory_order_relaxed
		);
	return total;
}
