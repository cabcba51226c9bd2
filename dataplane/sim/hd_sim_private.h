/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HD_SIM_PRIVATE_H
#define HD_SIM_PRIVATE_H

#include "hd_limits.h"
#include "hd_random.h"
#include "hd_sim.h"
#include "hd_sim_queue.h"

#define SIM_SPIN_MAX 100000 /* ticks of one node at one moment */
#define SIM_CUT_PAIRS_MAX 64
#define SIM_LOCAL_DELAY (5 * HD_US) /* between nodes of one host */
#define SIM_SIZES 3 /* classes of packet memory: control, MTU 1500, MTU 9000 */

enum sim_event_kind {
	SIM_EVENT_LINK, /* the head of a link's FIFO arrives */
	SIM_EVENT_PACKET, /* a packet outside any FIFO arrives */
	SIM_EVENT_NODE, /* a node's deadline */
	SIM_EVENT_CALL,
	SIM_EVENT_FLOW /* a flow's timeout */
};

/* Payloads follow in the same block. */
struct sim_packet {
	struct sim_packet *next;
	hd_ns at; /* of its arrival at the end of its current link */
	uint64_t order; /* insertion order of that arrival */
	struct hd_addr from, to;
	uint32_t from_host, to_host;
	uint32_t bytes; /* payload of nodes' packets */
	uint32_t frame_bytes;
	uint32_t size; /* which free list */
	int32_t flow; /* -1: a node's */
	bool made; /* by a switch that processes packets */
	uint64_t number; /* flow: segment acknowledged or carried */
	hd_ns sent; /* flow: echo for the RTT */
	bool ack; /* flow: an acknowledgement */
	uint8_t data[];
};

struct sim_link {
	struct hd_sim_link config;
	hd_ns busy_until;
	hd_ns queue_ns; /* queue_bytes as time at the current rate */
	struct sim_packet *head, *tail; /* queued or in flight, by arrival */
	int32_t leads; /* leads to this switch; -1: to a host */
	bool first; /* the first of a path: up from a host */
	bool armed; /* the queue has an event for the head */
	struct hd_sim_link_stats stats;
};

struct sim_node;

struct sim_trunk {
	int32_t ends[2];
	struct sim_link link[2]; /* towards that end */
};

#define SIM_NO_PATH UINT16_MAX

struct sim_host {
	struct sim_link link[2]; /* by enum hd_sim_direction */
	int32_t at; /* its switch */
	bool cut;
	uint64_t card[2]; /* bytes of nodes' frames at the card, by enum hd_sim_direction */
	struct sim_node *nodes; /* few */
};

struct sim_node {
	struct hd_sink sink; /* first: the sink's functions cast back */
	struct hd_sim *sim;
	struct sim_node *next; /* on this host */
	int index;
	struct hd_sim_node_config config;
	struct hd_addr address;
	bool runs;
	bool frozen;
	struct sim_packet *held, **held_end; /* while frozen: in the socket's buffer */
	uint32_t held_bytes;
	struct hd_node core;
	hd_ns wake_at; /* sim time of the valid event */
	hd_ns spin_at;
	uint32_t spins;
};

struct sim_call {
	struct sim_call *next; /* free list */
	void (*call)(void *owner, hd_ns now);
	void *owner;
};

struct sim_flow;

struct hd_sim {
	hd_ns now;
	uint64_t order; /* of the next event */
	struct sim_queue queue;
	struct hd_random random;
	struct hd_sim_faults faults;
	bool faulty;
	struct hd_sim_path path;
	struct sim_host *hosts;
	uint32_t host_count;
	uint32_t switch_count, trunk_count;
	struct sim_trunk trunks[HD_SIM_TRUNKS_MAX];
	/* The first link of the path from one switch to another: trunk * 2 + end, or SIM_NO_PATH. */
	uint16_t next_hops[HD_SIM_SWITCHES_MAX][HD_SIM_SWITCHES_MAX];
	struct sim_node **nodes;
	uint32_t node_count, node_capacity;
	struct sim_flow **flows;
	uint32_t flow_count;
	struct {
		int a, b;
	} cut_pair[SIM_CUT_PAIRS_MAX];
	uint32_t cut_pair_count;
	struct sim_packet *free_packets[SIM_SIZES];
	struct sim_call *free_calls;
	struct sim_block *blocks; /* all memory of packets and calls */
	const char *failure;
	struct hd_sim_stats stats;
};

/* hd_sim.c */
void *sim_allocate(struct hd_sim *sim, size_t bytes); /* lives as long as the simulation */
void sim_push(struct hd_sim *sim, hd_ns at, enum sim_event_kind kind, void *subject);

/* hd_sim_topology.c */
/* The next link of a packet from a switch; NULL: there is no path. */
struct sim_link *sim_link_from(struct hd_sim *sim, int32_t at, const struct sim_packet *packet);

/* hd_sim_net.c */
struct sim_packet *sim_packet_get(struct hd_sim *sim, size_t bytes);
void sim_packet_put(struct hd_sim *sim, struct sim_packet *packet);
/* Sends a packet from its from_host; consumes it. */
void sim_transmit(struct hd_sim *sim, struct sim_packet *packet);
void sim_link_event(struct hd_sim *sim, struct sim_link *link);
void sim_packet_event(struct hd_sim *sim, struct sim_packet *packet);

/* hd_sim_node.c */
/* Consumes the packet. */
void sim_node_deliver(struct hd_sim *sim, struct sim_packet *packet);
void sim_node_event(struct hd_sim *sim, struct sim_node *node);

/* hd_sim_flow.c */
/* A frame of the flow passed a card. */
void sim_flow_count(
	struct hd_sim *sim,
	const struct sim_packet *packet,
	enum hd_sim_direction direction
);
void sim_flow_deliver(struct hd_sim *sim, const struct sim_packet *packet);
void sim_flow_event(struct hd_sim *sim, struct sim_flow *flow);

#endif
