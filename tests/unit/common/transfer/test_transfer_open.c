/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers whose length is not known when they begin: the last chunk says it, whatever is lost and overtaken. */
#include "hd_cc.h"
#include "hd_random.h"
#include "hd_recv.h"
#include "hd_send.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES_MAX 40000
#define PACKETS_MAX 512

struct packet {
	struct hd_chunk_header header;
	uint8_t payload[1024];
	size_t bytes;
};

/* A sink that keeps packets, for the test to deliver. */
struct wire {
	struct hd_sink sink;
	struct packet packets[PACKETS_MAX];
	uint32_t count;
};

static void
on_send(struct hd_sink *sink,
	struct hd_addr to,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes) {
	struct wire *wire = (struct wire *)(void *)sink;
	struct packet *packet = &wire->packets[wire->count];
	uint8_t whole[2048];
	const uint8_t *at;

	(void)to;
	assert_true(wire->count < PACKETS_MAX);
	memcpy(whole, head, head_bytes);
	memcpy(whole + head_bytes, payload, payload_bytes);
	assert_int_equal(
		hd_chunk_decode(
			whole, head_bytes + payload_bytes, &packet->header, &at, &packet->bytes
		),
		0
	);
	memcpy(packet->payload, at, packet->bytes);
	wire->count++;
}

struct scene {
	struct hd_random random;
	struct wire wire;
	struct hd_path path;
	struct hd_send *send;
	struct hd_recv *recv;
	uint8_t from[BYTES_MAX], to[BYTES_MAX];
	uint64_t most, total;
	hd_ns now;
};

static void open_scene(struct scene *s, uint64_t seed) {
	struct hd_recv_config recv = {
		.token = 3,
		.job = 7,
		.round = 1,
		.dtype = HD_DTYPE_SPARSE32,
		.open = true,
		.data = s->to,
	};
	struct hd_send_config send = {
		.header = {.job = 7, .round = 1, .dtype = HD_DTYPE_SPARSE32, .token = 3},
		.data = s->from,
		.chunk_bytes = 256,
		.cc_weight = 1,
		.path = &s->path,
		.grows = true,
	};

	memset(s, 0, sizeof *s);
	hd_random_init(&s->random, seed);
	s->wire.sink.send = on_send;
	s->most = 4 * (1 + hd_random_below(&s->random, BYTES_MAX / 4));
	s->total = 4 * (1 + hd_random_below(&s->random, s->most / 4));
	if (seed % 5 == 0 && s->total > 256)
		s->total -= s->total % 256; /* a last chunk that is full */
	for (size_t i = 0; i < BYTES_MAX; i++)
		s->from[i] = (uint8_t)hd_random_u64(&s->random);
	memset(s->to, 0xa5, BYTES_MAX);
	hd_path_init(&s->path, 256 + HD_CHUNK_OVERHEAD_BYTES);
	s->now = HD_SECOND;
	recv.bytes = send.bytes = s->most;
	assert_int_equal(hd_recv_create(&recv, &s->recv), 0);
	assert_int_equal(hd_send_create(&send, s->now, &s->send), 0);
}

static void close_scene(struct scene *s) {
	hd_send_destroy(s->send);
	hd_recv_destroy(s->recv);
}

/* Delivers what left: out of order, some not at all, some twice; and the acknowledgement at times. */
static bool deliver(struct scene *s) {
	struct hd_msg_sack sack;
	bool done = false;

	while (s->wire.count > 0) {
		uint32_t which = (uint32_t)hd_random_below(&s->random, s->wire.count);
		struct packet packet = s->wire.packets[which];
		bool lost = hd_random_below(&s->random, 6) == 0;
		enum hd_recv_result result;

		if (lost || hd_random_below(&s->random, 8) != 0)
			s->wire.packets[which] = s->wire.packets[--s->wire.count];
		if (lost)
			continue;
		result = hd_recv_chunk(
			s->recv, s->now, &packet.header, packet.payload, packet.bytes
		);
		assert_int_not_equal(result, HD_RECV_MISMATCH);
		done |= result == HD_RECV_DONE;
	}
	hd_recv_sack(s->recv, s->now, 1 << 20, &sack);
	if (hd_random_below(&s->random, 3) != 0)
		hd_send_sack(s->send, s->now, &sack);
	return done;
}

static void test_any_order(void **state) {
	static struct scene s;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		uint64_t ready = 0;
		bool done = false;

		open_scene(&s, seed);
		for (uint32_t turn = 0; hd_send_stats(s.send)->state != HD_SEND_DONE; turn++) {
			assert_true(turn < 20000);
			if (ready < s.total) {
				ready += 1 + hd_random_below(&s.random, 3000);
				/* The last chunk is not there before it is known to be. */
				if (ready >= s.total) {
					ready = s.total;
					if (s.total < s.most)
						assert_int_equal(hd_send_close(s.send, s.total), 0);
				}
				/* Less than a whole chunk stays; a whole last one is held back by its owner. */
				hd_send_available(
					s.send,
					s.now,
					ready < s.total ? (ready - 1) / 256 * 256 : ready
				);
			}
			(void)hd_send_poll(s.send, s.now, 64, &s.wire.sink);
			done |= deliver(&s);
			s.now += 5 * HD_MS;
		}
		assert_true(done);
		assert_int_equal(hd_recv_stats(s.recv)->bytes_total, s.total);
		assert_int_equal(hd_recv_stats(s.recv)->bytes_held, s.total);
		assert_int_equal(hd_recv_missing(s.recv), 0);
		assert_memory_equal(s.to, s.from, s.total);
		for (uint64_t i = s.total; i < BYTES_MAX; i++)
			assert_int_equal(s.to[i], 0xa5);
		close_scene(&s);
	}
}

/* --- what cannot be ---------------------------------------------------------------------------- */

static enum hd_recv_result
put(struct scene *s, uint32_t chunk, size_t bytes, uint8_t flags, uint32_t total) {
	const struct hd_chunk_header header = {
		.job = 7,
		.round = 1,
		.dtype = HD_DTYPE_SPARSE32,
		.token = 3,
		.chunk = chunk,
		.count = (uint16_t)(bytes / 4),
		.flags = flags,
		.total = total,
	};

	return hd_recv_chunk(s->recv, s->now, &header, s->from, bytes);
}

static void make(struct scene *s, uint64_t most) {
	struct hd_recv_config config = {
		.token = 3,
		.job = 7,
		.round = 1,
		.dtype = HD_DTYPE_SPARSE32,
		.open = true,
		.bytes = most,
		.data = s->to,
	};

	hd_recv_destroy(s->recv);
	assert_int_equal(hd_recv_create(&config, &s->recv), 0);
}

static void test_hostile_ends(void **state) {
	static struct scene s;

	(void)state;
	s.now = 1;
	make(&s, 2000);
	assert_int_equal(put(&s, 3, 256, 0, 0), HD_RECV_NEW);
	/* Before what was taken; beyond the most; a size that is not its place's; odd. */
	assert_int_equal(put(&s, 2, 100, HD_CHUNK_LAST, 612), HD_RECV_MISMATCH);
	assert_int_equal(put(&s, 3, 256, HD_CHUNK_LAST, 1024), HD_RECV_MISMATCH);
	assert_int_equal(put(&s, 7, 212, HD_CHUNK_LAST, 2004), HD_RECV_MISMATCH);
	assert_int_equal(put(&s, 5, 100, HD_CHUNK_LAST, 1384), HD_RECV_MISMATCH);
	assert_int_equal(put(&s, 6, 100, HD_CHUNK_LAST, 1380), HD_RECV_MISMATCH);
	assert_int_equal(put(&s, 7, 256, 0, 0), HD_RECV_MISMATCH); /* only 208 may be there */
	assert_int_equal(put(&s, 5, 100, HD_CHUNK_LAST, 1380), HD_RECV_NEW);
	assert_int_equal(hd_recv_stats(s.recv)->bytes_total, 1380);
	/* It is known now. */
	assert_int_equal(put(&s, 6, 256, 0, 0), HD_RECV_MISMATCH);
	assert_int_equal(put(&s, 5, 256, 0, 0), HD_RECV_MISMATCH);
	assert_int_equal(put(&s, 6, 100, HD_CHUNK_LAST, 1636), HD_RECV_MISMATCH);
	assert_int_equal(put(&s, 5, 100, HD_CHUNK_LAST, 1380), HD_RECV_DUPLICATE);
	for (uint32_t chunk = 0; chunk < 5; chunk++)
		assert_int_equal(
			put(&s, chunk, 256, 0, 0),
			chunk == 3         ? HD_RECV_DUPLICATE :
				chunk == 4 ? HD_RECV_DONE :
					     HD_RECV_NEW
		);
	/* The end first, without a size: learnt from it. One chunk alone. All of it, said by nothing. */
	make(&s, 2000);
	assert_int_equal(put(&s, 2, 100, HD_CHUNK_LAST, 613), HD_RECV_MISMATCH);
	assert_int_equal(put(&s, 2, 100, HD_CHUNK_LAST, 612), HD_RECV_NEW);
	assert_int_equal(hd_recv_chunk_bytes(s.recv), 256);
	assert_int_equal(put(&s, 0, 252, 0, 0), HD_RECV_MISMATCH);
	make(&s, 2000);
	assert_int_equal(put(&s, 0, 100, HD_CHUNK_LAST, 100), HD_RECV_DONE);
	make(&s, 300);
	assert_int_equal(put(&s, 1, 44, HD_CHUNK_LAST, 0), HD_RECV_NEW);
	assert_int_equal(put(&s, 0, 256, 0, 0), HD_RECV_DONE);
	hd_recv_destroy(s.recv);
}

static void test_close_refuses(void **state) {
	static struct scene s;

	(void)state;
	open_scene(&s, 1);
	assert_int_equal(hd_send_close(s.send, s.most + 4), -EINVAL);
	assert_int_equal(hd_send_close(s.send, 0), -EINVAL);
	assert_int_equal(hd_send_close(s.send, 6), -EINVAL);
	if (s.most > 600) {
		hd_send_available(s.send, s.now, 512);
		assert_int_equal(hd_send_close(s.send, 512), -EINVAL);
		assert_int_equal(hd_send_close(s.send, 516), 0);
	}
	close_scene(&s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_hostile_ends),
		cmocka_unit_test(test_close_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
