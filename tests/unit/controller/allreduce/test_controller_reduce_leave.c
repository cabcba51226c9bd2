/* SPDX-License-Identifier: BSD-3-Clause */
/* Members that leave, and aggregators that die, while others still take part in a round. */
#include "hd_text.h"
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void leave(struct scene *s, uint16_t rank) {
	struct hd_message m = {.kind = HD_MSG_LEAVE};

	m.leave.job = net_job(s->workers[rank]);
	m.leave.worker = rank;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* An aggregator that vanishes may have delivered nothing. */
static void test_aggregator_dies(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	s.aggregators[0]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_int_equal(peer_count(s.workers[i], HD_MSG_VOID), 1);
	net_close(&s.net);
}

static void call(struct scene *s, uint16_t rank, uint32_t round, uint8_t attempt, uint64_t bytes) {
	struct hd_message m = net_push(s->workers[rank], round, bytes, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = attempt;
	m.request.have = round;
	m.request.collective = HD_COLLECTIVE_BROADCAST;
	m.request.root = 1;
	m.request.exact = WORKERS;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* A member that has its result and has left counts: the root gives its values again to the one that misses them. */
static void test_exact_with_one_that_has_left(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		call(&s, i, 1, 1, BYTES);
	done(&s, 0, HD_OUTCOME_APPLIED);
	leave(&s, 0);
	call(&s, 2, 1, 2, BYTES);
	call(&s, 1, 1, 2, BYTES);
	for (uint16_t i = 1; i < WORKERS; i++) {
		assert_null(peer_last(s.workers[i], HD_MSG_DROP));
		assert_int_equal(reduce_sent(&s, i)->attempt, 2);
	}
	net_close(&s.net);
}

/* Two call different things, are told so and end. The one that calls later is told the same. */
static void test_mismatch_outlives_its_callers(void **state) {
	char words[HD_TEXT_BYTES_MAX + 1];
	struct scene s;

	(void)state;
	open_scene(&s);
	call(&s, 0, 1, 1, BYTES);
	call(&s, 1, 1, 1, BYTES + 4);
	assert_int_equal(drops(&s, 0, HD_REASON_MISMATCH), 1);
	hd_text_copy(words, sizeof words, peer_last(s.workers[0], HD_MSG_DROP)->drop.text);
	leave(&s, 0);
	leave(&s, 1);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 1);
	call(&s, 2, 1, 1, BYTES);
	assert_int_equal(drops(&s, 2, HD_REASON_MISMATCH), 1);
	assert_string_equal(peer_last(s.workers[2], HD_MSG_DROP)->drop.text, words);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	net_close(&s.net);
}

/* If it ends without calling, nothing is left of the round. */
static void test_mismatch_ends_with_the_last(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	call(&s, 0, 1, 1, BYTES);
	call(&s, 1, 1, 1, BYTES + 4);
	for (uint16_t i = 0; i < WORKERS; i++)
		leave(&s, i);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_aggregator_dies),
		cmocka_unit_test(test_exact_with_one_that_has_left),
		cmocka_unit_test(test_mismatch_outlives_its_callers),
		cmocka_unit_test(test_mismatch_ends_with_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
