/* SPDX-License-Identifier: BSD-3-Clause */
/* Aggregators: processes like the others, on hosts a1, a2, ... in the first rack. */
#include "hd_cluster_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGGREGATOR_MEMORY (UINT64_C(4) << 30)
#define RECEIVE_WINDOW (4u << 20)

struct aggregator_process *as_aggregator(struct process *process) {
	const struct hd_cluster *cluster = process->cluster;

	for (uint32_t i = 0; i < cluster->scenario.aggregators; i++)
		if (process == &cluster->aggregators[i].process)
			return &cluster->aggregators[i];
	return NULL;
}

struct hd_node start_aggregator(struct aggregator_process *aggregator) {
	struct hd_cluster *cluster = aggregator->process.cluster;
	struct hd_aggregator_config config = {
		.name = aggregator->process.name,
		.host = aggregator->process.host_name,
		.keys = &cluster->keys,
		.key_id = cluster->key.id,
		.controller = cluster_controller_address(cluster),
		.data = hd_sim_node_address(cluster->sim, aggregator->process.node),
		.memory_bytes = AGGREGATOR_MEMORY,
		.receive_window_bytes = RECEIVE_WINDOW,
		.hold_us = cluster->scenario.sim.hold_ms * 1000,
	};
	int code;

	cluster_draw_seed(cluster, config.seed);
	/* Some processes accept few bytes of a ranked sum before its turn. */
	config.early_bytes = config.seed[0] % 4 == 0 ? 16384 : 0;
	code = hd_aggregator_create(&config, &aggregator->core);
	if (code < 0)
		hd_check_fail(cluster->check, "aggregator: %s", strerror(-code));
	return (struct hd_node){&hd_aggregator_ops, aggregator->core};
}

static void count(struct hd_aggregator_stats *sum, const struct hd_aggregator_stats *more) {
	sum->groups += more->groups;
	sum->groups_delivered += more->groups_delivered;
	sum->groups_failed += more->groups_failed;
	sum->groups_refused += more->groups_refused;
	sum->inputs_held += more->inputs_held;
	sum->chunk_bytes += more->chunk_bytes;
}

void destroy_aggregator(struct aggregator_process *aggregator) {
	count(&aggregator->past, hd_aggregator_stats(aggregator->core));
	hd_aggregator_destroy(aggregator->core);
	aggregator->core = NULL;
}

int cluster_add_aggregators(struct hd_cluster *cluster) {
	const struct hd_scenario *scenario = &cluster->scenario;
	int code = 0;

	if (scenario->aggregators == 0)
		return 0;
	cluster->aggregators = calloc(scenario->aggregators, sizeof *cluster->aggregators);
	if (!cluster->aggregators)
		return -ENOMEM;
	for (uint32_t i = 0; code == 0 && i < scenario->aggregators; i++) {
		struct process *process = &cluster->aggregators[i].process;

		(void)snprintf(process->name, CLUSTER_NAME_BYTES, "a%u", i + 1);
		(void)snprintf(process->host_name, CLUSTER_NAME_BYTES, "a%u", i + 1);
		code = cluster_add_process(cluster, process, 0, scenario->aggregator_link_mbps);
		/* Without a controller it has nothing to do. */
		process->wanted = cluster->config.mode == HD_CLUSTER_SCHEDULED;
	}
	return code;
}

void cluster_remove_aggregators(struct hd_cluster *cluster) {
	for (uint32_t i = 0; cluster->aggregators && i < cluster->scenario.aggregators; i++)
		hd_aggregator_destroy(cluster->aggregators[i].core);
	free(cluster->aggregators);
}

void cluster_aggregator_stats(
	const struct hd_cluster *cluster,
	struct hd_cluster_aggregation *aggregation
) {
	struct hd_aggregator_stats sum = {0};

	for (uint32_t i = 0; i < cluster->scenario.aggregators; i++) {
		const struct aggregator_process *aggregator = &cluster->aggregators[i];

		count(&sum, &aggregator->past);
		if (aggregator->core)
			count(&sum, hd_aggregator_stats(aggregator->core));
	}
	*aggregation = (struct hd_cluster_aggregation){
		.groups = sum.groups,
		.delivered = sum.groups_delivered,
		.failed = sum.groups_failed,
		.refused = sum.groups_refused,
		.inputs_held = sum.inputs_held,
		.bytes_in = sum.chunk_bytes,
	};
}
