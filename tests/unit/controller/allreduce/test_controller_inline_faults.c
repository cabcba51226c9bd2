/* SPDX-License-Identifier: BSD-3-Clause */
/* Short collectives at the controller: what is hostile, wrong or lost. */
#include "inline_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Values that a worker has not to give, or of another size than it says. */
static void test_hostile(void **state) {
	struct offer offer = offer_of(HD_COLLECTIVE_BROADCAST, 1, 0, true);
	struct scene s;

	(void)state;
	open_scene(&s);
	give(&s, 0, 1, &offer);
	assert_int_equal(drops(&s, 0, HD_REASON_REFUSED), 1);
	offer.wish.collective = HD_COLLECTIVE_ALLREDUCE;
	offer.wish.root = 0;
	offer.bytes = CALL_BYTES - 4;
	offer.attempt = 2;
	give(&s, 0, 1, &offer);
	assert_int_equal(drops(&s, 0, HD_REASON_REFUSED), 2);
	offer.wish.collective = HD_COLLECTIVE_BARRIER;
	offer.wish.bytes = 0;
	offer.attempt = 3;
	give(&s, 0, 1, &offer);
	assert_int_equal(drops(&s, 0, HD_REASON_REFUSED), 3);
	assert_int_equal(s.net.controller->inline_held, 0);
	net_close(&s.net);
}

/* Calls that differ in size fail for all, whatever came with them. */
static void test_mismatch(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++) {
		struct offer offer = offer_of(HD_COLLECTIVE_ALLREDUCE, 0, i, true);

		if (i == 1)
			offer.wish.bytes = offer.bytes = CALL_BYTES - VALUE_BYTES;
		give(&s, i, 1, &offer);
	}
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_int_equal(drops(&s, i, HD_REASON_MISMATCH), 1);
		assert_null(reduce_sent(&s, i));
	}
	check_nothing_left(&s);
	net_close(&s.net);
}

static void go_away(struct scene *s, uint16_t rank) {
	s->workers[rank]->cut = true;
	net_run(&s->net, (hd_ns)2 * HD_DETECTION_US * HD_US);
}

static void come_back(struct scene *s, uint16_t rank) {
	s->workers[rank]->cut = false;
	net_run(&s->net, 2 * HD_SECOND);
	post(s->workers[rank], registration(s->workers[rank], WORKERS));
	net_run(&s->net, HD_MS);
}

/* The result is there as long as one of the others has not said that it has it. */
static void test_lost_result(void **state) {
	struct scene s;
	uint64_t sum_id;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_GATHER, 2, i, true);

		give(&s, i, 1, &offer);
	}
	sum_id = reduce_sent(&s, 2)->sum_id;
	for (uint16_t i = 0; i < 2; i++) {
		struct offer offer = offer_of(HD_COLLECTIVE_GATHER, 2, i, true);

		go_away(&s, i);
		come_back(&s, i);
		offer.attempt = 2;
		give(&s, i, 1, &offer);
		assert_int_equal(peer_count(s.workers[i], HD_MSG_REDUCE), 2);
		assert_int_equal(reduce_sent(&s, i)->attempt, 2);
		assert_int_equal(reduce_sent(&s, i)->sum_id, sum_id);
		check_values(&s, i, NULL, 0);
	}
	finish_all(&s, 4);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_ALLGATHER, 0, i, true);

		give(&s, i, 2, &offer);
	}
	finish(&s, 0);
	go_away(&s, 1);
	come_back(&s, 1);
	for (uint8_t attempt = 2; attempt < 4; attempt++) {
		struct offer offer = offer_of(HD_COLLECTIVE_ALLGATHER, 0, 1, true);

		offer.attempt = attempt;
		give(&s, 1, 2, &offer);
		assert_int_equal(reduce_sent(&s, 1)->attempt, attempt);
		check_values(&s, 1, given, sizeof given);
	}
	finish(&s, 1);
	finish(&s, 2);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	check_nothing_left(&s);
	net_close(&s.net);
}

/* A member that cannot take its result leaves it to the others. */
static void test_failed_member(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_ALLGATHER, 0, i, true);

		give(&s, i, 1, &offer);
	}
	done(&s, 1, HD_OUTCOME_FAILED);
	finish(&s, 0);
	finish(&s, 2);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_null(peer_last(s.workers[i], HD_MSG_DROP));
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	check_nothing_left(&s);
	net_close(&s.net);
}

/* A dead member's values are in no result that is made later; the root's death is an error of the others. */
static void test_deaths(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < 2; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_ALLGATHER, 0, i, true);

		give(&s, i, 1, &offer);
	}
	go_away(&s, 2);
	for (uint16_t i = 0; i < 2; i++) {
		assert_int_equal(reduce_sent(&s, i)->workers, 2);
		assert_int_equal(reduce_sent(&s, i)->values.bytes, 2 * CALL_BYTES);
		assert_memory_equal(reduce_sent(&s, i)->values.data, given, 2 * CALL_BYTES);
		finish(&s, i);
	}
	for (uint16_t i = 0; i < 2; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_GATHER, 1, i, true);

		give(&s, i, 2, &offer);
	}
	go_away(&s, 1);
	assert_int_equal(drops(&s, 0, HD_REASON_ROOT), 1);
	check_nothing_left(&s);
	net_close(&s.net);
}

/* A worker that calls the roll gave values to it; the others' call has another size. */
static void test_roll_of_another_size(void **state) {
	struct offer roll = offer_of(HD_COLLECTIVE_ALLREDUCE, 0, 1, true);
	struct offer sum = {.wish = {.collective = HD_COLLECTIVE_ALLREDUCE, .bytes = BYTES}};
	struct scene s;

	(void)state;
	open_scene(&s);
	roll.state = HD_REQUEST_ROLL;
	give(&s, 1, 1, &roll);
	assert_int_equal(s.net.controller->inline_held, CALL_BYTES);
	give(&s, 0, 1, &sum);
	assert_int_equal(drops(&s, 1, HD_REASON_LATE), 1);
	assert_int_equal(s.net.controller->inline_held, 0);
	give(&s, 2, 1, &sum);
	assert_int_equal(reduce_sent(&s, 0)->waiting, 1);
	assert_false(reduce_sent(&s, 0)->inlined);
	finish(&s, 0);
	finish(&s, 2);
	assert_int_equal(open_rounds(&s), 0);
	assert_int_equal(s.net.controller->inline_held, 0);
	net_close(&s.net);
}

/* One that withdraws when the result is made takes it from no other, and no second one is made. */
static void test_withdraws_from_a_result(void **state) {
	struct hd_message m = {.kind = HD_MSG_CANCEL};
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct offer offer = offer_of(HD_COLLECTIVE_ALLGATHER, 0, i, true);

		give(&s, i, 1, &offer);
	}
	m.cancel.job = net_push(s.workers[1], 1, 0, 0).request.job;
	m.cancel.worker = 1;
	m.cancel.round = 1;
	m.cancel.direction = HD_REDUCE;
	m.cancel.attempt = 1;
	post(s.workers[1], m);
	net_run(&s.net, HD_MS);
	assert_int_equal(counters(&s.net)->cancels, 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_int_equal(peer_count(s.workers[i], HD_MSG_REDUCE), 1);
	finish(&s, 0);
	finish(&s, 2);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	check_nothing_left(&s);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_mismatch),
		cmocka_unit_test(test_lost_result),
		cmocka_unit_test(test_failed_member),
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_roll_of_another_size),
		cmocka_unit_test(test_withdraws_from_a_result),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
