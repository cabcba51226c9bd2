/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network as the operator describes it, without capacities: hosts, switches, links.
 *   { "hosts": ["h1", "h2"], "switches": ["s1"], "links": [["h1", "s1"], ["h2", "s1"]] }
 * Each undirected link becomes two directed ones, named "h1>s1" and "s1>h1".
 */
#ifndef HD_TOPOLOGY_H
#define HD_TOPOLOGY_H

#include "hd_types.h"

struct hd_topology;

/* Parses JSON text. -EINVAL with "line L: field: what" in error; -ENOMEM. */
int hd_topology_parse(
	const char *json,
	struct hd_topology **topology,
	char *error,
	size_t error_bytes
);
/* A star of hosts that are added as they register: used when no topology file is given. */
int hd_topology_create_star(struct hd_topology **topology);
void hd_topology_destroy(struct hd_topology *topology);

uint32_t hd_topology_link_count(const struct hd_topology *topology);
const char *hd_topology_link_name(const struct hd_topology *topology, uint32_t link);
/* Index of a host, or -ENOENT; a star adds it (-ENOSPC at the limit). */
int hd_topology_host(struct hd_topology *topology, const char *name);
/* Whether it is a star that adds any host that registers. */
bool hd_topology_grows(const struct hd_topology *topology);
/* In such a star: gives the host that was looked up least recently, of those that are not busy[index], to a new name;
 * its index and its links stay, with new names. busy[HD_HOSTS_MAX]. -ENOSPC: all are busy, or the name exists.
 * -ENOMEM. */
int hd_topology_reuse(struct hd_topology *topology, const char *name, const bool *busy);
/* Index of a switch, for hd_topology_path(), or -ENOENT. A star has one, with any name. */
int hd_topology_switch(const struct hd_topology *topology, const char *name);
/* The two directed links of a host that has one link: away from it, and towards it. -ENOENT: no such host,
 * or it has none or several. */
int hd_topology_links_of(
	const struct hd_topology *topology,
	int host,
	uint32_t *away,
	uint32_t *towards
);
/* Directed links of the shortest path; deterministic between equal ones. Returns the number of links
 * (0: same host), -ENETUNREACH, -E2BIG. */
int hd_topology_path(
	const struct hd_topology *topology,
	int from,
	int to,
	uint32_t *links,
	size_t capacity
);

#endif
