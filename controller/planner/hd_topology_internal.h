/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the topology's parser and its paths. */
#ifndef HD_TOPOLOGY_INTERNAL_H
#define HD_TOPOLOGY_INTERNAL_H

#include "hd_limits.h"
#include "hd_topology.h"

#include <uthash.h>

#define HD_TOPOLOGY_NO_CORE UINT32_MAX
#define HD_TOPOLOGY_NO_LINK UINT32_MAX

struct hd_topology_node {
	struct hd_topology_name *entry;
	const char *name; /* owned by the entry */
	bool is_switch;
	uint32_t link_count; /* undirected */
	uint32_t up, down; /* directed links of the last one added: a leaf has one */
	uint64_t asked; /* when its name was last looked up: see hd_topology_reuse() */
	uint32_t core; /* index in the path table; HD_TOPOLOGY_NO_CORE: a leaf */
};

struct hd_topology_link {
	char *name;
	uint32_t from, to;
};

struct hd_topology_name {
	char name[HD_NAME_BYTES_MAX + 1];
	uint32_t node;
	UT_hash_handle hh;
};

struct hd_topology {
	struct hd_topology_node *nodes;
	uint32_t node_count, node_capacity;
	struct hd_topology_link *links;
	uint32_t link_count, link_capacity;
	struct hd_topology_name *names;
	uint32_t core_count;
	uint32_t *core_node; /* [core_count] */
	uint32_t *next; /* [core_count][core_count]: see hd_topology.c */
	bool grows; /* a star */
	uint64_t asked; /* counts look-ups of hosts */
};

/* Node index or -ENOENT; hosts and switches. */
int hd_topology_find(const struct hd_topology *topology, const char *name);
/* Node index, -EEXIST, -ENOSPC (HD_HOSTS_MAX), -ENOMEM. */
int hd_topology_add_node(struct hd_topology *topology, const char *name, bool is_switch);
/* Two directed links. 0, -ENOSPC (HD_LINKS_MAX), -ENOMEM. */
int hd_topology_add_link(struct hd_topology *topology, uint32_t a, uint32_t b);
/* Makes the path table once all is added. 0, -ENOSPC (HD_TOPOLOGY_CORE_MAX), -ENOMEM. */
int hd_topology_finish(struct hd_topology *topology);
/* 1..HD_NAME_BYTES_MAX bytes without control characters and '>'. */
bool hd_topology_name_valid(const char *name);

#endif
