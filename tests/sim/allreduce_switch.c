/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch on the path of an all-reduce: the simulated network hands it every packet to its service address as a
 * frame, the native core says what becomes of it. Agent and core live and die together: slots are lost with them.
 */
#include "allreduce_world.h"
#include "switch_frames.h"

#include <errno.h>
#include <string.h>

#define LANES 32
#define COUNT_MAX 2224
#define ERROR_BYTES 128

static const struct hd_switch_self self = {.mac = {2, 0, 0, 0, 0, 1}, .udp_port = HD_PORT};

static struct hd_switch_self self_of(const struct allreduce_switch *s) {
	struct hd_addr address = hd_sim_node_address(s->world->sim, s->node);
	struct hd_switch_self who = self;

	who.ipv4 = address.ipv4;
	who.udp_port = address.port;
	return who;
}

/* --- executor -------------------------------------------------------------------------------- */

static int neighbour(
	void *owner,
	uint32_t ipv4,
	struct hd_switch_copy *copy,
	char *error,
	size_t error_bytes
) {
	struct allreduce_switch *s = owner;
	uint32_t host = ipv4 - hd_sim_address(0, 0).ipv4;

	(void)error;
	(void)error_bytes;
	if (hd_random_chance(&s->world->random, 0.3))
		return -EAGAIN; /* not heard of yet */
	copy->port = (uint16_t)host;
	memcpy(copy->mac, (uint8_t[]){2, 0, 0, 1, 0, (uint8_t)host}, 6);
	return 0;
}

static int
lease_set(void *owner, const struct hd_switch_lease *lease, char *error, size_t error_bytes) {
	struct allreduce_switch *s = owner;

	s->leases++;
	return hd_switch_core_lease_set(s->core, lease, error, error_bytes);
}

static int lease_waits(void *owner, uint16_t id, uint64_t waits, char *error, size_t error_bytes) {
	struct allreduce_switch *s = owner;

	s->waits++;
	return hd_switch_core_lease_waits(s->core, id, waits, error, error_bytes);
}

static int lease_end(void *owner, uint16_t id, char *error, size_t error_bytes) {
	struct allreduce_switch *s = owner;

	return hd_switch_core_lease_end(s->core, id, error, error_bytes);
}

static int
counters(void *owner, uint64_t values[HD_SWITCH_COUNTER_COUNT], char *error, size_t error_bytes) {
	struct allreduce_switch *s = owner;

	(void)error;
	(void)error_bytes;
	hd_switch_core_counters(s->core, values);
	return 0;
}

static const struct hd_switch_agent_ops ops = {
	.neighbour = neighbour,
	.lease_set = lease_set,
	.lease_waits = lease_waits,
	.lease_end = lease_end,
	.counters = counters,
};

/* --- the path -------------------------------------------------------------------------------- */

static void send_copies(struct allreduce_switch *s, struct hd_switch_packet *packet) {
	struct hd_switch_self who = self_of(s);
	const struct hd_switch_copy *copies;
	size_t count = hd_switch_core_copies(s->core, packet, &copies);

	for (size_t i = 0; i < count; i++) {
		hd_switch_address(&who, &copies[i], packet->data);
		hd_sim_path_send(
			s->world->sim,
			(struct hd_addr){who.ipv4, who.udp_port},
			(struct hd_addr){copies[i].ipv4, copies[i].udp_port},
			packet->data + FRAME_CHUNK,
			packet->bytes - FRAME_CHUNK
		);
	}
}

static bool
on_packet(void *owner, struct hd_addr from, struct hd_addr to, const uint8_t *data, size_t bytes) {
	struct allreduce_switch *s = owner;
	uint8_t frame[FRAME_BYTES_MAX];
	struct hd_switch_packet packet = {.data = frame};
	const struct frame_ends ends = {
		.to = {2, 0, 0, 2},
		.from = {2, 0, 0, 3},
		.source = from.ipv4,
		.destination = to.ipv4,
		.destination_port = to.port,
	};

	if (!s->core || to.ipv4 != self_of(s).ipv4)
		return false;
	memcpy(frame + FRAME_CHUNK, data, bytes);
	packet.bytes = frame_put_udp(frame, &ends, bytes);
	packet.port = (uint16_t)(from.ipv4 - hd_sim_address(0, 0).ipv4);
	hd_switch_core_burst(s->core, &packet, 1);
	if (packet.verdict == HD_SWITCH_COPY)
		send_copies(s, &packet);
	return packet.verdict == HD_SWITCH_COPY || packet.verdict == HD_SWITCH_DROP;
}

/* --- lives ----------------------------------------------------------------------------------- */

void allreduce_switch_build(struct allreduce_world *w) {
	struct hd_sim_link link = {.rate_bps = 100000000, .queue_bytes = 1 << 17, .latency = 20000};
	struct allreduce_switch *s = &w->way;
	struct hd_sim_node_config node = {.host = hd_sim_host(w->sim, &link)};

	s->world = w;
	s->host = node.host;
	s->node = hd_sim_node(w->sim, &node);
	s->wanted = true;
	s->narrow = hd_random_chance(&w->random, 0.3);
	s->slots = (uint16_t
	)(hd_random_chance(&w->random, 0.3) ? 32 + hd_random_below(&w->random, 100) :
					      HD_SWITCH_SLOTS);
	hd_sim_set_path(w->sim, &(struct hd_sim_path){.packet = on_packet, .owner = s});
}

void allreduce_switch_start(struct allreduce_switch *s) {
	struct allreduce_world *w = s->world;
	struct hd_switch_core_config core = {.self = self_of(s), .memory_bytes = 1 << 28};
	struct hd_switch_agent_config config = {
		.name = "switch",
		.host = "s1",
		.keys = allreduce_keys,
		.key_id = 1,
		.controller = hd_sim_node_address(w->sim, w->controller_node),
		.data = hd_sim_node_address(w->sim, s->node),
		.slots = s->slots,
		/* As P4 has it, or as the native one. */
		.count_min = s->narrow ? LANES : 1,
		.count_max = s->narrow ? LANES : COUNT_MAX,
		.dtypes = 1U << HD_DTYPE_FIXED32 | (s->narrow ? 0 : 1U << HD_DTYPE_FP32),
		.ops = &ops,
		.owner = s,
	};
	char error[ERROR_BYTES];

	core.hash_key[0] = hd_random_u64(&w->random);
	core.hash_key[1] = hd_random_u64(&w->random);
	allreduce_seed(w, config.seed);
	if (hd_switch_core_create(&core, &s->core, error, sizeof(error)) < 0
	    || hd_switch_agent_create(&config, &s->agent) < 0) {
		allreduce_fail(w, "no switch");
		return;
	}
	hd_sim_node_start(w->sim, s->node, (struct hd_node){&hd_switch_agent_core, s->agent});
}

void allreduce_switch_stop(struct allreduce_switch *s) {
	uint64_t values[HD_SWITCH_COUNTER_COUNT];

	if (!s->core)
		return;
	hd_switch_core_counters(s->core, values);
	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
		s->counters[i] += values[i];
	hd_sim_node_stop(s->world->sim, s->node);
	hd_switch_agent_destroy(s->agent);
	hd_switch_core_destroy(s->core);
	s->agent = NULL;
	s->core = NULL;
}
