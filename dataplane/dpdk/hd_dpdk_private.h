/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the dpdk driver. One thread runs it; others stop and wake it and read its counters.
 *
 *   port queues -> rte_eth_rx_burst -> hd_frame_parse --- UDP ---> packets[] -> core.receive()
 *                                            |--- ARP ---> neighbours; answers
 *                                            |--- echo --> answers
 *                                            +--- drop --> a counter
 *   core -> sink.send -> mbuf (head and payload copied, headers before them)
 *                          |-- neighbour known ------> queue -> rte_eth_tx_burst
 *                          +-- unknown: held, asked --^
 *
 * Asleep on the port's own descriptors where it has some (the sockets of af_packet and af_xdp; receive
 * interrupts), else in naps that grow with the silence.
 */
#ifndef HD_DPDK_PRIVATE_H
#define HD_DPDK_PRIVATE_H

#include "hd_dpdk.h"
#include "hd_dpdk_port.h"
#include "hd_frame.h"
#include "hd_limits.h"
#include "hd_loop.h"
#include "hd_neighbours.h"

#include <rte_ethdev.h>

#define DPDK_BURST 128 /* frames taken from a queue at once, and handed to the core at once */
#define DPDK_ROUNDS_MAX 4 /* bursts of each queue before the core's timers get their turn */
#define DPDK_SEND_BURST 64
#define DPDK_SEND_WAIT_US 5000 /* for room in a full ring, before what waits is given up */
/* Both take buffers from the pool of the port, which has 2,048 with af_packet and needs them to receive. */
#define DPDK_WAITING_MAX 512 /* frames that wait for room in full rings, of all queues */
#define DPDK_HELD_MAX 512 /* frames that wait for an Ethernet address */
#define DPDK_HELD_STRANGERS 64 /* while so many are held, answers to strangers are not */
#define DPDK_KICK_US 100 /* between two tries to get a full qdisc to take what the ring holds */
#define DPDK_NAP_MIN_US 20 /* without descriptors */
#define DPDK_NAP_MAX_US 10000
#define DPDK_ECHO_PER_S 1000
#define DPDK_ARP_WAITING                                                                           \
	16 /* answers into a full ring in DPDK_SEND_WAIT_US: who asks has no right to more of it */
#define DPDK_ERRORS_NS HD_SECOND /* between two looks for errors of who never sleeps */
#define DPDK_OTHER_MEMORY (24u << 20) /* beside the buffers */

/* Counters: X(field, unit, help). Those of dropped frames follow from HD_FRAME_REASONS. */
#define DPDK_COUNTERS(X)                                                                           \
	X(received_frames, "frames", "taken from the port")                                        \
	X(receive_calls, "bursts", "bursts that brought something")                                \
	X(received_packets, "packets", "UDP packets handed to the node")                           \
	X(received_bytes, "bytes", "payload of these")                                             \
	X(unfinished_sums, "packets", "of these, with a checksum left to absent hardware")         \
	X(arp_requests, "frames", "ARP questions that came")                                       \
	X(arp_limited, "frames", "of these, not answered: the port's ring was full")               \
	X(arp_answers, "frames", "ARP answers that came")                                          \
	X(echo_requests, "frames", "ICMP echo requests that came")                                 \
	X(echo_limited, "frames", "of these, not answered: too many a second")                     \
	X(drop_segmented, "frames", "dropped: longer than a buffer")                               \
	X(sent_frames, "frames", "taken by the port")                                              \
	X(sent_packets, "packets", "UDP packets taken by the port")                                \
	X(sent_bytes, "bytes", "payload of the packets that the node sent")                        \
	X(arp_asked, "frames", "ARP questions sent")                                               \
	X(arp_answered, "frames", "ARP answers sent")                                              \
	X(echo_answered, "frames", "ICMP echo replies sent")                                       \
	X(arp_given_up, "addresses", "that nobody answered for")                                   \
	X(arp_evicted, "addresses", "forgotten because the table was full")                        \
	X(arp_moved, "addresses", "that another station has now")                                  \
	X(arp_ignored, "answers", "not learnt: unasked for, or a move too soon after the last")    \
	X(send_calls, "bursts", "bursts given to the port")                                        \
	X(send_errors, "packets", "not sent: the port's ring stayed full")                         \
	X(send_too_long, "packets", "not sent: beyond the MTU")                                    \
	X(send_no_route, "packets", "not sent: beyond our network, and no gateway")                \
	X(send_unresolved, "packets", "not sent: nobody answered for the address")                 \
	X(send_strangers, "packets", "answers to strangers not sent: beyond their share")          \
	X(no_buffer, "frames", "not sent: no buffer left")                                         \
	X(ring_kicks, "calls", "tries to get a full qdisc to take more")                           \
	X(polls, "polls", "rounds of the driver's loop")                                           \
	X(idle_polls, "polls", "of these, with nothing to do")                                     \
	X(port_errors, "errors", "of the port's descriptors: the link went down")                  \
	X(receive_overflow, "frames", "lost to a full receive ring")

/* writer: the driver's thread (receive_overflow: who reads it), readers: any */
struct dpdk_counters {
#define DPDK_COUNTER_FIELD(field, unit, help) _Atomic uint64_t field;
	DPDK_COUNTERS(DPDK_COUNTER_FIELD)
#undef DPDK_COUNTER_FIELD
	_Atomic uint64_t drop[HD_FRAME_REASON_COUNT];
};

/* One writer: no locked instruction. */
static inline void dpdk_count(_Atomic uint64_t *counter, uint64_t n) {
	uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, value + n, memory_order_relaxed);
}

/* Of each queue. */
struct dpdk_queue_counters {
	_Atomic uint64_t lost; // frames lost to a full receive ring; writer: who reads it
	_Atomic uint64_t found_bytes; // by the last look; writer: the driver's thread
	_Atomic uint64_t given_up; // frames not sent; writer: the driver's thread
};

enum dpdk_class {
	DPDK_CONTROL,
	DPDK_CHUNK,
	DPDK_STRANGER
};

/* At most a burst, and while the port's ring is full what waits for room. */
struct dpdk_send_queue {
	uint16_t count, control; /* the first of them are control */
	hd_ns full_since; /* when the ring last took something, 0: it is not full */
	struct rte_mbuf *frames[DPDK_SEND_BURST + DPDK_WAITING_MAX];
};

struct hd_dpdk {
	struct hd_sink sink; /* first: the sink's functions cast back */
	struct hd_dpdk_config config;
	struct hd_loop loop;
	struct dpdk_port port;
	unsigned offload; /* HD_FRAME_OFFLOAD_*: what the port does for us */
	struct hd_frame_self self;
	uint32_t network, mask;
	struct hd_neighbours *neighbours;
	hd_ns busy_at; /* when something last arrived */
	hd_ns errors_at; /* when errors were last looked for without a sleep */
	bool backlog; /* the ring holds frames that a full qdisc did not take */
	uint32_t waiting; /* frames of queues whose ring is full */
	uint32_t held; /* frames in `neighbours` */
	hd_ns retry_at; /* full rings are tried again; HD_NEVER: none is full */
	bool registered; /* this thread with EAL */
	uint32_t echo_credit;
	hd_ns echo_at;
	uint32_t arp_credit; /* answers into a full ring */
	hd_ns arp_at;
	struct dpdk_counters counters;
	struct dpdk_queue_counters queue[DPDK_QUEUES_MAX];
	/* counters.receive_overflow and queue[], for readers of a const driver */
	_Atomic uint64_t *overflow;
	struct dpdk_queue_counters *queue_counters;
	struct dpdk_send_queue send[DPDK_QUEUES_MAX];
	struct rte_mbuf *frames[DPDK_BURST];
	struct hd_packet packets[DPDK_BURST];
};

/* --- hd_dpdk_node.c ------------------------------------------------------------------------------- */
/* The port of a node, with its XDP program and a way to sleep on it. 0 or -errno, and nothing of it is left. */
int dpdk_open_port(struct hd_dpdk *d, char *error, size_t error_bytes);
void dpdk_close_port(struct hd_dpdk *d);
/* dpdk_kick_port(), counted; sets d->backlog. */
void dpdk_kick(struct hd_dpdk *d);

/* --- hd_dpdk_recv.c -------------------------------------------------------------------------- */
/* Takes what the port has and hands it to the node. Returns how many frames. */
uint32_t dpdk_receive(struct hd_dpdk *d, struct hd_node node);

/* --- hd_dpdk_send.c -------------------------------------------------------------------------- */
extern const struct hd_neighbour_ops dpdk_neighbour_ops;
/* Implements hd_sink.send. */
void dpdk_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
);
/* The answers; buffers come from the port's pool. */
void dpdk_answer_arp(struct hd_dpdk *d, const struct hd_frame *request);
void dpdk_answer_echo(struct hd_dpdk *d, const struct hd_frame *request);
/* Implements hd_sink.send_stranger. */
void dpdk_send_stranger(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *packet,
	size_t bytes
);
/* Hands over what the port takes now. Never waits. */
void dpdk_flush(struct hd_dpdk *d);
void dpdk_free_unsent(struct hd_dpdk *d);

/* --- hd_dpdk_counters.c ---------------------------------------------------------------------- */
/* Makes the driver's counters readable through rte_telemetry: /heddle/driver. */
void dpdk_publish(struct hd_dpdk *d);
void dpdk_retire(struct hd_dpdk *d);

#endif
