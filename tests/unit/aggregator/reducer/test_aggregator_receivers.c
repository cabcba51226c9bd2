/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of collectives whose receivers are lost: when that concerns the members that give to them. */
#include "aggregator_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 60000
#define BYTES (VALUES * sizeof(float))
#define GROUP 0x51
#define SUM_TOKEN 0x61 /* plus the rank of the receiver */

static float values[VALUES];

/* A group of two inputs; `receivers` are ranks, and take what comes if they are `ready`. */
static void open_group(struct world *world, struct plan *plan, const char *receivers, bool ready) {
	plan_make(plan, GROUP, 2, BYTES);
	for (const char *r = receivers; *r; r++) {
		const uint64_t token = SUM_TOKEN + (uint64_t)(*r - '0');

		plan_to(plan, world->worker[*r - '0'], token);
		if (ready)
			end_expect(world->worker[*r - '0'], token, BYTES);
	}
	plan_send(world, plan);
}

static void kill_worker(struct world *world, uint32_t rank) {
	end_kill(world, world->worker[rank]);
	world->worker[rank] = NULL;
}

/* Its members are not told to send again, the controller gets no failure, and the memory is free. */
static void check_quiet_end(struct world *world, const struct plan *plan) {
	assert_int_equal(world_stats(world)->groups_open, 0);
	assert_int_equal(world_stats(world)->groups_failed, 1);
	assert_int_equal(world_stats(world)->memory_bytes, 0);
	assert_null(end_report(world->controller, GROUP));
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(end_voids(world->worker[i], plan->inputs[i].token), 0);
}

/* The only receiver of a block dies when all has been given. */
static void test_block_of_a_dead_worker(void **state) {
	struct world *world = world_open(3, NULL);
	struct hd_send *send[2];
	struct plan plan;

	(void)state;
	open_group(world, &plan, "2", false);
	for (uint32_t i = 0; i < 2; i++)
		send[i] = plan_push(world, &plan, i, values);
	world_run(world, 200 * HD_MS);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(hd_send_stats(send[i])->state, HD_SEND_DONE);
	assert_int_equal(world_stats(world)->groups_open, 1);
	kill_worker(world, 2);
	world_run(world, 2 * HD_SECOND);
	check_quiet_end(world, &plan);
	world_close(world);
}

/* It dies while one still gives to it: that one cannot know that it need not. */
static void test_block_is_not_given(void **state) {
	struct world *world = world_open(3, NULL);
	struct plan plan;

	(void)state;
	open_group(world, &plan, "2", false);
	plan_push(world, &plan, 0, values);
	world_run(world, 100 * HD_MS);
	kill_worker(world, 2);
	world_run(world, 2 * HD_SECOND);
	assert_int_equal(end_report(world->controller, GROUP)->outcome, HD_OUTCOME_FAILED);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(end_voids(world->worker[i], plan.inputs[i].token), 1);
	assert_int_equal(world_stats(world)->groups_open, 0);
	world_close(world);
}

/* A model that is passed on to workers: its sender is told when none of them is left. */
static void test_model_for_dead_workers(void **state) {
	struct world *world = world_open(3, NULL);
	struct plan plan;

	(void)state;
	plan_make(&plan, GROUP, 1, BYTES);
	plan.inputs[0].worker = HD_GROUP_WORKER;
	plan.message.version = 7;
	plan.message.peer_ipv4 = world->server->node.addr.ipv4;
	plan.message.peer_port = world->server->node.addr.port;
	plan_to(&plan, world->worker[2], SUM_TOKEN);
	plan_send(world, &plan);
	assert_int_equal(world_stats(world)->groups_open, 1);
	kill_worker(world, 2);
	world_run(world, 2 * HD_SECOND);
	assert_int_equal(end_report(world->controller, GROUP)->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(end_voids(world->server, plan.inputs[0].token), 1);
	world_close(world);
}

/* A receiver with a session that takes nothing: the group fails, and its members send it again. */
static void test_silent_receiver(void **state) {
	const struct hd_aggregator_config config = {.hold_us = 100000};
	struct world *world = world_open(3, &config);
	struct plan plan;

	(void)state;
	open_group(world, &plan, "2", false);
	for (uint32_t i = 0; i < 2; i++)
		plan_push(world, &plan, i, values);
	world_run(world, HD_SECOND);
	assert_int_equal(end_report(world->controller, GROUP)->reason, HD_REASON_TIMEOUT);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(end_voids(world->worker[i], plan.inputs[i].token), 1);
	world_close(world);
}

/* One of two receivers dies: the other gets its sum. */
static void test_one_of_two(void **state) {
	struct world *world = world_open(4, NULL);
	struct plan plan;

	(void)state;
	open_group(world, &plan, "23", true);
	kill_worker(world, 2);
	for (uint32_t i = 0; i < 2; i++)
		plan_push(world, &plan, i, values);
	world_run(world, 2 * HD_SECOND);
	assert_true(end_received(world->worker[3], SUM_TOKEN + 3)->done);
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	assert_int_equal(world_stats(world)->outputs_lost, 1);
	assert_int_equal(world_stats(world)->groups_open, 0);
	world_close(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_block_of_a_dead_worker),
		cmocka_unit_test(test_block_is_not_given),
		cmocka_unit_test(test_model_for_dead_workers),
		cmocka_unit_test(test_silent_receiver),
		cmocka_unit_test(test_one_of_two),
	};

	return cmocka_run_group_tests_name("aggregator-receivers", tests, NULL, NULL);
}
