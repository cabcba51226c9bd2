/* SPDX-License-Identifier: BSD-3-Clause */
/* Roll calls at the controller, which wait for those who call something else, and broadcasts to workers that have the
 * values already. */
#include "collective_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROLL_BYTES 88

static void call_with(
	struct scene *s,
	uint16_t rank,
	uint32_t round,
	uint8_t attempt,
	const struct wish *wish,
	uint8_t state
) {
	struct hd_message m = net_push(s->workers[rank], round, wish->bytes, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = attempt;
	m.request.have = round;
	m.request.collective = wish->collective;
	m.request.root = wish->root;
	m.request.state = state;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

static void roll(struct scene *s, uint16_t rank, uint32_t round) {
	const struct wish wish = {.collective = HD_COLLECTIVE_ALLREDUCE, .bytes = ROLL_BYTES};

	call_with(s, rank, round, 1, &wish, HD_REQUEST_ROLL);
}

/* In any order: one that calls the roll is late, and the others go on and are told that it waits. */
static void test_waits(void **state) {
	const struct wish sum = {.collective = HD_COLLECTIVE_ALLREDUCE, .bytes = BYTES};

	(void)state;
	for (uint16_t place = 0; place < WORKERS; place++) {
		struct scene s;

		open_scene(&s);
		for (uint16_t i = 0; i < WORKERS; i++)
			if (i == place)
				roll(&s, 1, 1);
			else
				call(&s, i == 1 ? place : i, 1, 1, &sum);
		assert_int_equal(drops(&s, 1, HD_REASON_LATE), 1);
		assert_null(reduce_sent(&s, 1));
		for (uint16_t i = 0; i < WORKERS; i += 2) {
			assert_non_null(reduce_sent(&s, i));
			assert_int_equal(reduce_sent(&s, i)->workers, 2);
			assert_int_equal(reduce_sent(&s, i)->waiting, 1);
			assert_int_equal(reduce_sent(&s, i)->bytes, BYTES);
		}
		/* Then all call the roll. */
		finish(&s, 0);
		finish(&s, 2);
		for (uint16_t i = 0; i < WORKERS; i++)
			roll(&s, i, 2);
		for (uint16_t i = 0; i < WORKERS; i++) {
			assert_int_equal(reduce_sent(&s, i)->round, 2);
			assert_int_equal(reduce_sent(&s, i)->workers, WORKERS);
			assert_int_equal(reduce_sent(&s, i)->waiting, 0);
		}
		net_close(&s.net);
	}
}

/* Two call the roll, and are sent away by the third, whose call is one of its own. */
static void test_several_wait(void **state) {
	const struct wish sum = {.collective = HD_COLLECTIVE_ALLREDUCE, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	roll(&s, 0, 1);
	roll(&s, 2, 1);
	assert_int_equal(drops(&s, 0, HD_REASON_LATE), 0);
	call(&s, 1, 1, 1, &sum);
	assert_int_equal(drops(&s, 0, HD_REASON_LATE), 1);
	assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
	assert_int_equal(reduce_sent(&s, 1)->workers, 1);
	assert_int_equal(reduce_sent(&s, 1)->waiting, 2);
	finish(&s, 1);
	assert_int_equal(open_rounds(&s), 0);
	net_close(&s.net);
}

/* The round is repeated without the one that waits, and it is counted once. */
static void test_waits_in_repeated_round(void **state) {
	const struct wish sum = {.collective = HD_COLLECTIVE_ALLREDUCE, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	roll(&s, 1, 1);
	call(&s, 0, 1, 1, &sum);
	call(&s, 2, 1, 1, &sum);
	lose_group(&s, 0);
	call(&s, 0, 1, 2, &sum);
	call(&s, 2, 1, 2, &sum);
	assert_int_equal(reduce_sent(&s, 0)->attempt, 2);
	assert_int_equal(reduce_sent(&s, 0)->waiting, 1);
	assert_int_equal(drops(&s, 1, HD_REASON_LATE), 1);
	net_close(&s.net);
}

/* A worker that has the values gives nothing and receives nothing, and ends with the root. */
static void test_has(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_BROADCAST, .root = 1, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	call(&s, 0, 1, 1, &wish);
	call(&s, 1, 1, 1, &wish);
	call_with(&s, 2, 1, 1, &wish, HD_REQUEST_HAS);
	check_share(&s, 0, 0, BYTES);
	check_share(&s, 1, BYTES, 0);
	check_share(&s, 2, 0, 0);
	assert_int_equal(reduce_sent(&s, 2)->workers, WORKERS);
	net_run(&s.net, 500 * HD_MS);
	assert_int_equal(released(&s, 2) + released(&s, 1), 0);
	finish(&s, 0);
	assert_int_equal(released(&s, 1), 1);
	assert_int_equal(released(&s, 2), 1);
	assert_int_equal(open_rounds(&s), 0);
	net_close(&s.net);
}

/* All have it: no value leaves the root. */
static void test_all_have_it(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_BROADCAST, .root = 1, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	call_with(&s, 0, 1, 1, &wish, HD_REQUEST_HAS);
	call_with(&s, 2, 1, 1, &wish, HD_REQUEST_HAS);
	call(&s, 1, 1, 1, &wish);
	for (uint16_t i = 0; i < WORKERS; i++) {
		check_share(&s, i, 0, 0);
		assert_int_equal(released(&s, i), 1);
		assert_null(peer_last(s.aggregators[i], HD_MSG_GROUP));
	}
	assert_int_equal(open_rounds(&s), 0);
	net_close(&s.net);
}

/* An aggregator fails when the only receiver has the values: no member needs them from the root again. */
static void test_has_when_repeated(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_BROADCAST, .root = 1, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	call(&s, 0, 1, 1, &wish);
	call(&s, 1, 1, 1, &wish);
	call_with(&s, 2, 1, 1, &wish, HD_REQUEST_HAS);
	for (uint32_t k = 0; k < WORKERS; k++)
		if (peer_last(s.aggregators[k], HD_MSG_GROUP)) {
			lose_group(&s, k);
			break;
		}
	/* It knows no token that could be void: the controller takes its request for the next attempt. */
	assert_null(peer_last(s.workers[2], HD_MSG_VOID));
	call(&s, 0, 1, 2, &wish);
	call(&s, 1, 1, 2, &wish);
	check_share(&s, 0, 0, BYTES);
	check_share(&s, 2, 0, 0);
	assert_int_equal(peer_count(s.workers[2], HD_MSG_REDUCE), 2);
	finish(&s, 0);
	assert_int_equal(released(&s, 1), 1);
	assert_int_equal(released(&s, 2), 1);
	net_close(&s.net);
}

/* A roll is an all-reduce, a root has to give, and there are no other kinds. */
static void test_refused(void **state) {
	const struct wish sum = {.collective = HD_COLLECTIVE_ALLREDUCE, .bytes = BYTES};
	const struct wish wish = {.collective = HD_COLLECTIVE_BROADCAST, .root = 1, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	call_with(&s, 0, 1, 1, &wish, HD_REQUEST_ROLL);
	assert_int_equal(drops(&s, 0, HD_REASON_REFUSED), 1);
	call_with(&s, 0, 1, 1, &sum, HD_REQUEST_HAS);
	assert_int_equal(drops(&s, 0, HD_REASON_REFUSED), 2);
	call_with(&s, 1, 1, 1, &wish, HD_REQUEST_HAS);
	assert_int_equal(drops(&s, 1, HD_REASON_REFUSED), 1);
	call_with(&s, 1, 1, 1, &wish, HD_REQUEST_STATE_COUNT);
	assert_int_equal(drops(&s, 1, HD_REASON_REFUSED), 2);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_several_wait),
		cmocka_unit_test(test_waits_in_repeated_round),
		cmocka_unit_test(test_has),
		cmocka_unit_test(test_all_have_it),
		cmocka_unit_test(test_has_when_repeated),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
