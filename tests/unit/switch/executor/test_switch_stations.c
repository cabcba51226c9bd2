/* SPDX-License-Identifier: BSD-3-Clause */
/* Where addresses are: learned from ARP that passes, not moved by the first that claims it, bounded. */
#include "hd_bytes.h"
#include "hd_frame.h"
#include "hd_random.h"
#include "hd_switch_stations.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define A 0x0a000001u

static struct hd_switch_stations *make(uint32_t capacity) {
	struct hd_switch_stations *s;

	assert_int_equal(hd_switch_stations_create(capacity, &s), 0);
	return s;
}

static bool
arp(struct hd_switch_stations *s, hd_ns now, uint16_t port, uint32_t ipv4, uint8_t station) {
	const struct hd_frame_self self = {.mac = {{2, 0, 0, 0, 0, station}}, .ipv4 = ipv4};
	uint8_t frame[HD_FRAME_ARP_BYTES];

	hd_frame_put_arp_request(&self, A + 99, NULL, frame);
	return hd_switch_stations_learn(s, now, port, frame, sizeof frame);
}

static void
assert_at(const struct hd_switch_stations *s, uint32_t ipv4, uint16_t port, uint8_t station) {
	struct hd_switch_station found;

	assert_true(hd_switch_stations_find(s, ipv4, &found));
	assert_int_equal(found.port, port);
	assert_int_equal(found.mac[5], station);
}

static void test_learns(void **state) {
	struct hd_switch_stations *s = make(8);
	struct hd_switch_station none;

	(void)state;
	assert_false(hd_switch_stations_find(s, A, &none));
	assert_true(arp(s, HD_SECOND, 3, A, 1));
	assert_at(s, A, 3, 1);
	assert_false(hd_switch_stations_find(s, A + 1, &none));
	/* Not at once, and not while the first still speaks. */
	assert_false(arp(s, 2 * HD_SECOND - 1, 4, A, 2));
	assert_true(arp(s, 2 * HD_SECOND - 1, 3, A, 1));
	assert_false(arp(s, 2 * HD_SECOND + 1, 4, A, 2));
	assert_at(s, A, 3, 1);
	assert_true(arp(s, 3 * HD_SECOND, 4, A, 2));
	assert_at(s, A, 4, 2);
	assert_int_equal(hd_switch_stations_count(s), 1);
	hd_switch_stations_destroy(s);
}

static void test_fixed(void **state) {
	const struct hd_switch_station fixed = {{2, 0, 0, 0, 0, 7}, 7};
	struct hd_switch_stations *s = make(2);

	(void)state;
	assert_true(arp(s, 0, 3, A, 1));
	assert_int_equal(hd_switch_stations_set(s, A, &fixed), 0);
	assert_false(arp(s, HD_SECOND * 1000, 3, A, 1));
	for (uint32_t i = 1; i < 100; i++)
		assert_true(arp(s, HD_SECOND, 1, A + i, (uint8_t)i));
	assert_at(s, A, 7, 7);
	assert_at(s, A + 99, 1, 99);
	assert_int_equal(hd_switch_stations_count(s), 2);
	assert_int_equal(hd_switch_stations_set(s, A + 99, &fixed), 0);
	assert_int_equal(hd_switch_stations_set(s, A + 98, &fixed), -ENOSPC);
	/* Nothing is left to make room. */
	assert_false(arp(s, HD_SECOND, 1, A + 100, 1));
	assert_false(hd_switch_stations_ask(s, HD_SECOND, A + 100));
	hd_switch_stations_destroy(s);
}

/* A station that spoke before the table was closed is not believed any more either. */
static void test_closed(void **state) {
	const struct hd_switch_station fixed = {{2, 0, 0, 0, 0, 7}, 7};
	struct hd_switch_stations *s = make(4);
	struct hd_switch_station found;

	(void)state;
	assert_true(arp(s, 0, 3, A, 1));
	assert_false(hd_switch_stations_are_closed(s));
	hd_switch_stations_close(s);
	assert_true(hd_switch_stations_are_closed(s));
	assert_false(hd_switch_stations_find(s, A, &found));
	assert_false(arp(s, HD_SECOND * 1000, 3, A, 1));
	assert_false(arp(s, HD_SECOND * 1000, 3, A + 1, 1));
	assert_false(hd_switch_stations_ask(s, HD_SECOND, A));
	assert_int_equal(hd_switch_stations_set(s, A, &fixed), 0);
	assert_at(s, A, 7, 7);
	hd_switch_stations_destroy(s);
}

static void test_asks(void **state) {
	struct hd_switch_stations *s = make(4);
	struct hd_switch_station found;
	uint8_t frame[HD_STATIONS_ARP_BYTES];
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
	const struct hd_frame_self them = {.mac = {{2, 0, 0, 0, 0, 1}}, .ipv4 = A};
	struct hd_frame parsed;

	(void)state;
	assert_true(hd_switch_stations_ask(s, HD_SECOND, A));
	assert_false(hd_switch_stations_ask(s, HD_SECOND + HD_STATIONS_ASK_NS - 1, A));
	assert_true(hd_switch_stations_ask(s, HD_SECOND + HD_STATIONS_ASK_NS, A));
	assert_false(hd_switch_stations_find(s, A, &found));
	hd_switch_stations_question(mac, A, frame);
	/* No station is learned from it, and it asks for A. */
	assert_false(hd_switch_stations_learn(s, HD_SECOND, 0, frame, sizeof frame));
	assert_int_equal(hd_frame_parse(&them, frame, sizeof frame, 0, &parsed), HD_FRAME_DROP);
	assert_int_equal(hd_get32(frame + 38), A);
	assert_int_equal(hd_get32(frame + 28), 0);
	assert_memory_equal(frame + 22, mac, 6);
	assert_true(arp(s, HD_SECOND, 2, A, 5));
	assert_at(s, A, 2, 5);
	hd_switch_stations_destroy(s);
}

/* Frames that say nothing, or for others. */
static void test_hostile(void **state) {
	const struct hd_frame_self self = {.mac = {{2, 0, 0, 0, 0, 1}}, .ipv4 = A};
	struct hd_switch_stations *s = make(4);
	uint8_t good[HD_FRAME_ARP_BYTES], frame[HD_FRAME_ARP_BYTES];
	static const struct {
		size_t at;
		uint8_t value;
	} wrong[]
		= {{12, 9},
		   {14, 7},
		   {18, 8},
		   {21, 3},
		   {22, 4},
		   {27, 9},
		   {6, 3},
		   {28, 0},
		   {28, 224},
		   {28, 127}};

	(void)state;
	hd_frame_put_arp_request(&self, A + 1, NULL, good);
	for (size_t cut = 0; cut < HD_STATIONS_ARP_BYTES; cut++)
		assert_false(hd_switch_stations_learn(s, HD_SECOND, 0, good, cut));
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		memcpy(frame, good, sizeof frame);
		frame[wrong[i].at] = wrong[i].value;
		assert_false(hd_switch_stations_learn(s, HD_SECOND, 0, frame, sizeof frame));
	}
	assert_int_equal(hd_switch_stations_count(s), 0);
	assert_true(hd_switch_stations_learn(s, HD_SECOND, 0, good, sizeof good));
	assert_int_equal(hd_switch_stations_create(0, &s), -EINVAL);
	assert_int_equal(hd_switch_stations_create(65536, &s), -EINVAL);
	hd_switch_stations_destroy(s);
}

/* Any order: the last `capacity` that were added are there, and chains stay whole. */
static void test_many(void **state) {
	struct hd_switch_stations *s = make(100);
	struct hd_random random;
	hd_ns now = HD_SECOND;

	(void)state;
	hd_random_init(&random, 4);
	for (int i = 0; i < 20000; i++) {
		uint32_t ipv4 = A + (uint32_t)hd_random_below(&random, 1000) * 16;
		uint16_t port = (uint16_t)hd_random_below(&random, 64);

		now += 2 * HD_SECOND;
		assert_true(arp(s, now, port, ipv4, (uint8_t)port));
		assert_at(s, ipv4, port, (uint8_t)port);
		assert_true(hd_switch_stations_count(s) <= 100);
	}
	hd_switch_stations_destroy(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_learns),
		cmocka_unit_test(test_fixed),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_asks),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
