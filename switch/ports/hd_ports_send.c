/* SPDX-License-Identifier: BSD-3-Clause */
/* From queues to ports. If a port takes only part of a burst, the rest is sent later. */
#include "hd_ports_private.h"
#include "hd_switch_priority.h"

/* Only if no other frame shares the headers. */
static void mark(struct rte_mbuf *frame, bool own) {
	if (own || (RTE_MBUF_DIRECT(frame) && rte_mbuf_refcnt_read(frame) == 1))
		(void
		)hd_switch_mark_congestion(rte_pktmbuf_mtod(frame, uint8_t *), frame->data_len);
}

static void enqueue(struct hd_ports *p, uint32_t index, struct rte_mbuf *frame, bool own) {
	const uint8_t *data = rte_pktmbuf_mtod(frame, const uint8_t *);

	switch (hd_switch_queue_put(
		p->ports[index].queue,
		hd_switch_class_of(data, frame->data_len),
		frame,
		frame->pkt_len
	)) {
	case HD_SWITCH_PUT_FULL:
		rte_pktmbuf_free(frame);
		return;
	case HD_SWITCH_PUT_MARK:
		mark(frame, own);
		break;
	case HD_SWITCH_PUT_TAKEN:
		break;
	}
	p->waiting |= UINT64_C(1) << index;
}

/* Frames left in af_packet's ring are checked a moment later. */
static void expect_rest(struct hd_ports *p, uint32_t index) {
	uint64_t bit = UINT64_C(1) << index;

	if ((p->rings & bit) == 0 || (p->kicked & bit))
		return;
	p->kicked |= bit;
	p->ports[index].kick_at = hd_ns_add(p->now, PORTS_KICK_US * HD_US);
}

/* Frames that the port refuses wait in the queue. */
static void send_direct(struct hd_ports *p, uint32_t index) {
	struct switch_port *port = &p->ports[index];
	uint16_t count = port->direct_count;
	uint16_t taken = rte_eth_tx_burst(port->eth.id, 0, port->direct, count);

	port->counts.direct_bytes += port->direct_bytes;
	port->counts.direct += taken;
	port->counts.sends += taken > 0;
	port->counts.stalls += taken < count;
	for (uint16_t i = taken; i < count; i++) {
		port->counts.direct_bytes -= port->direct[i]->pkt_len;
		enqueue(p, index, port->direct[i], false);
	}
	port->direct_count = 0;
	port->direct_bytes = 0;
	p->direct &= ~(UINT64_C(1) << index);
	expect_rest(p, index);
}

void ports_put(struct hd_ports *p, uint32_t index, struct rte_mbuf *frame, bool own) {
	if (p->ports[index].direct_count == PORTS_SEND_BURST)
		send_direct(p, index);
	if (ports_direct_room(p, index) == 0) {
		enqueue(p, index, frame, own);
		return;
	}
	*ports_direct_place(p, index) = frame;
	ports_put_direct(p, index, 1, frame->pkt_len);
}

/* Frames for which a qdisc had no room stay in af_packet's ring until the next send call. */
static void kick(struct hd_ports *p, uint32_t index) {
	p->kicked &= ~(UINT64_C(1) << index);
	if (dpdk_kick_port(&p->ports[index].eth))
		expect_rest(p, index);
}

static void stall(struct hd_ports *p, struct switch_port *port, bool moved) {
	port->counts.stalls++;
	port->stall_us = moved || port->stall_us == 0 ?
		PORTS_STALL_US :
		RTE_MIN(2 * port->stall_us, PORTS_STALL_MAX_US);
	port->stalled_until = hd_ns_add(p->now, port->stall_us * HD_US);
}

/*
 * Sends bursts until the queue or its link has no more, or the port takes no more. The port owns the frames that it
 * took; the rest stays first in the queue. True: it took some.
 */
static bool send_port(struct hd_ports *p, struct switch_port *port) {
	struct rte_mbuf *frames[PORTS_SEND_BURST];
	bool moved = false;

	if (port->stalled_until > p->now)
		return false;
	port->stalled_until = 0;
	for (;;) {
		uint32_t count = hd_switch_queue_ready(
			port->queue, p->now, (void **)frames, PORTS_SEND_BURST
		);
		uint16_t taken;

		if (count == 0)
			return moved;
		taken = rte_eth_tx_burst(port->eth.id, 0, frames, (uint16_t)count);
		hd_switch_queue_sent(port->queue, taken);
		port->counts.sends += taken > 0;
		moved |= taken > 0;
		if (taken < count)
			break;
	}
	stall(p, port, moved);
	return moved;
}

void ports_send(struct hd_ports *p) {
	for (uint64_t left = p->direct; left; left &= left - 1)
		send_direct(p, (uint32_t)__builtin_ctzll(left));
	for (uint64_t left = p->waiting; left; left &= left - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(left);

		if (send_port(p, &p->ports[index]))
			expect_rest(p, index);
		if (hd_switch_queue_deadline(p->ports[index].queue) == HD_NEVER)
			p->waiting &= ~(UINT64_C(1) << index);
	}
	for (uint64_t left = p->kicked; left; left &= left - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(left);

		if (p->ports[index].kick_at <= p->now)
			kick(p, index);
	}
}

hd_ns ports_send_deadline(const struct hd_ports *p) {
	hd_ns deadline = p->direct ? 0 : HD_NEVER;

	for (uint64_t left = p->waiting; left; left &= left - 1) {
		const struct switch_port *port = &p->ports[__builtin_ctzll(left)];
		hd_ns ready = hd_switch_queue_deadline(port->queue);

		deadline = hd_ns_min(deadline, hd_ns_max(ready, port->stalled_until));
	}
	for (uint64_t left = p->kicked; left; left &= left - 1)
		deadline = hd_ns_min(deadline, p->ports[__builtin_ctzll(left)].kick_at);
	return deadline;
}
