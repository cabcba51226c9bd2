/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sim driver: any number of nodes in one process, in virtual time, over a simulated network: a star, or several
 * switches with trunks between them.
 *
 *   node -- host -- up link --\                                /-- down link -- host -- node
 *                              [ switch ] -- trunk -- [ switch ]
 *   flow -- host -- up link --/                                \-- down link -- host -- flow (other tenants)
 *
 * A link is a FIFO of `queue_bytes` drained at `rate_bps`, then a delay of `latency`; a trunk is two, one each way.
 * Packets take the path with the fewest trunks. They and the flows of other tenants share the same queues. Everything
 * is a function of the configuration and the seed: events run by (time, insertion), and nothing depends on a pointer,
 * clock or address. One thread. Cost: an event a packet and link, no allocation a packet, each payload is copied once.
 */
#ifndef HD_SIM_H
#define HD_SIM_H

#include "hd_event.h"
#include "hd_node.h"

#define HD_SIM_HOSTS_MAX 8192
#define HD_SIM_FLOWS_MAX 4096
#define HD_SIM_SWITCHES_MAX 64
#define HD_SIM_TRUNKS_MAX 256
#define HD_SIM_FRAME_BYTES 42 /* Ethernet, IPv4 and UDP headers of a packet on a link */

struct hd_sim;

/* 0 or -ENOMEM. */
int hd_sim_create(uint64_t seed, struct hd_sim **sim);
void hd_sim_destroy(struct hd_sim *sim);

/* --- network ------------------------------------------------------------------------------- */
enum hd_sim_direction {
	HD_SIM_UP, /* host -> switch */
	HD_SIM_DOWN /* switch -> host */
};

struct hd_sim_link {
	uint64_t rate_bps; /* of frames (payload + HD_SIM_FRAME_BYTES); 0: unshaped */
	uint32_t queue_bytes; /* drop-tail limit; 0: none */
	hd_ns latency;
};

/* Adds a switch; switch 0 is there from the start. Returns its index or -ENOSPC. */
int hd_sim_switch(struct hd_sim *sim);
/* Joins two switches, with equal links each way. Returns the trunk's index or -ENOSPC. Before the first packet. */
int hd_sim_trunk(struct hd_sim *sim, int a, int b, const struct hd_sim_link *link);
/* Adds a host with equal links up and down, on switch 0. Returns its index or -ENOSPC. */
int hd_sim_host(struct hd_sim *sim, const struct hd_sim_link *link);
/* The same on another switch. */
int hd_sim_host_at(struct hd_sim *sim, int at, const struct hd_sim_link *link);
/* Takes effect for packets that enter the queue from now on. */
void hd_sim_set_rate(
	struct hd_sim *sim,
	int host,
	enum hd_sim_direction direction,
	uint64_t rate_bps
);
struct hd_addr hd_sim_address(int host, uint16_t port);

struct hd_sim_link_stats {
	uint64_t packets, bytes; /* frames that entered */
	uint64_t overflow; /* packets dropped by a full queue */
};
const struct hd_sim_link_stats *
hd_sim_link_stats(const struct hd_sim *sim, int host, enum hd_sim_direction direction);
/* Of a trunk, towards its switch b or a. */
const struct hd_sim_link_stats *
hd_sim_trunk_stats(const struct hd_sim *sim, int trunk, bool towards_b);

/* Bytes of frames that a host's network card has sent (UP) or delivered (DOWN) since the start: the nodes' own, and
 * each flow's (including its acknowledgements) in flows[index % count]. */
void hd_sim_card_counts(
	const struct hd_sim *sim,
	int host,
	enum hd_sim_direction direction,
	uint64_t *nodes,
	uint64_t *flows,
	uint32_t count
);

/* Faults applied to each packet of nodes (not of flows) at the first switch. */
struct hd_sim_faults {
	double loss, duplicate, reorder; /* probabilities */
	hd_ns reorder_delay; /* a reordered packet is late by up to this, uniform; 0: 1 ms */
};
void hd_sim_set_faults(struct hd_sim *sim, const struct hd_sim_faults *faults);
/* Cuts a host off: packets from and to it are lost. */
void hd_sim_set_cut(struct hd_sim *sim, int host, bool cut);
/* Cuts (or restores) the path between two hosts only, both directions. At most 64 pairs: -ENOSPC. */
int hd_sim_set_cut_pair(struct hd_sim *sim, int a, int b, bool cut);

/* A switch that processes packets: switch 0. */
struct hd_sim_path {
	/* A packet of a node to another host, after faults, as it leaves the switch. True: the switch consumes it. The
	 * bytes are valid during the call. NULL: the switch processes none. */
	bool (*packet
	)(void *owner, struct hd_addr from, struct hd_addr to, const uint8_t *data, size_t bytes);
	void *owner;
};
/* NULL: an ordinary switch again. */
void hd_sim_set_path(struct hd_sim *sim, const struct hd_sim_path *path);
/* Sends a packet that switch 0 makes, in the name of the host of `from`; faults apply to it, but packet() does not. */
void hd_sim_path_send(
	struct hd_sim *sim,
	struct hd_addr from,
	struct hd_addr to,
	const uint8_t *data,
	size_t bytes
);

struct hd_sim_stats {
	uint64_t events, packets, delivered, ticks;
	uint64_t lost, duplicated, reordered, cut, overflow, no_node, no_path;
};
const struct hd_sim_stats *hd_sim_stats(const struct hd_sim *sim);

#define HD_SIM_SOCKET_BYTES 425984 /* twice Linux's net.core.rmem_max, SO_RCVBUF's maximum */

/* --- nodes --------------------------------------------------------------------------------- */
struct hd_sim_clock {
	int64_t offset_ns; /* >= 0 at time 0, so that node time never underflows */
	int32_t skew_ppm;
};

struct hd_sim_node_config {
	int host;
	uint16_t port; /* 0: the first free one from HD_PORT on */
	struct hd_sim_clock clock;
	/* Called for each event that the node reports; sim time is hd_sim_now(). May be NULL. */
	void (*event)(void *owner, int node, const struct hd_event *event);
	void *owner;
};

/* Adds a node that does not run yet. Returns its index, -EADDRINUSE, -ENOSPC, -ENOMEM. */
int hd_sim_node(struct hd_sim *sim, const struct hd_sim_node_config *config);
/* Starts (restarts) it with a core; it receives packets from now on. */
void hd_sim_node_start(struct hd_sim *sim, int node, struct hd_node core);
/* Stops it at once, like a crash: the caller destroys the core. */
void hd_sim_node_stop(struct hd_sim *sim, int node);
/* Freezes it, like SIGSTOP: its clock continues, its socket takes HD_SIM_SOCKET_BYTES and then drops, nothing else
 * happens. When thawed, it gets its packets and its timers at once. */
void hd_sim_node_freeze(struct hd_sim *sim, int node, bool frozen);
bool hd_sim_node_frozen(const struct hd_sim *sim, int node);
bool hd_sim_node_runs(const struct hd_sim *sim, int node);
struct hd_addr hd_sim_node_address(const struct hd_sim *sim, int node);
/* For calls into the core from outside (a push): its sink and its clock. Call hd_sim_node_poke() afterwards, so that a
 * new deadline is noticed. */
struct hd_sink *hd_sim_node_sink(struct hd_sim *sim, int node);
hd_ns hd_sim_node_now(const struct hd_sim *sim, int node);
void hd_sim_node_poke(struct hd_sim *sim, int node);

/* --- other tenants' elastic flows ---------------------------------------------------------- */
/* An endless flow under CUBIC (RFC 9438) with 1,448-byte segments, acknowledged packet by packet; a loss is detected by
 * three later arrivals or a timeout. Its frames leave their host late by up to eight frames' time, at random, in order.
 * Returns its index, -ENOSPC, -ENOMEM. */
int hd_sim_flow(struct hd_sim *sim, int from_host, int to_host);
void hd_sim_flow_start(struct hd_sim *sim, int flow);
void hd_sim_flow_stop(struct hd_sim *sim, int flow);
uint64_t hd_sim_flow_delivered(const struct hd_sim *sim, int flow); /* payload bytes */

/* --- time ---------------------------------------------------------------------------------- */
hd_ns hd_sim_now(const struct hd_sim *sim);
/* Calls `call` at a time (>= now). Returns 0 or -ENOMEM. */
int hd_sim_at(struct hd_sim *sim, hd_ns at, void (*call)(void *owner, hd_ns now), void *owner);
/* Runs one event whose time is <= until. False when there is none (then now = until). */
bool hd_sim_advance(struct hd_sim *sim, hd_ns until);
void hd_sim_run(struct hd_sim *sim, hd_ns until);
/* NULL: no failure; else memory ran out, or a node asks for endless ticks at one moment. */
const char *hd_sim_failure(const struct hd_sim *sim);

#endif
