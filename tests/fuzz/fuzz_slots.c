/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any results for a member of a lease, at any times: nothing is written past the sums, each chunk is summed once, and
 * what was refused changed nothing. A step is a byte that says what, and what it needs: time to poll, a result
 * almost as it should be, or a whole packet of any bytes. Of a push these are receivers' answers: a chunk is held when
 * each of them has said so.
 */
#include "fuzz.h"
#include "hd_slots.h"
#include "hd_switch_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VALUES 77
#define COUNT 8
#define SLOTS 3
#define GUARD 16
#define CHUNKS ((VALUES - 1) / COUNT + 1)
#define CHUNKS_MAX (CHUNKS + 4 * SLOTS) /* with those of places, when all are marked */
#define RECEIVERS 2

struct capture {
	struct hd_sink sink;
	uint64_t packets;
};

static void
on_send(struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes) {
	struct capture *capture = (struct capture *)(void *)sink;
	uint8_t packet[HD_CHUNK_HEADER_BYTES + COUNT * 4];
	struct hd_chunk_header header;
	const uint8_t *values;
	size_t bytes;

	CHECK(peer.port == 4773 && head_bytes == HD_CHUNK_HEADER_BYTES
	      && payload_bytes == (size_t)COUNT * 4);
	memcpy(packet, head, head_bytes);
	memcpy(packet + head_bytes, payload, payload_bytes);
	CHECK(hd_chunk_decode(packet, sizeof packet, &header, &values, &bytes) == 0);
	CHECK(header.token == 11 && header.chunk < CHUNKS_MAX);
	CHECK(header.slot % HD_SWITCH_SLOT_VERSION == (header.chunk + 5) % SLOTS);
	capture->packets++;
}

/* One member, and what it should hold by what it took. */
struct member {
	struct hd_slots *slots;
	bool push;
	struct hd_chunk_header newest; /* handed to it */
	uint8_t words[CHUNKS_MAX]; /* bit i: receiver i's; of an all-reduce: its sum */
};

static uint32_t held(const struct member *m) {
	const uint8_t all = m->push ? (1U << RECEIVERS) - 1 : 1;
	uint32_t count = 0;

	for (uint32_t i = 0; i < CHUNKS_MAX; i++)
		count += m->words[i] == all;
	return count;
}

static void note(struct member *m) {
	const uint8_t bit = (uint8_t)(m->push ? 1U << m->newest.worker : 1U);

	CHECK(m->newest.chunk < CHUNKS_MAX && (!m->push || m->newest.worker < RECEIVERS));
	CHECK((m->words[m->newest.chunk] & bit) == 0);
	m->words[m->newest.chunk] |= bit;
}

static uint32_t take(const uint8_t **data, size_t *left) {
	uint32_t byte = *left > 0 ? **data : 0;

	if (*left > 0) {
		(*data)++;
		(*left)--;
	}
	return byte;
}

/* As the switch would make it, with one field spoilt perhaps. */
static enum hd_slots_result
almost(struct member *m, hd_ns now, int16_t exponent, const uint8_t **data, size_t *left) {
	uint8_t payload[COUNT * 4] = {0};
	uint32_t chunk = take(data, left) % (CHUNKS_MAX + 2), spoilt = take(data, left),
		 by = take(data, left);
	uint64_t place = chunk + 5;
	struct hd_chunk_header header = {
		.flags = (uint8_t)take(data, left),
		.attempt = 2,
		.dtype = HD_DTYPE_FIXED32,
		.job = 7,
		.epoch = 1,
		.worker = m->push ? (uint16_t)(by % 3) : UINT16_MAX,
		.round = 9,
		.exponent = (int16_t)(chunk < CHUNKS ? exponent : 0),
		.slot
		= (uint16_t)(place % SLOTS | (place / SLOTS % 2 ? HD_SWITCH_SLOT_VERSION : 0)),
		.chunk = chunk,
		.packet = take(data, left) << 24 | take(data, left),
		.version = 3,
		.count = m->push ? 0 : COUNT,
		.next = (int16_t)(chunk < CHUNKS ? exponent : 0),
		.token = 12,
	};

	payload[3] = (uint8_t)by;
	if (spoilt % 4 == 3)
		((uint8_t *)&header)[by % sizeof header] ^= (uint8_t)spoilt;
	m->newest = header;
	return hd_slots_take(m->slots, now, &header, payload, header.count * sizeof(uint32_t));
}

static enum hd_slots_result any(struct member *m, hd_ns now, const uint8_t **data, size_t *left) {
	struct hd_chunk_header header;
	const uint8_t *payload;
	size_t payload_bytes, bytes = take(data, left);
	const uint8_t *packet = *data;

	bytes = bytes < *left ? bytes : *left;
	*data += bytes;
	*left -= bytes;
	if (hd_result_decode(packet, bytes, &header, &payload, &payload_bytes) < 0)
		return HD_SLOTS_MISMATCH;
	m->newest = header;
	return hd_slots_take(m->slots, now, &header, payload, payload_bytes);
}

static void steps(struct member *m, const uint8_t *data, size_t left) {
	struct capture capture = {.sink = {.send = on_send}};
	const struct hd_slots_stats *stats = hd_slots_stats(m->slots);
	hd_ns now = 1;

	while (left > 0) {
		uint32_t what = take(&data, &left);
		enum hd_slots_result result = HD_SLOTS_MISMATCH;

		now += (hd_ns)(what / 4) * 100 * HD_US;
		if (what % 4 == 0)
			(void)hd_slots_poll(m->slots, now, 1 + take(&data, &left), &capture.sink);
		else if (what % 4 < 3)
			result = almost(m, now, what % 4 == 1 ? -20 : -19, &data, &left);
		else
			result = any(m, now, &data, &left);
		if (result == HD_SLOTS_NEW
		    || (result == HD_SLOTS_END && stats->state == HD_SLOTS_DONE))
			note(m);
		CHECK(stats->chunks == CHUNKS + stats->places && stats->sums == held(m));
		CHECK(stats->places == 0 || (!m->push && stats->sums >= CHUNKS));
		CHECK((stats->state == HD_SLOTS_DONE) == (held(m) == stats->chunks));
		CHECK(capture.packets == stats->packets_sent);
		CHECK((hd_slots_deadline(m->slots) == HD_NEVER) == (stats->state != HD_SLOTS_ACTIVE)
		);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	float in[VALUES], out[VALUES + GUARD];
	struct hd_path path;
	static uint32_t lanes[VALUES];
	struct member m = {.push = bytes / 2 % 2 == 1};
	struct hd_slots_config config = {
		.peer = {1, 4773},
		.job = 7,
		.round = 9,
		.epoch = 1,
		.attempt = 2,
		.dtype = HD_DTYPE_FIXED32,
		.exponent = -20,
		.members = 2,
		.slots = SLOTS,
		.first = 5,
		.count = COUNT,
		.token = 11,
		.result_token = 12,
		.rate_bps = 1000000000,
		.in = m.push ? NULL : in,
		.out = m.push ? NULL : out,
		.lanes = m.push ? lanes : NULL,
		.receivers = m.push ? RECEIVERS : 0,
		.values = VALUES,
		.average = bytes % 2,
		.path = &path,
	};

	for (int i = 0; i < VALUES; i++)
		in[i] = i % 31 == 13 ? INFINITY : (float)i * 1e-3F;
	memset(out, 0x55, sizeof out);
	hd_path_init(&path, 130);
	CHECK(hd_slots_create(&config, 0, &m.slots) == 0);
	steps(&m, data, bytes);
	for (size_t i = VALUES * sizeof(float); i < sizeof out; i++)
		CHECK(((uint8_t *)out)[i] == 0x55);
	hd_slots_destroy(m.slots);
	return 0;
}
