/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of a chunk at the sender and at the receiver alone, with a MAC and without: no sockets, acknowledgements
 * every 32 packets. */
#include "hd_limits.h"
#include "hd_recv.h"
#include "hd_seal.h"
#include "hd_send.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK HD_CHUNK_BYTES_DEFAULT
#define PACKET (CHUNK + HD_CHUNK_OVERHEAD_BYTES)
#define CHUNKS 40000
#define BYTES ((uint64_t)CHUNKS * CHUNK)
#define RUNS 9
#define PLAIN UINT64_C(1) /* a token of integrity off */
#define SEALED (HD_TOKEN_SEALED | 1) /* of integrity on */
#define BURST 44 /* packets in a driver's buffers, in the cache */

static struct hd_key key = {.id = 7, .secret = {1, 2, 3}};
static const struct hd_keyring keys = {1, &key};

struct counting_sink {
	struct hd_sink sink;
	uint32_t packets;
};

static void
count(struct hd_sink *sink,
      struct hd_addr peer,
      const void *head,
      size_t head_bytes,
      const void *payload,
      size_t payload_bytes) {
	(void)peer, (void)head, (void)head_bytes, (void)payload, (void)payload_bytes;
	((struct counting_sink *)sink)->packets++;
}

static double seconds(void) {
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* One transfer over a path that takes 100 us; every `lost`-th packet is lost (0: none). */
static double send_one(const void *data, uint64_t token, uint32_t lost) {
	struct counting_sink sink = {{.send = count}, 0};
	struct hd_path path;
	struct hd_send_config config = {
		.header = {.token = token},
		.keys = &keys,
		.key_id = key.id,
		.data = data,
		.bytes = BYTES,
		.chunk_bytes = CHUNK,
		.cc_weight = 1,
		.path = &path,
	};
	struct hd_msg_sack sack = {.window_bytes = 1 << 24};
	uint32_t answered = 0;
	hd_ns now = HD_SECOND;
	struct hd_send *send;
	double began;

	hd_path_init(&path, PACKET);
	path.window_bytes = 1 << 20;
	path.slow_start_bytes = 1 << 20;
	if (hd_send_create(&config, now, &send) < 0)
		abort();
	began = seconds();
	while (hd_send_stats(send)->state < HD_SEND_DONE) {
		hd_send_poll(send, now, 64, &sink.sink);
		now += 10 * HD_US;
		while (sink.packets - answered >= 32
		       || (answered < sink.packets && hd_send_deadline(send) > now)) {
			struct hd_ranges *set = &sack.packets;
			uint32_t last
				= sink.packets - answered >= 32 ? answered + 31 : sink.packets - 1;

			if (lost && answered / lost != last / lost && set->count > 0) {
				memmove(&set->item[1],
					&set->item[0],
					sizeof set->item - sizeof set->item[0]);
				set->count += set->count < HD_SACK_RANGES_MAX;
				set->item[0].first = answered + 1;
			} else if (set->count == 0) {
				set->count = 1;
			}
			set->item[0].last = last;
			if (set->item[0].first > last)
				set->item[0].first = last;
			answered = last + 1;
			hd_send_sack(send, now, &sack);
		}
	}
	began = seconds() - began;
	hd_send_destroy(send);
	return began * 1e9 / sink.packets;
}

static double receive_one(void *data, const uint8_t *from) {
	struct hd_recv_config config = {.token = 1, .bytes = BYTES, .data = data};
	struct hd_chunk_header header = {.token = 1, .count = CHUNK / 4};
	struct hd_msg_sack sack;
	struct hd_recv *recv;
	double began;

	if (hd_recv_create(&config, &recv) < 0)
		abort();
	began = seconds();
	for (uint32_t i = 0; i < CHUNKS; i++) {
		header.chunk = header.packet = i;
		header.flags = i == CHUNKS - 1 ? HD_CHUNK_LAST : 0;
		hd_recv_chunk(
			recv, HD_SECOND + i, &header, from + (size_t)(i % BURST) * CHUNK, CHUNK
		);
		if (hd_recv_sack_due(recv, HD_SECOND + i))
			hd_recv_sack(recv, HD_SECOND + i, 0, &sack);
	}
	began = seconds() - began;
	if (hd_recv_missing(recv) > 0)
		abort();
	hd_recv_destroy(recv);
	return began * 1e9 / CHUNKS;
}

/* A receiver's additional work for sealed chunks. */
static double check_one(const uint8_t *from) {
	static uint8_t packets[BURST][PACKET];
	const size_t head = HD_CHUNK_HEADER_BYTES, bytes = head + HD_SEAL_BYTES + CHUNK;
	struct hd_chunk_header header = {.slot = key.id, .count = CHUNK / 4, .token = SEALED};
	struct hd_seal seal = {.derived = false};
	uint32_t taken = 0;
	double began;

	if (hd_seal_derive(&seal, &keys, key.id, header.job, header.token) < 0)
		abort();
	for (uint32_t i = 0; i < BURST; i++) {
		header.chunk = header.packet = i;
		hd_chunk_encode(&header, packets[i]);
		memcpy(packets[i] + head + HD_SEAL_BYTES, from, CHUNK);
		hd_seal_sign(&seal, packets[i], from, CHUNK, packets[i] + head);
	}
	began = seconds();
	for (uint32_t i = 0; i < CHUNKS; i++)
		taken += hd_seal_check(&seal, &keys, &header, packets[i % BURST], bytes);
	began = seconds() - began;
	if (taken != CHUNKS)
		abort();
	return began * 1e9 / CHUNKS;
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(const char *name, double *ns, const char *target) {
	qsort(ns, RUNS, sizeof *ns, ascending);
	printf("%-44s %6.1f %6.1f %6.1f ns a packet   %s\n",
	       name,
	       ns[0],
	       ns[RUNS / 2],
	       ns[RUNS - 1],
	       target);
}

int main(void) {
	uint8_t *from = malloc(BYTES), *to = malloc(BYTES);
	double clean[RUNS], sealed[RUNS], lossy[RUNS], received[RUNS], checked[RUNS];

	if (!from || !to)
		abort();
	memset(from, 1, BYTES);
	memset(to, 1, BYTES);
	for (size_t i = 0; i < RUNS; i++) {
		clean[i] = send_one(from, PLAIN, 0);
		sealed[i] = send_one(from, SEALED, 0);
		lossy[i] = send_one(from, PLAIN, 100);
		checked[i] = check_one(from);
		received[i] = receive_one(to, from);
	}
	printf("%-44s %6s %6s %6s\n", "", "min", "median", "max");
	report("sender, integrity off", clean, "target <= 60");
	report("sender, integrity on", sealed, "");
	report("sender, integrity off, 1 % lost", lossy, "");
	report("receiver, with the copy of 1,408 bytes", received, "");
	report("integrity on, besides: the MAC checked", checked, "");
	free(from);
	free(to);
	return 0;
}
