/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes: hosts and nodes are created once, cores at each start. */
#include "hd_cluster_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVER_MEMORY (UINT64_C(16) << 30)
#define RECEIVE_WINDOW (4u << 20)
#define CLOCK_OFFSET_MAX (10 * HD_SECOND)

void cluster_draw_seed(struct hd_cluster *cluster, uint8_t seed[32]) {
	for (size_t i = 0; i < 4; i++) {
		uint64_t word = hd_random_u64(&cluster->seeds);

		memcpy(seed + 8 * i, &word, 8);
	}
}

struct hd_addr cluster_controller_address(const struct hd_cluster *cluster) {
	if (cluster->config.mode == HD_CLUSTER_DIRECT)
		return (struct hd_addr){0};
	return hd_sim_node_address(cluster->sim, cluster->controller.process.node);
}

/* --- the three roles ----------------------------------------------------------------------- */

/* Written to its disk at once, which takes a program some milliseconds. */
static void keep(void *owner, char *text) {
	struct hd_cluster *cluster = owner;

	free(cluster->controller.kept);
	cluster->controller.kept = text;
}

static struct hd_node start_controller(struct hd_cluster *cluster) {
	static const struct hd_controller_ops ops = {.keep = keep};
	struct controller_process *controller = &cluster->controller;
	struct hd_controller_config config = {
		.name = controller->process.name,
		.keys = &cluster->keys,
		.key_id = cluster->key.id,
		.epoch = (uint16_t)(controller->process.starts + 1),
		.topology = cluster_topology(cluster),
		.ops = &ops,
		.owner = cluster,
		.unscheduled = cluster->config.mode == HD_CLUSTER_UNSCHEDULED,
		.credit_bytes = (uint64_t)cluster->scenario.sim.credit_kb * 1024,
		.replicate_every = cluster->scenario.replicate_every,
		.no_credits = cluster->scenario.sim.credit_kb == 0,
		.ranked_sums = cluster->training != NULL, /* the checker adds in the same order */
	};
	char error[256];
	int code = -ENOMEM;

	cluster_draw_seed(cluster, config.seed);
	if (config.topology)
		code = hd_controller_create(&config, &controller->core);
	if (code < 0)
		hd_check_fail(cluster->check, "controller: %s", strerror(-code));
	else if (controller->kept && hd_controller_restore(controller->core, controller->kept, error, sizeof error) < 0)
		hd_check_fail(cluster->check, "what the controller kept: %s", error);
	return (struct hd_node){&hd_controller_ops, controller->core};
}

static struct hd_node start_server(struct hd_cluster *cluster, struct server_process *server) {
	struct hd_server_config config = {
		.name = server->process.name,
		.host = server->process.host_name,
		.replica = server == &cluster->replica,
		.never_alone = cluster->scenario.never_alone,
		.keys = &cluster->keys,
		.key_id = cluster->key.id,
		.controller = cluster_controller_address(cluster),
		.data = hd_sim_node_address(cluster->sim, server->process.node),
		.memory_bytes = SERVER_MEMORY,
		.receive_window_bytes = RECEIVE_WINDOW,
		.hold_us = cluster->scenario.sim.hold_ms * 1000,
		.checkpoint_commits = cluster->scenario.sim.checkpoint_commits,
		.ops = &disk_ops,
		.owner = server,
	};
	int code;

	cluster_draw_seed(cluster, config.seed);
	/* In most processes an update takes several calls to apply, as a large one does. */
	if (!cluster->config.unchecked)
		config.apply_values = cluster->values / (1 + config.seed[0] % 8) + 1;
	code = hd_server_create(&config, &server->core);
	if (code < 0)
		hd_check_fail(cluster->check, "server: %s", strerror(-code));
	return (struct hd_node){&hd_server_ops, server->core};
}

static struct hd_node start_worker(struct hd_cluster *cluster, struct worker_process *worker) {
	struct hd_worker_config config = {
		.name = worker->process.name,
		.host = worker->process.host_name,
		.rank = (uint16_t)worker->rank,
		.keys = &cluster->keys,
		.key_id = cluster->key.id,
		.controller = cluster_controller_address(cluster),
		.server = hd_sim_node_address(cluster->sim, cluster->server.process.node),
		.data = hd_sim_node_address(cluster->sim, worker->process.node),
		.spec = &cluster->spec,
		.receive_window_bytes = RECEIVE_WINDOW,
		.keep_bytes_max
		= cluster->scenario.sim.checkpoint_commits || cluster->scenario.replica ?
			UINT64_C(1) << 40 :
			0,
		.ops = &app_ops,
		.owner = worker,
	};
	int code;

	cluster_draw_seed(cluster, config.seed);
	app_reset(worker);
	code = cluster->training ? training_start_worker(worker) : 0;
	if (code == 0)
		code = hd_worker_create(&config, &worker->core);
	if (code < 0)
		hd_check_fail(cluster->check, "worker: %s", strerror(-code));
	return (struct hd_node){&hd_worker_ops, worker->core};
}

static struct worker_process *as_worker(struct process *process) {
	return (struct worker_process *)process; /* its first member */
}

static void destroy_core(struct process *process) {
	struct hd_cluster *cluster = process->cluster;

	if (process == &cluster->controller.process) {
		hd_controller_destroy(cluster->controller.core);
		cluster->controller.core = NULL;
	} else if (as_server(process)) {
		hd_server_destroy(as_server(process)->core);
		as_server(process)->core = NULL;
		disk_crash(as_server(process));
	} else if (as_aggregator(process)) {
		destroy_aggregator(as_aggregator(process));
	} else if (as_switch(process)) {
		destroy_switch(as_switch(process));
	} else {
		struct worker_process *worker = as_worker(process);

		worker->granted_bytes += hd_worker_stats(worker->core)->granted_bytes;
		worker->direct_bytes += hd_worker_stats(worker->core)->direct_bytes;
		worker->credited_bytes += hd_worker_stats(worker->core)->credited_bytes;
		hd_worker_destroy(worker->core);
		worker->core = NULL;
		app_reset(worker);
	}
}

void process_start(struct process *process) {
	struct hd_cluster *cluster = process->cluster;
	struct hd_node node;

	if (process->runs || cluster_failed(cluster))
		return;
	if (process == &cluster->controller.process)
		node = start_controller(cluster);
	else if (as_server(process))
		node = start_server(cluster, as_server(process));
	else if (as_aggregator(process))
		node = start_aggregator(as_aggregator(process));
	else if (as_switch(process))
		node = start_switch(as_switch(process));
	else
		node = start_worker(cluster, as_worker(process));
	if (cluster_failed(cluster))
		return;
	process->runs = true;
	process->starts++;
	process->stops = 0; /* a new process is not stopped */
	hd_sim_node_start(cluster->sim, process->node, node);
}

void process_stop(struct process *process) {
	struct hd_cluster *cluster = process->cluster;

	if (!process->runs)
		return;
	process->runs = false;
	/* At the end of faults nothing crashes, but a worker may have left. */
	cluster->crashes += !cluster->quiet;
	hd_sim_node_stop(cluster->sim, process->node);
	destroy_core(process);
	if (process != &cluster->controller.process && !as_server(process)
	    && !as_aggregator(process) && !as_switch(process))
		hd_check_worker_gone(cluster->check, as_worker(process)->rank);
}

void process_settle(struct process *process) {
	if (process->wanted && process->crashes == 0)
		process_start(process);
	else
		process_stop(process);
}

struct process *cluster_process(struct hd_cluster *cluster, struct hd_place place) {
	switch (place.kind) {
	case HD_PLACE_SERVER:
		return &cluster->server.process;
	case HD_PLACE_REPLICA:
		return cluster->scenario.replica ? &cluster->replica.process : NULL;
	case HD_PLACE_CONTROLLER:
		return &cluster->controller.process;
	case HD_PLACE_WORKER:
		return &cluster->workers[place.worker].process;
	case HD_PLACE_AGGREGATOR:
		return &cluster->aggregators[place.worker].process;
	default:
		return NULL;
	}
}

int cluster_host(const struct hd_cluster *cluster, struct hd_place place) {
	switch (place.kind) {
	case HD_PLACE_SERVER:
		return cluster->server.process.host;
	case HD_PLACE_REPLICA:
		return cluster->replica.process.host;
	case HD_PLACE_CONTROLLER:
		return cluster->controller.process.host;
	case HD_PLACE_WORKER:
		return cluster->workers[place.worker].process.host;
	case HD_PLACE_AGGREGATOR:
		return cluster->aggregators[place.worker].process.host;
	default:
		return cluster->extra_host;
	}
}

/* --- set-up -------------------------------------------------------------------------------- */

static struct hd_sim_clock draw_clock(struct hd_cluster *cluster) {
	uint32_t ppm = cluster->scenario.skew_ppm;
	int32_t skew = (int32_t)hd_random_below(&cluster->seeds, 2 * (uint64_t)ppm + 1);

	/* Even without skew the machines' monotonic clocks differ. */
	return (struct hd_sim_clock){
		.offset_ns = (int64_t)hd_random_below(&cluster->seeds, CLOCK_OFFSET_MAX),
		.skew_ppm = skew - (int32_t)ppm,
	};
}

int cluster_add_process(
	struct hd_cluster *cluster,
	struct process *process,
	uint32_t rack,
	double mbps
) {
	struct hd_sim_node_config config = {.event = cluster_event, .owner = process};

	process->cluster = cluster;
	process->host = cluster_add_host(cluster, rack, mbps);
	if (process->host < 0)
		return process->host;
	config.host = process->host;
	config.clock = draw_clock(cluster);
	process->node = hd_sim_node(cluster->sim, &config);
	process->wanted = true;
	return process->node < 0 ? process->node : 0;
}

static int add_worker(struct hd_cluster *cluster, uint32_t rank) {
	struct worker_process *worker = &cluster->workers[rank];
	int code;

	(void)snprintf(worker->process.name, CLUSTER_NAME_BYTES, "w%u", rank);
	(void)snprintf(worker->process.host_name, CLUSTER_NAME_BYTES, "h%u", rank + 1);
	worker->rank = rank;
	worker->slowness = 1;
	hd_random_init(
		&worker->random,
		cluster->config.seed ^ ((uint64_t)rank + 1) * UINT64_C(0x9e3779b97f4a7c15)
	);
	code = cluster_add_process(
		cluster,
		&worker->process,
		hd_scenario_rack(&cluster->scenario, rank),
		cluster->scenario.link_mbps
	);
	worker->model = calloc(cluster->values, sizeof(float));
	return worker->model ? code : -ENOMEM;
}

int cluster_add_processes(struct hd_cluster *cluster) {
	struct process *controller = &cluster->controller.process;
	struct process *server = &cluster->server.process;
	struct process *replica = &cluster->replica.process;
	int code;

	(void)snprintf(controller->name, CLUSTER_NAME_BYTES, "controller");
	(void)snprintf(controller->host_name, CLUSTER_NAME_BYTES, "ctl");
	(void)snprintf(server->name, CLUSTER_NAME_BYTES, "server");
	(void)snprintf(server->host_name, CLUSTER_NAME_BYTES, "ps");
	(void)snprintf(replica->name, CLUSTER_NAME_BYTES, "replica");
	(void)snprintf(replica->host_name, CLUSTER_NAME_BYTES, "rp");
	cluster->present = &cluster->server;
	cluster->workers = calloc(cluster->worker_count, sizeof *cluster->workers);
	code = cluster->workers ? cluster_add_racks(cluster) : -ENOMEM;
	if (code == 0)
		code = cluster_add_process(cluster, controller, 0, 0);
	if (code == 0)
		code = cluster_add_process(cluster, server, 0, cluster->scenario.server_link_mbps);
	for (uint32_t i = 0; code == 0 && i < cluster->worker_count; i++)
		code = add_worker(cluster, i);
	if (code < 0)
		return code;
	cluster->extra_host = cluster_add_host(cluster, 0, cluster->scenario.link_mbps);
	controller->wanted = cluster->config.mode != HD_CLUSTER_DIRECT;
	/* After everything else, so that seeds without a replica draw as before. */
	if (cluster->extra_host >= 0 && cluster->scenario.replica)
		code = cluster_add_process(cluster, replica, 0, cluster->scenario.server_link_mbps);
	if (code < 0)
		return code;
	return cluster->extra_host < 0 ? cluster->extra_host : 0;
}

void cluster_remove_processes(struct hd_cluster *cluster) {
	if (!cluster->workers)
		return;
	for (uint32_t i = 0; i < cluster->worker_count; i++) {
		if (cluster->workers[i].core)
			hd_worker_destroy(cluster->workers[i].core);
		buffers_free(&cluster->workers[i]);
		free(cluster->workers[i].model);
	}
	if (cluster->server.core)
		hd_server_destroy(cluster->server.core);
	if (cluster->replica.core)
		hd_server_destroy(cluster->replica.core);
	disk_free(&cluster->replica.disk);
	if (cluster->controller.core)
		hd_controller_destroy(cluster->controller.core);
	free(cluster->controller.kept);
	disk_free(&cluster->server.disk);
}
