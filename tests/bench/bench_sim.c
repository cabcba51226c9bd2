/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator on one core: bare events of its network, and clusters of 100 and of 1,000 workers that
 * push 100,000 updates of 64 KiB, packet by packet, with every invariant checked (BENCH_SIM_UPDATES for fewer).
 */
#include "hd_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define HOSTS 100
#define BURST 16
#define PACKET_BYTES 1464
#define UPDATES 100000
#define TARGET_EVENTS 5e6

static double now_s(void) {
	struct timespec at;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* Sends a burst to a neighbour every 200 us. */
struct talker {
	hd_ns deadline;
	struct hd_addr peer;
	uint64_t received;
};

static void talk_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	((struct talker *)core)->received += count;
}

static void talk_tick(void *core, hd_ns now, struct hd_sink *sink) {
	static const uint8_t payload[PACKET_BYTES];
	struct talker *talker = core;

	for (int i = 0; i < BURST; i++)
		sink->send(sink, talker->peer, payload, 56, payload, PACKET_BYTES - 56);
	talker->deadline = now + 200 * HD_US;
}

static hd_ns talk_deadline(const void *core) {
	return ((const struct talker *)core)->deadline;
}

static const struct hd_core_ops talk_ops = {talk_receive, talk_tick, talk_deadline};

static int bench_events(void) {
	struct hd_sim_link link
		= {.rate_bps = 1000000000, .queue_bytes = 131072, .latency = 25 * HD_US};
	static struct talker talkers[HOSTS];
	struct hd_sim *sim;
	double start, took;
	uint64_t events;

	if (hd_sim_create(1, &sim) < 0)
		return EXIT_FAILURE;
	for (int i = 0; i < HOSTS; i++) {
		struct hd_sim_node_config config = {.host = hd_sim_host(sim, &link)};
		int node = hd_sim_node(sim, &config);

		talkers[i].peer = hd_sim_address((i + 1) % HOSTS, hd_sim_node_address(sim, 0).port);
		talkers[i].deadline = (hd_ns)i * HD_US;
		hd_sim_node_start(sim, node, (struct hd_node){&talk_ops, &talkers[i]});
	}
	start = now_s();
	hd_sim_run(sim, HD_SECOND / 4);
	took = now_s() - start;
	events = hd_sim_stats(sim)->events;
	printf("simulated network: %.1f M events/s (target %.0f M), %.1f M packets/s of %d bytes\n",
	       (double)events / took * 1e-6,
	       TARGET_EVENTS * 1e-6,
	       (double)hd_sim_stats(sim)->packets / took * 1e-6,
	       PACKET_BYTES);
	hd_sim_destroy(sim);
	return EXIT_SUCCESS;
}

struct size {
	uint32_t workers;
	double compute_ms; /* so that the server's link is equally busy */
	uint32_t tau_max;
	double target_s; /* for UPDATES */
};

/* Of the process so far: clusters come smallest first. */
static double peak_mib(void) {
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}

static int bench_cluster(const struct size *size, uint64_t updates) {
	static struct hd_scenario scenario;
	struct hd_cluster_config config = {.scenario = &scenario, .seed = 1, .explain = true};
	struct hd_cluster_result result;
	struct hd_cluster *cluster;
	char error[256];
	double start = now_s(), took;
	int code;

	hd_scenario_init(&scenario);
	scenario.workers = size->workers;
	scenario.link_mbps = 1000;
	scenario.server_link_mbps = 10000;
	scenario.latency_us = 50;
	scenario.queue_kb = 1024;
	scenario.duration_s = 86400;
	scenario.job.update_bytes = 65536;
	scenario.job.compute_ms = size->compute_ms;
	scenario.job.tau_max = size->tau_max;
	scenario.sim.updates = updates;
	if (hd_cluster_create(&config, &cluster, error, sizeof error) < 0) {
		printf("cluster: %s\n", error);
		return EXIT_FAILURE;
	}
	code = hd_cluster_run(cluster);
	took = now_s() - start;
	hd_cluster_result(cluster, &result);
	printf("simulated cluster: %u workers, 64 KiB, %llu updates applied in %.1f s "
	       "(target %.1f s), %.0f a second, %.1f M packets, %.0f MiB, all invariants checked\n",
	       size->workers,
	       (unsigned long long)result.pushes.applied,
	       took,
	       size->target_s * (double)updates / UPDATES,
	       (double)result.pushes.applied / took,
	       (double)result.network.packets * 1e-6,
	       peak_mib());
	if (code < 0)
		printf("violated: %s\n", hd_cluster_failure(cluster));
	hd_cluster_destroy(cluster);
	return code < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(void) {
	static const struct size sizes[] = {{100, 50, 400, 60}, {1000, 500, 4000, 600}};
	const char *text = getenv("BENCH_SIM_UPDATES");
	uint64_t updates = text ? strtoull(text, NULL, 10) : UPDATES;
	int code = bench_events();

	for (size_t i = 0; code == EXIT_SUCCESS && i < sizeof sizes / sizeof sizes[0]; i++)
		code = bench_cluster(&sizes[i], updates);
	return code;
}
