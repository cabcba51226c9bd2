/* SPDX-License-Identifier: BSD-3-Clause */
/* Switches, trunks and hosts, and the paths of packets. */
#include "hd_sim_private.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define FIRST_ADDRESS 0x0a000001u /* 10.0.0.1 */

struct hd_addr hd_sim_address(int host, uint16_t port) {
	return (struct hd_addr){.ipv4 = FIRST_ADDRESS + (uint32_t)host, .port = port};
}

/* --- links --------------------------------------------------------------------------------- */

static void set_rate(struct sim_link *link, uint64_t rate_bps) {
	link->config.rate_bps = rate_bps;
	link->queue_ns = HD_NEVER;
	if (rate_bps > 0 && link->config.queue_bytes > 0)
		link->queue_ns = (hd_ns
		)((unsigned __int128)link->config.queue_bytes * 8 * HD_SECOND / rate_bps);
}

static void init_link(struct sim_link *link, const struct hd_sim_link *config, int32_t leads) {
	link->config = *config;
	link->leads = leads;
	set_rate(link, config->rate_bps);
}

static struct sim_link *
link_of(const struct hd_sim *sim, int host, enum hd_sim_direction direction) {
	assert(host >= 0 && (uint32_t)host < sim->host_count);
	return &sim->hosts[host].link[direction];
}

void hd_sim_set_rate(
	struct hd_sim *sim,
	int host,
	enum hd_sim_direction direction,
	uint64_t rate_bps
) {
	set_rate(link_of(sim, host, direction), rate_bps);
}

const struct hd_sim_link_stats *
hd_sim_link_stats(const struct hd_sim *sim, int host, enum hd_sim_direction direction) {
	return &link_of(sim, host, direction)->stats;
}

const struct hd_sim_link_stats *
hd_sim_trunk_stats(const struct hd_sim *sim, int trunk, bool towards_b) {
	assert(trunk >= 0 && (uint32_t)trunk < sim->trunk_count);
	return &sim->trunks[trunk].link[towards_b].stats;
}

/* --- switches ------------------------------------------------------------------------------ */

int hd_sim_switch(struct hd_sim *sim) {
	if (sim->switch_count == HD_SIM_SWITCHES_MAX)
		return -ENOSPC;
	for (uint32_t i = 0; i <= sim->switch_count; i++)
		sim->next_hops[i][sim->switch_count] = sim->next_hops[sim->switch_count][i]
			= SIM_NO_PATH;
	return (int)sim->switch_count++;
}

/* The paths to one switch, from it outwards: breadth first, trunks in the order in which they were added. */
static void find_next_hops(struct hd_sim *sim, int32_t target) {
	int32_t line[HD_SIM_SWITCHES_MAX] = {target};
	uint32_t count = 1;

	for (uint32_t s = 0; s < sim->switch_count; s++)
		sim->next_hops[s][target] = SIM_NO_PATH;
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t t = 0; t < sim->trunk_count * 2; t++) {
			const struct sim_trunk *trunk = &sim->trunks[t / 2];
			int32_t from = trunk->ends[1 - t % 2];

			if (trunk->ends[t % 2] != line[i] || from == target
			    || sim->next_hops[from][target] != SIM_NO_PATH)
				continue;
			sim->next_hops[from][target] = (uint16_t)t;
			line[count++] = from;
		}
	}
}

int hd_sim_trunk(struct hd_sim *sim, int a, int b, const struct hd_sim_link *link) {
	struct sim_trunk *trunk = &sim->trunks[sim->trunk_count];

	assert(a >= 0 && (uint32_t)a < sim->switch_count);
	assert(b >= 0 && (uint32_t)b < sim->switch_count && a != b);
	if (sim->trunk_count == HD_SIM_TRUNKS_MAX)
		return -ENOSPC;
	*trunk = (struct sim_trunk){.ends = {a, b}};
	for (int end = 0; end < 2; end++)
		init_link(&trunk->link[end], link, trunk->ends[end]);
	sim->trunk_count++;
	for (uint32_t s = 0; s < sim->switch_count; s++)
		find_next_hops(sim, (int32_t)s);
	return (int)sim->trunk_count - 1;
}

struct sim_link *sim_link_from(struct hd_sim *sim, int32_t at, const struct sim_packet *packet) {
	struct sim_host *host = &sim->hosts[packet->to_host];
	uint16_t hop;

	if (host->at == at)
		return &host->link[HD_SIM_DOWN];
	hop = sim->next_hops[at][host->at];
	return hop == SIM_NO_PATH ? NULL : &sim->trunks[hop / 2].link[hop % 2];
}

/* --- hosts --------------------------------------------------------------------------------- */

int hd_sim_host_at(struct hd_sim *sim, int at, const struct hd_sim_link *link) {
	struct sim_host *host;

	assert(at >= 0 && (uint32_t)at < sim->switch_count);
	if (sim->host_count == HD_SIM_HOSTS_MAX)
		return -ENOSPC;
	host = &sim->hosts[sim->host_count];
	host->at = at;
	init_link(&host->link[HD_SIM_UP], link, at);
	init_link(&host->link[HD_SIM_DOWN], link, -1);
	host->link[HD_SIM_UP].first = true;
	return (int)sim->host_count++;
}

int hd_sim_host(struct hd_sim *sim, const struct hd_sim_link *link) {
	return hd_sim_host_at(sim, 0, link);
}
