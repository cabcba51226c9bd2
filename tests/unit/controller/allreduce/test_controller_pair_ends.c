/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives at the controller when an end is lost, withdraws, asks again, or is a new process. */
#include "pair_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_msg_channel *question(const struct scene *s, uint16_t rank) {
	const struct hd_message *m = peer_last(s->workers[rank], HD_MSG_CHANNEL);

	return m ? &m->channel : NULL;
}

/* A worker that is lost, and one that was never there: a call is refused as soon as that is known. */
static void test_lost(void **state) {
	const uint16_t gone = 1, never = 9;
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_pair(&s, 0, (struct pair_wish){.from = gone, .to = 0, .number = 1});
	ask_pair(&s, 2, (struct pair_wish){.from = 2, .to = gone, .number = 1});
	assert_null(dropped(&s, 0));
	s.workers[gone]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(drops(&s, 0, HD_REASON_PEER), 1);
	assert_string_equal(dropped(&s, 0)->text, "receive 1 from rank 1: rank 1 is lost");
	assert_int_equal(drops(&s, 2, HD_REASON_PEER), 1);
	assert_string_equal(dropped(&s, 2)->text, "send 1 to rank 1: rank 1 is lost");
	ask_pair(&s, 0, (struct pair_wish){.from = gone, .to = 0, .number = 2});
	assert_int_equal(drops(&s, 0, HD_REASON_PEER), 2);
	ask_pair(&s, 0, (struct pair_wish){.from = 0, .to = never, .number = 1});
	assert_int_equal(drops(&s, 0, HD_REASON_PEER), 3);
	assert_int_equal(job_of(&s)->pair_count, 0);
	net_close(&s.net);
}

/* In progress: a sender learns at once that its receiver is lost; a receiver may still get its values, and is told when
 * its aggregator has lost the sender. */
static void test_lost_in_progress(void **state) {
	for (uint16_t gone = 0; gone < 2; gone++) {
		const uint16_t left = 1 - gone;
		struct hd_message m = {.kind = HD_MSG_REPORT};
		struct scene s;

		(void)state;
		open_scene(&s);
		ask_pair(&s, 0, (struct pair_wish){.from = 0, .to = 1, .number = 1});
		ask_pair(&s, 1, (struct pair_wish){.from = 0, .to = 1, .number = 1});
		m.report.job = job_of(&s)->id;
		m.report.outcome = HD_OUTCOME_FAILED;
		m.report.reason = HD_REASON_LEASE;
		m.report.token = peer_last(s.aggregators[1], HD_MSG_GROUP)->group.group;
		s.workers[gone]->cut = true;
		net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
		assert_int_equal(drops(&s, left, HD_REASON_PEER), left == 0);
		assert_int_equal(peer_count(s.aggregators[1], HD_MSG_VOID), left == 0);
		if (left == 1) {
			post(s.aggregators[1], m);
			net_run(&s.net, HD_MS);
			assert_non_null(peer_last(s.workers[1], HD_MSG_VOID));
			ask_pair(
				&s,
				1,
				(struct pair_wish){.from = 0, .to = 1, .number = 1, .attempt = 2}
			);
			assert_int_equal(drops(&s, 1, HD_REASON_PEER), 1);
		}
		assert_int_equal(job_of(&s)->pair_count, 0);
		net_close(&s.net);
	}
}

/* It has asked before it knew the other's process, and then counted with one that is not there any more. */
static void test_asked_before_a_replacement(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_pair(&s, 0, (struct pair_wish){.from = 0, .to = 1, .number = 2});
	answer(&s,
	       0,
	       (struct hd_msg_channel){.channel = hd_channel(0, 1), .peer_boot = 12345, .called = 2}
	);
	assert_int_equal(drops(&s, 0, HD_REASON_PEER), 1);
	assert_int_equal(dropped(&s, 0)->deadline, 1);
	assert_int_equal(job_of(&s)->pair_count, 0);
	net_close(&s.net);
}

static void withdraw(struct scene *s, uint16_t rank, struct pair_wish wish) {
	struct hd_message m = {.kind = HD_MSG_CANCEL};

	m.cancel.job = job_of(s)->id;
	m.cancel.worker = rank;
	m.cancel.round = wish.number;
	m.cancel.channel = hd_channel(wish.from, wish.to);
	m.cancel.direction = HD_REDUCE;
	m.cancel.attempt = 1;
	m.cancel.reason = HD_REASON_CANCELLED;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* The other end waits, and is told at once; or it asks later, and the controller asks the end that has withdrawn. */
static void test_withdrawn(void **state) {
	const struct pair_wish first = {.from = 0, .to = 1, .number = 1};
	const struct pair_wish second = {.from = 0, .to = 1, .number = 2};
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_pair(&s, 0, first);
	ask_pair(&s, 1, first);
	report(&s, 1, HD_OUTCOME_APPLIED, job_of(&s)->boot[0]);
	ask_pair(&s, 0, second);
	ask_pair(&s, 1, (struct pair_wish){.from = 0, .to = 1, .number = 3});
	withdraw(&s, 0, second);
	ask_pair(&s, 1, second);
	assert_null(dropped(&s, 1));
	net_run(&s.net, CTL_PAIR_ASK_NS + HD_MS);
	assert_non_null(question(&s, 0));
	assert_int_equal(question(&s, 0)->channel, hd_channel(0, 1));
	/* It still counts with another process. */
	answer(&s,
	       0,
	       (struct hd_msg_channel){hd_channel(0, 1), 0, hd_channel(0, 1), 7, 2, 3, 0, 0, 0});
	assert_null(dropped(&s, 1));
	answer(&s,
	       0,
	       (struct hd_msg_channel
	       ){.channel = hd_channel(0, 1),
		 .peer_boot = job_of(&s)->boot[1],
		 .called = 2,
		 .from = 3});
	assert_int_equal(drops(&s, 1, HD_REASON_PEER), 1);
	assert_int_equal(dropped(&s, 1)->round, 2);
	assert_string_equal(dropped(&s, 1)->text, "receive 2 from rank 0: rank 0 has given it up");
	ask_pair(&s, 0, (struct pair_wish){.from = 0, .to = 1, .number = 3});
	assert_int_equal(reduce_sent(&s, 0)->round, 3);
	net_close(&s.net);
}

/* A sender asks again, and its receiver has the values already: under a new controller, say. */
static void test_asked_again(void **state) {
	const struct pair_wish again = {.from = 0, .to = 1, .number = 5, .attempt = 2};

	(void)state;
	for (int has = 0; has < 2; has++) {
		struct scene s;

		open_scene(&s);
		ask_pair(&s, 0, again);
		assert_non_null(question(&s, 1));
		answer(&s,
		       1,
		       (struct hd_msg_channel
		       ){.channel = hd_channel(0, 1),
			 .peer_boot = job_of(&s)->boot[0],
			 .called = 7,
			 .from = has ? 8 : 5,
			 .open = 1,
			 .newest = 7,
			 .had = has ? 3 : 1});
		assert_int_equal(released(&s, 0), has);
		assert_null(dropped(&s, 0));
		assert_int_equal(job_of(&s)->pair_count, !has);
		if (!has)
			ask_pair(&s, 1, again);
		assert_int_equal(begun(&s, 0), !has);
		net_close(&s.net);
	}
}

/* An aggregator fails: both ask again. One that does so by itself voids the attempt for the other one, too. */
static void test_void(void **state) {
	struct pair_wish wish = {.from = 0, .to = 1, .number = 1};
	struct hd_message m = {.kind = HD_MSG_REPORT};
	uint64_t sum_id;
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_pair(&s, 0, wish);
	ask_pair(&s, 1, wish);
	sum_id = reduce_sent(&s, 0)->sum_id;
	m.report.job = job_of(&s)->id;
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.reason = HD_REASON_NO_MEMORY;
	m.report.token = peer_last(s.aggregators[1], HD_MSG_GROUP)->group.group;
	post(s.aggregators[1], m);
	net_run(&s.net, HD_MS);
	for (uint16_t rank = 0; rank < 2; rank++)
		assert_int_equal(peer_count(s.workers[rank], HD_MSG_VOID), 1);
	wish.attempt = 2;
	ask_pair(&s, 1, wish);
	ask_pair(&s, 0, wish);
	assert_true(reduce_sent(&s, 0)->sum_id > sum_id);
	assert_int_equal(peer_count(s.aggregators[0], HD_MSG_GROUP), 1); /* the other one refused */
	wish.attempt = 3;
	ask_pair(&s, 0, wish);
	assert_int_equal(peer_count(s.workers[1], HD_MSG_VOID), 2);
	assert_int_equal(peer_count(s.aggregators[0], HD_MSG_VOID), 1);
	assert_int_equal(counters(&s.net)->pairs_failed, 2);
	/* It crossed the VOID: the receiver had it. */
	report(&s, 1, HD_OUTCOME_APPLIED, job_of(&s)->boot[0]);
	assert_int_equal(released(&s, 0), 1);
	assert_int_equal(job_of(&s)->pair_count, 0);
	net_close(&s.net);
}

/* A worker that still counts with a process that is replaced has to begin again; and reports and values of the last
 * process are not of the new one. */
static void test_new_process(void **state) {
	const struct pair_wish wish = {.from = 0, .to = 1, .number = 1};
	uint64_t old;
	struct scene s;

	(void)state;
	open_scene(&s);
	old = job_of(&s)->boot[0];
	ask_pair(&s, 1, (struct pair_wish){.from = 0, .to = 1, .number = 4, .peer_boot = old + 1});
	assert_int_equal(drops(&s, 1, HD_REASON_PEER), 1);
	assert_int_equal(dropped(&s, 1)->deadline, 1);
	assert_int_equal(dropped(&s, 1)->sum_id, old + 1);
	ask_pair(&s, 1, wish);
	ask_pair(&s, 0, wish);
	assert_int_equal(begun(&s, 1), 1);
	report(&s, 1, HD_OUTCOME_APPLIED, old + 1);
	assert_int_equal(released(&s, 0), 0);
	report(&s, 1, HD_OUTCOME_APPLIED, old);
	assert_int_equal(released(&s, 0), 1);
	/* While it waits the other end is replaced. */
	ask_pair(&s, 1, (struct pair_wish){.from = 0, .to = 1, .number = 2, .peer_boot = old});
	s.workers[0]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(drops(&s, 1, HD_REASON_PEER), 2);
	assert_int_equal(dropped(&s, 1)->deadline, 0);
	s.workers[0] = worker(&s.net, 0, WORKERS);
	ask_pair(&s, 0, wish);
	ask_pair(&s, 1, (struct pair_wish){.from = 0, .to = 1, .number = 3, .peer_boot = old});
	assert_int_equal(drops(&s, 1, HD_REASON_PEER), 3);
	assert_int_equal(dropped(&s, 1)->deadline, 1);
	ask_pair(&s, 1, wish);
	assert_int_equal(begun(&s, 1), 2);
	assert_int_equal(reduce_sent(&s, 1)->peer_boot, job_of(&s)->boot[0]);
	assert_true(job_of(&s)->boot[0] != old);
	net_close(&s.net);
}

/* Under a new controller a receiver asks before its sender is back, which is another process than it counts with. */
static void test_new_process_comes_later(void **state) {
	const struct net_config config = {.epoch = 2, .initial_bps = 80e6};
	const struct pair_wish wish = {.from = 0, .to = 1, .number = 4, .peer_boot = 77};
	struct scene s;

	(void)state;
	memset(&s, 0, sizeof s);
	net_open(&s.net, &config);
	s.aggregators[0] = aggregator(&s.net, "h9", 100 * MB);
	s.workers[1] = worker(&s.net, 1, 2);
	ask_pair(&s, 1, wish);
	assert_null(dropped(&s, 1));
	s.workers[0] = worker(&s.net, 0, 2);
	assert_int_equal(drops(&s, 1, HD_REASON_PEER), 1);
	assert_int_equal(dropped(&s, 1)->deadline, 1);
	assert_int_equal(dropped(&s, 1)->sum_id, 77);
	assert_int_equal(job_of(&s)->pair_count, 0);
	net_close(&s.net);
}

/* It does not come back: the receiver waits for it as long as nodes need to find the new controller. */
static void test_lost_under_a_new_controller(void **state) {
	const struct net_config config = {.epoch = 2, .initial_bps = 80e6};
	struct scene s;

	(void)state;
	memset(&s, 0, sizeof s);
	net_open(&s.net, &config);
	s.workers[1] = worker(&s.net, 1, 2);
	ask_pair(&s, 1, (struct pair_wish){.from = 0, .to = 1, .number = 4, .peer_boot = 77});
	net_run(&s.net, HD_SILENCE_US * HD_US / 2);
	assert_null(dropped(&s, 1));
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(drops(&s, 1, HD_REASON_PEER), 1);
	assert_int_equal(dropped(&s, 1)->deadline, 0);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_asked_before_a_replacement),
		cmocka_unit_test(test_lost_in_progress),
		cmocka_unit_test(test_withdrawn),
		cmocka_unit_test(test_asked_again),
		cmocka_unit_test(test_void),
		cmocka_unit_test(test_new_process),
		cmocka_unit_test(test_new_process_comes_later),
		cmocka_unit_test(test_lost_under_a_new_controller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
