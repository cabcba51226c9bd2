/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sender and a receiver driven by the input: time passes, acknowledgements and chunks of any content
 * come, some that the other side really made. Whatever comes, counts stay within bounds, nothing is
 * written outside the buffer, and no deadline that has passed leads nowhere.
 */
#include "fuzz.h"
#include "hd_limits.h"
#include "hd_recv.h"
#include "hd_send.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 64
#define BYTES (300 * CHUNK + 20)
#define GUARD 4096
#define KEPT 64

struct world {
	struct hd_sink sink;
	const uint8_t *input;
	size_t left;
	hd_ns now;
	struct hd_path path;
	struct hd_send *send;
	struct hd_recv *recv;
	struct hd_chunk_header kept[KEPT]; /* what the sender sent last */
	const uint8_t *payload[KEPT];
	size_t sent;
};

static uint8_t from[BYTES];
static uint8_t to[GUARD + BYTES + GUARD];

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

static void sink_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct world *world = (struct world *)sink;
	uint8_t packet[HD_CHUNK_HEADER_BYTES + CHUNK];
	const uint8_t *view;
	size_t bytes;

	(void)peer;
	CHECK(head_bytes + payload_bytes <= sizeof packet);
	CHECK((const uint8_t *)payload >= from
	      && (const uint8_t *)payload + payload_bytes <= from + BYTES);
	memcpy(packet, head, head_bytes);
	memcpy(packet + head_bytes, payload, payload_bytes);
	world->payload[world->sent % KEPT] = payload;
	CHECK(hd_chunk_decode(
		      packet,
		      head_bytes + payload_bytes,
		      &world->kept[world->sent++ % KEPT],
		      &view,
		      &bytes
	      )
	      == 0);
}

/* Any acknowledgement, valid or not. */
static void any_sack(struct world *world) {
	struct hd_msg_sack sack = {
		.token = 1,
		.held = (uint32_t)take(world, 2),
		.done = take(world, 1) == 0xff,
		.delay_us = (uint32_t)take(world, 2),
		.window_bytes = (uint32_t)take(world, 3),
	};
	uint32_t at = (uint32_t)world->sent + 2;

	sack.packets.count = (uint8_t)(take(world, 1) % (HD_SACK_RANGES_MAX + 2));
	for (size_t i = 0; i < sack.packets.count && i < HD_SACK_RANGES_MAX; i++) {
		struct hd_range *range = &sack.packets.item[i];

		at -= (uint32_t)take(world, 1) % 16;
		range->last = at;
		at -= (uint32_t)take(world, 1) % 64;
		range->first = at--;
	}
	hd_send_sack(world->send, world->now, &sack);
}

static void any_chunk(struct world *world) {
	static const uint8_t payload[CHUNK * 2];
	struct hd_chunk_header header = {.job = 7, .round = 1, .attempt = 1, .token = 1};

	header.flags = (uint8_t)take(world, 1);
	header.chunk = (uint32_t)take(world, 2);
	header.packet = (uint32_t)take(world, 3);
	header.count = (uint16_t)(take(world, 1) % (2 * CHUNK / 4 + 1));
	hd_recv_chunk(world->recv, world->now, &header, payload, header.count * sizeof(float));
}

static void true_chunk(struct world *world) {
	size_t at = (size_t)take(world, 1) % KEPT;

	if (at >= world->sent)
		return;
	hd_recv_chunk(
		world->recv,
		world->now,
		&world->kept[at],
		world->payload[at],
		world->kept[at].count * sizeof(float)
	);
}

static void true_sack(struct world *world) {
	struct hd_msg_sack sack;

	hd_recv_sack(world->recv, world->now, (uint32_t)take(world, 2), &sack);
	CHECK(!hd_recv_sack_due(world->recv, world->now));
	hd_send_sack(world->send, world->now, &sack);
}

static void poll_send(struct world *world) {
	hd_send_poll(world->send, world->now, 1000, &world->sink);
	CHECK(hd_send_deadline(world->send) > world->now);
}

static void step(struct world *world) {
	switch (take(world, 1) % 9) {
	case 0:
		world->now += take(world, 3) * HD_US / 16;
		break;
	case 1:
		any_sack(world);
		break;
	case 2:
		any_chunk(world);
		break;
	case 3:
		true_chunk(world);
		break;
	case 4:
		true_sack(world);
		break;
	case 5:
		hd_send_go(world->send, world->now);
		break;
	case 6:
		hd_send_available(world->send, world->now, take(world, 2));
		break;
	case 7:
		if (take(world, 1) == 0xff)
			hd_send_cancel(world->send, HD_REASON_CANCELLED);
		break;
	default:
		world->now = hd_ns_max(
			world->now, hd_ns_min(hd_send_deadline(world->send), world->now + HD_SECOND)
		);
	}
	poll_send(world);
}

static void check(const struct world *world) {
	const struct hd_send_stats *sent = hd_send_stats(world->send);
	const struct hd_recv_stats *held = hd_recv_stats(world->recv);

	CHECK(sent->bytes_acked <= BYTES);
	CHECK((sent->state == HD_SEND_DONE) <= (sent->bytes_acked == BYTES));
	CHECK(world->path.inflight_bytes <= sent->packets_sent * (CHUNK + HD_CHUNK_OVERHEAD_BYTES));
	CHECK(sent->state == HD_SEND_ACTIVE || world->path.inflight_bytes == 0);
	CHECK(held->bytes_held + hd_recv_missing(world->recv) == BYTES);
	for (size_t i = 0; i < GUARD; i++)
		CHECK(to[i] == 0xa5 && to[GUARD + BYTES + i] == 0xa5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct world world
		= {.sink = {.send = sink_send}, .input = data, .left = bytes, .now = HD_SECOND};
	uint8_t shape = (uint8_t)take(&world, 1);
	struct hd_send_config sending = {
		.header = {.job = 7, .round = 1, .attempt = 1, .token = 1},
		.data = from,
		.bytes = BYTES,
		.chunk_bytes = CHUNK,
		.cc_weight = (float)(shape & 3),
		.path = &world.path,
		.wait_go = shape & 4,
		.go_slack = HD_MS,
		.grows = shape & 64,
	};
	struct hd_recv_config receiving = {
		.token = 1,
		.job = 7,
		.round = 1,
		.attempt = 1,
		.bytes = BYTES,
		.chunk_bytes = shape & 8 ? CHUNK : 0,
		.data = to + GUARD,
	};

	memset(to, 0xa5, sizeof to);
	hd_path_init(&world.path, CHUNK + HD_CHUNK_OVERHEAD_BYTES);
	if (shape & 128) {
		receiving.data = NULL;
		receiving.consumed = true;
	}
	sending.segments.count = shape >> 4 & 3;
	for (size_t i = 0; i < sending.segments.count; i++)
		sending.segments.item[i] = (struct hd_segment
		){world.now + take(&world, 2) * HD_US, take(&world, 4), take(&world, 2)};
	if (hd_send_create(&sending, world.now, &world.send) < 0)
		return 0;
	if (hd_recv_create(&receiving, &world.recv) < 0)
		abort();
	for (size_t i = 0; i < 2000 && world.left > 0; i++)
		step(&world);
	check(&world);
	hd_send_destroy(world.send);
	hd_recv_destroy(world.recv);
	CHECK(world.path.inflight_bytes == 0 && world.path.transfers == 0);
	return 0;
}
