/* SPDX-License-Identifier: BSD-3-Clause */
/* The ARP table: addresses are asked for once, held in order, given up, aged, bounded, and the table cannot be filled
 * by others. */
#include "hd_neighbours.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define A 0x0a000001u
#define FRESH (HD_NEIGHBOUR_FRESH_US * HD_US)
#define RETRY (HD_NEIGHBOUR_RETRY_US * HD_US)
#define GIVE_UP (HD_NEIGHBOUR_GIVE_UP_US * HD_US)

static const struct hd_mac one = {{2, 0, 0, 0, 0, 1}}, two = {{2, 0, 0, 0, 0, 2}};

/* Packets are places in here: the table only hands them back. */
static char packets[64];

struct world {
	struct hd_neighbours *n;
	uint32_t asked, asked_station, last_asked;
	uint32_t sent, dropped;
	char *last_sent, *last_dropped;
};

static void on_ask(void *owner, uint32_t ipv4, const struct hd_mac *mac) {
	struct world *w = owner;

	w->asked++;
	w->asked_station += mac != NULL;
	w->last_asked = ipv4;
}

static void on_send(void *owner, void *packet, const struct hd_mac *mac) {
	struct world *w = owner;

	assert_true((char *)packet > w->last_sent); /* in order */
	w->last_sent = packet;
	w->sent++;
}

static void on_drop(void *owner, void *packet) {
	struct world *w = owner;

	w->last_dropped = packet;
	w->dropped++;
}

static void begin(struct world *w, uint32_t capacity) {
	static const struct hd_neighbour_ops ops = {on_ask, on_send, on_drop};

	*w = (struct world){0};
	assert_int_equal(hd_neighbours_create(capacity, &ops, w, &w->n), 0);
}

static bool resolve(struct world *w, hd_ns now, uint32_t ipv4, struct hd_mac *mac) {
	return hd_neighbours_resolve(w->n, now, ipv4, mac);
}

static void test_asks_once_and_sends_in_order(void **state) {
	struct hd_mac mac;
	struct world w;

	begin(&w, 4);
	assert_int_equal(hd_neighbours_deadline(w.n), HD_NEVER);
	for (int i = 1; i <= 5; i++) {
		assert_false(resolve(&w, 10, A, &mac));
		hd_neighbours_hold(w.n, A, &packets[i]);
	}
	assert_int_equal(w.asked, 1);
	assert_int_equal(w.asked_station, 0);
	hd_neighbours_learn(w.n, 20, A, &one, false);
	assert_int_equal(w.sent, 5);
	assert_int_equal(w.dropped, 0);
	assert_int_equal(hd_neighbours_deadline(w.n), HD_NEVER);
	assert_true(resolve(&w, 30, A, &mac));
	assert_memory_equal(&mac, &one, sizeof mac);
	assert_int_equal(w.asked, 1);
	hd_neighbours_destroy(w.n);
}

static void test_asks_again_and_gives_up(void **state) {
	struct hd_mac mac;
	struct world w;
	hd_ns now = 5;

	begin(&w, 4);
	assert_false(resolve(&w, now, A, &mac));
	hd_neighbours_hold(w.n, A, &packets[1]);
	assert_int_equal(hd_neighbours_deadline(w.n), now + RETRY);
	hd_neighbours_tick(w.n, now + RETRY - 1);
	assert_int_equal(w.asked, 1);
	while (hd_neighbours_deadline(w.n) != HD_NEVER) {
		now = hd_neighbours_deadline(w.n);
		assert_true(now <= 5 + GIVE_UP + RETRY);
		hd_neighbours_tick(w.n, now);
	}
	assert_int_equal(w.asked, GIVE_UP / RETRY);
	assert_int_equal(w.dropped, 1);
	assert_int_equal(hd_neighbours_count(w.n), 0);
	assert_int_equal(hd_neighbours_stats(w.n)->given_up, 1);
	hd_neighbours_destroy(w.n);
}

static void test_holds_the_newest(void **state) {
	struct hd_mac mac;
	struct world w;

	begin(&w, 4);
	for (int i = 1; i <= HD_NEIGHBOUR_WAITING_MAX + 3; i++) {
		assert_false(resolve(&w, 1, A, &mac));
		hd_neighbours_hold(w.n, A, &packets[i]);
	}
	assert_int_equal(w.dropped, 3);
	assert_ptr_equal(w.last_dropped, &packets[3]);
	hd_neighbours_destroy(w.n);
	assert_int_equal(w.dropped, HD_NEIGHBOUR_WAITING_MAX + 3);
}

static void test_ages(void **state) {
	struct hd_mac mac;
	struct world w;
	hd_ns now = 100;

	begin(&w, 4);
	hd_neighbours_learn(w.n, now, A, &one, true);
	assert_true(resolve(&w, now + FRESH - 1, A, &mac));
	assert_int_equal(w.asked, 0);
	/* Old: still used, and the station itself is asked. */
	assert_true(resolve(&w, now + FRESH, A, &mac));
	assert_int_equal(w.asked, 1);
	assert_int_equal(w.asked_station, 1);
	assert_true(resolve(&w, now + FRESH + 1, A, &mac));
	assert_int_equal(w.asked, 1);
	hd_neighbours_learn(w.n, now + FRESH + 2, A, &one, false);
	assert_true(resolve(&w, now + FRESH + 3, A, &mac));
	assert_int_equal(w.asked, 1);
	/* Old, and silent: it is forgotten, and a broadcast asks again. */
	now += 2 * FRESH + 10;
	assert_true(resolve(&w, now, A, &mac));
	while (hd_neighbours_deadline(w.n) != HD_NEVER)
		hd_neighbours_tick(w.n, hd_neighbours_deadline(w.n));
	assert_int_equal(hd_neighbours_count(w.n), 0);
	assert_false(resolve(&w, now + GIVE_UP + RETRY, A, &mac));
	hd_neighbours_destroy(w.n);
}

static void test_believes_only_what_matters(void **state) {
	struct hd_mac mac;
	struct world w;

	begin(&w, 4);
	hd_neighbours_learn(w.n, 1, A, &one, false); /* unsolicited */
	assert_int_equal(hd_neighbours_count(w.n), 0);
	hd_neighbours_learn(w.n, 1, A, &one, true);
	/* Another station says so right after: not believed; a second later it is. */
	hd_neighbours_learn(w.n, 2, A, &two, true);
	assert_true(resolve(&w, 3, A, &mac));
	assert_memory_equal(&mac, &one, sizeof mac);
	hd_neighbours_learn(w.n, 2 + HD_SECOND, A, &two, true);
	assert_true(resolve(&w, 3 + HD_SECOND, A, &mac));
	assert_memory_equal(&mac, &two, sizeof mac);
	assert_int_equal(hd_neighbours_stats(w.n)->ignored, 2);
	assert_int_equal(hd_neighbours_stats(w.n)->moved, 1);
	hd_neighbours_destroy(w.n);
}

static void test_is_bounded(void **state) {
	struct hd_mac mac;
	struct world w;

	begin(&w, 64);
	for (uint32_t i = 0; i < 64; i++)
		hd_neighbours_learn(w.n, 1, A + i, &one, true);
	assert_true(resolve(&w, 2, A, &mac)); /* used: not the oldest any more */
	for (uint32_t i = 0; i < 10000; i++) {
		assert_false(resolve(&w, 3 + i, 0x0b000000 + i, &mac));
		hd_neighbours_hold(w.n, 0x0b000000 + i, &packets[1]);
		assert_true(resolve(&w, 3 + i, A, &mac));
		assert_int_equal(hd_neighbours_count(w.n), 64);
	}
	assert_int_equal(hd_neighbours_stats(w.n)->evicted, 10000);
	assert_int_equal(w.dropped, 10000 - 63); /* all but those that are still held */
	hd_neighbours_destroy(w.n);
	assert_int_equal(w.dropped, 10000);
}

static void test_limits(void **state) {
	struct hd_neighbours *n = (struct hd_neighbours *)1;

	assert_int_equal(hd_neighbours_create(0, NULL, NULL, &n), -EINVAL);
	assert_int_equal(hd_neighbours_create(65535, NULL, NULL, &n), -EINVAL);
	assert_ptr_equal(n, (struct hd_neighbours *)1);
	hd_neighbours_destroy(NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_asks_once_and_sends_in_order),
		cmocka_unit_test(test_asks_again_and_gives_up),
		cmocka_unit_test(test_holds_the_newest),
		cmocka_unit_test(test_ages),
		cmocka_unit_test(test_believes_only_what_matters),
		cmocka_unit_test(test_is_bounded),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
