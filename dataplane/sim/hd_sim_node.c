/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes: their clocks, their deadlines, and the sink that turns their output into packets. */
#include "hd_sim_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A node's clock: offset + t (1 + skew). Rounds down. */
static hd_ns node_time(const struct hd_sim_clock *clock, hd_ns t) {
	int64_t drift = clock->skew_ppm == 0 ? 0 : (int64_t)t * clock->skew_ppm / 1000000;

	return (hd_ns)((int64_t)t + drift + clock->offset_ns);
}

/* The least sim time at which the node's clock shows `at` or more. */
static hd_ns sim_time(const struct hd_sim_clock *clock, hd_ns at) {
	int64_t base = (int64_t)at - clock->offset_ns;
	hd_ns t;

	if (at > INT64_MAX)
		return HD_NEVER;
	if (base <= 0)
		return 0;
	if (clock->skew_ppm == 0)
		return (hd_ns)base;
	t = (hd_ns)((double)base / (1 + clock->skew_ppm * 1e-6));
	while (t > 0 && node_time(clock, t - 1) >= at)
		t--;
	while (node_time(clock, t) < at)
		t++;
	return t;
}

hd_ns hd_sim_node_now(const struct hd_sim *sim, int node) {
	return node_time(&sim->nodes[node]->config.clock, sim->now);
}

static int host_of(const struct hd_sim *sim, struct hd_addr address) {
	uint32_t host = address.ipv4 - hd_sim_address(0, 0).ipv4;

	return host < sim->host_count ? (int)host : -1;
}

static struct sim_node *find_node(const struct hd_sim *sim, struct hd_addr address) {
	int host = host_of(sim, address);
	struct sim_node *node = host >= 0 ? sim->hosts[host].nodes : NULL;

	while (node && node->address.port != address.port)
		node = node->next;
	return node;
}

static void node_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct sim_node *node = (struct sim_node *)sink;
	struct hd_sim *sim = node->sim;
	size_t bytes = head_bytes + (payload ? payload_bytes : 0);
	int host = host_of(sim, peer);
	struct sim_packet *packet;

	if (bytes > HD_PACKET_BYTES_MAX || host < 0) {
		sim->stats.no_node++;
		return;
	}
	packet = sim_packet_get(sim, bytes);
	if (!packet)
		return;
	packet->from = node->address;
	packet->to = peer;
	packet->from_host = (uint32_t)node->config.host;
	packet->to_host = (uint32_t)host;
	packet->bytes = (uint32_t)bytes;
	packet->frame_bytes = (uint32_t)bytes + HD_SIM_FRAME_BYTES;
	packet->flow = -1;
	packet->made = false;
	if (head_bytes > 0)
		memcpy(packet->data, head, head_bytes);
	if (payload)
		memcpy(packet->data + head_bytes, payload, payload_bytes);
	sim_transmit(sim, packet);
}

static void node_event(struct hd_sink *sink, const struct hd_event *event) {
	struct sim_node *node = (struct sim_node *)sink;

	node->config.event(node->config.owner, node->index, event);
}

/* Picks the port and refuses a used one. */
static int choose_address(struct hd_sim *sim, const struct hd_sim_node_config *config) {
	uint16_t port = config->port ? config->port : HD_PORT;

	while (find_node(sim, hd_sim_address(config->host, port))) {
		if (config->port != 0 || port == UINT16_MAX)
			return -EADDRINUSE;
		port++;
	}
	return port;
}

static int grow_nodes(struct hd_sim *sim) {
	uint32_t capacity = sim->node_capacity ? sim->node_capacity * 2 : 64;
	struct sim_node **grown;

	if (sim->node_count < sim->node_capacity)
		return 0;
	if (capacity > HD_SIM_HOSTS_MAX)
		return -ENOSPC;
	grown = realloc(sim->nodes, capacity * sizeof(struct sim_node *));
	if (!grown)
		return -ENOMEM;
	sim->nodes = grown;
	sim->node_capacity = capacity;
	return 0;
}

int hd_sim_node(struct hd_sim *sim, const struct hd_sim_node_config *config) {
	int port = choose_address(sim, config);
	struct sim_node *node;
	int code = grow_nodes(sim);

	assert(config->host >= 0 && (uint32_t)config->host < sim->host_count);
	if (port < 0 || code < 0)
		return port < 0 ? port : code;
	node = sim_allocate(sim, sizeof *node);
	if (!node)
		return -ENOMEM;
	*node = (struct sim_node){
		.sink = {.send = node_send, .event = config->event ? node_event : NULL},
		.sim = sim,
		.index = (int)sim->node_count,
		.config = *config,
		.address = hd_sim_address(config->host, (uint16_t)port),
		.wake_at = HD_NEVER,
		.next = sim->hosts[config->host].nodes,
	};
	node->held_end = &node->held;
	sim->hosts[config->host].nodes = node;
	sim->nodes[sim->node_count++] = node;
	return node->index;
}

/* Makes sure that the node's deadline is in the queue. An earlier event in the queue may stay: it checks the deadline
 * again. */
static void schedule(struct hd_sim *sim, struct sim_node *node) {
	hd_ns deadline = node->core.ops->deadline(node->core.core);
	hd_ns at = hd_ns_max(sim_time(&node->config.clock, deadline), sim->now);

	if (at >= node->wake_at)
		return;
	node->wake_at = at;
	sim_push(sim, at, SIM_EVENT_NODE, node);
}

void hd_sim_node_start(struct hd_sim *sim, int index, struct hd_node core) {
	struct sim_node *node = sim->nodes[index];

	node->core = core;
	node->runs = true;
	schedule(sim, node);
}

static void drop_held(struct hd_sim *sim, struct sim_node *node) {
	struct sim_packet *packet;

	while ((packet = node->held)) {
		node->held = packet->next;
		sim_packet_put(sim, packet);
	}
	node->held_end = &node->held;
	node->held_bytes = 0;
}

void hd_sim_node_stop(struct hd_sim *sim, int index) {
	struct sim_node *node = sim->nodes[index];

	node->runs = false;
	node->frozen = false;
	drop_held(sim, node);
	node->core = (struct hd_node){0};
}

bool hd_sim_node_runs(const struct hd_sim *sim, int index) {
	return sim->nodes[index]->runs;
}

struct hd_addr hd_sim_node_address(const struct hd_sim *sim, int index) {
	return sim->nodes[index]->address;
}

struct hd_sink *hd_sim_node_sink(struct hd_sim *sim, int index) {
	return &sim->nodes[index]->sink;
}

void hd_sim_node_poke(struct hd_sim *sim, int index) {
	if (sim->nodes[index]->runs && !sim->nodes[index]->frozen)
		schedule(sim, sim->nodes[index]);
}

static void give(struct hd_sim *sim, struct sim_node *node, struct sim_packet *packet) {
	struct hd_packet given = {
		.peer = packet->from,
		.data = packet->data,
		.bytes = packet->bytes,
		.local = node->address,
	};

	sim->stats.delivered++;
	node->core.ops->receive(
		node->core.core, node_time(&node->config.clock, sim->now), &given, 1, &node->sink
	);
	sim_packet_put(sim, packet);
}

static void hold(struct hd_sim *sim, struct sim_node *node, struct sim_packet *packet) {
	if (node->held_bytes + packet->frame_bytes > HD_SIM_SOCKET_BYTES) {
		sim->stats.overflow++;
		sim_packet_put(sim, packet);
		return;
	}
	node->held_bytes += packet->frame_bytes;
	packet->next = NULL;
	*node->held_end = packet;
	node->held_end = &packet->next;
}

void sim_node_deliver(struct hd_sim *sim, struct sim_packet *packet) {
	struct sim_node *node = find_node(sim, packet->to);

	if (!node || !node->runs) {
		sim->stats.no_node++;
		sim_packet_put(sim, packet);
		return;
	}
	if (node->frozen) {
		hold(sim, node, packet);
		return;
	}
	give(sim, node, packet);
	if (node->runs)
		schedule(sim, node);
}

bool hd_sim_node_frozen(const struct hd_sim *sim, int index) {
	return sim->nodes[index]->frozen;
}

void hd_sim_node_freeze(struct hd_sim *sim, int index, bool frozen) {
	struct sim_node *node = sim->nodes[index];
	struct sim_packet *packet;

	if (!node->runs || node->frozen == frozen)
		return;
	node->frozen = frozen;
	if (frozen)
		return;
	while (node->runs && (packet = node->held)) {
		node->held = packet->next;
		give(sim, node, packet);
	}
	drop_held(sim, node);
	if (node->runs)
		schedule(sim, node);
}

static void count_spin(struct hd_sim *sim, struct sim_node *node) {
	if (node->spin_at != sim->now) {
		node->spin_at = sim->now;
		node->spins = 0;
	}
	if (++node->spins > SIM_SPIN_MAX)
		sim->failure = "a node asks for ticks without end at one moment";
}

void sim_node_event(struct hd_sim *sim, struct sim_node *node) {
	hd_ns now = node_time(&node->config.clock, sim->now);

	if (node->wake_at != sim->now)
		return; /* an earlier event replaced this one */
	node->wake_at = HD_NEVER;
	if (!node->runs || node->frozen)
		return;
	if (node->core.ops->deadline(node->core.core) <= now) {
		sim->stats.ticks++;
		count_spin(sim, node);
		node->core.ops->tick(node->core.core, now, &node->sink);
	}
	if (node->runs)
		schedule(sim, node);
}
