/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds of workers that share memory: when the controller makes them there, and what a death does to them. */
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HERE 4711 /* an identity of memory */

/* Workers with these identities, and an aggregator. */
static void open_with(struct scene *s, const uint64_t shared[WORKERS]) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, &net_plain);
	for (uint16_t i = 0; i < WORKERS; i++) {
		struct hd_message m;

		s->workers[i] = net_peer(&s->net, HD_ROLE_WORKER, "h1");
		s->workers[i]->worker = i;
		(void)snprintf(s->workers[i]->tenant, sizeof s->workers[i]->tenant, "t");
		(void)snprintf(s->workers[i]->job, sizeof s->workers[i]->job, "j");
		m = registration(s->workers[i], WORKERS);
		m.register_.shared = shared[i];
		post(s->workers[i], m);
		net_run(&s->net, HD_MS);
	}
	s->aggregators[0] = aggregator(&s->net, "h9", 100 * MB);
}

static void open_shared(struct scene *s) {
	static const uint64_t all[WORKERS] = {HERE, HERE, HERE};

	open_with(s, all);
}

static void ask_all(struct scene *s, uint32_t round) {
	for (uint16_t i = 0; i < WORKERS; i++)
		if (s->workers[i])
			ask_next(s, i, round);
}

static uint64_t token(const struct scene *s, uint16_t rank) {
	return reduce_sent(s, rank)->shared;
}

static uint32_t voids(const struct scene *s, uint16_t rank) {
	return peer_count(s->workers[rank], HD_MSG_VOID);
}

static void lose(struct scene *s, uint16_t rank) {
	s->workers[rank]->cut = true;
	s->workers[rank] = NULL;
	net_run(&s->net, (hd_ns)2 * HD_DETECTION_US * HD_US);
}

static void ask_by_network(struct scene *s, uint16_t rank, uint32_t round, uint8_t attempt) {
	struct hd_message m = net_push(s->workers[rank], round, BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = attempt;
	m.request.by_network = 1;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* All of one identity: no shards, and no group at the aggregator. Rounds follow one another in one segment. */
static void test_all_here(void **state) {
	struct scene s;
	uint64_t first;

	(void)state;
	open_shared(&s);
	ask_all(&s, 1);
	first = token(&s, 0);
	assert_int_not_equal(first, 0);
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_int_equal(token(&s, i), first);
		assert_int_equal(reduce_sent(&s, i)->turn, 0);
		assert_int_equal(reduce_sent(&s, i)->shards.bytes, 0);
		assert_int_equal(reduce_sent(&s, i)->workers, WORKERS);
		done(&s, i, HD_OUTCOME_APPLIED);
	}
	ask_all(&s, 2);
	assert_int_equal(token(&s, 1), first);
	assert_int_equal(reduce_sent(&s, 1)->turn, 1);
	assert_int_equal(peer_count(s.aggregators[0], HD_MSG_GROUP), 0);
	assert_int_equal(s.net.controller->counters.reduces_shared, 2);
	net_close(&s.net);
}

/* One elsewhere, or one that does not share: through the aggregator. */
static void test_not_all_here(void **state) {
	static const uint64_t others[][WORKERS]
		= {{HERE, HERE, HERE + 1}, {HERE, 0, HERE}, {0, 0, 0}};
	struct scene s;

	(void)state;
	for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
		open_with(&s, others[k]);
		ask_all(&s, 1);
		assert_int_equal(token(&s, 0), 0);
		assert_int_equal(peer_count(s.aggregators[0], HD_MSG_GROUP), 1);
		net_close(&s.net);
	}
}

/* One dies before any member has the result: void for all, and repeated in another segment. */
static void test_a_death(void **state) {
	struct scene s;
	uint64_t first;

	(void)state;
	open_shared(&s);
	ask_all(&s, 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 2, 1);
	first = token(&s, 0);
	lose(&s, 2);
	assert_int_equal(voids(&s, 0), 2); /* both rounds */
	assert_int_equal(voids(&s, 1), 2);
	assert_int_equal(peer_last(s.workers[0], HD_MSG_VOID)->void_.token, first);
	ask(&s, 0, 1, 2);
	ask(&s, 1, 1, 2);
	assert_int_equal(reduce_sent(&s, 0)->round, 1);
	assert_int_equal(reduce_sent(&s, 0)->workers, 2);
	assert_int_not_equal(token(&s, 0), 0);
	assert_int_not_equal(token(&s, 0), first);
	assert_int_equal(reduce_sent(&s, 0)->turn, 0);
	net_close(&s.net);
}

/* One has the result: all have, or will. A death makes nothing void, but for the later rounds. */
static void test_a_late_death(void **state) {
	struct scene s;

	(void)state;
	open_shared(&s);
	ask_all(&s, 1);
	done(&s, 0, HD_OUTCOME_APPLIED);
	lose(&s, 2);
	assert_int_equal(voids(&s, 1), 0);
	assert_int_equal(drops(&s, 1, HD_REASON_LATE), 0);
	done(&s, 1, HD_OUTCOME_APPLIED);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	net_close(&s.net);
}

/* The last member's report and the VOID cross: all have the result, and none is told otherwise. */
static void test_crossing(void **state) {
	struct scene s;

	(void)state;
	open_shared(&s);
	ask_all(&s, 1);
	lose(&s, 2);
	assert_int_equal(voids(&s, 0), 1);
	done(&s, 0, HD_OUTCOME_APPLIED);
	done(&s, 1, HD_OUTCOME_APPLIED);
	assert_int_equal(drops(&s, 0, HD_REASON_LATE), 0);
	assert_int_equal(drops(&s, 1, HD_REASON_LATE), 0);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	net_close(&s.net);
}

/* A member cannot map the segment: that round goes through the aggregator, the next one through memory again. */
static void test_by_network(void **state) {
	struct scene s;
	uint64_t first;

	(void)state;
	open_shared(&s);
	ask_all(&s, 1);
	first = token(&s, 0);
	ask_by_network(&s, 1, 1, 2);
	assert_int_equal(voids(&s, 0), 1);
	ask(&s, 0, 1, 2);
	ask(&s, 2, 1, 2);
	assert_int_equal(token(&s, 0), 0);
	assert_int_equal(peer_count(s.aggregators[0], HD_MSG_GROUP), 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		done(&s, i, HD_OUTCOME_APPLIED);
	ask_all(&s, 2);
	assert_int_not_equal(token(&s, 0), 0);
	assert_int_not_equal(token(&s, 0), first);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_here),
		cmocka_unit_test(test_not_all_here),
		cmocka_unit_test(test_a_death),
		cmocka_unit_test(test_a_late_death),
		cmocka_unit_test(test_crossing),
		cmocka_unit_test(test_by_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
