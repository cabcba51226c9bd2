/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault matrix: a cluster drawn from each seed, every invariant checked at every step.
 * HEDDLE_SIM_SEEDS: how many (default 400, at most a minute's worth); HEDDLE_SIM_FIRST: the first.
 * With an argument, `hard`: those that also stop processes and cut the power of all at once; `groups`: those
 * with aggregators.
 * A violation names the seed; `heddle-sim --random --seed N --trace FILE` replays it exactly.
 */
#include "hd_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SEEDS_DEFAULT 400
#define SECONDS_DEFAULT 60
#define ENOUGH 100 /* seeds among which there is something of everything */

static uint64_t environment(const char *name, uint64_t otherwise) {
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static double seconds(void) {
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Seeds that found something once come first. */
static const uint64_t known[] = {10, 1408, 5112, 30194, 101000};
#define KNOWN (sizeof(known) / sizeof(known[0]))
static const uint64_t known_hard[] = {HD_CLUSTER_HARD + 12442, HD_CLUSTER_HARD + 30346};
#define KNOWN_HARD (sizeof(known_hard) / sizeof(known_hard[0]))

static bool run(uint64_t seed, struct hd_cluster_result *total) {
	static struct hd_scenario scenario;
	struct hd_cluster_config config = {.scenario = &scenario, .seed = seed, .explain = true};
	struct hd_cluster_result result;
	struct hd_cluster *cluster;
	char error[512];
	bool well;

	hd_cluster_draw(seed, &scenario, &config.mode);
	if (hd_cluster_create(&config, &cluster, error, sizeof error) < 0) {
		printf("seed %llu: %s\n", (unsigned long long)seed, error);
		return false;
	}
	well = hd_cluster_run(cluster) == 0;
	if (!well)
		printf("seed %llu: %s\n"
		       "replay: heddle-sim --random --seed %llu --trace FILE\n",
		       (unsigned long long)seed,
		       hd_cluster_failure(cluster),
		       (unsigned long long)seed);
	hd_cluster_result(cluster, &result);
	total->pushes.pushed += result.pushes.pushed;
	total->pushes.applied += result.pushes.applied;
	total->pushes.dropped += result.pushes.dropped;
	total->pushes.failed += result.pushes.failed;
	total->pushes.rolled_back += result.pushes.rolled_back;
	total->pushes.credits += result.pushes.credits;
	total->pushes.credits_spent += result.pushes.credits_spent;
	total->pushes.credits_ended += result.pushes.credits_ended;
	total->crashes += result.crashes;
	total->network.packets += result.network.packets;
	total->aggregation.delivered += result.aggregation.delivered;
	total->aggregation.failed += result.aggregation.failed;
	total->aggregation.inputs_held += result.aggregation.inputs_held;
	hd_cluster_destroy(cluster);
	return well;
}

int main(int argc, char **argv) {
	bool limited = !getenv("HEDDLE_SIM_SEEDS");
	uint64_t count = environment("HEDDLE_SIM_SEEDS", SEEDS_DEFAULT);
	bool hard = argc > 1 && strcmp(argv[1], "hard") == 0;
	bool groups = argc > 1 && strcmp(argv[1], "groups") == 0;
	uint64_t first = environment("HEDDLE_SIM_FIRST", 1)
		+ (hard           ? HD_CLUSTER_HARD :
			   groups ? HD_CLUSTER_GROUPS :
				    0);
	uint64_t done = 0, bad = 0;
	struct hd_cluster_result total = {0};
	double start = seconds();

	for (size_t i = 0; limited && argc == 1 && i < KNOWN; i++)
		bad += !run(known[i], &total);
	for (size_t i = 0; limited && hard && i < KNOWN_HARD; i++)
		bad += !run(known_hard[i], &total);
	while (done < count && !(limited && seconds() - start > SECONDS_DEFAULT))
		bad += !run(first + done++, &total);
	printf("%llu seeds from %llu, %llu bad: %llu pushes, %llu applied, %llu dropped, %llu failed, "
	       "%llu rolled back, %llu credits, %llu spent, %llu given up, %llu crashes, %llu packets, %.1f s\n",
	       (unsigned long long)done,
	       (unsigned long long)first,
	       (unsigned long long)bad,
	       (unsigned long long)total.pushes.pushed,
	       (unsigned long long)total.pushes.applied,
	       (unsigned long long)total.pushes.dropped,
	       (unsigned long long)total.pushes.failed,
	       (unsigned long long)total.pushes.rolled_back,
	       (unsigned long long)total.pushes.credits,
	       (unsigned long long)total.pushes.credits_spent,
	       (unsigned long long)total.pushes.credits_ended,
	       (unsigned long long)total.crashes,
	       (unsigned long long)total.network.packets,
	       seconds() - start);
	if (done >= ENOUGH && (!total.pushes.credits_spent || !total.pushes.credits_ended)) {
		printf("no seed spent a credit, or none was given up: nothing is known of them\n");
		bad++;
	}
	if (groups)
		printf("%llu groups delivered, %llu failed, %llu inputs\n",
		       (unsigned long long)total.aggregation.delivered,
		       (unsigned long long)total.aggregation.failed,
		       (unsigned long long)total.aggregation.inputs_held);
	if (groups && done >= ENOUGH
	    && (!total.aggregation.delivered || !total.aggregation.failed)) {
		printf("no group was delivered, or none failed: nothing is known of them\n");
		bad++;
	}
	return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
