/* SPDX-License-Identifier: BSD-3-Clause */
/* A switch on the path of the cluster: the simulated switch s1. */
#include "hd_cluster_private.h"

#include <stdio.h>
#include <string.h>

#define UNHEARD 0.1 /* probability that a neighbour is not known yet */

/* An overflow, as if the members had reported wrong peaks. */
static void spoil(void *owner, uint8_t *chunk) {
	struct hd_cluster *cluster = owner;

	if (cluster->config.switch_spoils > 0 && !cluster->quiet
	    && hd_random_chance(&cluster->random, cluster->config.switch_spoils))
		chunk[3] |= HD_SWITCH_FLAG_NOT_FINITE;
}

/* Only between the switch and the replica, in both directions: the server has all of each sum, at full speed. */
static bool lose(void *owner, struct hd_addr peer) {
	struct hd_cluster *cluster = owner;

	return cluster->config.switch_replica_loss > 0 && !cluster->quiet
		&& hd_addr_equal(
			peer, hd_sim_node_address(cluster->sim, cluster->replica.process.node)
		)
		&& hd_random_chance(&cluster->random, cluster->config.switch_replica_loss);
}

/* --- start and end ---------------------------------------------------------------------------- */

struct switch_process *as_switch(struct process *process) {
	struct switch_process *s = &process->cluster->path_switch;

	return process == &s->process ? s : NULL;
}

static void go_down(struct step *step, hd_ns now) {
	if (step->cluster->quiet)
		return;
	step->process->crashes++;
	process_settle(step->process);
}

static void come_back(struct step *step, hd_ns now) {
	if (step->process->crashes > 0)
		step->process->crashes--;
	process_settle(step->process);
}

int cluster_add_switch(struct hd_cluster *cluster) {
	struct switch_process *s = &cluster->path_switch;
	struct step step = {.cluster = cluster, .process = &s->process, .call = go_down};
	int code;

	if (cluster->config.switch_slots == 0)
		return 0;
	(void)snprintf(s->process.name, CLUSTER_NAME_BYTES, "switch");
	(void)snprintf(s->process.host_name, CLUSTER_NAME_BYTES, "s1");
	code = cluster_add_process(cluster, &s->process, 0, 0);
	if (code < 0)
		return code;
	s->path.sim = cluster->sim;
	s->path.node = s->process.node;
	s->path.random = &cluster->random;
	s->path.unheard = UNHEARD;
	s->path.spoil = spoil;
	s->path.lose = cluster->scenario.replica ? lose : NULL;
	s->path.owner = cluster;
	hd_sim_switch_attach(&s->path);
	if (cluster->config.switch_down_s > 0) {
		cluster_at(cluster, cluster_ns(cluster->config.switch_down_s), step);
		step.call = come_back;
		cluster_at(cluster, cluster_ns(cluster->config.switch_down_s + 0.3), step);
	}
	return 0;
}

struct hd_node start_switch(struct switch_process *s) {
	struct hd_cluster *cluster = s->process.cluster;
	struct hd_sim_switch_setup setup = {
		.name = s->process.name,
		.host = s->process.host_name,
		.keys = &cluster->keys,
		.controller = hd_sim_node_address(cluster->sim, cluster->controller.process.node),
		.hash_key = {hd_random_u64(&cluster->seeds), hd_random_u64(&cluster->seeds)},
		.slots = cluster->config.switch_slots,
		.narrow = cluster->config.switch_narrow,
		.dtypes = 1U << HD_DTYPE_FIXED32,
	};
	char error[HD_TEXT_BYTES_MAX] = "";
	struct hd_node node;

	cluster_draw_seed(cluster, setup.seed);
	if (hd_sim_switch_start(&s->path, &setup, &node, error, sizeof error) < 0)
		hd_check_fail(cluster->check, "switch: %s", error);
	return node;
}

void destroy_switch(struct switch_process *s) {
	hd_sim_switch_end(&s->path);
}

void cluster_switch_stats(const struct hd_cluster *cluster, struct hd_cluster_result *result) {
	const struct hd_sim_switch *s = &cluster->path_switch.path;

	memcpy(result->switch_counters, s->counters, sizeof s->counters);
	result->switch_refused = s->refused;
	if (s->agent)
		result->switch_refused += hd_switch_agent_stats(s->agent)->leases_refused;
	if (s->core) {
		uint64_t now[HD_SWITCH_COUNTER_COUNT];

		hd_switch_core_counters(s->core, now);
		for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
			result->switch_counters[i] += now[i];
	}
}
