/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: each packet becomes one mbuf at once (head and payload are copied, so nothing is borrowed), and
 * bursts leave when they are full or the core has returned. Packets to one peer stay on one queue.
 */
#include "hd_dpdk_private.h"

#include <string.h>
#include <time.h>

#define ROOM_NAP_NS 50000

static uint16_t queue_of(const struct hd_dpdk *d, uint32_t ipv4) {
	return (uint16_t)((ipv4 ^ ipv4 >> 8) % d->port.queues);
}

/* --- to the port --------------------------------------------------------------------------- */

/*
 * The port owns what it takes at once, so what is counted is looked at before: a UDP packet's mbuf knows its
 * headers' lengths, ARP and ICMP have none. Returns how many it took.
 */
static uint16_t burst(struct hd_dpdk *d, uint16_t queue, uint16_t first) {
	struct dpdk_send_queue *send = &d->send[queue];
	uint32_t payload[DPDK_SEND_BURST];
	uint16_t left = send->count - first, taken;
	uint64_t packets = 0, bytes = 0;

	for (uint16_t i = 0; i < left; i++) {
		const struct rte_mbuf *frame = send->frames[first + i];

		payload[i] = frame->l4_len ? frame->pkt_len - HD_FRAME_UDP_BYTES : UINT32_MAX;
	}
	taken = rte_eth_tx_burst(d->port.id, queue, send->frames + first, left);
	for (uint16_t i = 0; i < taken; i++) {
		packets += payload[i] != UINT32_MAX;
		bytes += payload[i] != UINT32_MAX ? payload[i] : 0;
	}
	dpdk_count(&d->counters.send_calls, 1);
	dpdk_count(&d->counters.sent_frames, taken);
	dpdk_count(&d->counters.sent_packets, packets);
	dpdk_count(&d->counters.sent_bytes, bytes);
	return taken;
}

static void flush_queue(struct hd_dpdk *d, uint16_t queue) {
	const struct timespec nap = {.tv_nsec = ROOM_NAP_NS};
	struct dpdk_send_queue *send = &d->send[queue];
	uint16_t done = 0;
	hd_ns until = 0;

	while (done < send->count) {
		uint16_t taken = burst(d, queue, done);
		hd_ns now;

		done += taken;
		if (taken > 0)
			continue;
		now = hd_wait_now();
		if (until == 0)
			until = now + DPDK_SEND_WAIT_US * HD_US;
		if (now >= until)
			break;
		dpdk_kick(d);
		(void)nanosleep(&nap, NULL);
	}
	if (done < send->count) {
		dpdk_count(&d->counters.send_errors, send->count - done);
		dpdk_count(&d->queue[queue].given_up, send->count - done);
		rte_pktmbuf_free_bulk(send->frames + done, send->count - done);
	}
	send->count = 0;
}

void dpdk_flush(struct hd_dpdk *d) {
	bool any = false;

	for (uint16_t queue = 0; queue < d->port.queues; queue++) {
		any |= d->send[queue].count > 0;
		flush_queue(d, queue);
	}
	if (any)
		dpdk_kick(d);
}

void dpdk_free_unsent(struct hd_dpdk *d) {
	for (uint16_t queue = 0; queue < d->port.queues; queue++) {
		rte_pktmbuf_free_bulk(d->send[queue].frames, d->send[queue].count);
		d->send[queue].count = 0;
	}
}

static void enqueue(struct hd_dpdk *d, uint16_t queue, struct rte_mbuf *frame) {
	struct dpdk_send_queue *send = &d->send[queue];

	if (send->count == DPDK_SEND_BURST)
		flush_queue(d, queue);
	send->frames[send->count++] = frame;
}

/* --- buffers ------------------------------------------------------------------------------- */

static struct rte_mbuf *take_buffer(struct hd_dpdk *d, size_t bytes) {
	struct rte_mbuf *frame = rte_pktmbuf_alloc(d->port.pool);

	if (!frame || !rte_pktmbuf_append(frame, (uint16_t)bytes)) {
		rte_pktmbuf_free(frame);
		dpdk_count(&d->counters.no_buffer, 1);
		return NULL;
	}
	return frame;
}

static uint8_t *bytes_of(struct rte_mbuf *frame) {
	return rte_pktmbuf_mtod(frame, uint8_t *);
}

/* --- ARP and echo -------------------------------------------------------------------------- */

static void ask(void *owner, uint32_t ipv4, const struct hd_mac *mac) {
	struct hd_dpdk *d = owner;
	struct rte_mbuf *frame = take_buffer(d, HD_FRAME_ARP_BYTES);

	if (!frame)
		return;
	hd_frame_put_arp_request(&d->self, ipv4, mac, bytes_of(frame));
	dpdk_count(&d->counters.arp_asked, 1);
	enqueue(d, 0, frame);
}

void dpdk_answer_arp(struct hd_dpdk *d, const struct hd_frame *request) {
	struct rte_mbuf *frame = take_buffer(d, HD_FRAME_ARP_BYTES);

	if (!frame)
		return;
	hd_frame_put_arp_reply(&d->self, request->source, &request->source_mac, bytes_of(frame));
	dpdk_count(&d->counters.arp_answered, 1);
	enqueue(d, 0, frame);
}

void dpdk_answer_echo(struct hd_dpdk *d, const struct hd_frame *request) {
	size_t bytes = HD_FRAME_UDP_BYTES - 8 + request->bytes;
	struct rte_mbuf *frame = take_buffer(d, bytes);

	if (!frame)
		return;
	(void)hd_frame_put_echo_reply(&d->self, request, bytes_of(frame), bytes);
	dpdk_count(&d->counters.echo_answered, 1);
	enqueue(d, 0, frame);
}

/* A held packet has all but its destination. */
static void send_held(void *owner, void *packet, const struct hd_mac *mac) {
	struct hd_dpdk *d = owner;
	struct rte_mbuf *frame = packet;

	memcpy(bytes_of(frame), mac->bytes, sizeof(mac->bytes));
	enqueue(d, (uint16_t)frame->hash.usr, frame);
}

static void drop_held(void *owner, void *packet) {
	struct hd_dpdk *d = owner;

	dpdk_count(&d->counters.send_unresolved, 1);
	rte_pktmbuf_free(packet);
}

const struct hd_neighbour_ops dpdk_neighbour_ops = {ask, send_held, drop_held};

/* --- packets of the core ------------------------------------------------------------------- */

static void set_offloads(const struct hd_dpdk *d, struct rte_mbuf *frame) {
	frame->l2_len = HD_ETHERNET_BYTES;
	frame->l3_len = 20;
	frame->l4_len = 8;
	if (d->offload == 0)
		return;
	frame->ol_flags |= RTE_MBUF_F_TX_IPV4;
	if (d->offload & HD_FRAME_OFFLOAD_IP)
		frame->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
	if (d->offload & HD_FRAME_OFFLOAD_UDP)
		frame->ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM;
}

/* Our neighbour on the way there, 0: there is no way. */
static uint32_t next_hop(const struct hd_dpdk *d, uint32_t ipv4) {
	if (ipv4 == d->self.ipv4)
		return 0;
	return (ipv4 & d->mask) == d->network ? ipv4 : d->config.gateway;
}

void dpdk_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct hd_dpdk *d = (struct hd_dpdk *)sink;
	size_t bytes = head_bytes + (payload ? payload_bytes : 0);
	struct hd_frame_to to = {.ipv4 = peer.ipv4, .port = peer.port};
	uint32_t hop = next_hop(d, peer.ipv4);
	struct rte_mbuf *frame;
	uint8_t *data;
	bool known;

	if (hop == 0 || peer.port == 0) {
		dpdk_count(&d->counters.send_no_route, 1);
		return;
	}
	if (bytes + HD_FRAME_UDP_BYTES - HD_ETHERNET_BYTES > d->port.mtu) {
		dpdk_count(&d->counters.send_too_long, 1);
		return;
	}
	frame = take_buffer(d, HD_FRAME_UDP_BYTES + bytes);
	if (!frame)
		return;
	data = bytes_of(frame);
	if (head_bytes > 0)
		memcpy(data + HD_FRAME_UDP_BYTES, head, head_bytes);
	if (payload && payload_bytes > 0)
		memcpy(data + HD_FRAME_UDP_BYTES + head_bytes, payload, payload_bytes);
	set_offloads(d, frame);
	frame->hash.usr = queue_of(d, hop);
	known = hd_neighbours_resolve(d->neighbours, d->loop.now, hop, &to.mac);
	hd_frame_put_udp(&d->self, &to, data, bytes, d->offload);
	if (known)
		enqueue(d, (uint16_t)frame->hash.usr, frame);
	else
		hd_neighbours_hold(d->neighbours, hop, frame);
}
