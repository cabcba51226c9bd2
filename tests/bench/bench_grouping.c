/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gain of aggregators where the server's link is the bottleneck: simulated stars of 8 and of 16 workers that
 * compute 50 ms and push 4 MB over 200 Mbit/s, unscheduled, scheduled, and scheduled with 1, 2 and 4 aggregators on
 * hosts of their own. Virtual time: a busy machine does not matter.
 */
#include "hd_cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define UPDATE_BYTES 4000000
#define SEEDS 3
#define FRAME_SHARE (1408.0 / 1506) /* payload in what a link carries */

struct setting {
	const char *name;
	enum hd_cluster_mode mode;
	uint32_t aggregators;
};

static const struct setting settings[] = {
	{"unscheduled", HD_CLUSTER_UNSCHEDULED, 0},
	{"scheduled", HD_CLUSTER_SCHEDULED, 0},
	{"1 aggregator", HD_CLUSTER_SCHEDULED, 1},
	{"2 aggregators", HD_CLUSTER_SCHEDULED, 2},
	{"4 aggregators", HD_CLUSTER_SCHEDULED, 4},
};

struct seen {
	double rate, delay; /* applied a second, mean delay */
	double in,
		out; /* updates' worth of bytes on the server's link, either way, for each applied */
};

static struct seen run(uint32_t workers, const struct setting *setting, uint64_t seed) {
	static struct hd_scenario scenario;
	struct hd_cluster_config config = {
		.scenario = &scenario,
		.seed = seed,
		.mode = setting->mode,
		.unchecked = true,
	};
	struct hd_cluster_result result;
	struct hd_cluster *cluster;
	char error[256];
	double applied, scale;
	struct seen seen;

	hd_scenario_init(&scenario);
	scenario.workers = workers;
	scenario.link_mbps = scenario.server_link_mbps = 200;
	scenario.latency_us = 50;
	scenario.duration_s = 20;
	scenario.job.update_bytes = UPDATE_BYTES;
	scenario.job.compute_ms = 50;
	scenario.job.tau_max = 4 * workers;
	scenario.aggregators = setting->aggregators;
	if (hd_cluster_create(&config, &cluster, error, sizeof error) < 0) {
		(void)fprintf(stderr, "bench_grouping: %s\n", error);
		exit(EXIT_FAILURE);
	}
	if (hd_cluster_run(cluster) < 0) {
		(void)fprintf(stderr, "bench_grouping: %s\n", hd_cluster_failure(cluster));
		exit(EXIT_FAILURE);
	}
	hd_cluster_result(cluster, &result);
	applied = (double)result.pushes.applied;
	scale = FRAME_SHARE / UPDATE_BYTES / applied;
	seen.rate = applied / result.duration_s;
	seen.delay = result.pushes.delay_sum / (double)result.pushes.commits;
	seen.in = (double)hd_cluster_link_bytes(cluster, "s1>ps") * scale;
	seen.out = (double)hd_cluster_link_bytes(cluster, "ps>s1") * scale;
	hd_cluster_destroy(cluster);
	return seen;
}

static void bench(uint32_t workers) {
	double scheduled = 0;

	printf("%u workers: applied/s (mean of %d seeds, least, greatest), against scheduled, mean delay, "
	       "updates' worth on the server's link for each applied\n",
	       workers,
	       SEEDS);
	for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
		struct seen sum = {0};
		double least = INFINITY, most = 0;

		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			const struct seen seen = run(workers, &settings[k], seed);

			sum.rate += seen.rate / SEEDS;
			sum.delay += seen.delay / SEEDS;
			sum.in += seen.in / SEEDS;
			sum.out += seen.out / SEEDS;
			least = fmin(least, seen.rate);
			most = fmax(most, seen.rate);
		}
		if (k == 1)
			scheduled = sum.rate;
		printf("  %-14s %6.2f (%5.2f .. %5.2f)", settings[k].name, sum.rate, least, most);
		if (k > 0)
			printf("  %4.2fx", sum.rate / scheduled);
		else
			printf("       ");
		printf("  delay %5.1f  in %4.2f  out %4.2f\n", sum.delay, sum.in, sum.out);
		(void)fflush(stdout);
	}
}

int main(void) {
	bench(8);
	bench(16);
	return EXIT_SUCCESS;
}
