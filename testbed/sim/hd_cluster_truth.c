/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The true rate of a link for a job of weight 1: max-min fair beside the other tenants' flows, each of which is limited
 * by the slowest link of its path. By progressive filling: the link with the least free rate for each unit of weight
 * fixes the rate of all flows that cross it; then the next, until ours is fixed.
 */
#include "hd_cluster_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PAYLOAD_SHARE (1408.0 / 1506.0) /* of a full chunk's frame on the simulated link */
#define GROUPS_MAX (HD_SCENARIO_TENANTS_MAX + 1)

#define LINKS_MAX (HD_SCENARIO_RACKS_MAX + 1) /* of a path */
#define TRUNKS_FROM (HD_SIM_HOSTS_MAX * 2)

/* The flows of one tenant: `weight` equal ones. The last group is ours, on one link only. Links: host * 2 + enum
 * hd_sim_direction; between racks i and i + 1 TRUNKS_FROM + i * 2, plus one towards i + 1. */
struct group {
	double weight;
	uint32_t link[LINKS_MAX];
	uint32_t link_count;
	bool fixed;
	double rate; /* of one flow */
};

/* Hosts of workers are consecutive. No rank: UINT32_MAX. */
static uint32_t rank_of(const struct hd_cluster *cluster, int host) {
	int first = cluster->workers[0].process.host;

	return host >= first && (uint32_t)(host - first) < cluster->worker_count ?
		(uint32_t)(host - first) :
		UINT32_MAX;
}

static uint32_t rack_of(const struct hd_cluster *cluster, int host) {
	uint32_t rank = rank_of(cluster, host);

	return rank == UINT32_MAX ? 0 : hd_scenario_rack(&cluster->scenario, rank);
}

static double capacity(const struct hd_cluster *cluster, uint32_t link) {
	const struct hd_scenario *scenario = &cluster->scenario;
	int host = (int)(link / 2);
	uint32_t rank = rank_of(cluster, host);
	double mbps = scenario->link_mbps;

	if (link >= TRUNKS_FROM)
		mbps = scenario->trunk_mbps;
	else if (host == cluster->server.process.host
		 || (cluster->scenario.replica && host == cluster->replica.process.host))
		mbps = scenario->server_link_mbps;
	else if (rank != UINT32_MAX)
		mbps *= cluster->link_factor[rank];
	return mbps * 1e6 * PAYLOAD_SHARE;
}

static bool crosses(const struct group *group, uint32_t link) {
	for (uint32_t i = 0; i < group->link_count; i++)
		if (group->link[i] == link)
			return true;
	return false;
}

/* Free rate for each unit of weight on a link, or infinity when no flow waits for it. */
static double
level(const struct hd_cluster *cluster, const struct group *groups, uint32_t count, uint32_t link) {
	double room = capacity(cluster, link), weight = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (!crosses(&groups[i], link))
			continue;
		if (groups[i].fixed)
			room -= groups[i].weight * groups[i].rate;
		else
			weight += groups[i].weight;
	}
	return weight > 0 ? fmax(room, 0) / weight : INFINITY;
}

static void fill(const struct hd_cluster *cluster, struct group *groups, uint32_t count) {
	while (!groups[count - 1].fixed) {
		uint32_t narrowest = groups[count - 1].link[0];
		double least = level(cluster, groups, count, narrowest);

		for (uint32_t i = 0; i < count * LINKS_MAX; i++) {
			const struct group *group = &groups[i / LINKS_MAX];
			uint32_t link = group->link[i % LINKS_MAX];
			double here;

			if (i % LINKS_MAX >= group->link_count)
				continue;
			here = level(cluster, groups, count, link);
			if (here < least) {
				least = here;
				narrowest = link;
			}
		}
		for (uint32_t i = 0; i < count; i++)
			if (!groups[i].fixed && crosses(&groups[i], narrowest)) {
				groups[i].fixed = true;
				groups[i].rate = least;
			}
	}
}

static struct group path_of(const struct hd_cluster *cluster, int from, int to, double weight) {
	struct group group = {.weight = weight};
	uint32_t rack = rack_of(cluster, from), last = rack_of(cluster, to);

	group.link[group.link_count++] = (uint32_t)from * 2 + HD_SIM_UP;
	for (; rack < last; rack++)
		group.link[group.link_count++] = TRUNKS_FROM + rack * 2 + 1;
	for (; rack > last; rack--)
		group.link[group.link_count++] = TRUNKS_FROM + (rack - 1) * 2;
	group.link[group.link_count++] = (uint32_t)to * 2 + HD_SIM_DOWN;
	return group;
}

static uint32_t tenants_now(const struct hd_cluster *cluster, struct group *groups) {
	double now = (double)hd_sim_now(cluster->sim) * 1e-9;
	uint32_t count = 0;

	for (uint32_t i = 0; i < cluster->scenario.tenant_count; i++) {
		const struct hd_scenario_tenant *t = &cluster->scenario.tenants[i];

		if (now >= t->start_s && now < t->stop_s)
			groups[count++] = path_of(
				cluster,
				cluster_host(cluster, t->from),
				cluster_host(cluster, t->to),
				t->flows
			);
	}
	return count;
}

/* As in the topology: "h1>s1", "s1>ps", "s1>s2". False: none of the scenario's. */
static bool find_link(const struct hd_cluster *cluster, const char *name, uint32_t *link) {
	unsigned from = 0, to = 0, rank = 0;
	bool down = *name == 's';
	const char *host = name;

	if (sscanf(name, "s%u>s%u", &from, &to) == 2) {
		*link = TRUNKS_FROM + (from < to ? (from - 1) * 2 + 1 : (to - 1) * 2);
		return from > 0 && to > 0;
	}
	if (down)
		host = strchr(name, '>') ? strchr(name, '>') + 1 : "";
	*link = down ? HD_SIM_DOWN : HD_SIM_UP;
	if (strncmp(host, "ps", 2) == 0) {
		*link += (uint32_t)cluster->server.process.host * 2;
		return true;
	}
	if (sscanf(host, "h%u", &rank) != 1 || rank == 0 || rank > cluster->worker_count)
		return false;
	*link += (uint32_t)cluster->workers[rank - 1].process.host * 2;
	return true;
}

double hd_cluster_truth(const struct hd_cluster *cluster, const char *link) {
	struct group groups[GROUPS_MAX] = {0};
	uint32_t count, index;

	if (!find_link(cluster, link, &index))
		return 0;
	count = tenants_now(cluster, groups);
	groups[count++] = (struct group){.weight = 1, .link = {index}, .link_count = 1};
	fill(cluster, groups, count);
	return groups[count - 1].rate;
}

uint64_t hd_cluster_link_bytes(const struct hd_cluster *cluster, const char *link) {
	uint32_t index;

	if (!find_link(cluster, link, &index) || index >= TRUNKS_FROM)
		return 0;
	return hd_sim_link_stats(cluster->sim, (int)(index / 2), (enum hd_sim_direction)(index % 2))
		->bytes;
}
