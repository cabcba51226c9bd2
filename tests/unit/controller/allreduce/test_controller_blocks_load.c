/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives with blocks of many members at one aggregator: its limits of transfers and of
 * messages that wait in its session. */
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 130
#define ROUNDS 40
#define ENDS 4 /* of them, while others wait */

static struct peer *many[MANY], *standing;

/* The controller's job with this number of workers, and one aggregator with memory for all that they do. */
static void open_many(struct scene *s, uint16_t workers) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, &net_plain);
	for (uint16_t i = 0; i < workers; i++)
		many[i] = worker(&s->net, i, workers);
	standing = aggregator(&s->net, "a", 1000 * MB);
}

static void call_many(struct scene *s, uint16_t workers, uint32_t round) {
	for (uint16_t i = 0; i < workers; i++) {
		struct hd_message m = net_push(many[i], round, 4, 0);

		m.request.direction = HD_REDUCE;
		m.request.attempt = 1;
		m.request.have = 1;
		m.request.collective = HD_COLLECTIVE_ALLGATHER;
		post(many[i], m);
	}
	net_run(&s->net, 20 * HD_MS);
}

/* The transfers and groups that the controller has given to the aggregator so far. */
static uint32_t transfers(uint32_t *groups) {
	uint32_t count = 0;

	*groups = 0;
	for (uint32_t i = 0; i < standing->count; i++) {
		const struct hd_message *m = &standing->log[i];

		if (m->kind != HD_MSG_GROUP)
			continue;
		++*groups;
		count += (uint32_t)hd_group_count(&m->group.inputs, HD_GROUP_INPUT_BYTES);
		count += (uint32_t)hd_group_count(&m->group.outputs, HD_GROUP_OUTPUT_BYTES);
	}
	return count;
}

/* Each of n blocks has n transfers: with 130 members these are more than the aggregator can have. */
static void test_too_many(void **state) {
	struct scene s;
	uint32_t groups;

	(void)state;
	assert_true(MANY * MANY > HD_TRANSFERS_MAX);
	open_many(&s, MANY);
	call_many(&s, MANY, 1);
	net_run(&s.net, 500 * HD_MS);
	for (uint16_t i = 0; i < MANY; i++) {
		const struct hd_message *m = peer_last(many[i], HD_MSG_DROP);

		assert_non_null(m);
		assert_int_equal(m->drop.reason, HD_REASON_NO_SERVER);
	}
	assert_int_equal(transfers(&groups), 0);
	net_close(&s.net);
}

static void finish_many(struct scene *s, uint16_t workers, uint32_t round) {
	for (uint16_t i = 0; i < workers; i++) {
		struct hd_message m = {.kind = HD_MSG_REPORT};

		m.report.job = peer_last(many[i], HD_MSG_REDUCE)->reduce.job;
		m.report.worker = i;
		m.report.round = round;
		m.report.direction = HD_REDUCE;
		m.report.attempt = 1;
		m.report.outcome = HD_OUTCOME_APPLIED;
		post(many[i], m);
	}
	net_run(&s->net, 20 * HD_MS);
}

/* Rounds that would fit alone begin one after another, as those before end. No queue of messages overflows. */
static void check_in_turn(uint16_t workers) {
	uint32_t groups, at_once;
	struct scene s;

	open_many(&s, workers);
	for (uint32_t round = 1; round <= ROUNDS; round++)
		call_many(&s, workers, round);
	assert_true(transfers(&groups) <= HD_TRANSFERS_MAX);
	at_once = groups / workers;
	assert_int_equal(groups % workers, 0);
	assert_in_range(at_once, 1, ROUNDS - 1);
	for (uint32_t round = 1; round <= ENDS; round++) {
		finish_many(&s, workers, round);
		(void)transfers(&groups);
		assert_int_equal(groups, (at_once + round) * workers);
	}
	assert_int_equal(counters(&s.net)->queue_overflow, 0);
	net_close(&s.net);
}

static void test_in_turn(void **state) {
	(void)state;
	check_in_turn(32); /* a GROUP of two packets, */
	check_in_turn(100); /* of six */
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_in_turn),
	};

	return cmocka_run_group_tests_name("controller_blocks_load", tests, NULL, NULL);
}
