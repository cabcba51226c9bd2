/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of admission: a lone node at once, many by turns, fewer where the node runs late. */
#include "hd_admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#define MANY 500
#define APART (HD_JOIN_US * HD_US)

static void test_lone_ones_wait_for_nothing(void **state) {
	struct hd_admission admission = {0};
	hd_ns place = 0;

	(void)state;
	for (hd_ns now = HD_SECOND; now < 10 * HD_SECOND; now += APART) {
		assert_int_equal(hd_admission_ask(&admission, &place, 0, now), 0);
		assert_int_equal(place, 0);
	}
}

/* All at one moment: HD_JOINS_BURST are in, each of the others has a time of its own, and is in then; not before. */
static void check_crowd(hd_ns late, hd_ns apart, unsigned at_once) {
	struct hd_admission admission = {0};
	hd_ns place[MANY] = {0}, wait[MANY];
	const hd_ns now = 5 * HD_SECOND;
	unsigned in = 0;

	for (unsigned i = 0; i < MANY; i++) {
		wait[i] = hd_admission_ask(&admission, &place[i], late, now);
		in += wait[i] == 0;
		if (i > at_once)
			assert_int_equal(wait[i] - wait[i - 1], apart);
	}
	assert_int_equal(in, at_once);
	for (unsigned i = at_once; i < MANY; i++) {
		hd_ns due = now + wait[i];

		assert_int_equal(hd_admission_ask(&admission, &place[i], late, due - 1), 1);
		assert_int_equal(hd_admission_ask(&admission, &place[i], late, due), 0);
		assert_int_equal(place[i], 0);
	}
	/* Once all are in the next one does not wait. */
	assert_int_equal(hd_admission_ask(&admission, &place[0], 0, now + MANY * apart - APART), 0);
}

static void test_a_crowd_takes_turns(void **state) {
	(void)state;
	check_crowd(0, APART, HD_JOINS_BURST);
}

/* 4 s more of patience with others, as a node has that was 1.05 s late: 20 ms more between two. */
static void test_a_late_node_takes_fewer(void **state) {
	(void)state;
	check_crowd(4 * HD_SECOND, APART + 20 * HD_MS, 4);
}

/* A node that does not come again has kept no other out. */
static void test_no_wait_for_lost_nodes(void **state) {
	struct hd_admission admission = {0};
	const hd_ns now = HD_SECOND;
	hd_ns place, last = 0;

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		place = 0;
		last = hd_admission_ask(&admission, &place, 0, now);
	}
	place = 0;
	assert_int_equal(last, (MANY - HD_JOINS_BURST) * APART);
	assert_int_equal(hd_admission_ask(&admission, &place, 0, now + last + APART), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lone_ones_wait_for_nothing),
		cmocka_unit_test(test_a_crowd_takes_turns),
		cmocka_unit_test(test_a_late_node_takes_fewer),
		cmocka_unit_test(test_no_wait_for_lost_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
