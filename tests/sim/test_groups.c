/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates that are added up in the network, and faults of these groups: every invariant of the checker, at each
 * step. */
#include "cluster_run.h"
#include "hd_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct hd_place server = {.kind = HD_PLACE_SERVER};
static const struct hd_place controller = {.kind = HD_PLACE_CONTROLLER};
static const struct hd_place aggregator = {.kind = HD_PLACE_AGGREGATOR};
static const struct hd_place worker1 = {.kind = HD_PLACE_WORKER, .worker = 1};
static const struct hd_place worker2 = {.kind = HD_PLACE_WORKER, .worker = 2};

/* Eight workers whose updates all need the server's slow link; a worker pulls only if there is a newer version. */
static void prepare_groups(struct run *run) {
	prepare(run);
	run->scenario.workers = 8;
	run->scenario.link_mbps = 400;
	run->scenario.server_link_mbps = 100;
	run->scenario.aggregators = 1;
	run->scenario.aggregator_link_mbps = 1600;
	run->scenario.job.update_bytes = 131072;
	run->scenario.job.pull_payload = HD_DTYPE_BF16;
	run->scenario.job.compute_ms = 10;
	run->scenario.job.tau_max = 64;
	run->scenario.sim.credit_kb = 0;
	run->scenario.sim.depth = 2;
}

static void crash(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.crashes[run->scenario.crash_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

static void cut(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.partitions[run->scenario.partition_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

static void stop(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.stops[run->scenario.stop_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

/* Expects `applied` updates, `parts` of them in sums. */
static void expect_groups(struct run *run, uint64_t applied, uint64_t parts) {
	expect(run, applied);
	print_message(
		"%llu applied, %llu in %llu sums; groups: %llu delivered, %llu failed, %llu refused\n",
		(unsigned long long)run->result.pushes.applied,
		(unsigned long long)run->parts,
		(unsigned long long)run->sums,
		(unsigned long long)run->result.aggregation.delivered,
		(unsigned long long)run->result.aggregation.failed,
		(unsigned long long)run->result.aggregation.refused
	);
	if (run->parts < parts)
		fail_msg("%llu in sums", (unsigned long long)run->parts);
}

static void test_sums_are_committed(void **state) {
	struct run run, again;

	prepare_groups(&run);
	expect_groups(&run, 100, 100);
	assert_int_equal(run.result.aggregation.failed, 0);
	assert_int_equal(run.result.pushes.dropped, 0);
	/* The same seed is the same run. */
	prepare_groups(&again);
	go(&again);
	assert_int_equal(again.trace, run.trace);
	assert_int_equal(again.events, run.events);
}

static void test_types(void **state) {
	static const uint8_t types[] = {HD_DTYPE_FP16, HD_DTYPE_BF16, HD_DTYPE_FIXED32};

	for (size_t i = 0; i < sizeof types; i++) {
		struct run run;

		prepare_groups(&run);
		run.scenario.job.payload = types[i];
		expect_groups(&run, 100, 50);
	}
}

static void test_loss(void **state) {
	struct run run;

	prepare_groups(&run);
	run.scenario.loss = 0.02;
	run.scenario.duplicate = 0.01;
	run.scenario.reorder = 0.01;
	expect_groups(&run, 100, 50);
}

/* Members die, alone and together; what they sent counts or does not, as their sums do. */
static void test_members_die(void **state) {
	struct run run;

	prepare_groups(&run);
	for (int i = 0; i < 6; i++)
		crash(&run, i % 2 ? worker1 : worker2, 0.5 + 0.5 * i, 0.2);
	crash(&run, (struct hd_place){.kind = HD_PLACE_WORKER, .worker = 5}, 1, 0.3);
	expect_groups(&run, 100, 50);
	assert_int_equal(run.result.crashes, 7);
}

static void test_aggregator_dies(void **state) {
	struct run run;

	prepare_groups(&run);
	crash(&run, aggregator, 0.8, 0.2);
	crash(&run, aggregator, 2, 1.2);
	expect_groups(&run, 80, 30);
	assert_int_equal(run.result.crashes, 2);
	/* For good: everything goes on directly. */
	prepare_groups(&run);
	crash(&run, aggregator, 1, 60);
	expect_groups(&run, 80, 20);
}

static void test_aggregator_is_cut_off(void **state) {
	struct run run;

	prepare_groups(&run);
	cut(&run, aggregator, 0.5, 0.3);
	cut(&run, aggregator, 1.5, 1.2);
	expect_groups(&run, 60, 20);
	prepare_groups(&run);
	stop(&run, aggregator, 0.5, 0.4);
	stop(&run, aggregator, 1.5, 1.5); /* it comes back and believes that it was never away */
	expect_groups(&run, 60, 20);
}

static void test_two_aggregators(void **state) {
	struct run run;

	prepare_groups(&run);
	run.scenario.aggregators = 2;
	crash(&run, aggregator, 1, 0.5);
	crash(&run, (struct hd_place){.kind = HD_PLACE_AGGREGATOR, .worker = 1}, 2, 0.5);
	expect_groups(&run, 80, 30);
}

static void test_server_dies(void **state) {
	struct run run;

	prepare_groups(&run);
	run.scenario.sim.checkpoint_commits = 10;
	crash(&run, server, 1, 0.2);
	crash(&run, server, 2.5, 0.2);
	expect_groups(&run, 60, 20);
	assert_true(run.result.pushes.rolled_back > 0);
	prepare_groups(&run);
	crash(&run, server, 1, 0.2); /* without a checkpoint */
	expect_groups(&run, 60, 20);
}

static void test_controller_dies(void **state) {
	struct run run;

	prepare_groups(&run);
	crash(&run, controller, 1, 0.3);
	crash(&run, controller, 2.5, 0.01);
	expect_groups(&run, 80, 30);
	prepare_groups(&run);
	crash(&run, controller, 1, 60);
	expect_groups(&run, 60, 10);
	assert_true(run.kinds[HD_EVENT_FALLBACK] >= 8);
}

static void test_all_nodes_die_at_once(void **state) {
	struct run run;

	prepare_groups(&run);
	run.scenario.sim.checkpoint_commits = 10;
	for (uint32_t w = 0; w < run.scenario.workers; w++)
		crash(&run, (struct hd_place){.kind = HD_PLACE_WORKER, .worker = w}, 2, 0.1);
	crash(&run, server, 2, 0.3);
	crash(&run, aggregator, 2, 0.1);
	crash(&run, controller, 2, 0.2);
	expect_groups(&run, 50, 20);
}

static void test_cancels(void **state) {
	struct run run;

	prepare_groups(&run);
	run.scenario.sim.cancel = 0.2;
	expect_groups(&run, 60, 20);
	assert_true(run.result.pushes.reasons[HD_REASON_CANCELLED] > 5);
}

/* With a bound that the members of a sum reach at their own places. */
static void test_tight_bound(void **state) {
	struct run run;

	for (uint32_t tau = 8; tau <= 20; tau += 4) {
		prepare_groups(&run);
		run.scenario.job.tau_max = tau;
		expect_groups(&run, 50, 0);
		assert_true(run.result.pushes.delay_max <= tau);
	}
}

/* Different seeds, everything at once; HEDDLE_SIM_SEEDS of them from HEDDLE_SIM_FIRST on. */
static void test_storms(void **state) {
	uint64_t seeds = run_seeds(25), first = run_first_seed();
	struct run run;

	for (uint64_t seed = first; seed < first + seeds; seed++) {
		prepare_groups(&run);
		run.config.seed = seed;
		run.scenario.duration_s = 3;
		run.scenario.loss = 0.005;
		run.scenario.aggregators = 1 + seed % 2;
		run.scenario.sim.cancel = 0.05;
		run.scenario.sim.checkpoint_commits = seed % 3 ? 20 : 0;
		crash(&run, aggregator, 0.4 + 0.02 * (double)(seed % 40), 0.3);
		crash(&run, worker1, 0.9 + 0.03 * (double)(seed % 37), 0.2);
		crash(&run, controller, 1.1 + 0.05 * (double)(seed % 31), 0.1);
		cut(&run, server, 0.7 + 0.06 * (double)(seed % 29), 0.9);
		cut(&run, aggregator, 1.6, 0.9);
		if (seed % 5 == 0)
			crash(&run, server, 0.5 + 0.04 * (double)(seed % 43), 0.1);
		go(&run);
		if (run.violated)
			fail_msg("seed %llu: %s", (unsigned long long)seed, run.failure);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_are_committed),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_members_die),
		cmocka_unit_test(test_aggregator_dies),
		cmocka_unit_test(test_aggregator_is_cut_off),
		cmocka_unit_test(test_two_aggregators),
		cmocka_unit_test(test_server_dies),
		cmocka_unit_test(test_controller_dies),
		cmocka_unit_test(test_all_nodes_die_at_once),
		cmocka_unit_test(test_cancels),
		cmocka_unit_test(test_tight_bound),
		cmocka_unit_test(test_storms),
	};
	const struct CMUnitTest storms[] = {cmocka_unit_test(test_storms)};

	return run_only_seeds() ? cmocka_run_group_tests_name("groups", storms, NULL, NULL) :
				  cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}
