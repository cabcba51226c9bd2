/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes of a world of workers that share their state: a controller, and workers with an aggregator each. */
#include "hd_topology.h"
#include "state_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hd_key key = {.id = 1, .secret = {7, 7, 1}};
static const struct hd_keyring keys = {.count = 1, .keys = &key};

static void seed_of(struct state_world *w, uint8_t seed[32]) {
	for (size_t i = 0; i < 4; i++) {
		const uint64_t word = hd_random_u64(&w->random);

		memcpy(seed + 8 * i, &word, 8);
	}
}

static struct hd_topology *topology(struct state_world *w) {
	char text[512], error[128];
	struct hd_topology *made = NULL;
	size_t at = (size_t)snprintf(text, sizeof text, "{\"hosts\":[\"ctl\"");

	for (uint32_t i = 0; i < w->plan.workers; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, ",\"h%u\"", i);
	at += (size_t
	)snprintf(text + at, sizeof text - at, "],\"switches\":[\"s\"],\"links\":[[\"ctl\",\"s\"]");
	for (uint32_t i = 0; i < w->plan.workers; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, ",[\"h%u\",\"s\"]", i);
	(void)snprintf(text + at, sizeof text - at, "]}");
	if (hd_topology_parse(text, &made, error, sizeof error) < 0)
		state_fail(w, "topology: %s", error);
	return made;
}

void state_start_controller(struct state_world *w) {
	static const struct hd_controller_ops ops;
	struct hd_controller_config config = {
		.name = "controller",
		.keys = &keys,
		.key_id = 1,
		.epoch = 1,
		.topology = topology(w),
		.initial_bps = 1e8,
		.ops = &ops,
		.owner = w,
	};

	seed_of(w, config.seed);
	if (!config.topology || hd_controller_create(&config, &w->controller) < 0)
		state_fail(w, "no controller");
	else
		hd_sim_node_start(
			w->sim,
			w->controller_node,
			(struct hd_node){&hd_controller_ops, w->controller}
		);
}

static void start_aggregator(struct state_worker *worker) {
	struct state_world *w = worker->world;
	char name[32], host[32];
	struct hd_aggregator_config config = {
		.name = name,
		.host = host,
		.keys = &keys,
		.key_id = 1,
		.controller = hd_sim_node_address(w->sim, w->controller_node),
		.data = hd_sim_node_address(w->sim, worker->aggregator_node),
		.memory_bytes = UINT64_C(1) << 26,
		.job = hd_job_id(w->spec.tenant, w->spec.name),
		.worker = worker->rank,
	};

	(void)snprintf(name, sizeof name, "a%u", worker->rank);
	(void)snprintf(host, sizeof host, "h%u", worker->rank);
	seed_of(w, config.seed);
	if (hd_aggregator_create(&config, &worker->aggregator) < 0)
		state_fail(w, "no aggregator");
	else
		hd_sim_node_start(
			w->sim,
			worker->aggregator_node,
			(struct hd_node){&hd_aggregator_ops, worker->aggregator}
		);
}

void state_start_worker(struct state_worker *worker, const struct hd_worker_ops *ops) {
	struct state_world *w = worker->world;
	char name[32], host[32];
	struct hd_worker_config config = {
		.name = name,
		.host = host,
		.rank = worker->rank,
		.keys = &keys,
		.key_id = 1,
		.controller = hd_sim_node_address(w->sim, w->controller_node),
		.data = hd_sim_node_address(w->sim, worker->node),
		.spec = &w->spec,
		.ops = ops,
		.owner = worker,
	};

	(void)snprintf(name, sizeof name, "w%u", worker->rank);
	(void)snprintf(host, sizeof host, "h%u", worker->rank);
	seed_of(w, config.seed);
	if (hd_worker_create(&config, &worker->core) < 0)
		state_fail(w, "no worker");
	else
		hd_sim_node_start(
			w->sim, worker->node, (struct hd_node){&hd_worker_ops, worker->core}
		);
	start_aggregator(worker);
}

void state_stop_worker(struct state_worker *worker) {
	struct state_world *w = worker->world;

	if (!worker->core)
		return;
	hd_sim_node_stop(w->sim, worker->node);
	hd_sim_node_stop(w->sim, worker->aggregator_node);
	hd_worker_destroy(worker->core);
	hd_aggregator_destroy(worker->aggregator);
	worker->core = NULL;
	worker->aggregator = NULL;
	for (int k = 0; k < HD_HANDOVER_PARTS_MAX; k++)
		worker->calls[k].used = false;
}

void state_build(struct state_world *w) {
	struct hd_sim_node_config node = {0};

	(void)snprintf(w->spec.tenant, sizeof w->spec.tenant, "t");
	(void)snprintf(w->spec.name, sizeof w->spec.name, "job");
	w->spec.tau_max = 1;
	w->spec.learning_rate = 0.1F;
	node.host = hd_sim_host(w->sim, &(struct hd_sim_link){.latency = 50000});
	w->controller_node = hd_sim_node(w->sim, &node);
	for (uint32_t k = 0; k < w->plan.workers; k++) {
		struct state_worker *worker = &w->workers[k];
		const struct hd_sim_link link = {
			.rate_bps = (20 + hd_random_below(&w->random, 180)) * 1000000,
			.queue_bytes = 1U << (15 + hd_random_below(&w->random, 4)),
			.latency = 20000 + hd_random_below(&w->random, 400000),
		};

		worker->world = w;
		worker->rank = (uint16_t)k;
		worker->host = node.host = hd_sim_host(w->sim, &link);
		node.clock.offset_ns = (int64_t)hd_random_below(&w->random, 10 * HD_SECOND);
		worker->node = hd_sim_node(w->sim, &node);
		worker->aggregator_node = hd_sim_node(w->sim, &node);
	}
}
