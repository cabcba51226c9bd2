/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces in virtual time: what the protocol costs beyond the floor, whatever the processors do. n hosts in a
 * star, each with a worker and an aggregator; a controller on a link of its own. The floor is 2 (n - 1) / n of the
 * bytes through each link, headers counted. Then links change under rounds that follow one another, and nothing else
 * measures them: the time of each round by the best that there is (hd_shards_cut() with the truth), and the worst of
 * the controller's estimates.
 *
 *     bench_shards [WORKERS MBPS BYTES QUEUE_KB]
 */
#include "hd_aggregator.h"
#include "hd_controller.h"
#include "hd_jobspec.h"
#include "hd_shards.h"
#include "hd_sim.h"
#include "hd_topology.h"
#include "hd_wire.h"
#include "hd_worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MAX 16
#define ROUNDS 4 /* the first one opens sessions */
#define CHANGED_ROUNDS 24 /* before, during and after a change */
#define OVERHEAD (HD_CHUNK_HEADER_BYTES + HD_SIM_FRAME_BYTES)

struct scene {
	double mbps;
	uint64_t bytes;
	uint32_t workers, queue_bytes;
};

struct rank {
	struct hd_worker *core;
	struct hd_aggregator *aggregator;
	int node, aggregator_node;
	bool joined, done;
	float *in, *out;
};

static struct hd_key key = {.id = 1, .secret = {4, 5, 6}};
static const struct hd_keyring keys = {.count = 1, .keys = &key};
static struct rank ranks[WORKERS_MAX];
static struct hd_sim *sim;

static void die(const char *what) {
	(void)fprintf(stderr, "bench_shards: %s\n", what);
	exit(1);
}

static void on_joined(void *owner, hd_version version, uint32_t tau_max) {
	((struct rank *)owner)->joined = true;
}

static void on_ticket(void *owner, const struct hd_ticket *ticket) {
	struct rank *rank = owner;

	if (ticket->state == HD_TICKET_FAILED)
		die("a round failed");
	rank->done = rank->done || ticket->state == HD_TICKET_APPLIED;
}

static const struct hd_worker_ops worker_ops = {.joined = on_joined, .ticket = on_ticket};

static struct hd_controller *start_controller(int node, uint32_t workers, double bps) {
	struct hd_controller_config config = {
		.name = "controller", .keys = &keys, .key_id = 1, .epoch = 1, .initial_bps = bps};
	struct hd_controller *core;
	char text[1024], error[128];
	struct hd_topology *topology;
	size_t at = (size_t)snprintf(text, sizeof text, "{\"hosts\":[\"ctl\"");

	for (uint32_t i = 0; i < workers; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, ",\"h%u\"", i);
	at += (size_t
	)snprintf(text + at, sizeof text - at, "],\"switches\":[\"s\"],\"links\":[[\"ctl\",\"s\"]");
	for (uint32_t i = 0; i < workers; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, ",[\"h%u\",\"s\"]", i);
	(void)snprintf(text + at, sizeof text - at, "]}");
	if (hd_topology_parse(text, &topology, error, sizeof error) < 0)
		die(error);
	config.topology = topology;
	if (hd_controller_create(&config, &core) < 0)
		die("no controller");
	hd_sim_node_start(sim, node, (struct hd_node){&hd_controller_ops, core});
	return core;
}

static void
start_rank(uint32_t i, int controller, const struct hd_jobspec *spec, uint32_t workers) {
	struct rank *rank = &ranks[i];
	char host[16];
	struct hd_aggregator_config aggregator = {
		.name = "a",
		.host = host,
		.keys = &keys,
		.key_id = 1,
		.seed = {1, (uint8_t)i},
		.controller = hd_sim_node_address(sim, controller),
		.data = hd_sim_node_address(sim, rank->aggregator_node),
	};
	struct hd_worker_config worker = {
		.name = "w",
		.host = host,
		.rank = (uint16_t)i,
		.keys = &keys,
		.key_id = 1,
		.seed = {2, (uint8_t)i},
		.controller = hd_sim_node_address(sim, controller),
		.data = hd_sim_node_address(sim, rank->node),
		.spec = spec,
		.world = (uint16_t)workers,
		.ops = &worker_ops,
		.owner = rank,
	};

	(void)snprintf(host, sizeof host, "h%u", i);
	if (hd_aggregator_create(&aggregator, &rank->aggregator) < 0
	    || hd_worker_create(&worker, &rank->core) < 0)
		die("no memory");
	hd_sim_node_start(
		sim, rank->aggregator_node, (struct hd_node){&hd_aggregator_ops, rank->aggregator}
	);
	hd_sim_node_start(sim, rank->node, (struct hd_node){&hd_worker_ops, rank->core});
}

static double run_round(const struct scene *scene) {
	hd_ns began = hd_sim_now(sim);
	uint32_t left = scene->workers, round;

	for (uint32_t i = 0; i < scene->workers; i++) {
		struct hd_reduce_args args
			= {.in = ranks[i].in, .out = ranks[i].out, .values = scene->bytes / 4};

		ranks[i].done = false;
		if (hd_worker_reduce(
			    ranks[i].core,
			    hd_sim_node_now(sim, ranks[i].node),
			    &args,
			    hd_sim_node_sink(sim, ranks[i].node),
			    &round
		    )
		    < 0)
			die("not begun");
		hd_sim_node_poke(sim, ranks[i].node);
	}
	while (left > 0) {
		if (!hd_sim_advance(sim, began + 1000 * HD_SECOND))
			die("not in time");
		left = 0;
		for (uint32_t i = 0; i < scene->workers; i++)
			left += !ranks[i].done;
	}
	for (uint64_t v = 0; v < scene->bytes / 4; v++)
		if (ranks[0].out[v] != (float)scene->workers * (float)(v % 64))
			die("a wrong sum");
	return (double)(hd_sim_now(sim) - began) / 1e6;
}

static struct hd_controller *open_scene(const struct scene *scene, const struct hd_jobspec *spec) {
	struct hd_sim_link link = {
		.rate_bps = (uint64_t)(scene->mbps * 1e6),
		.queue_bytes = scene->queue_bytes,
		.latency = 50 * HD_US,
	};
	struct hd_controller *controller;
	int host, node;

	if (hd_sim_create(7, &sim) < 0)
		die("no memory");
	host = hd_sim_host(sim, &(struct hd_sim_link){.latency = 50 * HD_US});
	node = hd_sim_node(sim, &(struct hd_sim_node_config){.host = host});
	controller = start_controller(
		node,
		scene->workers,
		scene->mbps * 1e6 * HD_CHUNK_BYTES_DEFAULT / (HD_CHUNK_BYTES_DEFAULT + OVERHEAD)
	);
	for (uint32_t i = 0; i < scene->workers; i++) {
		struct hd_sim_node_config on;

		host = hd_sim_host(sim, &link);
		on = (struct hd_sim_node_config){.host = host};
		ranks[i] = (struct rank){.in = malloc(scene->bytes), .out = malloc(scene->bytes)};
		ranks[i].node = hd_sim_node(sim, &on);
		ranks[i].aggregator_node = hd_sim_node(sim, &on);
		for (uint64_t v = 0; v < scene->bytes / 4; v++)
			ranks[i].in[v] = (float)(v % 64);
		start_rank(i, node, spec, scene->workers);
	}
	hd_sim_run(sim, 3 * HD_SECOND);
	for (uint32_t i = 0; i < scene->workers; i++)
		if (!ranks[i].joined)
			die("not joined");
	return controller;
}

static void close_scene(const struct scene *scene, struct hd_controller *controller) {
	for (uint32_t i = 0; i < scene->workers; i++) {
		hd_worker_destroy(ranks[i].core);
		hd_aggregator_destroy(ranks[i].aggregator);
		free(ranks[i].in);
		free(ranks[i].out);
	}
	hd_controller_destroy(controller);
	hd_sim_destroy(sim);
}

static void measure(const struct scene *scene) {
	struct hd_jobspec spec = {.tau_max = 1, .learning_rate = 0.1F};
	double n = scene->workers, packets = (double)scene->bytes / HD_CHUNK_BYTES_DEFAULT;
	double frames = packets * (HD_CHUNK_BYTES_DEFAULT + OVERHEAD), took[ROUNDS];
	double floor_ms = 2 * (n - 1) / n * frames * 8 / (scene->mbps * 1e3);
	struct hd_controller *controller;
	uint64_t lost = 0;

	memcpy(spec.tenant, "t", 2);
	memcpy(spec.name, "job", 4);
	controller = open_scene(scene, &spec);
	for (int k = 0; k < ROUNDS; k++) {
		took[k] = run_round(scene);
		hd_sim_run(sim, hd_sim_now(sim) + 20 * HD_MS);
	}
	for (int h = 1; h <= (int)scene->workers; h++)
		lost += hd_sim_link_stats(sim, h, HD_SIM_UP)->overflow
			+ hd_sim_link_stats(sim, h, HD_SIM_DOWN)->overflow;
	(void
	)printf("%2u workers %6.1f MB %5.0f Mbit/s queue %4u kB: first %.3f then %.3f %.3f %.3f "
		"of the floor (%.1f ms), %.1f %% of the packets lost\n",
		scene->workers,
		(double)scene->bytes / 1e6,
		scene->mbps,
		scene->queue_bytes / 1024,
		took[0] / floor_ms,
		took[1] / floor_ms,
		took[2] / floor_ms,
		took[3] / floor_ms,
		floor_ms,
		100 * (double)lost / (ROUNDS * 2 * (n - 1) * packets));
	close_scene(scene, controller);
}

/* Of host 0 as of the others; bytes of payload a second. */
static double capacity_of(const struct scene *scene, uint32_t host, double share) {
	return scene->mbps * 1e6 / 8 * HD_CHUNK_BYTES_DEFAULT / (HD_CHUNK_BYTES_DEFAULT + OVERHEAD)
		* (host == 0 ? share : 1);
}

static double best_ms(const struct scene *scene, double share) {
	struct hd_shards_host hosts[WORKERS_MAX] = {0};
	double seconds = 0;

	for (uint32_t i = 0; i < scene->workers; i++) {
		hosts[i].in = hosts[i].out = capacity_of(scene, i, share);
		hosts[i].workers = 1;
		hosts[i].aggregator = true;
		hosts[i].room = INFINITY;
	}
	if (hd_shards_cut(hosts, scene->workers, scene->bytes, sizeof(float), &seconds) < 0)
		die("no plan");
	return 1e3 * seconds;
}

/* The estimate that is farthest from the truth, by the truth. */
static double
worst(const struct scene *scene, const struct hd_controller *controller, double share) {
	double found = 1;

	for (uint32_t l = 0; l < hd_controller_link_count(controller); l++) {
		const char *host = strchr(hd_controller_link_name(controller, l), 'h');
		double ratio;

		if (!host)
			continue;
		ratio = hd_controller_estimate_bps(controller, l, 1) / 8
			/ capacity_of(scene, (uint32_t)strtoul(host + 1, NULL, 10), share);
		if (fabs(log(ratio)) > fabs(log(found)))
			found = ratio;
	}
	return found;
}

static void measure_change(const struct scene *scene, double share) {
	struct hd_jobspec spec
		= {.tau_max = 1, .learning_rate = 0.1F, .tenant = "t", .name = "job"};
	const double shares[3] = {1, share, 1};
	struct hd_controller *controller = open_scene(scene, &spec);

	for (int phase = 0; phase < 3; phase++) {
		const uint64_t rate = (uint64_t)(scene->mbps * 1e6 * shares[phase]);
		const double best = best_ms(scene, shares[phase]);

		hd_sim_set_rate(sim, 1, HD_SIM_UP, rate);
		hd_sim_set_rate(sim, 1, HD_SIM_DOWN, rate);
		(void
		)printf("%2u workers, h0 at %3.0f Mbit/s of %.0f (best %.0f ms): took/best, worst estimate\n  ",
			scene->workers,
			scene->mbps * shares[phase],
			scene->mbps,
			best);
		for (int k = 0; k < CHANGED_ROUNDS; k++) {
			const double took = run_round(scene);

			(void
			)printf(" %.2f,%.2f", took / best, worst(scene, controller, shares[phase]));
		}
		(void)printf("\n");
	}
	close_scene(scene, controller);
}

int main(int argc, char **argv) {
	static const struct scene scenes[] = {
		{1000, 25000000, 2, 131072},
		{1000, 25000000, 4, 131072},
		{1000, 25000000, 8, 131072},
		{1000, 4000000, 4, 131072},
		{200, 4000000, 8, 131072},
		{100, 4000000, 4, 131072},
	};

	if (argc == 5) {
		struct scene scene = {
			strtod(argv[2], NULL),
			strtoull(argv[3], NULL, 10),
			(uint32_t)strtoul(argv[1], NULL, 10),
			(uint32_t)strtoul(argv[4], NULL, 10) * 1024,
		};

		if (scene.workers < 1 || scene.workers > WORKERS_MAX || scene.bytes < 4
		    || scene.bytes % 4 != 0 || !(scene.mbps > 0))
			die("workers: 1 to 16; bytes: a multiple of 4; mbps: above 0");
		measure(&scene);
		return 0;
	}
	for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
		measure(&scenes[i]);
	measure_change(&(struct scene){200, 4000000, 4, 131072}, 0.5);
	measure_change(&(struct scene){200, 4000000, 8, 131072}, 0.25);
	return 0;
}
