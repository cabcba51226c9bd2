/* SPDX-License-Identifier: BSD-3-Clause */
/* Clusters in several racks: the trunk between them is what the schedule is about. */
#include "hd_cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEEDS 3

/* Eight workers that compute 150 ms and move 1.2 MB; four of them are behind a trunk of half a link's rate. */
static void prepare(struct hd_scenario *scenario) {
	hd_scenario_init(scenario);
	scenario->workers = 8;
	scenario->racks = 2;
	scenario->trunk_mbps = 100;
	scenario->link_mbps = 200;
	scenario->server_link_mbps = 300;
	scenario->latency_us = 50;
	scenario->duration_s = 15;
	scenario->job.update_bytes = 1200000;
	scenario->job.compute_ms = 150;
	scenario->job.tau_max = 16;
}

static struct hd_cluster *
create(const struct hd_scenario *scenario, enum hd_cluster_mode mode, uint64_t seed) {
	struct hd_cluster_config config = {.scenario = scenario, .seed = seed, .mode = mode};
	struct hd_cluster *cluster = NULL;
	char error[256] = "";

	if (hd_cluster_create(&config, &cluster, error, sizeof error) < 0)
		fail_msg("%s", error);
	return cluster;
}

static struct hd_cluster_result
run(const struct hd_scenario *scenario, enum hd_cluster_mode mode, uint64_t seed) {
	struct hd_cluster *cluster = create(scenario, mode, seed);
	struct hd_cluster_result result;

	if (hd_cluster_run(cluster) < 0)
		fail_msg("%s", hd_cluster_failure(cluster));
	hd_cluster_result(cluster, &result);
	hd_cluster_destroy(cluster);
	return result;
}

static double variance(const struct hd_check_stats *s) {
	double mean = s->delay_sum / (double)s->commits;

	return s->delay_squares / (double)s->commits - mean * mean;
}

/* Runs of one seed differ by a tenth without a schedule: their order on the links is chance. */
static uint64_t applied_unscheduled(const struct hd_scenario *scenario) {
	uint64_t applied = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		applied += run(scenario, HD_CLUSTER_UNSCHEDULED, seed).pushes.applied;
	return applied;
}

static void test_order_pays_on_a_trunk(void **state) {
	static struct hd_scenario scenario;
	struct hd_cluster_result scheduled, unscheduled;
	uint64_t by_trunk;

	prepare(&scenario);
	scheduled = run(&scenario, HD_CLUSTER_SCHEDULED, 1);
	unscheduled = run(&scenario, HD_CLUSTER_UNSCHEDULED, 1);
	by_trunk = applied_unscheduled(&scenario);
	scenario.racks = 1;
	scenario.trunk_mbps = 0;
	assert_true(unscheduled.pushes.applied > 200);
	assert_true(by_trunk < applied_unscheduled(&scenario));
	assert_int_equal(scheduled.direct_bytes, 0);
	assert_true(scheduled.estimate_error < 0.25); /* the trunk's is among them */
	assert_true((double)scheduled.pushes.applied > 1.15 * (double)unscheduled.pushes.applied);
	assert_true(variance(&scheduled.pushes) < 0.7 * variance(&unscheduled.pushes));
}

/* The share of each link that a job of ours gets, beside one flow from the last rack to the server. */
static void test_truth(void **state) {
	static struct hd_scenario scenario;
	const double share = 1408.0 / 1506.0 * 1e6; /* payload of a Mbit/s of frames */
	const struct {
		const char *link;
		double mbps;
	} truths[] = {
		{"s1>s2", 100},
		{"s2>s1", 50}, /* shared with the flow */
		{"s3>s2", 50},
		{"h8>s3", 100}, /* the flow gets no more than its trunk's */
		{"s3>h8", 200},
		{"s1>ps", 200},
	};
	struct hd_cluster *cluster;

	prepare(&scenario);
	scenario.racks = 3;
	scenario.tenant_count = 1;
	scenario.tenants[0] = (struct hd_scenario_tenant){
		.flows = 1,
		.from = {.kind = HD_PLACE_WORKER, .worker = 7},
		.to = {.kind = HD_PLACE_SERVER},
		.stop_s = 100,
	};
	cluster = create(&scenario, HD_CLUSTER_SCHEDULED, 1);
	for (size_t i = 0; i < sizeof truths / sizeof truths[0]; i++)
		assert_float_equal(
			hd_cluster_truth(cluster, truths[i].link), truths[i].mbps * share, 100
		);
	assert_float_equal(hd_cluster_truth(cluster, "ctl>s1"), 0, 0);
	hd_cluster_destroy(cluster);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_pays_on_a_trunk),
		cmocka_unit_test(test_truth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
