/* SPDX-License-Identifier: BSD-3-Clause */
/* How much the kernel may hold. (In real sockets: tests/netns/test_udp_room.c.) */
#include "hd_udp_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BUFFER (4u << 20)

/* A device that takes `rate` bytes/s, and a socket that fills it up to its limit every `pause` for so long. */
struct device {
	struct udp_room room;
	uint64_t rate, held, dead; /* dead: part of held that never leaves */
	hd_ns now, before;
	uint64_t sent;
};

static void fill(struct device *d, hd_ns pause, hd_ns duration) {
	for (hd_ns end = d->now + duration; d->now < end; d->now += pause) {
		uint64_t leaves = (uint64_t)((double)d->rate * (double)(d->now - d->before) / 1e9);
		uint64_t queued = d->held - d->dead, before;

		d->held -= leaves < queued ? leaves : queued;
		before = d->held;
		d->before = d->now;
		udp_room_look(&d->room, before, d->now, d->now);
		if (before < d->room.stuck + d->room.limit)
			d->held = d->room.stuck + d->room.limit;
		d->sent += d->held - before;
		udp_room_gave(&d->room, before, d->held);
	}
}

static struct device device_of(double mbps) {
	struct device d
		= {.rate = (uint64_t)(mbps * 1e6 / 8), .now = HD_SECOND, .before = HD_SECOND};

	udp_room_init(&d.room, BUFFER);
	return d;
}

/* The limit is half a millisecond and two trains, also when the thread was late for a while. */
static void test_shaped(void **state) {
	struct device d = device_of(200);

	assert_int_equal(d.room.limit, UDP_ROOM_LEAST);
	fill(&d, HD_MS / 4, HD_SECOND);
	assert_in_range(d.room.limit, UDP_ROOM_LEAST + 12000, UDP_ROOM_LEAST + 13000);
	assert_int_equal(udp_room_train(&d.room), UDP_GSO_BYTES_LEAST);
	assert_in_range(udp_room_wait(&d.room), HD_MS * 8 / 10, HD_MS);
	fill(&d, 10 * HD_MS, HD_SECOND); /* it is empty most of the time */
	assert_in_range(d.room.limit, UDP_ROOM_LEAST + 12000, UDP_ROOM_LEAST + 13000);
	d.rate /= 4;
	fill(&d, HD_MS / 4, HD_SECOND);
	assert_in_range(d.room.limit, UDP_ROOM_LEAST + 3000, UDP_ROOM_LEAST + 3500);
}

/* Found soon, whether the thread comes often or seldom. */
static void test_fast(void **state) {
	struct device d = device_of(10000);

	fill(&d, HD_MS / 10, HD_SECOND / 10);
	assert_in_range(d.room.limit, UDP_ROOM_LEAST + 600000, UDP_ROOM_LEAST + 650000);
	assert_int_equal(udp_room_train(&d.room), UDP_GSO_BYTES_MAX);
	assert_in_range(udp_room_wait(&d.room), UDP_BACKLOG_WAIT_LEAST, UDP_BACKLOG_WAIT / 3);
	d = device_of(10000);
	fill(&d, 2 * HD_US, HD_SECOND / 10);
	assert_true(d.sent > d.rate / 10 * 9 / 10);
}

static void test_bounds(void **state) {
	struct device d = device_of(1000000);

	fill(&d, HD_MS / 4, HD_SECOND);
	assert_int_equal(d.room.limit, UDP_CHUNKS_SHARE(BUFFER));
	udp_room_init(&d.room, 8192);
	assert_int_equal(d.room.limit, UDP_CHUNKS_SHARE(8192));
	udp_room_init(&d.room, BUFFER);
	assert_int_equal(udp_room_wait(&d.room), UDP_BACKLOG_WAIT);
}

/* Packets that wait for an address never leave: they do not keep the others back for longer than some ms. */
static void test_dead_host(void **state) {
	struct device d = device_of(200);

	fill(&d, HD_MS / 4, HD_SECOND);
	d.held += 200000;
	d.dead = 200000;
	d.sent = 0;
	fill(&d, HD_MS / 4, HD_SECOND / 10);
	assert_true(d.sent > d.rate / 10 * 7 / 10);
	assert_in_range(d.room.stuck, 190000, 210000);
	assert_in_range(d.room.limit, UDP_ROOM_LEAST, UDP_ROOM_LEAST + 13000);
	d.held -= d.dead; /* its address is given up */
	d.dead = 0;
	fill(&d, HD_MS / 4, HD_SECOND / 10);
	assert_in_range(d.held, 0, d.room.limit);
}

/* Chunks that wait now and then say nothing about the time in between. */
static void test_rests(void **state) {
	struct device d = device_of(200);
	uint64_t limit;

	fill(&d, HD_MS / 4, HD_SECOND);
	limit = d.room.limit;
	for (int i = 0; i < 100; i++) {
		udp_room_rest(&d.room);
		d.held = 0;
		d.now += HD_SECOND;
		fill(&d, HD_MS / 4, HD_MS);
	}
	assert_in_range(d.room.limit, limit * 9 / 10, limit * 11 / 10);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shaped),
		cmocka_unit_test(test_fast),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_dead_host),
		cmocka_unit_test(test_rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
