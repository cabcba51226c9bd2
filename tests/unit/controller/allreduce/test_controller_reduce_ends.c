/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives at the controller in which a member is cut off from it, and comes back. */
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void call(struct scene *s, uint16_t rank, uint8_t attempt, uint8_t collective) {
	const bool barrier = collective == HD_COLLECTIVE_BARRIER;
	struct hd_message m = net_push(s->workers[rank], 1, barrier ? 0 : BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = attempt;
	m.request.have = 1;
	m.request.collective = collective;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

static void call_all(struct scene *s, uint8_t collective) {
	for (uint16_t i = 0; i < WORKERS; i++)
		call(s, i, 1, collective);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_int_equal(reduce_sent(s, i)->attempt, 1);
}

static void cut(struct peer *peer) {
	peer->cut = true;
	net_run(peer->net, (hd_ns)2 * HD_DETECTION_US * HD_US);
}

/* The same process in a new session. */
static void comes_back(struct scene *s, uint16_t rank) {
	s->workers[rank]->cut = false;
	net_run(&s->net, 2 * HD_SECOND);
	post(s->workers[rank], registration(s->workers[rank], WORKERS));
	net_run(&s->net, HD_MS);
}

/* Reports its result, with its sum id. */
static void applied(struct scene *s, uint16_t rank) {
	const struct hd_msg_reduce *reduce = reduce_sent(s, rank);
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = reduce->job;
	m.report.worker = rank;
	m.report.round = reduce->round;
	m.report.direction = HD_REDUCE;
	m.report.attempt = reduce->attempt;
	m.report.token = reduce->sum_id;
	m.report.outcome = HD_OUTCOME_APPLIED;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* A REDUCED is lost with the session: the member asks, and is told which attempt has ended. */
static void test_barrier_is_over(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, HD_COLLECTIVE_BARRIER);
	cut(s.workers[2]);
	comes_back(&s, 2);
	call(&s, 2, 2, HD_COLLECTIVE_BARRIER);
	assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
	assert_true(reduce_sent(&s, 2)->sum_id != 0);
	assert_int_equal(
		peer_last(s.workers[2], HD_MSG_DROP)->drop.sum_id, reduce_sent(&s, 2)->sum_id
	);
	net_close(&s.net);
}

/* The root of a broadcast, rank 0, is in a new session when an aggregator is lost, and one member has all: the root
 * gives its values to the other again. */
static void test_root_is_back(void **state) {
	struct scene s;
	uint64_t sum_id;

	(void)state;
	open_scene(&s);
	call_all(&s, HD_COLLECTIVE_BROADCAST);
	sum_id = reduce_sent(&s, 0)->sum_id;
	applied(&s, 1);
	cut(s.workers[0]);
	comes_back(&s, 0);
	cut(s.aggregators[2]);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	for (uint16_t i = 0; i < WORKERS; i += 2) {
		assert_non_null(peer_last(s.workers[i], HD_MSG_VOID));
		call(&s, i, 2, HD_COLLECTIVE_BROADCAST);
	}
	for (uint16_t i = 0; i < WORKERS; i += 2) {
		assert_null(peer_last(s.workers[i], HD_MSG_DROP));
		assert_int_equal(reduce_sent(&s, i)->attempt, 2);
		assert_int_equal(reduce_sent(&s, i)->sum_id, sum_id);
	}
	net_close(&s.net);
}

/* It is not back: its values are lost to the other. */
static void test_root_is_gone(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, HD_COLLECTIVE_BROADCAST);
	applied(&s, 1);
	cut(s.workers[0]);
	cut(s.aggregators[2]);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_barrier_is_over),
		cmocka_unit_test(test_root_is_back),
		cmocka_unit_test(test_root_is_gone),
	};

	return cmocka_run_group_tests_name("controller_reduce_ends", tests, NULL, NULL);
}
