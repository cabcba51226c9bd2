/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds that need some of their workers: at least n, exactly n, a root, or all for a barrier. */
#include "wait_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The first n, not before and at once. */
static void test_least(void **state) {
	const struct how first = {.least = 2}, later = {.least = 2, .wait_ms = 300};
	struct scene s;

	(void)state;
	open_after_one(&s);
	call(&s, 0, 2, &first);
	net_run(&s.net, 5 * HD_SECOND);
	assert_int_equal(members(&s, 0, 2), 0);
	call(&s, 2, 2, &first);
	assert_int_equal(members(&s, 0, 2), 2);
	done(&s, 0, HD_OUTCOME_APPLIED);
	done(&s, 2, HD_OUTCOME_APPLIED);
	call(&s, 1, 2, &first);
	assert_int_equal(drops(&s, 1, HD_REASON_LATE), 1);
	/* A time, and then the first n. */
	call_two(&s, 3, &later);
	net_run(&s.net, 280 * HD_MS);
	assert_int_equal(members(&s, 0, 3), 0);
	net_run(&s.net, 30 * HD_MS);
	assert_int_equal(members(&s, 0, 3), 2);
	end_two(&s);
	call(&s, 0, 4, &later);
	net_run(&s.net, 5 * HD_SECOND);
	assert_int_equal(members(&s, 0, 4), 0);
	call(&s, 1, 4, &later);
	assert_int_equal(members(&s, 0, 4), 2);
	net_close(&s.net);
}

/* Fewer than n are left: all are told. */
static void test_least_lost(void **state) {
	const struct how three = {.least = WORKERS};
	struct scene s;

	(void)state;
	open_after_one(&s);
	call_two(&s, 2, &three);
	s.workers[2]->cut = true;
	net_run(&s.net, 2 * LEASE);
	for (uint16_t i = 0; i < 2; i++) {
		assert_int_equal(drops(&s, i, HD_REASON_MEMBERS), 1);
		assert_string_equal(drop(&s, i)->text, "call 2: 2 of 3 members are left");
	}
	net_close(&s.net);
}

/* Exactly n: for ever, or an error at the time. The one that did not call is late, and the next round is whole. */
static void test_exact(void **state) {
	const struct how forever = {.exact = WORKERS}, timed = {.exact = WORKERS, .wait_ms = 300};
	struct scene s;

	(void)state;
	open_after_one(&s);
	call_two(&s, 2, &forever);
	net_run(&s.net, 40 * HD_SECOND);
	assert_int_equal(members(&s, 0, 2), 0);
	call(&s, 2, 2, &forever);
	assert_int_equal(members(&s, 0, 2), WORKERS);
	end_two(&s);
	done(&s, 2, HD_OUTCOME_APPLIED);
	call_two(&s, 3, &timed);
	net_run(&s.net, 310 * HD_MS);
	for (uint16_t i = 0; i < 2; i++) {
		assert_int_equal(drops(&s, i, HD_REASON_MEMBERS), 1);
		assert_string_equal(
			drop(&s, i)->text, "call 3: 2 of 3 members have called it within 300 ms"
		);
	}
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	/* It is waited for in each such round: without it there is none. */
	call_two(&s, 4, &timed);
	net_run(&s.net, 200 * HD_MS);
	assert_int_equal(drops(&s, 0, HD_REASON_MEMBERS), 1);
	call(&s, 2, 3, &timed);
	assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
	call(&s, 2, 4, &timed);
	assert_int_equal(members(&s, 0, 4), WORKERS);
	net_close(&s.net);
}

static void test_barrier(void **state) {
	const struct how barrier = {.collective = HD_COLLECTIVE_BARRIER},
			 timed = {.collective = HD_COLLECTIVE_BARRIER, .wait_ms = 100};
	struct scene s;

	(void)state;
	open_after_one(&s);
	call_two(&s, 2, &barrier);
	net_run(&s.net, 40 * HD_SECOND);
	assert_int_equal(peer_count(s.workers[0], HD_MSG_REDUCED), 0);
	call(&s, 2, 2, &barrier);
	assert_int_equal(peer_count(s.workers[0], HD_MSG_REDUCED), 1);
	call_two(&s, 3, &timed);
	net_run(&s.net, 110 * HD_MS);
	assert_int_equal(peer_count(s.workers[0], HD_MSG_REDUCED), 2);
	net_close(&s.net);
}

/* Without its root there is no round; the time of the others begins with it. */
static void test_root(void **state) {
	const struct how root = {.collective = HD_COLLECTIVE_REDUCE, .root = 2};
	struct scene s;

	(void)state;
	open_after_one(&s);
	call(&s, 0, 2, &root);
	net_run(&s.net, 10 * HD_SECOND);
	assert_int_equal(members(&s, 0, 2), 0);
	call(&s, 2, 2, &root);
	net_run(&s.net, NEARLY);
	assert_int_equal(members(&s, 0, 2), 0);
	net_run(&s.net, SOON);
	assert_int_equal(members(&s, 0, 2), 2);
	net_close(&s.net);
}

static void test_root_timed(void **state) {
	const struct how timed = {.collective = HD_COLLECTIVE_REDUCE, .root = 2, .wait_ms = 100};
	struct scene s;

	(void)state;
	open_after_one(&s);
	call_two(&s, 2, &timed);
	net_run(&s.net, 110 * HD_MS);
	assert_int_equal(drops(&s, 0, HD_REASON_ROOT), 1);
	assert_string_equal(
		drop(&s, 0)->text, "call 2: its root, rank 2, has not called it in time"
	);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_least_lost),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_barrier),
		cmocka_unit_test(test_root),
		cmocka_unit_test(test_root_timed),
	};

	return cmocka_run_group_tests_name("controller_reduce_needs", tests, NULL, NULL);
}
