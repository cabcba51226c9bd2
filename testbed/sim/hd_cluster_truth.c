/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a link really gives a job of weight 1: max-min fair beside the other tenants' flows, of which each is
 * held back by the narrower of its two links. By progressive filling: the link with the least room for each
 * unit of weight fixes the rate of all that cross it; then the next, until it is ours.
 */
#include "hd_cluster_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PAYLOAD_SHARE (1408.0 / 1506.0) /* of a full chunk's frame on the simulated link */
#define GROUPS_MAX (HD_SCENARIO_TENANTS_MAX + 1)

/* The flows of one tenant: as many as `weight`, all alike. The last group is ours, on one link only. */
struct group {
	double weight;
	uint32_t link[2]; /* host * 2 + enum hd_sim_way */
	bool fixed;
	double rate; /* of one flow */
};

static double capacity(const struct hd_cluster *cluster, uint32_t link) {
	int host = (int)(link / 2);

	if (host == cluster->server.process.host)
		return cluster->scenario.server_link_mbps * 1e6 * PAYLOAD_SHARE;
	for (uint32_t w = 0; w < cluster->worker_count; w++)
		if (cluster->workers[w].process.host == host)
			return cluster->scenario.link_mbps * 1e6 * PAYLOAD_SHARE
				* cluster->link_factor[w];
	return cluster->scenario.link_mbps * 1e6 * PAYLOAD_SHARE;
}

static bool crosses(const struct group *group, uint32_t link) {
	return group->link[0] == link || group->link[1] == link;
}

/* Room a unit of weight on a link, or infinity when nobody waits for it. */
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

		for (uint32_t i = 0; i < 2 * count; i++) {
			double here = level(cluster, groups, count, groups[i / 2].link[i % 2]);

			if (here < least) {
				least = here;
				narrowest = groups[i / 2].link[i % 2];
			}
		}
		for (uint32_t i = 0; i < count; i++)
			if (!groups[i].fixed && crosses(&groups[i], narrowest)) {
				groups[i].fixed = true;
				groups[i].rate = least;
			}
	}
}

static uint32_t tenants_now(const struct hd_cluster *cluster, struct group *groups) {
	double now = (double)hd_sim_now(cluster->sim) * 1e-9;
	uint32_t count = 0;

	for (uint32_t i = 0; i < cluster->scenario.tenant_count; i++) {
		const struct hd_scenario_tenant *t = &cluster->scenario.tenants[i];

		if (now >= t->start_s && now < t->stop_s)
			groups[count++] = (struct group){
				.weight = t->flows,
				.link = {
					(uint32_t)cluster_host(cluster, t->from) * 2 + HD_SIM_UP,
					(uint32_t)cluster_host(cluster, t->to) * 2 + HD_SIM_DOWN,
				},
			};
	}
	return count;
}

double hd_cluster_truth(const struct hd_cluster *cluster, const char *link) {
	bool down = strncmp(link, "s1>", 3) == 0;
	const char *host = down ? link + 3 : link;
	struct group groups[GROUPS_MAX] = {0};
	uint32_t count, index;
	unsigned rank = 0;

	if (strncmp(host, "ps", 2) != 0
	    && (sscanf(host, "h%u", &rank) != 1 || rank == 0 || rank > cluster->worker_count))
		return 0;
	index = (uint32_t
		)(rank ? cluster->workers[rank - 1].process.host : cluster->server.process.host)
			* 2
		+ (down ? HD_SIM_DOWN : HD_SIM_UP);
	count = tenants_now(cluster, groups);
	groups[count++] = (struct group){.weight = 1, .link = {index, index}};
	fill(cluster, groups, count);
	return groups[count - 1].rate;
}
