/* SPDX-License-Identifier: BSD-3-Clause */
/* Link monitors: the shipped core on each host, over the simulated cards' counters instead of a BPF program. */
#include "hd_cluster_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_card(void *owner, struct hd_monitor_counts counts[HD_COUNTS_DIRECTIONS]) {
	const struct monitor_process *monitor = owner;
	static const enum hd_sim_direction directions[HD_COUNTS_DIRECTIONS]
		= {[HD_COUNTS_OUT] = HD_SIM_UP, [HD_COUNTS_IN] = HD_SIM_DOWN};

	for (int direction = 0; direction < HD_COUNTS_DIRECTIONS; direction++)
		hd_sim_card_counts(
			monitor->cluster->sim,
			monitor->host,
			directions[direction],
			&counts[direction].ours,
			counts[direction].flows,
			HD_COUNTS_FLOWS
		);
	return 0;
}

static const struct hd_monitor_source card = {.read = read_card};

static int start(struct hd_cluster *cluster, uint32_t index, const struct process *on) {
	struct monitor_process *monitor = &cluster->monitors[index];
	struct hd_sim_node_config node = {.host = on->host};
	char name[CLUSTER_NAME_BYTES + 8];
	struct hd_monitor_config config = {
		.name = name,
		.host = on->host_name,
		.keys = &cluster->keys,
		.key_id = cluster->key.id,
		.seed = {(uint8_t)index, (uint8_t)(index >> 8), 'm'},
		.controller = hd_sim_node_address(cluster->sim, cluster->controller.process.node),
		.source = &card,
		.owner = monitor,
	};
	int code;

	(void)snprintf(name, sizeof name, "monitor-%s", on->host_name);
	monitor->cluster = cluster;
	monitor->host = on->host;
	code = hd_monitor_create(&config, &monitor->core);
	if (code < 0)
		return code;
	code = hd_sim_node(cluster->sim, &node);
	if (code < 0)
		return code;
	hd_sim_node_start(cluster->sim, code, (struct hd_node){&hd_monitor_ops, monitor->core});
	return 0;
}

int cluster_add_monitors(struct hd_cluster *cluster) {
	int code = 0;

	if (!cluster->scenario.monitors || cluster->config.mode == HD_CLUSTER_DIRECT)
		return 0;
	cluster->monitors = calloc(cluster->worker_count + 1, sizeof *cluster->monitors);
	if (!cluster->monitors)
		return -ENOMEM;
	code = start(cluster, 0, &cluster->server.process);
	for (uint32_t i = 0; code == 0 && i < cluster->worker_count; i++)
		code = start(cluster, i + 1, &cluster->workers[i].process);
	return code;
}

void cluster_remove_monitors(struct hd_cluster *cluster) {
	for (uint32_t i = 0; cluster->monitors && i <= cluster->worker_count; i++)
		hd_monitor_destroy(cluster->monitors[i].core);
	free(cluster->monitors);
}
