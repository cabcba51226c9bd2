/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "switch_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct hd_switch_core_config world_settings = {
	.self = {
		.mac = {2, 0, 0, 0, 0, 0xfe},
		.router_mac = {2, 0, 0, 0, 0, 0xff},
		.ipv4 = SERVICE,
		.udp_port = HD_SWITCH_UDP_PORT,
	},
	.hash_key = {0x0123456789abcdef, 0xfedcba9876543210},
	.memory_bytes = 1 << 20,
};

static struct hd_switch_copy copy_of(uint32_t index) {
	return (struct hd_switch_copy){
		.port = (uint16_t)((index + 1) % HD_SWITCH_PORTS_MAX),
		.mac = {2, 0, 0, 0, 1, (uint8_t)index},
		.ipv4 = 0x0a000100 + index,
		.udp_port = (uint16_t)(4773 + index),
		.token = 0x1000 + index,
	};
}

void set_up(struct world *world) {
	memset(world, 0, sizeof *world);
	assert_int_equal(
		hd_switch_core_create(
			&world_settings, &world->core, world->error, sizeof world->error
		),
		0
	);
	for (uint32_t i = 0; i < HD_SWITCH_MEMBERS_MAX; i++) {
		world->members[i].token = 0x1000 + i;
		world->members[i].worker = (uint16_t)(10 + i);
		world->members[i].copy = copy_of(i);
	}
	for (uint32_t i = 0; i < HD_SWITCH_RECEIVERS_MAX; i++)
		world->receivers[i] = copy_of(100 + i);
	for (uint32_t i = 0; i < HD_SWITCH_RECEIVERS_MAX; i++)
		world->receivers[i].port = (uint16_t)(20 + i);
	world->lease = (struct hd_switch_lease){
		.id = 5,
		.job = JOB,
		.epoch = 2,
		.attempt = 1,
		.shard = 9,
		.dtype = HD_DTYPE_FIXED32,
		.count = LANES,
		.slot_count = SLOTS,
		.waits = (1 << MEMBERS) - 1,
		.member_count = MEMBERS,
		.members = world->members,
		.receivers = world->receivers,
	};
}

int set_lease(struct world *world) {
	return hd_switch_core_lease_set(
		world->core, &world->lease, world->error, sizeof world->error
	);
}

void begin(struct world *world) {
	set_up(world);
	assert_int_equal(set_lease(world), 0);
}

void end(struct world *world) {
	hd_switch_core_destroy(world->core);
}

struct hd_chunk_header chunk_of(struct world *world, uint32_t index, uint32_t chunk) {
	return (struct hd_chunk_header){
		.job = JOB,
		.epoch = 2,
		.attempt = 1,
		.shard = 9,
		.dtype = world->lease.dtype,
		.worker = (uint16_t)(10 + index),
		.round = 1,
		.exponent = -20,
		.slot
		= (uint16_t)(chunk % SLOTS | (chunk / SLOTS % 2 != 0 ? HD_SWITCH_SLOT_VERSION : 0)),
		.chunk = chunk,
		.packet = world->packets_sent++,
		.count = world->lease.count,
		.next = (int16_t)(-20 - (int)index),
		.total = 4096,
		.token = 0x1000 + index,
	};
}

struct frame_ends ends_of(uint32_t index) {
	return (struct frame_ends){
		.to = {2, 0, 0, 0, 0, 1},
		.from = {2, 0, 0, 0, 1, (uint8_t)index},
		.source = 0x0a000100 + index,
		.destination = SERVICE,
		.destination_port = HD_SWITCH_UDP_PORT,
	};
}

uint64_t counted(struct world *world, enum hd_switch_counter counter) {
	uint64_t counters[HD_SWITCH_COUNTER_COUNT];

	hd_switch_core_counters(world->core, counters);
	return counters[counter];
}

struct hd_switch_packet
pass(struct world *world, uint32_t bytes, uint16_t port, enum hd_switch_counter counter) {
	struct hd_switch_packet packet = {.data = world->frame, .bytes = bytes, .port = port};
	uint64_t before[HD_SWITCH_COUNTER_COUNT], after[HD_SWITCH_COUNTER_COUNT];

	hd_switch_core_counters(world->core, before);
	hd_switch_core_burst(world->core, &packet, 1);
	hd_switch_core_counters(world->core, after);
	for (int i = 0; i < HD_SWITCH_COUNTER_copies; i++)
		assert_int_equal(after[i] - before[i], i == (int)counter);
	return packet;
}

struct hd_switch_packet send_header(
	struct world *world,
	uint32_t index,
	const struct hd_chunk_header *header,
	const void *values,
	enum hd_switch_counter counter
) {
	struct frame_ends ends = ends_of(index);
	uint32_t bytes = frame_put_chunk(world->frame, &ends, header, values);

	return pass(world, bytes, (uint16_t)(index + 1), counter);
}

struct hd_switch_packet send_value(
	struct world *world,
	uint32_t index,
	uint32_t chunk,
	int32_t value,
	enum hd_switch_counter counter
) {
	struct hd_chunk_header header = chunk_of(world, index, chunk);
	uint32_t values[LANES];

	for (size_t i = 0; i < LANES; i++)
		values[i] = htobe32((uint32_t)value);
	return send_header(world, index, &header, values, counter);
}

void assert_sum(const struct world *world, int32_t value) {
	for (size_t i = 0; i < LANES; i++)
		assert_int_equal((int32_t)hd_get32(world->frame + FRAME_HEADERS + 4 * i), value);
}

void assert_flags(const struct world *world, unsigned flags) {
	assert_int_equal(world->frame[FRAME_CHUNK + 3], flags);
}

const uint8_t *at(const struct world *world, size_t offset) {
	return world->frame + FRAME_CHUNK + offset;
}
