/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forwarding each update to the replica, from the worker that made it, beside chain replication every N commits (the
 * server sends its state): what the server's uplink carries, how far behind the replica is, what is applied. In a
 * simulated cluster, without and with aggregators.
 */
#include "hd_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMITS_MAX 65536
#define SECONDS 20
#define DIV_MAX 1e12 /* never reached, but passed on */

struct seen {
	hd_ns at[COMMITS_MAX]; /* of each version */
	uint64_t newest, confirmed; /* version counters: the server's, the replica's */
	uint64_t commits, behind_sum, behind_max;
	uint64_t lags, states, copies;
	double lag_sum, lag_max;
};

static void on_committed(struct seen *seen, const struct hd_event *event) {
	uint64_t counter = hd_version_counter(event->version), behind;

	if (counter >= COMMITS_MAX)
		return;
	seen->at[counter] = event->at;
	seen->newest = counter;
	behind = counter - seen->confirmed;
	seen->commits++;
	seen->behind_sum += behind;
	seen->behind_max = behind > seen->behind_max ? behind : seen->behind_max;
}

static void on_followed(struct seen *seen, const struct hd_event *event) {
	uint64_t counter = hd_version_counter(event->version);

	while (seen->confirmed < counter && seen->confirmed < seen->newest) {
		double lag = (double)(event->at - seen->at[++seen->confirmed]) / 1e9;

		seen->lags++;
		seen->lag_sum += lag;
		seen->lag_max = lag > seen->lag_max ? lag : seen->lag_max;
	}
}

static void on_event(void *owner, const char *node, const struct hd_event *event) {
	struct seen *seen = owner;

	if (event->kind == HD_EVENT_COMMITTED && strcmp(node, "server") == 0)
		on_committed(seen, event);
	if (event->kind == HD_EVENT_REPLICATED || event->kind == HD_EVENT_SEEDED) {
		seen->copies += event->kind == HD_EVENT_REPLICATED;
		seen->states += event->kind == HD_EVENT_SEEDED;
		on_followed(seen, event);
	}
}

static void prepare(struct hd_scenario *scenario, uint32_t aggregators) {
	hd_scenario_init(scenario);
	scenario->workers = 8;
	scenario->link_mbps = scenario->server_link_mbps = 200;
	scenario->latency_us = 50;
	scenario->duration_s = SECONDS;
	scenario->job.update_bytes = 1204264;
	scenario->job.compute_ms = 150;
	scenario->job.tau_max = 32;
	scenario->aggregators = aggregators;
	scenario->aggregator_link_mbps = 800;
}

struct wanted {
	const char *name;
	uint32_t replica, every, aggregators;
};

static void measure(const struct wanted *wanted) {
	static struct hd_scenario scenario;
	static struct seen seen;
	struct hd_cluster_config config
		= {.scenario = &scenario, .seed = 1, .event = on_event, .owner = &seen};
	struct hd_cluster_result result;
	struct hd_cluster *cluster;
	uint64_t uplink;
	char error[256];

	memset(&seen, 0, sizeof seen);
	prepare(&scenario, wanted->aggregators);
	scenario.replica = wanted->replica;
	scenario.replicate_every = wanted->every;
	scenario.div_max = wanted->replica ? DIV_MAX : 0;
	if (hd_cluster_create(&config, &cluster, error, sizeof error) < 0) {
		printf("%s: %s\n", wanted->name, error);
		exit(1);
	}
	if (hd_cluster_run(cluster) < 0) {
		printf("%s: %s\n", wanted->name, hd_cluster_failure(cluster));
		exit(1);
	}
	uplink = hd_cluster_link_bytes(cluster, "ps>s1");
	hd_cluster_result(cluster, &result);
	printf("%-34s %7.1f %9.2f ",
	       wanted->name,
	       (double)result.pushes.applied / SECONDS,
	       (double)uplink / 1e6 / (double)result.pushes.applied);
	if (wanted->replica)
		printf("%8.1f %6llu %8.3f %8.3f %9.3g %7llu %7llu\n",
		       (double)seen.behind_sum / (double)(seen.commits ? seen.commits : 1),
		       (unsigned long long)seen.behind_max,
		       seen.lag_sum / (double)(seen.lags ? seen.lags : 1),
		       seen.lag_max,
		       result.farthest,
		       (unsigned long long)seen.copies,
		       (unsigned long long)seen.states);
	else
		printf("%8s\n", "-");
	hd_cluster_destroy(cluster);
}

int main(void) {
	static const struct wanted all[] = {
		{"no replica", 0, 0, 0},
		{"each update, from its worker", 1, 0, 0},
		{"chain, every 10 commits", 1, 10, 0},
		{"chain, every 50 commits", 1, 50, 0},
		{"chain, every 100 commits", 1, 100, 0},
		{"2 aggregators, no replica", 0, 0, 2},
		{"2 aggregators, each update or sum", 1, 0, 2},
		{"2 aggregators, chain every 50", 1, 50, 2},
	};

	printf("8 workers, 1.2 MB updates, 200 Mbit/s, %d s simulated\n", SECONDS);
	printf("%-34s %7s %9s %8s %6s %8s %8s %9s %7s %7s\n",
	       "",
	       "applied",
	       "server's",
	       "behind",
	       "",
	       "lag s",
	       "",
	       "farthest",
	       "copies",
	       "states");
	printf("%-34s %7s %9s %8s %6s %8s %8s\n",
	       "",
	       "/s",
	       "MB/update",
	       "mean",
	       "max",
	       "mean",
	       "max");
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		measure(&all[i]);
	return 0;
}
