/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node is a core and a driver.
 *
 *      driver (udp, dpdk, sim)                core (controller, server, worker)
 *      -----------------------                ---------------------------------
 *      packets arrived      -- receive() -->
 *      deadline has passed  -- tick() ----->  deterministic state machine
 *                           <-- send ------   (through the sink, during either call)
 *                           <-- event -----
 *      sleeps until deadline()
 *
 * A core never reads a clock, opens a socket, takes a lock, draws a random number or blocks. Its constructor is given
 * 32 bytes of entropy; everything random in it is derived from them. The same calls with the same arguments produce the
 * same calls into the sink.
 */
#ifndef HD_NODE_H
#define HD_NODE_H

#include "hd_types.h"

struct hd_event;

/* One received UDP payload. The bytes belong to the driver and are valid during receive() only. */
struct hd_packet {
	struct hd_addr peer;
	const uint8_t *data;
	size_t bytes;
	/* Where it arrived; ipv4 0: unknown, as the node is bound to any address; port 0: unknown too. */
	struct hd_addr local;
	hd_ns at; /* when it arrived: not before the core's last call, not after this one. 0: now */
};

/* The time of a packet's arrival in a call of receive(). */
static inline hd_ns hd_packet_at(const struct hd_packet *packet, hd_ns now) {
	return packet->at != 0 ? packet->at : now;
}

/* The receiver of a core's output. A driver embeds this struct in its own. */
struct hd_sink {
	/*
	 * Sends one UDP payload made of head followed by payload (payload may be NULL, 0 bytes). The head is copied
	 * during the call. The payload is referenced until the current receive() or tick() call returns, and must not
	 * change before. Packets to one peer leave in the order of the calls, but those without a payload overtake
	 * waiting ones with a payload. There is no error: what cannot be sent is lost, and counted by the driver.
	 */
	void (*send
	)(struct hd_sink *sink,
	  struct hd_addr peer,
	  const void *head,
	  size_t head_bytes,
	  const void *payload,
	  size_t payload_bytes);
	/*
	 * Sends an answer to an address that has not yet proven that it receives packets. Such answers use a bounded
	 * share of the driver's buffers and are dropped when it is full, so that forged source addresses cannot keep
	 * packets to known peers from leaving. NULL: send() is used.
	 */
	void (*send_stranger
	)(struct hd_sink *sink, struct hd_addr peer, const void *packet, size_t bytes);
	/* Reports an event, for traces, journals and invariant checkers. May be NULL. */
	void (*event)(struct hd_sink *sink, const struct hd_event *event);
	hd_ns whole_at; /* hd_sink_expect() */
};

/* Chunks came of a transfer that will be whole at this time, if they go on coming as they do. A driver for which it
 * costs less may leave further packets where they are until the earliest of these times, but not for long. 0: at any
 * time. Without this call it does not. */
static inline void hd_sink_expect(struct hd_sink *sink, hd_ns whole_at) {
	if (sink->whole_at == HD_NEVER || whole_at < sink->whole_at)
		sink->whole_at = whole_at;
}

static inline void
hd_sink_send_stranger(struct hd_sink *sink, struct hd_addr peer, const void *packet, size_t bytes) {
	if (sink->send_stranger)
		sink->send_stranger(sink, peer, packet, bytes);
	else
		sink->send(sink, peer, packet, bytes, NULL, 0);
}

/* The state machine's interface to any driver. Calls on one core never overlap. `now` never decreases. */
struct hd_core_ops {
	void (*receive
	)(void *core, hd_ns now, const struct hd_packet *packets, size_t count, struct hd_sink *sink
	);
	void (*tick)(void *core, hd_ns now, struct hd_sink *sink);
	/* When tick() should be called next: HD_NEVER, or a time (in the past: at once). */
	hd_ns (*deadline)(const void *core);
};

struct hd_node {
	const struct hd_core_ops *ops;
	void *core;
};

#endif
