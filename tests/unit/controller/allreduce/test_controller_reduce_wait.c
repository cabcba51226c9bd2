/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that are registered and do not call: for how long a round waits for them, and what they are told. */
#include "ctl_allreduce.h"
#include "wait_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* It costs the others the detection time once. Its call is late, with the reason in words and the round from which it
 * goes on; the next one finds the others waiting for it. */
static void test_silent(void **state) {
	struct scene s;

	(void)state;
	open_after_one(&s);
	call_two(&s, 2, &plain);
	net_run(&s.net, NEARLY);
	assert_int_equal(members(&s, 0, 2), 0);
	net_run(&s.net, SOON);
	assert_int_equal(members(&s, 0, 2), 2);
	assert_int_equal(counters(&s.net)->left_out, 1);
	assert_int_equal(net_count_events(&s.net, HD_EVENT_LEFT_OUT), 1);
	end_two(&s);
	call_two(&s, 3, &plain);
	assert_int_equal(members(&s, 0, 3), 2);
	end_two(&s);
	assert_int_equal(counters(&s.net)->left_out, 1);
	call(&s, 2, 2, &plain);
	assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
	assert_int_equal(drop(&s, 2)->deadline, 3);
	assert_string_equal(
		drop(&s, 2)->text,
		"late: call 2 began without rank 2, which had not called it in time"
	);
	call_two(&s, 4, &plain);
	assert_int_equal(members(&s, 0, 4), 0);
	call(&s, 2, 4, &plain);
	assert_int_equal(members(&s, 0, 4), WORKERS);
	net_close(&s.net);
}

/* After its late call it is waited for as long as before: it costs the detection time each time that it is silent. */
static void test_silent_again(void **state) {
	struct scene s;

	(void)state;
	open_after_one(&s);
	call_two(&s, 2, &plain);
	net_run(&s.net, LEASE + SOON);
	end_two(&s);
	call_two(&s, 3, &plain);
	end_two(&s);
	call(&s, 2, 2, &plain);
	net_run(&s.net, LEASE / 2);
	call_two(&s, 4, &plain);
	net_run(&s.net, NEARLY);
	assert_int_equal(members(&s, 0, 4), 0);
	net_run(&s.net, SOON);
	assert_int_equal(members(&s, 0, 4), 2);
	assert_int_equal(counters(&s.net)->left_out, 2);
	net_close(&s.net);
}

/* It calls while the round still waits for another worker: it is in it. */
static void test_back_in_time(void **state) {
	struct scene s;

	(void)state;
	open_after_one(&s);
	call_two(&s, 2, &plain);
	net_run(&s.net, LEASE + SOON);
	end_two(&s);
	call(&s, 0, 3, &plain);
	call(&s, 2, 2, &plain);
	assert_int_equal(drop(&s, 2)->deadline, 2);
	call(&s, 2, 3, &plain);
	assert_int_equal(members(&s, 0, 3), 0);
	call(&s, 1, 3, &plain);
	assert_int_equal(members(&s, 0, 3), WORKERS);
	net_close(&s.net);
}

/* The first round of a job that says how many workers it has: they load their data first. */
static void test_first(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	call_two(&s, 1, &plain);
	net_run(&s.net, CTL_REDUCE_FIRST_NS - SOON);
	assert_int_equal(members(&s, 0, 1), 0);
	net_run(&s.net, 2 * SOON);
	assert_int_equal(members(&s, 0, 1), 2);
	net_close(&s.net);
}

/* One that joins is waited for from its registration on. */
static void test_joins(void **state) {
	struct scene s;

	(void)state;
	memset(&s, 0, sizeof s);
	net_open(&s.net, &net_plain);
	s.aggregators[0] = aggregator(&s.net, "h9", 100 * MB);
	s.workers[0] = worker(&s.net, 0, 0);
	s.workers[1] = worker(&s.net, 1, 0);
	call(&s, 0, 1, &plain);
	net_run(&s.net, LEASE / 2);
	s.workers[2] = worker(&s.net, 2, 0);
	net_run(&s.net, NEARLY);
	assert_int_equal(members(&s, 0, 1), 0);
	net_run(&s.net, SOON);
	assert_int_equal(members(&s, 0, 1), 1);
	assert_int_equal(counters(&s.net)->left_out, 2);
	net_close(&s.net);
}

static void test_wait_ms(void **state) {
	const struct how short_wait = {.wait_ms = 200}, forever = {.wait_ms = UINT32_MAX};
	struct scene s;

	(void)state;
	open_after_one(&s);
	call_two(&s, 2, &short_wait);
	net_run(&s.net, 190 * HD_MS);
	assert_int_equal(members(&s, 0, 2), 0);
	net_run(&s.net, 20 * HD_MS);
	assert_int_equal(members(&s, 0, 2), 2);
	end_two(&s);
	/* For ever, also for one that is silent. */
	call_two(&s, 3, &forever);
	net_run(&s.net, 40 * HD_SECOND);
	assert_int_equal(members(&s, 0, 3), 0);
	call(&s, 2, 2, &short_wait);
	call(&s, 2, 3, &forever);
	assert_int_equal(members(&s, 0, 3), WORKERS);
	net_close(&s.net);
}

/* The others wait for another time: that is another call. */
static void test_mismatch(void **state) {
	const struct how waits = {.wait_ms = 250}, least = {.least = 2, .wait_ms = UINT32_MAX};
	struct scene s;

	(void)state;
	open_after_one(&s);
	call(&s, 0, 2, &waits);
	call(&s, 1, 2, &least);
	assert_int_equal(drops(&s, 0, HD_REASON_MISMATCH), 1);
	assert_non_null(strstr(drop(&s, 0)->text, ", waits 250 ms, tag"));
	assert_non_null(strstr(drop(&s, 0)->text, ", at least 2 members, waits for all, tag"));
	net_close(&s.net);
}

/* An aggregator of the round in progress fails: its members ask again. */
static void lose_round(struct scene *s) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = reduce_sent(s, 0)->job;
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.reason = HD_REASON_LEASE;
	m.report.token = peer_last(s->aggregators[0], HD_MSG_GROUP)->group.group;
	post(s->aggregators[0], m);
	net_run(&s->net, HD_MS);
}

static void ask_again(struct scene *s, uint16_t rank, uint32_t round, const struct how *how) {
	struct hd_message m = net_push(s->workers[rank], round, BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = 2;
	m.request.have = round;
	m.request.least = how->least;
	m.request.wait_ms = how->wait_ms;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* The one that was left out costs no time when the round is repeated. A member of it is waited for: it asks again by
 * itself, or is lost, and could have the sum. */
static void test_void(void **state) {
	struct scene s;

	(void)state;
	open_after_one(&s);
	call_two(&s, 2, &plain);
	net_run(&s.net, LEASE + SOON);
	lose_round(&s);
	ask_again(&s, 0, 2, &plain);
	net_run(&s.net, 3 * LEASE);
	assert_int_equal(peer_count(s.workers[0], HD_MSG_REDUCE), 2);
	ask_again(&s, 1, 2, &plain);
	assert_int_equal(peer_count(s.workers[0], HD_MSG_REDUCE), 3);
	assert_int_equal(members(&s, 0, 2), 2);
	net_close(&s.net);
}

/* It had not called the round, and calls it before the repetition: it is in that. */
static void check_void_joins(const struct how *how) {
	struct scene s;

	open_after_one(&s);
	call_two(&s, 2, how);
	net_run(&s.net, LEASE + SOON);
	assert_int_equal(members(&s, 0, 2), 2);
	lose_round(&s);
	ask_again(&s, 0, 2, how);
	call(&s, 2, 2, how);
	assert_int_equal(members(&s, 2, 2), 0);
	ask_again(&s, 1, 2, how);
	assert_int_equal(members(&s, 2, 2), WORKERS);
	net_close(&s.net);
}

static void test_void_joins(void **state) {
	const struct how timed = {.wait_ms = 400}, least = {.least = 2, .wait_ms = 400};

	(void)state;
	check_void_joins(&plain);
	check_void_joins(&timed);
	check_void_joins(&least);
}

/* Its program may be waiting for the round before: it is left out when that has ended for so long. */
static void test_busy(void **state) {
	struct scene s;

	(void)state;
	open_after_one(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		call(&s, i, 2, &plain);
	call_two(&s, 3, &plain);
	net_run(&s.net, 5 * LEASE);
	assert_int_equal(members(&s, 0, 3), 0);
	done(&s, 2, HD_OUTCOME_APPLIED);
	net_run(&s.net, 2 * LEASE + SOON);
	assert_int_equal(members(&s, 0, 3), 2);
	net_close(&s.net);
}

/* Registers rank 2 with these fields about rounds. */
static void registers(struct scene *s, const struct hd_msg_register_ *has) {
	struct peer *peer = net_peer(&s->net, HD_ROLE_WORKER, "h3");
	struct hd_message m;

	peer->worker = 2;
	(void)snprintf(peer->tenant, sizeof peer->tenant, "t");
	(void)snprintf(peer->job, sizeof peer->job, "j");
	m = registration(peer, WORKERS);
	m.register_.reduce_round = has->reduce_round;
	m.register_.sum_id = has->sum_id;
	m.register_.reduce_from = has->reduce_from;
	m.register_.reduce_called = has->reduce_called;
	s->workers[2] = peer;
	post(peer, m);
	net_run(&s->net, HD_MS);
}

/* Two of three workers, under a controller that is not the first. */
static void open_restarted(struct scene *s) {
	const struct net_config config = {.epoch = 2, .initial_bps = 80e6};

	memset(s, 0, sizeof *s);
	net_open(&s->net, &config);
	for (uint16_t i = 0; i < 2; i++)
		s->workers[i] = worker(&s->net, i, WORKERS);
	s->aggregators[0] = aggregator(&s->net, "h1", 100 * MB);
}

/* A new controller does not know who was silent: that costs one wait more. */
static void test_restart(void **state) {
	const struct hd_msg_register_ silent = {
		.reduce_round = 3,
		.sum_id = UINT64_C(1) << 48,
		.reduce_from = 4,
		.reduce_called = 3,
	};
	struct scene s;

	(void)state;
	open_restarted(&s);
	registers(&s, &silent);
	net_run(&s.net, LEASE); /* it waits for members of the newest sum */
	call_two(&s, 4, &plain);
	net_run(&s.net, NEARLY);
	assert_int_equal(members(&s, 0, 4), 0);
	net_run(&s.net, SOON);
	assert_int_equal(members(&s, 0, 4), 2);
	end_two(&s);
	call_two(&s, 5, &plain);
	assert_int_equal(members(&s, 0, 5), 2);
	net_close(&s.net);
}

/* A worker that says that it has called the round may be in it since the last controller, and have its sum. */
static void test_has_called(void **state) {
	const struct hd_msg_register_ called = {
		.reduce_round = 3,
		.sum_id = UINT64_C(1) << 48,
		.reduce_from = 4,
		.reduce_called = 4,
	};
	struct scene s;

	(void)state;
	open_restarted(&s);
	registers(&s, &called);
	call_two(&s, 4, &plain);
	net_run(&s.net, 5 * LEASE);
	assert_int_equal(members(&s, 0, 4), 0);
	call(&s, 2, 4, &plain);
	assert_int_equal(members(&s, 0, 4), WORKERS);
	net_close(&s.net);
}

/* A number that no program can have called. */
static void test_possible(void **state) {
	const struct hd_msg_register_ far = {.reduce_called = UINT32_MAX};
	struct scene s;

	(void)state;
	open_restarted(&s);
	registers(&s, &far);
	assert_non_null(strstr(s.workers[2]->refused, "reduce_called: more than 1024"));
	net_close(&s.net);
}

static uint32_t shown(struct scene *s, const char *waits_for, const char *left_out) {
	struct ctl_reduce_ranks ranks;

	ctl_reduce_waits(s->net.controller->jobs[0], &ranks);
	assert_string_equal(ranks.waits_for, waits_for);
	assert_string_equal(ranks.left_out, left_out);
	return s->net.controller->jobs[0]->reduce_count;
}

static void test_shown(void **state) {
	struct scene s;

	(void)state;
	open_after_one(&s);
	assert_int_equal(shown(&s, "", ""), 0);
	call(&s, 0, 2, &plain);
	assert_int_equal(shown(&s, "1, 2", ""), 1);
	call(&s, 1, 2, &plain);
	assert_int_equal(shown(&s, "2", ""), 1);
	net_run(&s.net, LEASE + SOON);
	assert_int_equal(shown(&s, "", "2"), 1);
	call(&s, 0, 3, &plain);
	assert_int_equal(shown(&s, "1", "2"), 2);
	call(&s, 2, 2, &plain);
	assert_int_equal(shown(&s, "1, 2", ""), 2);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_silent_again),
		cmocka_unit_test(test_back_in_time),
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_joins),
		cmocka_unit_test(test_wait_ms),
		cmocka_unit_test(test_mismatch),
		cmocka_unit_test(test_void),
		cmocka_unit_test(test_void_joins),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_has_called),
		cmocka_unit_test(test_shown),
		cmocka_unit_test(test_possible),
	};

	return cmocka_run_group_tests_name("controller_reduce_wait", tests, NULL, NULL);
}
