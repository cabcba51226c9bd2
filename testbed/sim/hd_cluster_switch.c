/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch on the path of the cluster: the simulated switch s1 hands it every packet to its service address as a frame,
 * the native core says what becomes of it. Agent and core live and die together: its slots are lost with them.
 */
#include "hd_bytes.h"
#include "hd_cluster_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_HEAD 42 /* Ethernet, IPv4, UDP */
#define MEMORY_BYTES (UINT64_C(1) << 28)
#define COUNT_MAX 2224
#define COUNT_P4 32

static const uint8_t own_mac[6] = {2, 0, 0, 0, 0, 1};

static struct hd_switch_self self_of(const struct switch_process *s) {
	struct hd_addr address = hd_sim_node_address(s->process.cluster->sim, s->process.node);
	struct hd_switch_self self = {.ipv4 = address.ipv4, .udp_port = address.port};

	memcpy(self.mac, own_mac, sizeof(self.mac));
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
	struct switch_process *s = owner;

	(void)error;
	(void)error_bytes;
	if (hd_random_chance(&s->process.cluster->random, 0.1))
		return -EAGAIN; /* not heard of yet */
	copy->port = (uint16_t)(ipv4 - hd_sim_address(0, 0).ipv4);
	hd_put32(copy->mac + 2, ipv4);
	return 0;
}

static int
lease_set(void *owner, const struct hd_switch_lease *lease, char *error, size_t error_bytes) {
	struct switch_process *s = owner;

	return hd_switch_core_lease_set(s->core, lease, error, error_bytes);
}

static int lease_waits(void *owner, uint16_t id, uint64_t waits, char *error, size_t error_bytes) {
	struct switch_process *s = owner;

	return hd_switch_core_lease_waits(s->core, id, waits, error, error_bytes);
}

static int lease_end(void *owner, uint16_t id, char *error, size_t error_bytes) {
	struct switch_process *s = owner;

	return hd_switch_core_lease_end(s->core, id, error, error_bytes);
}

static int
counters(void *owner, uint64_t values[HD_SWITCH_COUNTER_COUNT], char *error, size_t error_bytes) {
	struct switch_process *s = owner;

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

/* What the core looks at of the headers; checksums it does not. */
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

static void send_copies(struct switch_process *s, const struct hd_switch_packet *packet) {
	struct hd_switch_self self = self_of(s);
	const struct hd_switch_copy *copies;
	size_t count = hd_switch_core_copies(s->core, packet, &copies);

	for (size_t i = 0; i < count; i++) {
		hd_switch_address(&self, &copies[i], packet->data);
		hd_sim_path_send(
			s->process.cluster->sim,
			(struct hd_addr){self.ipv4, self.udp_port},
			(struct hd_addr){copies[i].ipv4, copies[i].udp_port},
			packet->data + FRAME_HEAD,
			packet->bytes - FRAME_HEAD
		);
	}
}

/* Overflow, as if the members had known their values wrongly. */
static void spoil(struct switch_process *s, uint8_t *chunk) {
	const struct hd_cluster *cluster = s->process.cluster;

	if (cluster->config.switch_spoils > 0 && !cluster->quiet
	    && hd_random_chance(&s->process.cluster->random, cluster->config.switch_spoils))
		chunk[3] |= HD_SWITCH_FLAG_NOT_FINITE;
}

static bool
on_packet(void *owner, struct hd_addr from, struct hd_addr to, const uint8_t *data, size_t bytes) {
	struct switch_process *s = owner;
	uint8_t frame[FRAME_HEAD + HD_PACKET_BYTES_MAX];
	struct hd_switch_packet packet = {.data = frame, .bytes = (uint32_t)(FRAME_HEAD + bytes)};

	if (!s->core || to.ipv4 != self_of(s).ipv4 || bytes > HD_PACKET_BYTES_MAX)
		return false;
	put_head(frame, from, to, bytes);
	memcpy(frame + FRAME_HEAD, data, bytes);
	packet.port = (uint16_t)(from.ipv4 - hd_sim_address(0, 0).ipv4);
	if (bytes >= HD_CHUNK_HEADER_BYTES && (frame[FRAME_HEAD + 2] & 15) == HD_SWITCH_TYPE_CHUNK)
		spoil(s, frame + FRAME_HEAD);
	hd_switch_core_burst(s->core, &packet, 1);
	if (packet.verdict == HD_SWITCH_COPY)
		send_copies(s, &packet);
	return packet.verdict == HD_SWITCH_COPY || packet.verdict == HD_SWITCH_DROP;
}

/* --- lives ------------------------------------------------------------------------------------ */

struct switch_process *as_switch(struct process *process) {
	struct switch_process *s = &process->cluster->path_switch;

	return process == &s->process ? s : NULL;
}

static void go_down(struct step *step, hd_ns now) {
	if (step->cluster->quiet)
		return;
	step->process->crashes++;
	process_settle(step->process);
}

static void come_back(struct step *step, hd_ns now) {
	if (step->process->crashes > 0)
		step->process->crashes--;
	process_settle(step->process);
}

int cluster_add_switch(struct hd_cluster *cluster) {
	struct switch_process *s = &cluster->path_switch;
	struct step step = {.cluster = cluster, .process = &s->process, .call = go_down};
	int code;

	if (cluster->config.switch_slots == 0)
		return 0;
	(void)snprintf(s->process.name, CLUSTER_NAME_BYTES, "switch");
	(void)snprintf(s->process.host_name, CLUSTER_NAME_BYTES, "s1");
	code = cluster_add_process(cluster, &s->process, 0, 0);
	if (code < 0)
		return code;
	hd_sim_set_path(cluster->sim, &(struct hd_sim_path){.packet = on_packet, .owner = s});
	if (cluster->config.switch_down_s > 0) {
		cluster_at(cluster, cluster_ns(cluster->config.switch_down_s), step);
		step.call = come_back;
		cluster_at(cluster, cluster_ns(cluster->config.switch_down_s + 0.3), step);
	}
	return 0;
}

struct hd_node start_switch(struct switch_process *s) {
	struct hd_cluster *cluster = s->process.cluster;
	struct hd_switch_core_config core = {
		.self = self_of(s),
		.memory_bytes = MEMORY_BYTES,
		.hash_key = {hd_random_u64(&cluster->seeds), hd_random_u64(&cluster->seeds)},
	};
	struct hd_switch_agent_config config = {
		.name = s->process.name,
		.host = s->process.host_name,
		.keys = &cluster->keys,
		.key_id = 1,
		.controller = hd_sim_node_address(cluster->sim, cluster->controller.process.node),
		.data = hd_sim_node_address(cluster->sim, s->process.node),
		.slots = cluster->config.switch_slots,
		/* As P4 has it, or as the native one. */
		.count_min = cluster->config.switch_narrow ? COUNT_P4 : 1,
		.count_max = cluster->config.switch_narrow ? COUNT_P4 : COUNT_MAX,
		.dtypes = 1U << HD_DTYPE_FIXED32,
		.ops = &ops,
		.owner = s,
	};
	char error[HD_TEXT_BYTES_MAX];

	cluster_draw_seed(cluster, config.seed);
	if (hd_switch_core_create(&core, &s->core, error, sizeof(error)) < 0
	    || hd_switch_agent_create(&config, &s->agent) < 0)
		hd_check_fail(cluster->check, "switch: %s", error);
	return (struct hd_node){&hd_switch_agent_core, s->agent};
}

void destroy_switch(struct switch_process *s) {
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

void cluster_switch_stats(const struct hd_cluster *cluster, struct hd_cluster_result *result) {
	const struct switch_process *s = &cluster->path_switch;

	memcpy(result->switch_counters, s->counters, sizeof(s->counters));
	result->switch_refused = s->refused;
	if (s->agent)
		result->switch_refused += hd_switch_agent_stats(s->agent)->leases_refused;
	if (s->core) {
		uint64_t now[HD_SWITCH_COUNTER_COUNT];

		hd_switch_core_counters(s->core, now);
		for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
			result->switch_counters[i] += now[i];
	}
}
