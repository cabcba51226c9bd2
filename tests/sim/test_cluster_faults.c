/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults of a cluster, one at a time: crashes, partitions, stopped processes, withdrawals. */
#include "cluster_run.h"
#include "hd_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void crash(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.crashes[run->scenario.crash_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

static void cut(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.partitions[run->scenario.partition_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

static const struct hd_place server = {.kind = HD_PLACE_SERVER};
static const struct hd_place controller = {.kind = HD_PLACE_CONTROLLER};
static const struct hd_place worker1 = {.kind = HD_PLACE_WORKER, .worker = 1};

static void test_worker_crash(void **state) {
	struct run run;

	prepare(&run);
	crash(&run, worker1, 1, 0.5);
	crash(&run, worker1, 2, 0.01);
	expect(&run, 400);
	assert_int_equal(run.result.crashes, 2);
}

static void test_server_crash_with_checkpoints(void **state) {
	struct run run;

	prepare(&run);
	run.scenario.sim.checkpoint_commits = 10;
	crash(&run, server, 1, 0.2);
	crash(&run, server, 2.5, 0.2);
	expect(&run, 150);
	assert_true(run.result.checkpoints > 5);
	assert_int_equal(run.result.crashes, 2);
}

static void test_server_crash_without(void **state) {
	struct run run;

	prepare(&run);
	crash(&run, server, 1, 0.2);
	expect(&run, 200);
	assert_true(run.result.pushes.rolled_back > 50);
}

static void test_failing_disk(void **state) {
	struct run run;

	prepare(&run);
	run.scenario.sim.checkpoint_commits = 10;
	run.scenario.sim.disk_error = 0.5;
	crash(&run, server, 2, 0.2);
	expect(&run, 150);
}

static void test_controller_crash(void **state) {
	struct run run;

	prepare(&run);
	crash(&run, controller, 1, 0.3);
	expect(&run, 350);
	assert_int_equal(run.result.crashes, 1);
}

static void test_controller_gone(void **state) {
	struct run run;

	prepare(&run);
	crash(&run, controller, 1, 60);
	expect(&run, 150); /* falls back, goes on directly */
	assert_true(run.kinds[HD_EVENT_FALLBACK] >= 4);
	assert_true(run.result.direct_bytes > 0);
}

static void test_partitions(void **state) {
	struct run run;

	prepare(&run);
	cut(&run, worker1, 0.5, 0.3);
	cut(&run, server, 1.5, 0.3);
	cut(&run, controller, 2.5, 0.3);
	expect(&run, 150);
	assert_true(run.result.network.cut > 0);
	prepare(&run);
	cut(&run, worker1, 0.5, 2.5); /* longer than the detection time */
	expect(&run, 300);
}

static void stop(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.stops[run->scenario.stop_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

/* SIGSTOP, shorter and longer than the detection time: a node that comes back believes that it was never away. */
static void test_stops(void **state) {
	struct run run;

	prepare(&run);
	stop(&run, worker1, 0.5, 0.3);
	stop(&run, server, 1.5, 0.3);
	stop(&run, controller, 2.5, 0.3);
	expect(&run, 300);
	assert_int_equal(run.kinds[HD_EVENT_FALLBACK], 0);
	prepare(&run);
	run.scenario.sim.checkpoint_commits = 10;
	stop(&run, worker1, 0.5, 1.5);
	stop(&run, server, 0.8, 2);
	expect(&run, 100);
	prepare(&run);
	stop(&run, controller, 0.5, 2.5);
	expect(&run, 150);
	assert_true(run.kinds[HD_EVENT_FALLBACK] >= 4);
	/* Killed while it is stopped. */
	prepare(&run);
	run.scenario.sim.checkpoint_commits = 10;
	stop(&run, server, 0.5, 2);
	crash(&run, server, 1, 0.2);
	expect(&run, 150);
	assert_int_equal(run.result.crashes, 1);
}

/* The power of all at once: what a checkpoint holds is all that is left. */
static void test_power_cut(void **state) {
	struct run run;

	prepare(&run);
	run.scenario.sim.checkpoint_commits = 10;
	for (uint32_t w = 0; w < run.scenario.workers; w++)
		crash(&run, (struct hd_place){.kind = HD_PLACE_WORKER, .worker = w}, 2, 0.1);
	crash(&run, server, 2, 0.3);
	crash(&run, controller, 2, 0.2);
	expect(&run, 200);
	assert_int_equal(run.result.crashes, run.scenario.workers + 2);
	assert_true(run.result.pushes.rolled_back <= 10 + run.scenario.workers);
}

static void test_cancels(void **state) {
	struct run run;

	prepare(&run);
	run.scenario.sim.cancel = 0.3;
	expect(&run, 300);
	assert_true(run.result.pushes.reasons[HD_REASON_CANCELLED] > 20);
}

/* An update that was withdrawn too late is in the model, although the server's message about it was lost. */
static void test_cancels_across_partitions(void **state) {
	struct run run;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		prepare(&run);
		run.config.seed = seed;
		run.scenario.sim.cancel = 0.5;
		for (int i = 0; i < 3; i++)
			cut(&run, server, 0.3 + 1.2 * i, 1.1
			); /* longer than a session's patience */
		expect(&run, 20);
	}
}

static void test_come_and_go(void **state) {
	struct run run;

	prepare(&run);
	run.scenario.event_count = 4;
	run.scenario.events[0]
		= (struct hd_scenario_event){.at_s = 1, .worker = 3, .what = HD_DO_JOIN};
	run.scenario.events[1]
		= (struct hd_scenario_event){.at_s = 1.5, .worker = 1, .what = HD_DO_LEAVE};
	run.scenario.events[2]
		= (struct hd_scenario_event){.at_s = 2, .worker = 2, .what = HD_DO_KILL};
	run.scenario.events[3]
		= (struct hd_scenario_event){.at_s = 3, .worker = 2, .what = HD_DO_JOIN};
	expect(&run, 300);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worker_crash),
		cmocka_unit_test(test_server_crash_with_checkpoints),
		cmocka_unit_test(test_server_crash_without),
		cmocka_unit_test(test_failing_disk),
		cmocka_unit_test(test_controller_crash),
		cmocka_unit_test(test_controller_gone),
		cmocka_unit_test(test_partitions),
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_power_cut),
		cmocka_unit_test(test_cancels),
		cmocka_unit_test(test_cancels_across_partitions),
		cmocka_unit_test(test_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
