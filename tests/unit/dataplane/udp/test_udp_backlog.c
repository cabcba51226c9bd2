/* SPDX-License-Identifier: BSD-3-Clause */
/* How much the kernel may hold, and errors that ICMP brings. (Waiting: tests/netns/test_udp_room.c.) */
#include "hd_udp_private.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LOOPBACK 0x7f000001u
#define BUFFER (4u << 20)

/* Samples that change nothing but the last. */
static void learn(struct udp_room *room, uint64_t held, uint32_t samples) {
	while (samples-- > 0)
		udp_room_learn(room, held);
}

static void test_room_grows(void **state) {
	struct udp_room room;

	udp_room_init(&room, BUFFER);
	assert_int_equal(room.limit, UDP_ROOM_LEAST);
	udp_room_learn(&room, 0);
	assert_int_equal(room.limit, UDP_ROOM_LEAST * 3 / 2);
	learn(&room, 0, 50);
	assert_int_equal(room.limit, UDP_CHUNKS_SHARE(BUFFER));
}

static void test_room_falls(void **state) {
	struct udp_room room;

	udp_room_init(&room, BUFFER);
	learn(&room, 0, 5);
	room.limit = 200000;
	learn(&room, 150000, UDP_ROOM_SAMPLES - 1);
	assert_int_equal(room.limit, 200000);
	udp_room_learn(&room, 100000);
	assert_int_equal(room.limit, 150000); /* less half of the least */
	learn(&room, 20000, UDP_ROOM_SAMPLES - 1);
	udp_room_learn(&room, 0); /* the samples before do not count any more */
	assert_int_equal(room.limit, 225000);
	learn(&room, 20000, UDP_ROOM_SAMPLES - 1);
	assert_int_equal(room.limit, 225000);
	learn(&room, 400000, 20 * UDP_ROOM_SAMPLES);
	assert_int_equal(room.limit, UDP_ROOM_LEAST);
}

static void test_room_refused(void **state) {
	struct udp_room room;

	udp_room_init(&room, BUFFER);
	learn(&room, 0, 10);
	udp_room_refused(&room, 200000);
	assert_int_equal(room.limit, 100000);
	udp_room_refused(&room, 0); /* others fill the queue */
	assert_int_equal(room.limit, UDP_ROOM_LEAST);
}

static void test_small_buffer(void **state) {
	struct udp_room room;

	udp_room_init(&room, 8192);
	assert_int_equal(room.limit, UDP_CHUNKS_SHARE(8192));
	udp_room_learn(&room, 0);
	udp_room_refused(&room, 4000);
	assert_int_equal(room.limit, UDP_CHUNKS_SHARE(8192));
}

/* --- ICMP ------------------------------------------------------------------------------------- */

#define ROUNDS 20u

struct talker {
	struct hd_addr good, bad; /* no socket has the bad one */
	uint32_t sent, received;
};

static void on_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	((struct talker *)core)->received += (uint32_t)count;
}

/* The kernel answers each packet to the bad one at once. */
static void on_tick(void *core, hd_ns now, struct hd_sink *sink) {
	static const uint8_t payload[64];
	struct talker *talker = core;

	if (talker->sent == ROUNDS)
		return;
	talker->sent++;
	sink->send(sink, talker->bad, payload, 8, payload, 48);
	sink->send(sink, talker->good, payload, 8, payload, 56);
	sink->send(sink, talker->good, payload, 16, NULL, 0);
}

static hd_ns deadline(const void *core) {
	const struct talker *talker = core;

	return talker->good.port != 0 && talker->sent < ROUNDS ? 0 : HD_NEVER;
}

static const struct hd_core_ops ops = {on_receive, on_tick, deadline};

static struct hd_udp *open_udp(void) {
	const struct hd_udp_config config = {.bind = {LOOPBACK, 0}};
	char error[128] = "";
	struct hd_udp *udp = NULL;

	assert_int_equal(hd_udp_open(&config, &udp, error, sizeof error), 0);
	return udp;
}

static void poll_once(struct hd_udp *udp, struct talker *core, hd_ns wait) {
	assert_int_equal(hd_udp_poll(udp, (struct hd_node){&ops, core}, hd_udp_now() + wait), 0);
}

/* Nothing is lost to others, and the thread sleeps afterwards. */
static void test_refused_by_a_peer(void **state) {
	struct hd_udp *from = open_udp(), *to = open_udp(), *gone = open_udp();
	struct talker sender = {.good = hd_udp_bound(to), .bad = hd_udp_bound(gone)};
	struct talker receiver = {0};
	hd_ns limit = hd_udp_now() + 5 * HD_SECOND;
	int polls = 0;

	hd_udp_close(gone);
	while (receiver.received < 2 * ROUNDS && hd_udp_now() < limit) {
		poll_once(from, &sender, HD_MS);
		poll_once(to, &receiver, HD_MS);
	}
	assert_int_equal(receiver.received, 2 * ROUNDS);
	assert_int_equal(hd_udp_stats(from)->send_errors, 0);
	for (limit = hd_udp_now() + 50 * HD_MS; hd_udp_now() < limit; polls++)
		poll_once(from, &sender, 50 * HD_MS);
	assert_true(polls <= 3);
	hd_udp_close(from);
	hd_udp_close(to);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room_grows),
		cmocka_unit_test(test_room_falls),
		cmocka_unit_test(test_room_refused),
		cmocka_unit_test(test_small_buffer),
		cmocka_unit_test(test_refused_by_a_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
