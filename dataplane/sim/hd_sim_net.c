/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links and packets.
 *
 *   send: t0         at the first switch: t1    (trunks)   at the host: t2
 *   | wait | frame | latency |  faults  | wait | frame | latency |
 *
 * When a packet enters a FIFO its departure is known (nothing overtakes), so a link needs one event a packet: its
 * arrival at the other end. A packet that must overtake or lag leaves the FIFO and has an event of its own.
 */
#include "hd_sim_private.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define FLOW_LATE_FRAMES 8 /* 12 kB: about a shaper's bucket */

void hd_sim_set_cut(struct hd_sim *sim, int host, bool cut) {
	assert(host >= 0 && (uint32_t)host < sim->host_count);
	sim->hosts[host].cut = cut;
}

static int find_cut_pair(const struct hd_sim *sim, int a, int b) {
	for (uint32_t i = 0; i < sim->cut_pair_count; i++)
		if ((sim->cut_pair[i].a == a && sim->cut_pair[i].b == b)
		    || (sim->cut_pair[i].a == b && sim->cut_pair[i].b == a))
			return (int)i;
	return -1;
}

int hd_sim_set_cut_pair(struct hd_sim *sim, int a, int b, bool cut) {
	int found = find_cut_pair(sim, a, b);

	if (cut == (found >= 0))
		return 0;
	if (!cut) {
		sim->cut_pair[found] = sim->cut_pair[--sim->cut_pair_count];
		return 0;
	}
	if (sim->cut_pair_count == SIM_CUT_PAIRS_MAX)
		return -ENOSPC;
	sim->cut_pair[sim->cut_pair_count].a = a;
	sim->cut_pair[sim->cut_pair_count++].b = b;
	return 0;
}

struct sim_packet *sim_packet_get(struct hd_sim *sim, size_t bytes) {
	static const uint32_t capacity[SIM_SIZES]
		= {256, HD_PACKET_BYTES_DEFAULT, HD_PACKET_BYTES_MAX};
	struct sim_packet *packet;
	uint32_t size = 0;

	while (size < SIM_SIZES - 1 && bytes > capacity[size])
		size++;
	assert(bytes <= capacity[size]);
	packet = sim->free_packets[size];
	if (packet) {
		sim->free_packets[size] = packet->next;
		return packet;
	}
	packet = sim_allocate(sim, sizeof *packet + capacity[size]);
	if (packet)
		packet->size = size;
	return packet;
}

void sim_packet_put(struct hd_sim *sim, struct sim_packet *packet) {
	packet->next = sim->free_packets[packet->size];
	sim->free_packets[packet->size] = packet;
}

static void
count_card(struct hd_sim *sim, const struct sim_packet *packet, enum hd_sim_direction direction) {
	uint32_t host = direction == HD_SIM_UP ? packet->from_host : packet->to_host;

	if (packet->flow >= 0)
		sim_flow_count(sim, packet, direction);
	else
		sim->hosts[host].card[direction] += packet->frame_bytes;
}

static void arm(struct hd_sim *sim, struct sim_link *link) {
	struct sim_entry entry = {
		.at = link->head->at,
		.order_kind = link->head->order << 3 | SIM_EVENT_LINK,
		.subject = link,
	};

	link->armed = true;
	if (sim_queue_push(&sim->queue, entry) < 0)
		sim->failure = "out of memory";
}

/* A host is no exact clock: shapers with buckets and trains of segments let each frame of a flow leave late by up to
 * this. Without it, flows that fill their host's link reach a full queue of the same rate behind it just as each frame
 * leaves that queue, and packets from any other host never find room: an endless port blackout as in "The TCP Outcast
 * Problem" (Prakash et al., NSDI 2012). The remedy is Floyd and Jacobson's ("Traffic Phase Effects", 1992); its size
 * makes a fifth flow get the same share as on Linux (docs/benchmarks/planner.md). */
static hd_ns lateness(
	struct hd_sim *sim,
	const struct sim_link *link,
	const struct sim_packet *packet,
	hd_ns span
) {
	if (!link->first || packet->flow < 0 || packet->ack)
		return 0;
	return hd_random_below(&sim->random, FLOW_LATE_FRAMES * span + 1);
}

/* Puts a packet into a link's FIFO, or drops it. */
static void enter(struct hd_sim *sim, struct sim_link *link, struct sim_packet *packet) {
	hd_ns start = hd_ns_max(sim->now, link->busy_until);
	hd_ns span = 0;

	if (link->config.rate_bps > 0)
		span = ((hd_ns)packet->frame_bytes * 8 * HD_SECOND) / link->config.rate_bps;
	if (start - sim->now > 0 && start - sim->now + span > link->queue_ns) {
		link->stats.overflow++;
		sim->stats.overflow++;
		sim_packet_put(sim, packet);
		return;
	}
	link->busy_until = start + span;
	if (link->first)
		count_card(sim, packet, HD_SIM_UP);
	link->stats.packets++;
	link->stats.bytes += packet->frame_bytes;
	packet->at = start + span + link->config.latency + lateness(sim, link, packet, span);
	if (link->head)
		packet->at = hd_ns_max(packet->at, link->tail->at);
	packet->order = sim->order++;
	packet->next = NULL;
	if (link->head)
		link->tail->next = packet;
	else
		link->head = packet;
	link->tail = packet;
	if (!link->armed)
		arm(sim, link);
}

static bool is_cut(const struct hd_sim *sim, const struct sim_packet *packet) {
	if (sim->hosts[packet->from_host].cut || sim->hosts[packet->to_host].cut)
		return true;
	return sim->cut_pair_count > 0
		&& find_cut_pair(sim, (int)packet->from_host, (int)packet->to_host) >= 0;
}

void sim_transmit(struct hd_sim *sim, struct sim_packet *packet) {
	sim->stats.packets++;
	if (packet->from_host == packet->to_host) {
		sim_push(sim, sim->now + SIM_LOCAL_DELAY, SIM_EVENT_PACKET, packet);
		return;
	}
	enter(sim, &sim->hosts[packet->from_host].link[HD_SIM_UP], packet);
}

/* Routes from a switch on. */
static void route(struct hd_sim *sim, struct sim_packet *packet, int32_t at) {
	struct sim_link *link = sim_link_from(sim, at, packet);

	if (link) {
		enter(sim, link, packet);
		return;
	}
	sim->stats.no_path++;
	sim_packet_put(sim, packet);
}

/* Whether the first switch consumes it. */
static bool is_taken(struct hd_sim *sim, const struct sim_packet *packet) {
	const struct hd_sim_path *path = &sim->path;

	if (!path->packet || packet->flow >= 0 || packet->made
	    || sim->hosts[packet->from_host].at != 0)
		return false;
	return path->packet(path->owner, packet->from, packet->to, packet->data, packet->bytes);
}

/* Continues from the first switch. */
static void go_on(struct hd_sim *sim, struct sim_packet *packet) {
	if (is_taken(sim, packet)) {
		sim_packet_put(sim, packet);
		return;
	}
	route(sim, packet, sim->hosts[packet->from_host].at);
}

static void duplicate(struct hd_sim *sim, const struct sim_packet *packet) {
	struct sim_packet *copy = sim_packet_get(sim, packet->bytes);

	if (!copy)
		return;
	memcpy(copy, packet, sizeof *copy + packet->bytes); /* of the same size class */
	sim->stats.duplicated++;
	go_on(sim, copy);
}

/* At the first switch. A reordered packet waits beside the FIFO: its event passes it to go_on(). */
static void apply_faults(struct hd_sim *sim, struct sim_packet *packet) {
	const struct hd_sim_faults *faults = &sim->faults;

	if (!sim->faulty || packet->flow >= 0) {
		go_on(sim, packet);
		return;
	}
	if (hd_random_chance(&sim->random, faults->loss)) {
		sim->stats.lost++;
		sim_packet_put(sim, packet);
		return;
	}
	if (hd_random_chance(&sim->random, faults->duplicate))
		duplicate(sim, packet);
	if (hd_random_chance(&sim->random, faults->reorder)) {
		hd_ns delay = hd_random_below(&sim->random, faults->reorder_delay);

		sim->stats.reordered++;
		sim_push(sim, sim->now + delay, SIM_EVENT_PACKET, packet);
		return;
	}
	go_on(sim, packet);
}

static void forward(struct hd_sim *sim, struct sim_packet *packet) {
	if (is_cut(sim, packet)) {
		sim->stats.cut++;
		sim_packet_put(sim, packet);
		return;
	}
	apply_faults(sim, packet);
}

void hd_sim_set_path(struct hd_sim *sim, const struct hd_sim_path *path) {
	sim->path = path ? *path : (struct hd_sim_path){0};
}

void hd_sim_path_send(
	struct hd_sim *sim,
	struct hd_addr from,
	struct hd_addr to,
	const uint8_t *data,
	size_t bytes
) {
	uint32_t first = hd_sim_address(0, 0).ipv4;
	struct sim_packet *packet;

	if (bytes > HD_PACKET_BYTES_MAX || from.ipv4 - first >= sim->host_count
	    || to.ipv4 - first >= sim->host_count) {
		sim->stats.no_node++;
		return;
	}
	packet = sim_packet_get(sim, bytes);
	if (!packet)
		return;
	packet->from = from;
	packet->to = to;
	packet->from_host = from.ipv4 - first;
	packet->to_host = to.ipv4 - first;
	packet->bytes = (uint32_t)bytes;
	packet->frame_bytes = (uint32_t)bytes + HD_SIM_FRAME_BYTES;
	packet->flow = -1;
	packet->made = true;
	memcpy(packet->data, data, bytes);
	sim->stats.packets++;
	apply_faults(sim, packet);
}

static void deliver(struct hd_sim *sim, struct sim_packet *packet) {
	if (packet->from_host != packet->to_host)
		count_card(sim, packet, HD_SIM_DOWN);
	if (packet->flow < 0) {
		sim_node_deliver(sim, packet);
		return;
	}
	sim_flow_deliver(sim, packet);
	sim_packet_put(sim, packet);
}

void sim_link_event(struct hd_sim *sim, struct sim_link *link) {
	struct sim_packet *packet = link->head;

	link->head = packet->next;
	link->armed = false;
	if (link->head)
		arm(sim, link);
	if (link->first)
		forward(sim, packet);
	else if (link->leads >= 0)
		route(sim, packet, link->leads);
	else if (sim->hosts[packet->to_host].cut) {
		sim->stats.cut++;
		sim_packet_put(sim, packet);
	} else {
		deliver(sim, packet);
	}
}

void sim_packet_event(struct hd_sim *sim, struct sim_packet *packet) {
	if (packet->from_host == packet->to_host)
		deliver(sim, packet);
	else
		go_on(sim, packet);
}
