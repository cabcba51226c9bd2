/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces under a controller that restarted: no round is made twice. */
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A sum of an earlier controller's making, of which this one hears only now. */
static void reports_sum(struct scene *s, uint16_t rank, uint32_t round) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = s->net.controller->jobs[0]->id;
	m.report.worker = rank;
	m.report.round = round;
	m.report.direction = HD_REDUCE;
	m.report.attempt = 1;
	m.report.token = UINT64_C(1) << 48;
	m.report.outcome = HD_OUTCOME_APPLIED;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* Two of three workers, of which one gets its first sum under a new controller. */
static void open_restarted(struct scene *s, const struct net_config *config) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, config);
	for (uint16_t i = 0; i < 2; i++)
		s->workers[i] = worker(&s->net, i, WORKERS);
	s->aggregators[0] = aggregator(&s->net, "h1", 100 * MB);
}

/* A sum that is reported to a new controller is not made again: neither for a worker that asked before, nor for one
 * that asks after, whether it is registered already or comes back only then. */
static void test_sum_of_the_last_process(void **state) {
	const struct net_config config = {.epoch = 2, .initial_bps = 80e6};

	(void)state;
	for (int asked = 0; asked < 2; asked++) {
		struct scene s;

		open_restarted(&s, &config);
		if (asked)
			ask(&s, 1, 4, 2);
		reports_sum(&s, 0, 4);
		assert_int_equal(drops(&s, 1, HD_REASON_LATE), asked);
		s.workers[2] = worker(&s.net, 2, WORKERS);
		ask(&s, 2, 4, 1);
		assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
		ask(&s, 1, 4, 3);
		assert_int_equal(drops(&s, 1, HD_REASON_LATE), 1 + asked);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask_next(&s, i, 5);
		net_run(&s.net, HD_SILENCE_US * HD_US); /* one that has the sum might come back */
		for (uint16_t i = 0; i < WORKERS; i++) {
			assert_int_equal(reduce_sent(&s, i)->round, 5);
			assert_int_equal(reduce_sent(&s, i)->workers, WORKERS);
		}
		net_close(&s.net);
	}
}

/* Nor is a worker waited for that is gone for good, when the others' first sum is reported after they registered. */
static void test_first_sum_after_a_restart(void **state) {
	const struct net_config config = {.epoch = 2, .initial_bps = 80e6};
	struct scene s;

	(void)state;
	open_restarted(&s, &config);
	reports_sum(&s, 0, 1);
	reports_sum(&s, 1, 1);
	ask_next(&s, 0, 2);
	ask_next(&s, 1, 2);
	assert_null(reduce_sent(&s, 0));
	net_run(&s.net, (hd_ns)3 * HD_DETECTION_US * HD_US);
	assert_non_null(reduce_sent(&s, 0));
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	assert_int_equal(reduce_sent(&s, 0)->workers, 2);
	net_close(&s.net);
}

/* Its newest sum, of this many workers, is that of this round. */
static struct peer *comes_with(struct net *net, uint16_t rank, uint16_t members, uint32_t round) {
	struct peer *peer = net_peer(net, HD_ROLE_WORKER, "h1");
	struct hd_message m;

	peer->worker = rank;
	(void)snprintf(peer->tenant, sizeof peer->tenant, "t");
	(void)snprintf(peer->job, sizeof peer->job, "j");
	m = registration(peer, members);
	m.register_.reduce_round = round;
	m.register_.sum_id = UINT64_C(1) << 48 | round;
	post(peer, m);
	net_run(net, HD_MS);
	return peer;
}

/* Two of three are back under a new controller, and a newcomer makes three: the third may have the sum of the round
 * that they ask for, which is not made again before the third had time to come back. */
static void test_newcomer_before_a_member(void **state) {
	const struct net_config config = {.epoch = 2, .initial_bps = 80e6};

	(void)state;
	for (int back = 0; back < 2; back++) {
		struct scene s;

		memset(&s, 0, sizeof s);
		net_open(&s.net, &config);
		s.aggregators[0] = aggregator(&s.net, "h9", 100 * MB);
		s.workers[0] = comes_with(&s.net, 0, WORKERS, 11);
		s.workers[1] = comes_with(&s.net, 1, WORKERS, 11);
		s.workers[2] = worker(&s.net, 2, 0);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask_next(&s, i, 12);
		assert_null(reduce_sent(&s, 0));
		if (back)
			(void)comes_with(&s.net, 3, WORKERS, 12);
		net_run(&s.net, HD_SILENCE_US * HD_US);
		for (uint16_t i = 0; i < WORKERS; i++) {
			assert_int_equal(reduce_sent(&s, i) != NULL, !back);
			assert_int_equal(drops(&s, i, HD_REASON_LATE), back);
		}
		net_close(&s.net);
	}
}

/* A later incarnation of the controller: the one before kept this round. */
static void open_later(struct scene *s, uint32_t round) {
	const struct net_config config = {.epoch = 3, .initial_bps = 80e6};
	char kept[128], error[512];

	memset(s, 0, sizeof *s);
	(void)snprintf(
		kept,
		sizeof kept,
		"{\"version\": 1, \"jobs\": [{\"tenant\": \"t\", \"job\": \"j\", \"allreduce\": %u}]}",
		round
	);
	net_open(&s->net, &config);
	assert_int_equal(hd_controller_restore(s->net.controller, kept, error, sizeof error), 0);
	s->aggregators[0] = aggregator(&s->net, "h9", 100 * MB);
}

/* The newest sum of the worker that comes first was its own alone, and an earlier incarnation of the controller started
 * a later round: a worker that is not back yet may have the sum of that. */
static void test_round_of_others(void **state) {
	(void)state;
	for (int back = 0; back < 2; back++) {
		struct scene s;

		open_later(&s, 2);
		s.workers[0] = comes_with(&s.net, 0, 1, 1);
		ask_next(&s, 0, 2);
		assert_null(reduce_sent(&s, 0));
		if (back)
			(void)comes_with(&s.net, 1, 1, 2);
		net_run(&s.net, HD_SILENCE_US * HD_US);
		assert_int_equal(reduce_sent(&s, 0) != NULL, !back);
		assert_int_equal(drops(&s, 0, HD_REASON_LATE), back);
		net_close(&s.net);
	}
}

static bool is_kept(const struct scene *s, uint32_t round) {
	char *text = hd_controller_kept(s->net.controller), field[32];
	bool found;

	(void)snprintf(field, sizeof field, "\"allreduce\": %u\n", round);
	found = text && strstr(text, field);
	free(text);
	return found;
}

static void withdraws(struct scene *s, uint16_t rank, uint32_t round) {
	struct hd_message m = {.kind = HD_MSG_CANCEL};

	m.cancel.job = reduce_sent(s, rank)->job;
	m.cancel.worker = rank;
	m.cancel.round = round;
	m.cancel.direction = HD_REDUCE;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

static void make_round(struct scene *s, uint32_t round, uint16_t members) {
	for (uint16_t i = WORKERS; i-- > 0;) {
		ask_next(s, i, round);
		if (i >= members)
			withdraws(s, i, round);
	}
	for (uint16_t i = 0; i < members; i++) {
		assert_int_equal(reduce_sent(s, i)->round, round);
		assert_int_equal(reduce_sent(s, i)->workers, members);
		done(s, i, HD_OUTCOME_APPLIED);
	}
}

/* The next incarnation knows a round at once if its members differ from those of the round before; otherwise within a
 * second. */
static void test_members_change(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	make_round(&s, 1, 3);
	assert_true(is_kept(&s, 1));
	make_round(&s, 2, 3);
	assert_true(is_kept(&s, 1));
	make_round(&s, 3, 2);
	assert_true(is_kept(&s, 3));
	make_round(&s, 4, 2);
	assert_true(is_kept(&s, 3));
	make_round(&s, 5, 3);
	assert_true(is_kept(&s, 5));
	make_round(&s, 6, 3);
	net_run(&s.net, CTL_REDUCE_KEEP_NS);
	assert_true(is_kept(&s, 6));
	net_close(&s.net);
}

/* One of two is back under a new controller, and one that made rounds with it before: the other may have the sum of the
 * round that they ask for. */
static void test_earlier_member_before_a_member(void **state) {
	(void)state;
	for (int back = 0; back < 2; back++) {
		struct scene s;

		open_later(&s, 11);
		s.workers[0] = comes_with(&s.net, 0, 2, 20);
		s.workers[1] = comes_with(&s.net, 1, 2, 10);
		for (uint16_t i = 0; i < 2; i++)
			ask_next(&s, i, 21);
		assert_null(reduce_sent(&s, 0));
		if (back)
			(void)comes_with(&s.net, 2, 2, 21);
		net_run(&s.net, HD_SILENCE_US * HD_US);
		for (uint16_t i = 0; i < 2; i++) {
			assert_int_equal(reduce_sent(&s, i) != NULL, !back);
			assert_int_equal(drops(&s, i, HD_REASON_LATE), back);
		}
		net_close(&s.net);
	}
}

/* Of two members one has not yet the round that the last controller kept. It counts as soon as it reports it. */
static void test_member_reports(void **state) {
	struct scene s;

	(void)state;
	open_later(&s, 20);
	s.workers[0] = comes_with(&s.net, 0, 2, 20);
	s.workers[1] = comes_with(&s.net, 1, 2, 19);
	for (uint16_t i = 0; i < 2; i++)
		ask_next(&s, i, 21);
	assert_null(reduce_sent(&s, 0));
	reports_sum(&s, 1, 20);
	assert_non_null(reduce_sent(&s, 0));
	assert_int_equal(reduce_sent(&s, 0)->workers, 2);
	net_close(&s.net);
}

static void ask_exact(struct scene *s, uint16_t rank, uint32_t round, uint16_t exact) {
	struct hd_message m = net_push(s->workers[rank], round, BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = 1;
	m.request.have = round;
	m.request.exact = exact;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

static void assert_words(const struct scene *s, uint16_t rank, const char *words) {
	assert_string_equal(peer_last(s->workers[rank], HD_MSG_DROP)->drop.text, words);
}

/* A new controller, to which two workers with a sum of the old one have come. */
static void open_short(struct scene *s) {
	const struct net_config config = {.epoch = 2, .initial_bps = 80e6};

	memset(s, 0, sizeof *s);
	net_open(&s->net, &config);
	s->aggregators[0] = aggregator(&s->net, "h9", 100 * MB);
	for (uint16_t i = 0; i < 2; i++)
		s->workers[i] = comes_with(&s->net, i, 0, 11);
	net_run(&s->net, HD_SILENCE_US * HD_US);
}

/* Under a new controller that never saw the fourth, which is gone for good: one call waits for it. When a worker comes,
 * others may come, too. */
static void test_exact(void **state) {
	struct scene s;

	(void)state;
	open_short(&s);
	for (uint32_t round = 12; round < 15; round++) {
		ask_exact(&s, 0, round, 4);
		ask_exact(&s, 1, round, 4);
		if (round == 12) {
			net_run(&s.net, CTL_REDUCE_MEMBERS_NS - 100 * HD_MS);
			assert_int_equal(drops(&s, 0, HD_REASON_MEMBERS), 0);
			net_run(&s.net, 200 * HD_MS);
		}
		for (uint16_t i = 0; i < 2; i++)
			assert_int_equal(drops(&s, i, HD_REASON_MEMBERS), round - 11);
	}
	assert_words(&s, 1, "call 14: 2 of 4 members are left");
	s.workers[2] = worker(&s.net, 2, 0);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask_exact(&s, i, 15, 4);
	net_run(&s.net, CTL_REDUCE_MEMBERS_NS - 100 * HD_MS);
	assert_int_equal(drops(&s, 2, HD_REASON_MEMBERS), 0);
	net_run(&s.net, 200 * HD_MS);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_words(&s, i, "call 15: 3 of 4 members are left");
	ask_exact(&s, 0, 16, 5);
	assert_words(&s, 0, "call 16: 3 of 5 members are left");
	net_close(&s.net);
}

/* One comes when they have almost waited long enough: its others may be as late. */
static void test_exact_late(void **state) {
	struct scene s;

	(void)state;
	open_short(&s);
	for (uint16_t i = 0; i < 2; i++)
		ask_exact(&s, i, 12, 4);
	net_run(&s.net, CTL_REDUCE_MEMBERS_NS - 100 * HD_MS);
	s.workers[2] = comes_with(&s.net, 2, 0, 11);
	ask_exact(&s, 2, 12, 4);
	net_run(&s.net, CTL_REDUCE_MEMBERS_NS - 100 * HD_MS);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_int_equal(drops(&s, i, HD_REASON_MEMBERS), 0);
	net_run(&s.net, 200 * HD_MS);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_words(&s, i, "call 12: 3 of 4 members are left");
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum_of_the_last_process),
		cmocka_unit_test(test_first_sum_after_a_restart),
		cmocka_unit_test(test_newcomer_before_a_member),
		cmocka_unit_test(test_round_of_others),
		cmocka_unit_test(test_members_change),
		cmocka_unit_test(test_earlier_member_before_a_member),
		cmocka_unit_test(test_member_reports),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_exact_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
