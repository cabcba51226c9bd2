/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: each packet becomes one mbuf at once (head and payload are copied, so nothing is borrowed). Bursts leave
 * when they are full or the core has returned. Packets to one peer stay on one queue.
 *
 * The node's thread never waits for the port. Frames that a full ring refuses wait in the queue, at most
 * DPDK_WAITING_MAX: the last quarter of the room is for control only; answers to strangers do not wait, and only a few
 * ARP answers do. Likewise at most DPDK_HELD_MAX frames wait for their receiver's Ethernet address. Control goes to the
 * front of the queue, behind other control.
 */
#include "hd_dpdk_private.h"

#include <string.h>

static uint16_t queue_of(const struct hd_dpdk *d, uint32_t ipv4) {
	return (uint16_t)((ipv4 ^ ipv4 >> 8) % d->port.queues);
}

/* --- to the port --------------------------------------------------------------------------- */

/*
 * The port owns the frames at once, so they are counted before: a UDP packet's mbuf has its headers' lengths, ARP and
 * ICMP have none. Returns the number taken.
 */
static uint16_t burst(struct hd_dpdk *d, uint16_t queue, uint16_t first) {
	struct dpdk_send_queue *send = &d->send[queue];
	uint32_t payload[DPDK_SEND_BURST];
	uint16_t left = RTE_MIN(send->count - first, DPDK_SEND_BURST), taken;
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

static void give_up(struct hd_dpdk *d, uint16_t queue, struct rte_mbuf **frames, uint16_t count) {
	dpdk_count(&d->counters.send_errors, count);
	dpdk_count(&d->queue[queue].given_up, count);
	rte_pktmbuf_free_bulk(frames, count);
}

/* The rest waits, unless the ring has taken nothing for DPDK_SEND_WAIT_US. */
static void flush_queue(struct hd_dpdk *d, uint16_t queue) {
	struct dpdk_send_queue *send = &d->send[queue];
	bool was_full = send->full_since != 0;
	uint16_t done = 0, taken;
	hd_ns now;

	d->waiting -= was_full ? send->count : 0;
	do {
		taken = send->count > done ? burst(d, queue, done) : 0;
		done += taken;
	} while (taken > 0);
	send->count -= done;
	send->control -= RTE_MIN(send->control, done);
	if (send->count == 0) {
		send->full_since = 0;
		return;
	}
	memmove(send->frames, send->frames + done, send->count * sizeof(struct rte_mbuf *));
	now = hd_wait_now();
	if (done > 0 || !was_full)
		send->full_since = now;
	if (now >= hd_ns_add(send->full_since, DPDK_SEND_WAIT_US * HD_US)) {
		give_up(d, queue, send->frames, send->count);
		send->count = send->control = 0;
		send->full_since = 0;
	}
	d->waiting += send->count;
}

void dpdk_flush(struct hd_dpdk *d) {
	bool any = false;

	for (uint16_t queue = 0; queue < d->port.queues; queue++) {
		any |= d->send[queue].count > 0;
		flush_queue(d, queue);
	}
	if (any)
		dpdk_kick(d);
	d->retry_at = d->waiting > 0 ? hd_ns_add(hd_wait_now(), DPDK_KICK_US * HD_US) : HD_NEVER;
}

void dpdk_free_unsent(struct hd_dpdk *d) {
	for (uint16_t queue = 0; queue < d->port.queues; queue++) {
		rte_pktmbuf_free_bulk(d->send[queue].frames, d->send[queue].count);
		d->send[queue].count = d->send[queue].control = 0;
	}
}

static void put(struct dpdk_send_queue *send, struct rte_mbuf *frame, bool control) {
	uint16_t at = control ? send->control++ : send->count;

	for (uint16_t i = send->count++; i > at; i--)
		send->frames[i] = send->frames[i - 1];
	send->frames[at] = frame;
}

static void
enqueue(struct hd_dpdk *d, uint16_t queue, struct rte_mbuf *frame, enum dpdk_class class) {
	static const uint32_t shares[] = {
		[DPDK_CONTROL] = DPDK_WAITING_MAX,
		[DPDK_CHUNK] = DPDK_WAITING_MAX / 4 * 3,
		[DPDK_STRANGER] = 0,
	};
	struct dpdk_send_queue *send = &d->send[queue];

	if (send->count == DPDK_SEND_BURST && send->full_since == 0)
		flush_queue(d, queue);
	if (send->full_since != 0 && d->waiting >= shares[class]) {
		give_up(d, queue, &frame, 1);
		return;
	}
	put(send, frame, class == DPDK_CONTROL);
	d->waiting += send->full_since != 0;
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
	enqueue(d, 0, frame, DPDK_CONTROL);
}

/* A neighbour without answers loses us: a few ARP answers are sent like control, a flood of requests is limited. */
static bool may_answer_arp(struct hd_dpdk *d) {
	if (d->send[0].full_since == 0)
		return true;
	if (d->loop.now >= hd_ns_add(d->arp_at, DPDK_SEND_WAIT_US * HD_US)) {
		d->arp_at = d->loop.now;
		d->arp_credit = DPDK_ARP_WAITING;
	}
	if (d->arp_credit == 0)
		return false;
	d->arp_credit--;
	return true;
}

void dpdk_answer_arp(struct hd_dpdk *d, const struct hd_frame *request) {
	struct rte_mbuf *frame;

	if (!may_answer_arp(d)) {
		dpdk_count(&d->counters.arp_limited, 1);
		return;
	}
	frame = take_buffer(d, HD_FRAME_ARP_BYTES);
	if (!frame)
		return;
	hd_frame_put_arp_reply(&d->self, request->source, &request->source_mac, bytes_of(frame));
	dpdk_count(&d->counters.arp_answered, 1);
	enqueue(d, 0, frame, DPDK_CONTROL);
}

void dpdk_answer_echo(struct hd_dpdk *d, const struct hd_frame *request) {
	size_t bytes = HD_FRAME_UDP_BYTES - 8 + request->bytes;
	struct rte_mbuf *frame = take_buffer(d, bytes);

	if (!frame)
		return;
	(void)hd_frame_put_echo_reply(&d->self, request, bytes_of(frame), bytes);
	dpdk_count(&d->counters.echo_answered, 1);
	enqueue(d, 0, frame, DPDK_STRANGER);
}

/* A held packet lacks only its destination address. */
static void send_held(void *owner, void *packet, const struct hd_mac *mac) {
	struct hd_dpdk *d = owner;
	struct rte_mbuf *frame = packet;

	d->held--;
	memcpy(bytes_of(frame), mac->bytes, sizeof mac->bytes);
	enqueue(d, (uint16_t)frame->hash.usr, frame, DPDK_CHUNK);
}

static void drop_held(void *owner, void *packet) {
	struct hd_dpdk *d = owner;

	d->held--;
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

/* The neighbour towards this address, 0: there is no route. */
static uint32_t next_hop(const struct hd_dpdk *d, uint32_t ipv4) {
	if (ipv4 == d->self.ipv4)
		return 0;
	return (ipv4 & d->mask) == d->network ? ipv4 : d->config.gateway;
}

struct content {
	const void *head, *payload;
	size_t head_bytes, payload_bytes;
};

/* A frame without its headers; NULL: counted. */
static struct rte_mbuf *make_frame(struct hd_dpdk *d, const struct content *content) {
	size_t bytes = content->head_bytes + content->payload_bytes;
	struct rte_mbuf *frame;
	uint8_t *data;

	if (bytes + HD_FRAME_UDP_BYTES - HD_ETHERNET_BYTES > d->port.mtu) {
		dpdk_count(&d->counters.send_too_long, 1);
		return NULL;
	}
	frame = take_buffer(d, HD_FRAME_UDP_BYTES + bytes);
	if (!frame)
		return NULL;
	data = bytes_of(frame) + HD_FRAME_UDP_BYTES;
	if (content->head_bytes > 0)
		memcpy(data, content->head, content->head_bytes);
	if (content->payload_bytes > 0)
		memcpy(data + content->head_bytes, content->payload, content->payload_bytes);
	set_offloads(d, frame);
	return frame;
}

static void hold(struct hd_dpdk *d, uint32_t hop, struct rte_mbuf *frame) {
	if (d->held >= DPDK_HELD_MAX) {
		dpdk_count(&d->counters.send_unresolved, 1);
		rte_pktmbuf_free(frame);
		return;
	}
	d->held++;
	hd_neighbours_hold(d->neighbours, hop, frame);
}

static void
send_to(struct hd_dpdk *d, enum dpdk_class class, struct hd_addr peer, const struct content *content
) {
	struct hd_frame_to to = {.ipv4 = peer.ipv4, .port = peer.port};
	uint32_t hop = next_hop(d, peer.ipv4);
	struct rte_mbuf *frame;
	bool known;

	if (hop == 0 || peer.port == 0) {
		dpdk_count(&d->counters.send_no_route, 1);
		return;
	}
	/* No ARP request is sent for a stranger, whose address may be forged. */
	if (class == DPDK_STRANGER && d->held >= DPDK_HELD_STRANGERS
	    && !hd_neighbours_knows(d->neighbours, hop)) {
		dpdk_count(&d->counters.send_strangers, 1);
		return;
	}
	frame = make_frame(d, content);
	if (!frame)
		return;
	frame->hash.usr = queue_of(d, hop);
	known = hd_neighbours_resolve(d->neighbours, d->loop.now, hop, &to.mac);
	hd_frame_put_udp(
		&d->self,
		&to,
		bytes_of(frame),
		content->head_bytes + content->payload_bytes,
		d->offload
	);
	if (known)
		enqueue(d, (uint16_t)frame->hash.usr, frame, class);
	else
		hold(d, hop, frame);
}

void dpdk_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	const struct content content = {head, payload, head_bytes, payload ? payload_bytes : 0};

	send_to((struct hd_dpdk *)sink, payload ? DPDK_CHUNK : DPDK_CONTROL, peer, &content);
}

void dpdk_send_stranger(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *packet,
	size_t bytes
) {
	const struct content content = {packet, NULL, bytes, 0};

	send_to((struct hd_dpdk *)sink, DPDK_STRANGER, peer, &content);
}
