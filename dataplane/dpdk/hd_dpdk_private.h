/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to the dpdk driver. One thread runs it; others stop and wake it and read its counters.
 *
 *   port queues -> rte_eth_rx_burst -> hd_frame_parse --- UDP ---> packets[] -> core.receive()
 *                                            |--- ARP ---> neighbours; answers
 *                                            |--- echo --> answers
 *                                            +--- drop --> a counter
 *   core -> sink.send -> mbuf (head and payload copied, headers before them)
 *                          |-- neighbour known ------> queue -> rte_eth_tx_burst
 *                          +-- unknown: held, asked --^
 *
 * It sleeps on the port's descriptors if there are any (the sockets of af_packet and af_xdp; receive interrupts), else
 * in naps that grow with the silence.
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

#define DPDK_BURST 128 /* frames per receive burst and per call into the core */
#define DPDK_ROUNDS_MAX 4 /* bursts of each queue before the core's timers are served */
#define DPDK_SEND_BURST 64
#define DPDK_SEND_WAIT_US 5000 /* wait for room in a full ring before frames are given up */
/* Both use buffers of the port's pool, which has 2,048 with af_packet and needs them to receive. */
#define DPDK_WAITING_MAX 512 /* frames that wait for room in full rings, of all queues */
#define DPDK_HELD_MAX 512 /* frames that wait for an Ethernet address */
#define DPDK_HELD_STRANGERS 64 /* above this, answers to strangers are not held */
#define DPDK_KICK_US 100 /* between two tries to make a full qdisc take the ring's frames */
#define DPDK_NAP_MIN_US 20 /* when there is no descriptor to sleep on */
#define DPDK_NAP_MAX_US 10000
#define DPDK_ECHO_PER_S 1000
#define DPDK_ARP_WAITING                                                                           \
	16 /* answers into a full ring in DPDK_SEND_WAIT_US: a limit for ARP requests */
#define DPDK_ERRORS_NS HD_SECOND /* between two error checks of a driver that never sleeps */
#define DPDK_OTHER_MEMORY (24u << 20) /* besides the buffers */

/* Counters: X(field, unit, help). Those of dropped frames are made from HD_FRAME_REASONS. */
#define DPDK_COUNTERS(X)                                                                           \
	X(received_frames, "frames", "frames received from the port")                              \
	X(receive_calls, "bursts", "bursts that received something")                               \
	X(received_packets, "packets", "UDP packets passed to the node")                           \
	X(received_bytes, "bytes", "payload of the UDP packets passed to the node")                \
	X(unfinished_sums,                                                                         \
	  "packets",                                                                               \
	  "UDP packets received with an unfinished checksum (offload without hardware)")           \
	X(arp_requests, "frames", "ARP requests received")                                         \
	X(arp_limited, "frames", "ARP requests not answered: the ring of the port was full")       \
	X(arp_answers, "frames", "ARP replies received")                                           \
	X(echo_requests, "frames", "ICMP echo requests received")                                  \
	X(echo_limited, "frames", "ICMP echo requests not answered: rate limit")                   \
	X(drop_segmented, "frames", "dropped: longer than a packet buffer")                        \
	X(sent_frames, "frames", "frames that the port accepted")                                  \
	X(sent_packets, "packets", "UDP packets that the port accepted")                           \
	X(sent_bytes, "bytes", "payload of the packets sent by the node")                          \
	X(arp_asked, "frames", "ARP requests sent")                                                \
	X(arp_answered, "frames", "ARP replies sent")                                              \
	X(echo_answered, "frames", "ICMP echo replies sent")                                       \
	X(arp_given_up, "addresses", "addresses that no station answered for")                     \
	X(arp_evicted, "addresses", "addresses removed because the table was full")                \
	X(arp_moved, "addresses", "addresses that moved to another station")                       \
	X(arp_ignored,                                                                             \
	  "answers",                                                                               \
	  "ARP replies ignored: not requested, or the address moved again too soon")               \
	X(send_calls, "bursts", "bursts sent to the port")                                         \
	X(send_errors, "packets", "not sent: the ring of the port stayed full")                    \
	X(send_too_long, "packets", "not sent: longer than the MTU")                               \
	X(send_no_route, "packets", "not sent: outside our network, and no gateway")               \
	X(send_unresolved, "packets", "not sent: no station answered for the address")             \
	X(send_strangers,                                                                          \
	  "packets",                                                                               \
	  "answers to unverified addresses not sent: beyond their share of buffers")               \
	X(no_buffer, "frames", "not sent: no packet buffer was free")                              \
	X(ring_kicks, "calls", "system calls that make a full qdisc accept more")                  \
	X(polls, "polls", "iterations of the driver's loop")                                       \
	X(idle_polls, "polls", "iterations of the loop that found nothing to do")                  \
	X(port_errors, "errors", "errors of the port's file descriptors: the link went down")      \
	X(receive_overflow, "frames", "frames lost because the receive ring was full")

/* writer: the driver's thread (receive_overflow: its reader), readers: any */
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

/* Counters of one queue. */
struct dpdk_queue_counters {
	_Atomic uint64_t lost; // frames lost to a full receive ring; writer: the reader
	_Atomic uint64_t found_bytes; // at the last look; writer: the driver's thread
	_Atomic uint64_t given_up; // frames not sent; writer: the driver's thread
};

enum dpdk_class {
	DPDK_CONTROL,
	DPDK_CHUNK,
	DPDK_STRANGER
};

/* At most a burst, and frames that wait while the port's ring is full. */
struct dpdk_send_queue {
	uint16_t count, control; /* control: the first ones */
	hd_ns full_since; /* when the full ring last took a frame, 0: it is not full */
	struct rte_mbuf *frames[DPDK_SEND_BURST + DPDK_WAITING_MAX];
};

struct hd_dpdk {
	struct hd_sink sink; /* first: the sink's functions cast back */
	struct hd_dpdk_config config;
	struct hd_loop loop;
	struct dpdk_port port;
	unsigned offload; /* HD_FRAME_OFFLOAD_*: offloads of the port */
	struct hd_frame_self self;
	uint32_t network, mask;
	struct hd_neighbours *neighbours;
	hd_ns busy_at; /* when a frame last arrived */
	hd_ns errors_at; /* when errors were last checked without a sleep */
	bool backlog; /* the ring holds frames that a full qdisc refused */
	uint32_t waiting; /* frames of queues whose ring is full */
	uint32_t held; /* frames in `neighbours` */
	hd_ns retry_at; /* when full rings are tried again; HD_NEVER: none is full */
	bool registered; /* this thread is registered with EAL */
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
/* Opens a node's port, with its XDP program and a way to sleep on it. 0 or -errno, with nothing left open. */
int dpdk_open_port(struct hd_dpdk *d, char *error, size_t error_bytes);
void dpdk_close_port(struct hd_dpdk *d);
/* dpdk_kick_port(), counted; sets d->backlog. */
void dpdk_kick(struct hd_dpdk *d);

/* --- hd_dpdk_recv.c -------------------------------------------------------------------------- */
/* Receives the port's frames and passes them to the node. Returns their number. */
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
/* Answers; their buffers come from the port's pool. */
void dpdk_answer_arp(struct hd_dpdk *d, const struct hd_frame *request);
void dpdk_answer_echo(struct hd_dpdk *d, const struct hd_frame *request);
/* Implements hd_sink.send_stranger. */
void dpdk_send_stranger(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *packet,
	size_t bytes
);
/* Passes as many frames to the port as it takes now. Never waits. */
void dpdk_flush(struct hd_dpdk *d);
void dpdk_free_unsent(struct hd_dpdk *d);

/* --- hd_dpdk_counters.c ---------------------------------------------------------------------- */
/* Publishes the driver's counters through rte_telemetry: /heddle/driver. */
void dpdk_publish(struct hd_dpdk *d);
void dpdk_retire(struct hd_dpdk *d);

#endif
