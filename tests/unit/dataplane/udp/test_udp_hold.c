/* SPDX-License-Identifier: BSD-3-Clause */
/* When the socket is looked at, and when packets came. */
#include "hd_udp_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#define LOOPBACK 0x7f000001u
#define START (100 * HD_SECOND)

/* Packets come at a steady rate for so long, and the socket is looked at when the hold allows, or at the next packet.
 * Returns the number of times. */
static unsigned flow(struct udp_hold *hold, hd_ns *now, hd_ns gap, hd_ns duration, hd_ns whole_at) {
	const hd_ns began = *now;
	unsigned looks = 0;
	uint64_t taken = 0;

	while (*now < began + duration) {
		uint64_t come;

		*now = hd_ns_max(began + (taken + 1) * gap, hold->until);
		come = (*now - began) / gap;
		udp_hold_note(hold, *now, (uint32_t)(come - taken), whole_at);
		taken = come;
		looks++;
	}
	return looks;
}

static void test_many_packets_are_taken_at_once(void **state) {
	struct udp_hold hold = {0};
	hd_ns now = START;

	(void)state;
	assert_in_range(flow(&hold, &now, 60 * HD_US, 4 * HD_MS, START * 2), 40, 80);
	/* 16 a look, which is one each 0.96 ms */
	assert_in_range(flow(&hold, &now, 60 * HD_US, 100 * HD_MS, START * 2), 100, 115);
	/* not longer than a millisecond: 5 a look */
	assert_in_range(flow(&hold, &now, 200 * HD_US, 100 * HD_MS, START * 2), 95, 120);
}

static void test_few_packets_are_taken_at_once_each(void **state) {
	struct udp_hold hold = {0};
	hd_ns now = START;

	(void)state;
	assert_in_range(flow(&hold, &now, 300 * HD_US, 30 * HD_MS, START * 2), 99, 101);
	assert_int_equal(hold.span, 0);
}

static void test_very_many_come_together_anyway(void **state) {
	struct udp_hold hold = {0};
	hd_ns now = START;

	(void)state;
	(void)flow(&hold, &now, 12 * HD_US, 10 * HD_MS, START * 2);
	assert_int_equal(hold.span, 0);
}

static void test_control_alone_is_never_held(void **state) {
	struct udp_hold hold = {0};
	hd_ns now = START;

	(void)state;
	assert_in_range(flow(&hold, &now, 60 * HD_US, 30 * HD_MS, HD_NEVER), 499, 501);
	assert_true(hold.until <= now);
}

static void test_the_end_of_a_transfer_is_not_held(void **state) {
	struct udp_hold hold = {0};
	hd_ns now = START;

	(void)state;
	(void)flow(&hold, &now, 60 * HD_US, 10 * HD_MS, START * 2);
	udp_hold_note(&hold, now, 1, now + 100 * HD_US);
	assert_int_equal(hold.until, now + 100 * HD_US);
	udp_hold_note(&hold, now, 1, 0);
	assert_true(hold.until <= now);
}

static void test_silence_ends_it(void **state) {
	struct udp_hold hold = {0};
	hd_ns now = START;

	(void)state;
	(void)flow(&hold, &now, 60 * HD_US, 10 * HD_MS, START * 2);
	assert_true(hold.span > 0);
	now += HD_SECOND;
	udp_hold_note(&hold, now, 1, now + HD_SECOND);
	assert_true(hold.until <= now);
}

/* --- in a socket ------------------------------------------------------------------------------- */

struct taker {
	hd_ns at[8], now[8];
	uint32_t seen;
};

static void
take(void *core, hd_ns now, const struct hd_packet *packets, size_t count, struct hd_sink *sink) {
	struct taker *taker = core;

	(void)sink;
	for (size_t i = 0; i < count && taker->seen < 8; i++) {
		taker->at[taker->seen] = packets[i].at;
		taker->now[taker->seen++] = now;
	}
}

static void tick(void *core, hd_ns now, struct hd_sink *sink) {
	(void)core;
	(void)now;
	sink->send(sink, *(const struct hd_addr *)core, "12345678", 8, NULL, 0);
}

static hd_ns never(const void *core) {
	(void)core;
	return HD_NEVER;
}

static hd_ns at_once(const void *core) {
	(void)core;
	return 0;
}

static void nothing(void *core, hd_ns now, struct hd_sink *sink) {
	(void)core;
	(void)now;
	(void)sink;
}

/* A packet that waits in the socket came when the kernel got it, but not before the core's last call, nor longer ago
 * than packets are held. */
static void test_packets_have_their_time(void **state) {
	static const struct hd_core_ops taker_ops = {take, nothing, never},
					late = {take, nothing, at_once},
					giver_ops = {take, tick, at_once};
	const struct hd_udp_config config = {.bind.ipv4 = LOOPBACK};
	const struct timespec pause = {.tv_nsec = 20 * (long)HD_MS};
	struct taker taker = {0};
	struct hd_udp *from, *to;
	struct hd_addr peer;
	hd_ns before, after, called;
	char error[128];

	(void)state;
	assert_int_equal(hd_udp_open(&config, &from, error, sizeof error), 0);
	assert_int_equal(hd_udp_open(&config, &to, error, sizeof error), 0);
	peer = hd_udp_bound(to);
	before = hd_udp_now();
	assert_int_equal(hd_udp_poll(from, (struct hd_node){&giver_ops, &peer}, 0), 0);
	after = hd_udp_now();
	to->hold.span = UDP_HOLD_MOST;
	assert_int_equal(hd_udp_poll(to, (struct hd_node){&taker_ops, &taker}, 0), 0);
	assert_int_equal(taker.seen, 1);
	/* The two clocks are not read at the same moment. */
	if (taker.now[0] < before + UDP_HOLD_SEEN)
		assert_in_range(taker.at[0], before - HD_MS, after + HD_MS);
	/* The kernel begins to stamp packets some time after it is asked to. */
	for (int i = 0; i < 100 && taker.at[1] != taker.now[1] - UDP_HOLD_SEEN; i++) {
		taker.seen = 1;
		(void)hd_udp_poll(from, (struct hd_node){&giver_ops, &peer}, 0);
		(void)nanosleep(&pause, NULL);
		to->hold.span = UDP_HOLD_MOST;
		assert_int_equal(hd_udp_poll(to, (struct hd_node){&taker_ops, &taker}, 0), 0);
		assert_int_equal(taker.seen, 2);
	}
	assert_int_equal(taker.at[1], taker.now[1] - UDP_HOLD_SEEN);
	(void)hd_udp_poll(from, (struct hd_node){&giver_ops, &peer}, 0);
	(void)nanosleep(&pause, NULL);
	called = hd_udp_now();
	to->called_at = called;
	to->hold.span = UDP_HOLD_MOST;
	assert_int_equal(hd_udp_poll(to, (struct hd_node){&late, &taker}, 0), 0);
	assert_int_equal(taker.seen, 3);
	if (taker.now[2] < called + UDP_HOLD_SEEN)
		assert_int_equal(taker.at[2], called);
	hd_udp_close(from);
	hd_udp_close(to);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_packets_are_taken_at_once),
		cmocka_unit_test(test_few_packets_are_taken_at_once_each),
		cmocka_unit_test(test_very_many_come_together_anyway),
		cmocka_unit_test(test_control_alone_is_never_held),
		cmocka_unit_test(test_the_end_of_a_transfer_is_not_held),
		cmocka_unit_test(test_silence_ends_it),
		cmocka_unit_test(test_packets_have_their_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
