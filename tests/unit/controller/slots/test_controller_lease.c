/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases of slots at the controller, by messages: what is kept between rounds, what ends. */
#include "ctl_slots.h"
#include "lease_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A lease is asked for once, and rounds go through it one after the other, or at once. */
static void test_rounds(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	ask(&s, 0, 1, 1);
	ask(&s, 1, 1, 1);
	assert_null(leased(&s));
	ask(&s, 2, 1, 1);
	assert_non_null(leased(&s));
	assert_int_equal(hd_group_count(&leased(&s)->members, HD_GROUP_SEAT_BYTES), WORKERS);
	assert_int_equal(leased(&s)->receivers.bytes, 0);
	assert_int_equal(leased(&s)->waits, 7);
	assert_int_equal(leased(&s)->count, COUNT);
	assert_int_equal(leased(&s)->dtype, HD_DTYPE_FP32);
	assert_int_equal(leased(&s)->slots, CTL_LEASE_SLOTS_FLOOR);
	assert_int_equal(leased(&s)->epoch, 1);
	/* No worker is notified before it is in force. */
	assert_null(reduce_sent(&s, 0));
	grant(&s);
	check_agreement(&s, WORKERS);
	assert_int_equal(reduce_sent(&s, 0)->first, 0);
	assert_int_equal(reduce_sent(&s, 0)->turn, 1);
	assert_int_equal(reduce_sent(&s, 0)->rate_bps, 0);
	ask_all(&s, 2, 1);
	check_agreement(&s, WORKERS);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	assert_int_equal(reduce_sent(&s, 0)->turn, 2);
	assert_int_equal(reduce_sent(&s, 0)->first, BYTES / 4 / COUNT);
	done_all(&s);
	ask_all(&s, 3, 1);
	assert_int_equal(reduce_sent(&s, 0)->first, 2 * BYTES / 4 / COUNT);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 1);
	assert_int_equal(peer_count(s.at, HD_MSG_VOID), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_null(peer_last(s.aggregators[i], HD_MSG_GROUP));
	assert_int_equal(counters(&s.net)->reduces, 3);
	assert_int_equal(counters(&s.net)->reduces_switched, 3);
	assert_int_equal(counters(&s.net)->leases, 1);
	net_close(&s.net);
}

/* It says no, or nothing: aggregators, at once or after a while; later it is asked again. */
static void test_refused(void **state) {
	struct scene s;
	uint64_t name;

	(void)state;
	open_scene(&s);
	ask_all(&s, 1, 1);
	answer(&s, HD_OUTCOME_FAILED, HD_REASON_NO_MEMORY);
	assert_shards(&s);
	assert_string_equal(job_of(&s)->why, "refused");
	done_all(&s);
	ask_all(&s, 2, 1);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 1);
	done_all(&s);
	net_run(&s.net, CTL_LEASE_REST_NS);
	ask_all(&s, 3, 1);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 2);
	name = leased(&s)->lease;
	net_run(&s.net, CTL_LEASE_WAIT_NS / 2);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	net_run(&s.net, CTL_LEASE_WAIT_NS);
	assert_int_equal(reduce_sent(&s, 0)->round, 3);
	assert_shards(&s);
	assert_int_equal(peer_last(s.at, HD_MSG_VOID)->void_.token, name);
	/* Its answer comes at last: it is ignored. */
	grant(&s);
	assert_int_equal(counters(&s.net)->reports_unknown, 1);
	assert_int_equal(counters(&s.net)->leases_refused, 2);
	net_close(&s.net);
}

/* A worker that is gone is not waited for any more, in this round and the next ones. */
static void test_worker_dies(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_all(&s, 1, 1);
	grant(&s);
	s.workers[1]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 2);
	assert_int_equal(leased(&s)->waits, 5);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	done(&s, 0);
	done(&s, 2);
	assert_int_equal(job_of(&s)->reduce_count, 0);
	ask(&s, 0, 2, 1);
	ask(&s, 2, 2, 1);
	assert_int_equal(reduce_sent(&s, 2)->round, 2);
	assert_int_equal(reduce_sent(&s, 2)->workers, 2);
	assert_int_equal(reduce_sent(&s, 2)->member, 2);
	assert_int_equal(reduce_sent(&s, 2)->slots, leased(&s)->slots);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 2);
	/* All are gone. */
	done(&s, 0);
	done(&s, 2);
	s.workers[0]->cut = s.workers[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(leased(&s)->waits & ~UINT64_C(5), 0);
	assert_int_equal(peer_last(s.at, HD_MSG_VOID)->void_.token, leased(&s)->lease);
	assert_true(TAILQ_EMPTY(&s.net.controller->leases));
	net_close(&s.net);
}

/* One asks again, as its chunks had not the same members: all rounds of the lease are void, and the next lease has
 * other tokens. */
static void test_asks_again(void **state) {
	struct hd_msg_slots first;
	struct scene s;

	(void)state;
	open_scene(&s);
	s.have = 1;
	ask_all(&s, 1, 1);
	grant(&s);
	ask_all(&s, 2, 1);
	first = *leased(&s);
	ask(&s, 1, 1, 2);
	assert_int_equal(counters(&s.net)->reduces_failed, 2);
	assert_int_equal(peer_last(s.at, HD_MSG_VOID)->void_.token, first.lease);
	assert_int_equal(peer_count(s.workers[0], HD_MSG_VOID), 2);
	assert_int_equal(
		peer_last(s.workers[0], HD_MSG_VOID)->void_.token,
		hd_group_get_shard(&reduce_sent(&s, 0)->shards, 0).out_token
	);
	ask(&s, 0, 2, 2);
	ask(&s, 2, 2, 2);
	ask(&s, 1, 2, 2);
	/* The round after it has been asked for first. */
	assert_int_not_equal(leased(&s)->lease, first.lease);
	assert_int_not_equal(leased(&s)->attempt, first.attempt);
	assert_int_not_equal(
		hd_group_get_seat(&leased(&s)->members, 0).token,
		hd_group_get_seat(&first.members, 0).token
	);
	grant(&s);
	check_agreement(&s, WORKERS);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	assert_int_equal(reduce_sent(&s, 0)->turn, 2);
	ask(&s, 0, 1, 2);
	ask(&s, 2, 1, 2);
	check_agreement(&s, WORKERS);
	assert_int_equal(reduce_sent(&s, 0)->round, 1);
	assert_int_equal(reduce_sent(&s, 0)->turn, 3);
	assert_int_equal(reduce_sent(&s, 0)->first, BYTES / 4 / COUNT);
	/* Twice void there: then over aggregators, and with it the other one. */
	ask(&s, 0, 1, 3);
	ask(&s, 1, 1, 3);
	ask(&s, 2, 1, 3);
	assert_shards(&s);
	assert_string_equal(job_of(&s)->why, "failed");
	net_close(&s.net);
}

/* A worker more: another lease, once the rounds of those before are over. */
static void test_another_worker(void **state) {
	struct scene s;
	uint64_t first;

	(void)state;
	open_scene(&s);
	ask_all(&s, 1, 1);
	grant(&s);
	first = leased(&s)->lease;
	s.workers[3] = join(&s, "j", 3, "h4", COUNT);
	ask_all(&s, 2, 1);
	ask(&s, 3, 2, 1);
	assert_int_equal(leased(&s)->lease, first);
	assert_int_equal(reduce_sent(&s, 0)->round, 1);
	done_all(&s);
	net_run(&s.net, 2 * CTL_LEASE_BUSY_NS);
	assert_int_not_equal(leased(&s)->lease, first);
	assert_int_equal(peer_last(s.at, HD_MSG_VOID)->void_.token, first);
	assert_int_equal(leased(&s)->waits, 15);
	grant(&s);
	check_agreement(&s, WORKERS + 1);
	assert_int_equal(reduce_sent(&s, 3)->member, 3);
	assert_int_equal(reduce_sent(&s, 3)->first, 0);
	net_close(&s.net);
}

/* It dies: what went through it is void, and goes over aggregators. */
static void test_switch_dies(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_all(&s, 1, 1);
	grant(&s);
	s.at->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_non_null(peer_last(s.workers[i], HD_MSG_VOID));
	ask_all(&s, 1, 2);
	assert_shards(&s);
	assert_string_equal(job_of(&s)->why, "no-switch");
	done_all(&s);
	/* Before it has answered. */
	add_switch(&s, 4096);
	ask_all(&s, 2, 1);
	assert_int_equal(reduce_sent(&s, 0)->round, 1);
	s.at->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	assert_shards(&s);
	net_close(&s.net);
}

/* Without aggregators a round waits for slots. */
static void test_only_a_switch(void **state) {
	struct scene s;

	(void)state;
	open_with(&s, &net_plain);
	ask_all(&s, 1, 1);
	net_run(&s.net, HD_SECOND);
	assert_null(reduce_sent(&s, 0));
	add_switch(&s, CTL_LEASE_SLOTS_LEAST - 1);
	net_run(&s.net, HD_SECOND);
	assert_null(leased(&s));
	assert_string_equal(job_of(&s)->why, ctl_why_slots);
	post(s.at, registration(s.at, 64));
	net_run(&s.net, HD_SECOND / 10);
	assert_non_null(leased(&s));
	answer(&s, HD_OUTCOME_FAILED, HD_REASON_TIMEOUT);
	net_run(&s.net, CTL_LEASE_REST_NS + CTL_LEASE_WAIT_NS / 2);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 2);
	grant(&s);
	check_agreement(&s, WORKERS);
	assert_null(peer_last(s.workers[0], HD_MSG_DROP));
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_worker_dies),
		cmocka_unit_test(test_asks_again),
		cmocka_unit_test(test_another_worker),
		cmocka_unit_test(test_switch_dies),
		cmocka_unit_test(test_only_a_switch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
