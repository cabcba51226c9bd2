/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small updates in virtual time: 64 KiB of 100 and of 1,000 workers over fast links, scheduled when all ask, with
 * credits, and unscheduled. The packets are what the controller sends and receives for an update applied: its
 * push, the pull before it, acknowledgements and keepalives. BENCH_CREDITS_S: simulated seconds.
 */
#include "hd_cluster.h"
#include "hd_controller.h"
#include "hd_endpoint.h"
#include "hd_limits.h"
#include "hd_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 12

struct mode {
	const char *name;
	enum hd_cluster_mode mode;
	uint32_t credit_kb;
};

static const struct mode modes[] = {
	{"scheduled, all ask", HD_CLUSTER_SCHEDULED, 0},
	{"scheduled, credits", HD_CLUSTER_SCHEDULED, HD_CREDIT_BYTES / 1024},
	{"unscheduled", HD_CLUSTER_UNSCHEDULED, 0},
};

/* Control packets of the controller, both ways. */
static double packets(const struct hd_cluster *cluster) {
	struct hd_stats *stats = hd_stats_create();
	double sum = 0;

	if (!stats)
		return 0;
	hd_controller_stats(hd_cluster_controller(cluster), stats);
	for (size_t i = 0; i < hd_stats_count(stats); i++) {
		struct hd_stats_row row = hd_stats_row(stats, i);

		for (uint16_t k = 0; row.group == &hd_endpoint_group && k < row.group->count; k++)
			if (strcmp(row.group->stats[k].name, "sent") == 0
			    || strcmp(row.group->stats[k].name, "received") == 0)
				sum += (double)row.value[k].u64;
	}
	hd_stats_destroy(stats);
	return sum;
}

static int bench(uint32_t workers, double compute_ms, const struct mode *mode, double seconds) {
	static struct hd_scenario scenario;
	struct hd_cluster_config config
		= {.scenario = &scenario, .seed = 1, .mode = mode->mode, .unchecked = true};
	const struct hd_check_stats *s;
	struct hd_cluster_result result;
	struct hd_cluster *cluster;
	char error[256];
	double mean;
	int code;

	hd_scenario_init(&scenario);
	scenario.workers = workers;
	scenario.link_mbps = 1000;
	scenario.server_link_mbps = 10000;
	scenario.latency_us = 50;
	scenario.queue_kb = 1024;
	scenario.duration_s = seconds;
	scenario.job.update_bytes = 65536;
	scenario.job.compute_ms = compute_ms;
	scenario.job.tau_max = 4 * workers;
	scenario.sim.credit_kb = mode->credit_kb;
	if (hd_cluster_create(&config, &cluster, error, sizeof error) < 0) {
		printf("cluster: %s\n", error);
		return EXIT_FAILURE;
	}
	code = hd_cluster_run(cluster);
	hd_cluster_result(cluster, &result);
	s = &result.pushes;
	mean = s->commits ? s->delay_sum / (double)s->commits : 0;
	printf("%4u workers, %-18s: %7.1f commits/s, delay %.1f (variance %.1f), %.1f packets of the "
	       "controller an update\n",
	       workers,
	       mode->name,
	       (double)s->applied / result.duration_s,
	       mean,
	       s->commits ? s->delay_squares / (double)s->commits - mean * mean : 0,
	       packets(cluster) / (double)(s->applied ? s->applied : 1));
	if (code < 0)
		printf("violated: %s\n", hd_cluster_failure(cluster));
	hd_cluster_destroy(cluster);
	return code < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(void) {
	const char *text = getenv("BENCH_CREDITS_S");
	double seconds = text ? strtod(text, NULL) : SECONDS;
	int code = EXIT_SUCCESS;

	for (size_t i = 0; i < sizeof modes / sizeof modes[0] && code == EXIT_SUCCESS; i++)
		code = bench(100, 50, &modes[i], seconds);
	for (size_t i = 0; i < sizeof modes / sizeof modes[0] && code == EXIT_SUCCESS; i++)
		code = bench(1000, 500, &modes[i], seconds);
	return code;
}
