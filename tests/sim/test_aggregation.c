/* SPDX-License-Identifier: BSD-3-Clause */
/* Clusters with aggregators: what they gain where the server's link is the bottleneck, and what becomes of their
 * groups when nodes fail. Every run is checked: each update once, sums whole, bounds kept, nothing left pending. */
#include "hd_cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Workers that compute for a third of an update's time on the server's link: that is the bottleneck. */
static void prepare(struct hd_scenario *scenario, uint32_t workers, uint32_t aggregators) {
	hd_scenario_init(scenario);
	scenario->workers = workers;
	scenario->link_mbps = scenario->server_link_mbps = 200;
	scenario->latency_us = 50;
	scenario->duration_s = 8;
	scenario->job.update_bytes = 1200000;
	scenario->job.compute_ms = 15;
	scenario->job.tau_max = 4 * workers;
	scenario->aggregators = aggregators;
}

struct seen {
	uint64_t sums, relayed, group_voids;
};

static void on_event(void *owner, const char *node, const struct hd_event *event) {
	struct seen *seen = owner;

	seen->sums += event->kind == HD_EVENT_COMMITTED && event->more > 0
		&& strcmp(node, "server") == 0;
	seen->relayed += event->kind == HD_EVENT_SEND_END && node[0] == 'a' && event->direction == 1
		&& event->reason == HD_REASON_NONE;
	seen->group_voids += event->kind == HD_EVENT_VOIDED && node[0] == 'a';
}

static struct hd_check_stats
run(const struct hd_scenario *scenario, uint64_t seed, enum hd_cluster_mode mode, struct seen *seen
) {
	struct hd_cluster_config config = {
		.scenario = scenario,
		.seed = seed,
		.mode = mode,
		.explain = true,
		.event = on_event,
		.owner = seen,
	};
	struct hd_cluster *cluster = NULL;
	struct hd_cluster_result result;
	char error[256] = "";

	*seen = (struct seen){0};
	if (hd_cluster_create(&config, &cluster, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	if (hd_cluster_run(cluster) < 0)
		fail_msg("seed %llu: %s", (unsigned long long)seed, hd_cluster_failure(cluster));
	hd_cluster_result(cluster, &result);
	hd_cluster_destroy(cluster);
	return result.pushes;
}

static void test_what_it_gains(void **state) {
	static struct hd_scenario scenario;
	struct hd_check_stats unscheduled, scheduled, one, four;
	struct seen seen;

	(void)state;
	prepare(&scenario, 12, 0);
	unscheduled = run(&scenario, 1, HD_CLUSTER_UNSCHEDULED, &seen);
	scheduled = run(&scenario, 1, HD_CLUSTER_SCHEDULED, &seen);
	assert_int_equal(seen.sums, 0);
	prepare(&scenario, 12, 1);
	one = run(&scenario, 1, HD_CLUSTER_SCHEDULED, &seen);
	assert_true(seen.sums > 10);
	assert_true(seen.relayed > 10);
	prepare(&scenario, 12, 4);
	four = run(&scenario, 1, HD_CLUSTER_SCHEDULED, &seen);
	print_message(
		"12 workers, applied in 8 s: unscheduled %llu, scheduled %llu, 1 aggregator %llu, 4 %llu\n",
		(unsigned long long)unscheduled.applied,
		(unsigned long long)scheduled.applied,
		(unsigned long long)one.applied,
		(unsigned long long)four.applied
	);
	assert_true((double)one.applied > 1.1 * (double)scheduled.applied);
	assert_true((double)four.applied > 1.3 * (double)scheduled.applied);
	assert_true((double)four.applied > 1.5 * (double)unscheduled.applied);
}

static void add_fault(
	struct hd_scenario_fault *list,
	uint32_t *count,
	double at_s,
	double for_s,
	struct hd_place node
) {
	list[(*count)++] = (struct hd_scenario_fault){at_s, for_s, node};
}

/* Each node in turn dies, is cut off, or stops, while packets are lost, doubled and late. */
static void test_faults(void **state) {
	static struct hd_scenario scenario;
	uint64_t voids = 0, sums = 0;
	struct seen seen;

	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		const struct hd_place aggregator = {HD_PLACE_AGGREGATOR, seed % 2};
		const struct hd_place other = {(uint8_t)(seed % 3), (uint32_t)(seed % 6)};

		prepare(&scenario, 6, 2);
		scenario.duration_s = 3;
		scenario.job.update_bytes = 120000;
		scenario.link_mbps = scenario.server_link_mbps = 20;
		scenario.sim.credit_kb = 0;
		scenario.loss = 0.01;
		scenario.duplicate = scenario.reorder = 0.005;
		scenario.skew_ppm = 100;
		scenario.sim.cancel = 0.02;
		scenario.sim.checkpoint_commits = 8;
		add_fault(scenario.crashes, &scenario.crash_count, 0.5, 0.4, aggregator);
		add_fault(scenario.crashes, &scenario.crash_count, 1.2, 0.3, other);
		add_fault(scenario.partitions, &scenario.partition_count, 1.9, 0.5, aggregator);
		add_fault(scenario.stops, &scenario.stop_count, 2.3, 0.3, aggregator);
		run(&scenario, seed, HD_CLUSTER_SCHEDULED, &seen);
		voids += seen.group_voids;
		sums += seen.sums;
	}
	assert_true(voids > 5);
	assert_true(sums > 20);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_it_gains),
		cmocka_unit_test(test_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
