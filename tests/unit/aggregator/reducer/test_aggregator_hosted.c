/* SPDX-License-Identifier: BSD-3-Clause */
/* An aggregator beside a worker: it adds for one job, and can end when all its groups have ended. */
#include "aggregator_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 20000
#define BYTES (VALUES * sizeof(float))

static uint8_t refusal(struct world *world, uint64_t group) {
	const struct hd_msg_report *report = end_report(world->controller, group);

	assert_non_null(report);
	assert_int_equal(report->outcome, HD_OUTCOME_FAILED);
	return report->reason;
}

/* It says whose it is, and refuses what is another job's. */
static void test_one_job(void **state) {
	const struct hd_aggregator_config config = {.job = JOB, .worker = 3};
	struct world *world = world_open(2, &config);
	const struct hd_message *m = end_message(world->controller, HD_MSG_REGISTER, 0);
	struct plan plan;

	(void)state;
	assert_int_equal(m->register_.job, JOB);
	assert_int_equal(m->register_.worker, 3);
	plan_make(&plan, 1, 2, BYTES);
	plan_to(&plan, world->worker[0], 9);
	plan.message.job = JOB + 1;
	plan_send(world, &plan);
	assert_int_equal(refusal(world, 1), HD_REASON_REFUSED);
	plan_make(&plan, 2, 2, BYTES);
	plan_to(&plan, world->worker[0], 10);
	plan_send(world, &plan);
	assert_null(end_report(world->controller, 2));
	assert_int_equal(world_stats(world)->groups_open, 1);
	world_close(world);
}

/* The group that it has is added to its end; a new one is refused. */
static void test_retires(void **state) {
	struct world *world = world_open(2, NULL);
	float *x = calloc(VALUES, sizeof *x);
	struct end_recv *got;
	struct plan plan, next;

	(void)state;
	for (uint32_t i = 0; i < VALUES; i++)
		x[i] = (float)i;
	plan_make(&plan, 1, 2, BYTES);
	plan_to(&plan, world->worker[0], 9);
	got = end_expect(world->worker[0], 9, BYTES);
	plan_send(world, &plan);
	hd_aggregator_retire(world->aggregator);
	plan_make(&next, 2, 2, BYTES);
	plan_to(&next, world->worker[0], 10);
	plan_send(world, &next);
	assert_int_equal(refusal(world, 2), HD_REASON_CLOSED);
	assert_int_equal(world_stats(world)->groups_open, 1);
	for (uint32_t i = 0; i < 2; i++)
		plan_push(world, &plan, i, x);
	world_run(world, HD_SECOND);
	assert_true(got->done);
	assert_float_equal(((const float *)(const void *)got->data)[7], 14, 0);
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	assert_int_equal(world_stats(world)->groups_open, 0);
	assert_true(world->controller->open);
	assert_true(hd_aggregator_is_idle(world->aggregator));
	world_close(world);
	free(x);
}

/* Its group has ended, but not all reports of it have arrived: it waits for that, or for the end of the session. */
static void test_reports_before_it_ends(void **state) {
	struct world *world = world_open(2, NULL);
	float *x = calloc(VALUES, sizeof *x);
	struct plan plan;

	(void)state;
	plan_make(&plan, 1, 2, BYTES);
	plan_to(&plan, world->worker[0], 9);
	(void)end_expect(world->worker[0], 9, BYTES);
	plan_send(world, &plan);
	hd_aggregator_retire(world->aggregator);
	assert_false(hd_aggregator_is_idle(world->aggregator));
	end_kill(world, world->controller);
	world->controller = NULL;
	for (uint32_t i = 0; i < 2; i++)
		plan_push(world, &plan, i, x);
	world_run(world, 200 * HD_MS);
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	assert_int_equal(world_stats(world)->groups_open, 0);
	assert_false(hd_aggregator_is_idle(world->aggregator));
	world_run(world, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_true(hd_aggregator_is_idle(world->aggregator));
	world_close(world);
	free(x);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_job),
		cmocka_unit_test(test_retires),
		cmocka_unit_test(test_reports_before_it_ends),
	};

	return cmocka_run_group_tests_name("aggregator-hosted", tests, NULL, NULL);
}
