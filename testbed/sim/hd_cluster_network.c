/* SPDX-License-Identifier: BSD-3-Clause */
/* The scenario's network, and the topology for the controller: which nodes are connected, without capacities. */
#include "hd_cluster_private.h"
#include "hd_topology.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct hd_sim_link shaped(const struct hd_scenario *scenario, double mbps) {
	return (struct hd_sim_link){
		.rate_bps = (uint64_t)(mbps * 1e6),
		.queue_bytes = mbps > 0 ? (uint32_t)(scenario->queue_kb * 1024) : 0,
	};
}

int cluster_add_racks(struct hd_cluster *cluster) {
	const struct hd_scenario *scenario = &cluster->scenario;
	struct hd_sim_link trunk = shaped(scenario, scenario->trunk_mbps);
	int code = 0;

	for (uint32_t rack = 1; code >= 0 && rack < scenario->racks; rack++) {
		code = hd_sim_switch(cluster->sim);
		if (code >= 0)
			code = hd_sim_trunk(cluster->sim, (int)rack - 1, code, &trunk);
	}
	return code < 0 ? code : 0;
}

int cluster_add_host(struct hd_cluster *cluster, uint32_t rack, double mbps) {
	struct hd_sim_link link = shaped(&cluster->scenario, mbps);

	link.latency = (hd_ns)(cluster->scenario.latency_us * 500); /* half on each of two links */
	return hd_sim_host_at(cluster->sim, (int)rack, &link);
}

/* --- the topology's text ------------------------------------------------------------------- */

struct text {
	char *data;
	size_t bytes, capacity;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
	size_t left = text->capacity - text->bytes;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(text->data + text->bytes, left, format, arguments);
	va_end(arguments);
	text->bytes += (size_t)n < left ? (size_t)n : left - 1;
}

static void write_topology(const struct hd_scenario *scenario, struct text *text) {
	uint32_t racks = scenario->racks > 1 ? scenario->racks : 1;

	add(text, "{\"hosts\":[\"ps\",\"ctl\",\"x1\"%s", scenario->replica ? ",\"rp\"" : "");
	for (uint32_t i = 1; i <= scenario->workers; i++)
		add(text, ",\"h%u\"", i);
	for (uint32_t i = 1; i <= scenario->aggregators; i++)
		add(text, ",\"a%u\"", i);
	add(text, "],\"switches\":[\"s1\"");
	for (uint32_t i = 2; i <= racks; i++)
		add(text, ",\"s%u\"", i);
	add(text, "],\"links\":[[\"ps\",\"s1\"],[\"ctl\",\"s1\"],[\"x1\",\"s1\"]");
	if (scenario->replica)
		add(text, ",[\"rp\",\"s1\"]");
	for (uint32_t i = 0; i < scenario->workers; i++)
		add(text, ",[\"h%u\",\"s%u\"]", i + 1, hd_scenario_rack(scenario, i) + 1);
	for (uint32_t i = 1; i <= scenario->aggregators; i++)
		add(text, ",[\"a%u\",\"s1\"]", i);
	for (uint32_t i = 1; i < racks; i++)
		add(text, ",[\"s%u\",\"s%u\"]", i, i + 1);
	add(text, "]}");
}

struct hd_topology *
hd_cluster_topology(const struct hd_scenario *scenario, char *error, size_t error_bytes) {
	struct text text = {.capacity = 1024 + 32 * (size_t)scenario->workers};
	struct hd_topology *topology = NULL;

	text.data = malloc(text.capacity);
	(void)snprintf(error, error_bytes, "out of memory");
	if (text.data) {
		write_topology(scenario, &text);
		(void)hd_topology_parse(text.data, &topology, error, error_bytes);
	}
	free(text.data);
	return topology;
}

struct hd_topology *cluster_topology(struct hd_cluster *cluster) {
	char error[256];
	struct hd_topology *topology = hd_cluster_topology(&cluster->scenario, error, sizeof error);

	if (!topology)
		hd_check_fail(cluster->check, "topology: %s", error);
	return topology;
}
