/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker of a synchronous job: its pulls wait for its pushes, and it hears when steps end. */
#include "worker_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct world *
build_sync(enum mode mode, uint8_t sync, uint32_t count, struct hd_worker_config more) {
	const struct hd_jobspec spec = {.sync = sync, .sync_count = count};
	struct world *world;

	more.spec = &spec;
	world = build(mode, &more);
	run_ms(world, 20);
	return world;
}

static void test_pull_waits(void **state) {
	for (int direct = 0; direct < 2; direct++) {
		struct world *world = build_sync(
			direct ? DIRECT : SCHEDULED, HD_SYNC_N, 2, (struct hd_worker_config){0}
		);

		world->server.no_outcome = true;
		assert_int_equal(push(world, 0, 1), 1);
		assert_int_equal(pull(world, 1, 0, false), 1);
		run_ms(world, 500);
		assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_QUEUED);
		/* However it ends: of a laggard as late. */
		if (direct)
			peer_outcome(&world->server, 1, HD_OUTCOME_DROPPED, HD_REASON_LATE);
		else
			peer_outcome(&world->server, 1, HD_OUTCOME_APPLIED, HD_REASON_NONE);
		run_ms(world, 100);
		assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
		check_sums(world, 0);
		destroy(world);
	}
}

/* In steps of n updates it may compute on at what it has, and pull at any time. */
static void test_batches_do_not_wait(void **state) {
	struct world *world
		= build_sync(SCHEDULED, HD_SYNC_N_BATCH, 2, (struct hd_worker_config){0});

	world->server.no_outcome = true;
	assert_int_equal(push(world, 0, 1), 1);
	assert_int_equal(pull(world, 1, 0, false), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
	destroy(world);
}

static void test_hears_of_steps(void **state) {
	struct world *world = build_sync(SCHEDULED, HD_SYNC_N, 2, (struct hd_worker_config){0});
	struct hd_message message = {.kind = HD_MSG_STEP};
	hd_version at = world->newest;
	unsigned steps = world->steps;

	message.step.job = hd_job_id("t", "job");
	message.step.version = at + 8;
	assert_int_equal(peer_send(&world->server, &message), 0);
	run_ms(world, 10);
	assert_int_equal(world->steps, steps + 1);
	assert_int_equal(world->newest, at + 8);
	/* Older words change nothing, nor do those of other jobs. */
	message.step.version = at + 4;
	assert_int_equal(peer_send(&world->server, &message), 0);
	message.step.version = at + 12;
	message.step.job++;
	assert_int_equal(peer_send(&world->server, &message), 0);
	run_ms(world, 10);
	assert_int_equal(world->newest, at + 8);
	destroy(world);
}

/* No step waits for who only pulls, or is about to leave. */
static void test_says_that_it_is_done(void **state) {
	struct world *world = build_sync(
		SCHEDULED, HD_SYNC_ALL, 0, (struct hd_worker_config){.observes = true}
	);

	assert_int_equal(peer_count(&world->server, HD_MSG_LEAVE), 1);
	assert_int_equal(peer_last(&world->server, HD_MSG_LEAVE)->leave.reason, HD_REASON_NONE);
	destroy(world);
	world = build_sync(SCHEDULED, HD_SYNC_ALL, 0, (struct hd_worker_config){0});
	assert_int_equal(peer_count(&world->server, HD_MSG_LEAVE), 0);
	world->server.no_outcome = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_false(hd_worker_leave(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		hd_sim_node_sink(world->sim, world->node)
	));
	run_ms(world, 50);
	assert_int_equal(peer_count(&world->server, HD_MSG_LEAVE), 1);
	assert_int_equal(peer_last(&world->server, HD_MSG_LEAVE)->leave.reason, HD_REASON_NONE);
	peer_outcome(&world->server, 1, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	run_ms(world, 500);
	assert_int_equal(peer_last(&world->server, HD_MSG_LEAVE)->leave.reason, HD_REASON_LEFT);
	assert_true(hd_worker_stats(world->worker)->left);
	destroy(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pull_waits),
		cmocka_unit_test(test_batches_do_not_wait),
		cmocka_unit_test(test_hears_of_steps),
		cmocka_unit_test(test_says_that_it_is_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
