/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The native switch under frames of any bytes: raw ones, and chunks of its leases with fields changed. No read beyond a
 * frame (it lies at the end of its memory), every frame is counted once, forwarded frames have a valid port, and a sum
 * that only its three members may change has exactly the values that they sent.
 */
#include "fuzz.h"
#include "hd_bytes.h"
#include "hd_limits.h"
#include "switch_frames.h"

#include <string.h>

#define SERVICE 0x0a000001
#define MEMBERS 3
#define COUNT 9
#define PORTS 8
/* A lease whose tokens the input cannot know. */
#define SECRET_LEASE 9
#define SECRET_TOKEN UINT64_C(0x51ce5eedfacade00)

struct world {
	const uint8_t *input;
	size_t left;
	struct hd_switch_core *core;
	struct hd_switch_self self;
	uint64_t frames;
};

static uint64_t take(struct world *world, size_t bytes) {
	uint64_t value = 0;

	while (bytes-- > 0) {
		uint8_t byte = 0;

		if (world->left > 0) {
			byte = *world->input++;
			world->left--;
		}
		value = value << 8 | byte;
	}
	return value;
}

static void
set_lease(struct world *world, uint16_t id, uint64_t token, uint8_t dtype, uint32_t receivers) {
	struct hd_switch_member members[MEMBERS];
	struct hd_switch_copy to[HD_SWITCH_RECEIVERS_MAX];
	struct hd_switch_lease lease = {
		.id = id,
		.job = id,
		.dtype = dtype,
		.count = COUNT,
		.slot_count = 2,
		.waits = (1 << MEMBERS) - 1,
		.member_count = MEMBERS,
		.members = members,
		.receiver_count = receivers,
		.receivers = to,
	};
	char error[HD_TEXT_BYTES_MAX];

	memset(members, 0, sizeof members);
	memset(to, 0, sizeof to);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		members[i].token = token + i;
		members[i].worker = (uint16_t)i;
		members[i].copy.port = (uint16_t)i;
		members[i].copy.token = token + i;
	}
	for (uint32_t i = 0; i < receivers; i++)
		to[i].token = token + 100 + i;
	CHECK(hd_switch_core_lease_set(world->core, &lease, error, sizeof error) == 0);
}

static uint32_t
chunk_of(uint8_t *frame, uint16_t id, uint64_t token, uint8_t dtype, uint32_t index) {
	static const uint32_t values[COUNT] = {0x01000000, 0x02000000};
	struct frame_ends ends = {.destination = SERVICE, .destination_port = HD_SWITCH_UDP_PORT};
	struct hd_chunk_header header = {
		.job = id,
		.worker = (uint16_t)index,
		.round = 1,
		.dtype = dtype,
		.count = COUNT,
		.token = token + index,
	};

	return frame_put_chunk(frame, &ends, &header, values);
}

/* One of the leases' chunks, with some bytes changed, or anything at all. */
static uint32_t draw_frame(struct world *world, uint8_t *frame) {
	uint64_t shape = take(world, 1);
	uint16_t id = shape >> 6 & 1;
	uint32_t bytes;

	if ((shape & 1) == 0) {
		bytes = (uint32_t)take(world, 1);
		for (uint32_t i = 0; i < bytes; i++)
			frame[i] = (uint8_t)take(world, 1);
		return bytes;
	}
	bytes = chunk_of(
		frame, id, 1000u + 1000u * id, id == 0 ? 3 : 0, (uint32_t)(shape >> 1 & 3) % MEMBERS
	);
	for (uint64_t changes = shape >> 3 & 7; changes > 0; changes--) {
		uint64_t at = take(world, 1) % bytes;

		frame[at] = (uint8_t)take(world, 1);
	}
	if ((shape >> 7) != 0)
		bytes = (uint32_t)(take(world, 1) % (bytes + 1));
	return bytes;
}

static uint64_t counted(struct world *world, enum hd_switch_counter last) {
	uint64_t counters[HD_SWITCH_COUNTER_COUNT], sum = 0;

	hd_switch_core_counters(world->core, counters);
	for (int i = 0; i < (int)last; i++)
		sum += counters[i];
	return sum;
}

static void check_packet(struct world *world, struct hd_switch_packet *packet, uint32_t bytes) {
	const struct hd_switch_copy *copies;
	size_t count = hd_switch_core_copies(world->core, packet, &copies);

	CHECK(packet->bytes <= bytes);
	CHECK((count > 0) == (packet->verdict == HD_SWITCH_COPY));
	CHECK(packet->verdict != HD_SWITCH_FORWARD || packet->port < PORTS);
	CHECK(packet->verdict != HD_SWITCH_COPY || packet->bytes >= FRAME_HEADERS);
	for (size_t i = 0; i < count; i++) {
		hd_switch_address(&world->self, &copies[i], packet->data);
		CHECK(hd_get16(packet->data + 24) == frame_ip_checksum(packet->data));
	}
}

static void pass(struct world *world) {
	struct hd_switch_packet packets[4];
	uint32_t bytes[4];
	size_t count = 1 + take(world, 1) % 4;

	for (size_t i = 0; i < count; i++) {
		uint8_t frame[512], *data;

		bytes[i] = draw_frame(world, frame);
		if (bytes[i] >= FRAME_HEADERS && hd_get32(frame + 90) == SECRET_TOKEN >> 32)
			frame[90] ^= 1; /* no input knows them, so none may have them by chance */
		data = malloc(bytes[i] > 0 ? bytes[i] : 1);
		CHECK(data != NULL);
		memcpy(data, frame, bytes[i]);
		packets[i] = (struct hd_switch_packet
		){.data = data, .bytes = bytes[i], .port = (uint16_t)(i + 1)};
	}
	hd_switch_core_burst(world->core, packets, count);
	for (size_t i = 0; i < count; i++) {
		check_packet(world, &packets[i], bytes[i]);
		free(packets[i].data);
	}
	world->frames += count;
	CHECK(counted(world, HD_SWITCH_COUNTER_copies) == world->frames);
}

/* The secret lease's members send last; their sum is theirs alone. */
static void check_secret(struct world *world) {
	uint8_t frame[512];
	struct hd_switch_lease_stats stats;

	CHECK(hd_switch_core_lease_stats(world->core, SECRET_LEASE, &stats) == 0);
	CHECK(stats.absorbed == 0 && stats.cells_open == 0);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		struct hd_switch_packet packet = {.data = frame};

		packet.bytes = chunk_of(frame, SECRET_LEASE, SECRET_TOKEN, 3, i);
		hd_switch_core_burst(world->core, &packet, 1);
		CHECK(packet.verdict == (i + 1 < MEMBERS ? HD_SWITCH_DROP : HD_SWITCH_COPY));
	}
	CHECK(hd_get32(frame + FRAME_HEADERS) == 3);
	CHECK(hd_get32(frame + FRAME_HEADERS + 4) == 6);
	CHECK(hd_get64(frame + FRAME_CHUNK + 32) == 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static const struct hd_switch_core_config config
		= {.self
		   = {.mac = {2},
		      .router_mac = {2, 1},
		      .ipv4 = SERVICE,
		      .udp_port = HD_SWITCH_UDP_PORT},
		   .hash_key = {1, 2},
		   .memory_bytes = 1 << 20};
	static const struct hd_switch_route route = {0, 0, 3, {2, 3}};
	struct world world = {.input = data, .left = bytes, .self = config.self};
	char error[HD_TEXT_BYTES_MAX];

	CHECK(hd_switch_core_create(&config, &world.core, error, sizeof error) == 0);
	set_lease(&world, 0, 1000, HD_DTYPE_FIXED32, 0);
	set_lease(&world, 1, 2000, HD_DTYPE_FP32, 2);
	set_lease(&world, SECRET_LEASE, SECRET_TOKEN, HD_DTYPE_FIXED32, 0);
	CHECK(hd_switch_core_route_set(world.core, &route, error, sizeof error) == 0);
	hd_switch_core_learn(world.core, HD_SECOND);
	for (int i = 0; i < 500 && world.left > 0; i++)
		pass(&world);
	check_secret(&world);
	hd_switch_core_destroy(world.core);
	return 0;
}
