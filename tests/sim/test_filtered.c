/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers behind significance filters, in whole clusters: what they compute is applied, held, under way or lost with a
 * process, value by value, and the server's model is what was applied. With losses, withdrawn and dropped pushes, steps
 * that end without a worker, deaths, a controller that restarts, and sums of aggregators.
 */
#include "cluster_run.h"
#include "hd_message.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 4

static struct hd_dataset train, test;
static struct hd_cluster_training training;

static void draw(struct run *run, uint8_t sync, uint64_t seed) {
	struct hd_scenario *scenario = &run->scenario;

	prepare(run);
	training = (struct hd_cluster_training){.train = &train, .test = &test, .filter = 0.7f};
	run->config.training = &training;
	run->config.seed = seed;
	scenario->workers = 5;
	scenario->duration_s = 3;
	scenario->loss = 0.01;
	scenario->job.bytes_of_model = true;
	scenario->job.hidden_count = 1;
	scenario->job.hidden[0] = 32;
	scenario->job.learning_rate = 0.1;
	scenario->job.momentum = 0;
	scenario->job.weight_decay = 0;
	scenario->job.tau_max = sync == HD_SYNC_NONE ? 3 : 64;
	scenario->job.sync = sync;
	scenario->job.sync_count = sync == HD_SYNC_N || sync == HD_SYNC_N_BATCH ? 3 : 0;
	scenario->sim.cancel = 0.05;
	scenario->sim.depth = sync == HD_SYNC_NONE ? 3 : 1;
	scenario->event_count = 4;
	scenario->events[0]
		= (struct hd_scenario_event){.at_s = 0.8, .worker = 1, .what = HD_DO_KILL};
	scenario->events[1]
		= (struct hd_scenario_event){.at_s = 1.4, .worker = 1, .what = HD_DO_JOIN};
	scenario->events[2]
		= (struct hd_scenario_event){.at_s = 1.8, .worker = 2, .what = HD_DO_LEAVE};
	scenario->events[3] = (struct hd_scenario_event
	){.at_s = 2, .worker = 3, .what = HD_DO_PREEMPT, .notice_s = 0.2};
	scenario->crash_count = 1;
	scenario->crashes[0] = (struct hd_scenario_fault
	){.at_s = 1.2, .for_s = 0.3, .node = {.kind = HD_PLACE_CONTROLLER}};
	scenario->partition_count = 1;
	scenario->partitions[0] = (struct hd_scenario_fault
	){.at_s = 0.5, .for_s = 0.1, .node = {.kind = HD_PLACE_WORKER, .worker = 4}};
}

static void check_all(uint8_t sync, uint32_t aggregators) {
	uint64_t returned = 0, grouped = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct run run;

		draw(&run, sync, seed);
		if (aggregators > 0) {
			run.scenario.aggregators = aggregators;
			run.scenario.server_link_mbps = 50;
			run.scenario.aggregator_link_mbps = 1000;
			run.scenario.job.hidden[0] = 128;
			run.scenario.job.compute_ms = 10;
		}
		expect(&run, 60);
		assert_true(run.result.filtered > 20);
		assert_true(run.result.held_norm > 0);
		assert_true(run.result.crashes >= 1);
		returned += run.result.returned;
		grouped += run.result.aggregation.delivered;
	}
	print_message("%llu pushes were given back\n", (unsigned long long)returned);
	assert_true(returned > 0);
	assert_true(aggregators == 0 || grouped > 0);
}

static void test_asynchronous(void **state) {
	check_all(HD_SYNC_NONE, 0);
}

static void test_steps_of_all(void **state) {
	check_all(HD_SYNC_ALL, 0);
}

static void test_steps_of_n(void **state) {
	check_all(HD_SYNC_N, 0);
}

static void test_steps_of_n_updates(void **state) {
	check_all(HD_SYNC_N_BATCH, 0);
}

static void test_sums(void **state) {
	check_all(HD_SYNC_NONE, 1);
	check_all(HD_SYNC_ALL, 1);
}

static void test_refusals(void **state) {
	struct hd_cluster *cluster;
	struct run run;
	char error[256] = "";

	draw(&run, HD_SYNC_NONE, 1);
	run.scenario.job.momentum = 0.9;
	run.config.scenario = &run.scenario;
	assert_int_equal(hd_cluster_create(&run.config, &cluster, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "job.momentum"));
	run.scenario.job.momentum = 0;
	run.scenario.job.payload = HD_DTYPE_BF16;
	assert_int_equal(hd_cluster_create(&run.config, &cluster, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "job.payload"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_asynchronous),
		cmocka_unit_test(test_steps_of_all),
		cmocka_unit_test(test_steps_of_n),
		cmocka_unit_test(test_steps_of_n_updates),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_refusals),
	};
	char error[256];
	int failed;

	if (hd_dataset_open("digits", &train, &test, error, sizeof(error)) < 0) {
		(void)fprintf(stderr, "data: %s\n", error);
		return 1;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	hd_dataset_fini(&train);
	hd_dataset_fini(&test);
	return failed;
}
