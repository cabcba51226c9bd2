/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_limits.h"
#include "hd_sim_switch.h"

#include <errno.h>
#include <string.h>

#define FRAME_HEAD 42 /* Ethernet, IPv4, UDP */
#define MEMORY_BYTES (UINT64_C(1) << 28)
#define COUNT_MAX 2224
#define COUNT_P4 32

static const uint8_t own_mac[6] = {2, 0, 0, 0, 0, 1};

static struct hd_switch_self self_of(const struct hd_sim_switch *s) {
	struct hd_addr address = hd_sim_node_address(s->sim, s->node);
	struct hd_switch_self self = {.ipv4 = address.ipv4, .udp_port = address.port};

	memcpy(self.mac, own_mac, sizeof self.mac);
	return self;
}

/* --- executor --------------------------------------------------------------------------------- */

static int neighbour(
	void *owner,
	uint32_t ipv4,
	struct hd_switch_copy *copy,
	char *error,
	size_t error_bytes
) {
	struct hd_sim_switch *s = owner;

	(void)error;
	(void)error_bytes;
	if (hd_random_chance(s->random, s->unheard))
		return -EAGAIN; /* not known yet */
	copy->port = (uint16_t)(ipv4 - hd_sim_address(0, 0).ipv4);
	hd_put32(copy->mac + 2, ipv4);
	return 0;
}

static int
lease_set(void *owner, const struct hd_switch_lease *lease, char *error, size_t error_bytes) {
	struct hd_sim_switch *s = owner;

	s->leases++;
	return hd_switch_core_lease_set(s->core, lease, error, error_bytes);
}

static int lease_waits(void *owner, uint16_t id, uint64_t waits, char *error, size_t error_bytes) {
	struct hd_sim_switch *s = owner;

	s->waits++;
	return hd_switch_core_lease_waits(s->core, id, waits, error, error_bytes);
}

static int lease_end(void *owner, uint16_t id, char *error, size_t error_bytes) {
	struct hd_sim_switch *s = owner;

	return hd_switch_core_lease_end(s->core, id, error, error_bytes);
}

static int
counters(void *owner, uint64_t values[HD_SWITCH_COUNTER_COUNT], char *error, size_t error_bytes) {
	struct hd_sim_switch *s = owner;

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

/* --- the path --------------------------------------------------------------------------------- */

static bool is_lost(const struct hd_sim_switch *s, struct hd_addr peer) {
	return s->lose && s->lose(s->owner, peer);
}

/* The header fields that the core reads; it checks no checksums. */
static void put_head(uint8_t *frame, struct hd_addr from, struct hd_addr to, size_t bytes) {
	memset(frame, 0, FRAME_HEAD);
	hd_put16(frame + 12, 0x0800);
	frame[14] = 0x45;
	hd_put16(frame + 16, (uint16_t)(28 + bytes));
	frame[22] = 64;
	frame[23] = 17;
	hd_put32(frame + 26, from.ipv4);
	hd_put32(frame + 30, to.ipv4);
	hd_put16(frame + 34, from.port);
	hd_put16(frame + 36, to.port);
	hd_put16(frame + 38, (uint16_t)(8 + bytes));
}

static void send_copies(struct hd_sim_switch *s, const struct hd_switch_packet *packet) {
	struct hd_switch_self self = self_of(s);
	const struct hd_switch_copy *copies;
	size_t count = hd_switch_core_copies(s->core, packet, &copies);

	for (size_t i = 0; i < count; i++) {
		const struct hd_addr to = {copies[i].ipv4, copies[i].udp_port};

		if (is_lost(s, to))
			continue;
		hd_switch_address(&self, &copies[i], packet->data);
		hd_sim_path_send(
			s->sim,
			(struct hd_addr){self.ipv4, self.udp_port},
			to,
			packet->data + FRAME_HEAD,
			packet->bytes - FRAME_HEAD
		);
	}
}

static bool
on_packet(void *owner, struct hd_addr from, struct hd_addr to, const uint8_t *data, size_t bytes) {
	struct hd_sim_switch *s = owner;
	uint8_t frame[FRAME_HEAD + HD_PACKET_BYTES_MAX];
	struct hd_switch_packet packet = {.data = frame, .bytes = (uint32_t)(FRAME_HEAD + bytes)};

	if (!s->core || to.ipv4 != self_of(s).ipv4 || bytes > HD_PACKET_BYTES_MAX)
		return false;
	put_head(frame, from, to, bytes);
	memcpy(frame + FRAME_HEAD, data, bytes);
	packet.port = (uint16_t)(from.ipv4 - hd_sim_address(0, 0).ipv4);
	if (s->spoil && bytes >= HD_CHUNK_HEADER_BYTES
	    && (frame[FRAME_HEAD + 2] & 15) == HD_SWITCH_TYPE_CHUNK)
		s->spoil(s->owner, frame + FRAME_HEAD);
	if ((frame[FRAME_HEAD + 2] & 15) == HD_SWITCH_TYPE_RESULT && is_lost(s, from))
		return true;
	hd_switch_core_burst(s->core, &packet, 1);
	if (packet.verdict == HD_SWITCH_COPY)
		send_copies(s, &packet);
	return packet.verdict == HD_SWITCH_COPY || packet.verdict == HD_SWITCH_DROP;
}

/* --- start and end ------------------------------------------------------------------------------ */

void hd_sim_switch_attach(struct hd_sim_switch *s) {
	hd_sim_set_path(s->sim, &(struct hd_sim_path){.packet = on_packet, .owner = s});
}

int hd_sim_switch_start(
	struct hd_sim_switch *s,
	const struct hd_sim_switch_setup *setup,
	struct hd_node *node,
	char *error,
	size_t error_bytes
) {
	struct hd_switch_core_config core = {
		.self = self_of(s),
		.memory_bytes = MEMORY_BYTES,
		.hash_key = {setup->hash_key[0], setup->hash_key[1]},
	};
	struct hd_switch_agent_config config = {
		.name = setup->name,
		.host = setup->host,
		.keys = setup->keys,
		.key_id = 1,
		.controller = setup->controller,
		.data = hd_sim_node_address(s->sim, s->node),
		.slots = setup->slots,
		.count_min = setup->narrow ? COUNT_P4 : 1,
		.count_max = setup->narrow ? COUNT_P4 : COUNT_MAX,
		.dtypes = setup->dtypes,
		.ops = &ops,
		.owner = s,
	};
	int code;

	memcpy(config.seed, setup->seed, sizeof config.seed);
	code = hd_switch_core_create(&core, &s->core, error, error_bytes);
	if (code == 0)
		code = hd_switch_agent_create(&config, &s->agent);
	*node = (struct hd_node){&hd_switch_agent_core, s->agent};
	return code;
}

void hd_sim_switch_end(struct hd_sim_switch *s) {
	uint64_t values[HD_SWITCH_COUNTER_COUNT];

	if (s->core) {
		hd_switch_core_counters(s->core, values);
		for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
			s->counters[i] += values[i];
	}
	if (s->agent)
		s->refused += hd_switch_agent_stats(s->agent)->leases_refused;
	hd_switch_agent_destroy(s->agent);
	hd_switch_core_destroy(s->core);
	s->agent = NULL;
	s->core = NULL;
}
