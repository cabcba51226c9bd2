/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts do not forward. A host whose only link goes to a switch is a leaf: its paths are its link, the path between the
 * switches from the table, the other host's link. All other nodes are the core:
 *
 *      h1 --- s1 === s2 --- h2        leaf, core, core, leaf
 *
 * next[to][at] is the first link from core node `at` on a shortest path to core node `to`; of equal ones the link that
 * comes first in the file.
 */
#include "hd_limits.h"
#include "hd_topology.h"
#include "hd_topology_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAR_SWITCH "star"

static int grow(void **array, uint32_t count, uint32_t *capacity, size_t item_bytes) {
	if (count < *capacity)
		return 0;
	const uint32_t wanted = *capacity == 0 ? 16 : *capacity * 2;
	void *larger = realloc(*array, (size_t)wanted * item_bytes);
	if (!larger)
		return -ENOMEM;
	*array = larger;
	*capacity = wanted;
	return 0;
}

int hd_topology_find(const struct hd_topology *topology, const char *name) {
	struct hd_topology_name *found;

	HASH_FIND_STR(topology->names, name, found);
	return !found ? -ENOENT : (int)found->node;
}

int hd_topology_add_node(struct hd_topology *topology, const char *name, bool is_switch) {
	if (topology->node_count == HD_HOSTS_MAX)
		return -ENOSPC;
	if (hd_topology_find(topology, name) >= 0)
		return -EEXIST;
	if (grow((void **)&topology->nodes,
		 topology->node_count,
		 &topology->node_capacity,
		 sizeof *topology->nodes)
	    < 0)
		return -ENOMEM;
	struct hd_topology_name *entry = calloc(1, sizeof *entry);
	if (!entry)
		return -ENOMEM;
	(void)snprintf(entry->name, sizeof entry->name, "%s", name);
	entry->node = topology->node_count;
	HASH_ADD_STR(topology->names, name, entry);
	topology->nodes[topology->node_count] = (struct hd_topology_node){
		.entry = entry,
		.name = entry->name,
		.is_switch = is_switch,
		.core = HD_TOPOLOGY_NO_CORE,
	};
	return (int)topology->node_count++;
}

static char *link_name(const char *from, const char *to) {
	const size_t bytes = strlen(from) + strlen(to) + 2;
	char *name = malloc(bytes);

	if (name)
		(void)snprintf(name, bytes, "%s>%s", from, to);
	return name;
}

static int add_directed(struct hd_topology *topology, uint32_t from, uint32_t to) {
	if (grow((void **)&topology->links,
		 topology->link_count,
		 &topology->link_capacity,
		 sizeof *topology->links)
	    < 0)
		return -ENOMEM;
	char *name = link_name(topology->nodes[from].name, topology->nodes[to].name);
	if (!name)
		return -ENOMEM;
	topology->links[topology->link_count++]
		= (struct hd_topology_link){.name = name, .from = from, .to = to};
	return 0;
}

int hd_topology_add_link(struct hd_topology *topology, uint32_t a, uint32_t b) {
	if (topology->link_count + 2 > HD_LINKS_MAX)
		return -ENOSPC;
	struct hd_topology_node *ends[2] = {&topology->nodes[a], &topology->nodes[b]};
	const uint32_t out[2] = {topology->link_count, topology->link_count + 1};
	int rc = add_directed(topology, a, b);
	if (rc == 0)
		rc = add_directed(topology, b, a);
	if (rc < 0)
		return rc;
	for (int i = 0; i < 2; i++) {
		ends[i]->up = out[i];
		ends[i]->down = out[1 - i];
		ends[i]->link_count++;
	}
	return 0;
}

/* A leaf has a single link, to a switch. */
static bool is_leaf(const struct hd_topology *topology, const struct hd_topology_node *node) {
	return !node->is_switch && node->link_count == 1
		&& topology->nodes[topology->links[node->up].to].is_switch;
}

/* Links by the core node at their end, in file order: for the next step of a search from `to`. */
static void index_links(const struct hd_topology *topology, uint32_t *first, uint32_t *incoming) {
	const uint32_t cores = topology->core_count;

	memset(first, 0, (cores + 1) * sizeof *first);
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t l = 0; l < topology->link_count; l++) {
			const struct hd_topology_link *link = &topology->links[l];
			const uint32_t to = topology->nodes[link->to].core;

			if (to == HD_TOPOLOGY_NO_CORE
			    || topology->nodes[link->from].core == HD_TOPOLOGY_NO_CORE)
				continue;
			if (pass == 0)
				first[to + 1]++;
			else
				incoming[first[to]++] = l;
		}
		if (pass == 0)
			for (uint32_t c = 0; c < cores; c++)
				first[c + 1] += first[c];
	}
	memmove(first + 1, first, cores * sizeof *first); /* undo the advance of pass 1 */
	first[0] = 0;
}

/* Breadth first from `root` against the direction of the links. Hosts are reached, not crossed. */
static void
search(const struct hd_topology *topology,
       uint32_t root,
       const uint32_t *first,
       const uint32_t *incoming,
       uint32_t *queue) {
	uint32_t *next = &topology->next[(size_t)root * topology->core_count];
	uint32_t head = 0, tail = 0;

	for (uint32_t c = 0; c < topology->core_count; c++)
		next[c] = HD_TOPOLOGY_NO_LINK;
	queue[tail++] = root;
	while (head < tail) {
		const uint32_t at = queue[head++];

		if (at != root && !topology->nodes[topology->core_node[at]].is_switch)
			continue;
		for (uint32_t k = first[at]; k < first[at + 1]; k++) {
			const uint32_t from
				= topology->nodes[topology->links[incoming[k]].from].core;

			if (from == root || next[from] != HD_TOPOLOGY_NO_LINK)
				continue;
			next[from] = incoming[k];
			queue[tail++] = from;
		}
	}
}

int hd_topology_finish(struct hd_topology *topology) {
	uint32_t cores = 0;

	for (uint32_t n = 0; n < topology->node_count; n++) {
		struct hd_topology_node *node = &topology->nodes[n];

		if (is_leaf(topology, node))
			continue;
		if (cores == HD_TOPOLOGY_CORE_MAX)
			return -ENOSPC;
		node->core = cores++;
	}
	topology->core_count = cores;
	topology->next = malloc(((size_t)cores * cores + 1) * sizeof *topology->next);
	topology->core_node = calloc(cores + 1, sizeof *topology->core_node);
	uint32_t *first = calloc(cores + 2, sizeof *first);
	uint32_t *incoming = calloc(topology->link_count + 1, sizeof *incoming);
	uint32_t *queue = calloc(cores + 1, sizeof *queue);
	int rc = -ENOMEM;
	if (!topology->next || !topology->core_node || !first || !incoming || !queue)
		goto out;
	for (uint32_t n = 0; n < topology->node_count; n++)
		if (topology->nodes[n].core != HD_TOPOLOGY_NO_CORE)
			topology->core_node[topology->nodes[n].core] = n;
	index_links(topology, first, incoming);
	for (uint32_t root = 0; root < cores; root++)
		search(topology, root, first, incoming, queue);
	rc = 0;
out:
	free(first);
	free(incoming);
	free(queue);
	return rc;
}

int hd_topology_create_star(struct hd_topology **topology) {
	struct hd_topology *star = calloc(1, sizeof *star);
	if (!star)
		return -ENOMEM;
	int rc = hd_topology_add_node(star, STAR_SWITCH, true);
	if (rc >= 0)
		rc = hd_topology_finish(star);
	if (rc < 0) {
		hd_topology_destroy(star);
		return -ENOMEM;
	}
	star->grows = true;
	*topology = star;
	return 0;
}

void hd_topology_destroy(struct hd_topology *topology) {
	if (!topology)
		return;
	HASH_CLEAR(hh, topology->names);
	for (uint32_t n = 0; n < topology->node_count; n++)
		free(topology->nodes[n].entry);
	for (uint32_t l = 0; l < topology->link_count; l++)
		free(topology->links[l].name);
	free(topology->links);
	free(topology->nodes);
	free(topology->next);
	free(topology->core_node);
	free(topology);
}

uint32_t hd_topology_link_count(const struct hd_topology *topology) {
	return topology->link_count;
}

const char *hd_topology_link_name(const struct hd_topology *topology, uint32_t link) {
	return link < topology->link_count ? topology->links[link].name : "";
}

bool hd_topology_name_valid(const char *name) {
	const size_t bytes = strlen(name);

	if (bytes == 0 || bytes > HD_NAME_BYTES_MAX)
		return false;
	for (const char *p = name; *p != 0; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '>')
			return false;
	return true;
}

int hd_topology_host(struct hd_topology *topology, const char *name) {
	const int node = hd_topology_find(topology, name);

	if (node >= 0 && !topology->nodes[node].is_switch) {
		topology->nodes[node].asked = ++topology->asked;
		return node;
	}
	if (node >= 0 || !topology->grows || !hd_topology_name_valid(name))
		return -ENOENT;
	if (topology->link_count + 2 > HD_LINKS_MAX)
		return -ENOSPC;
	const int added = hd_topology_add_node(topology, name, false);
	if (added < 0)
		return added;
	topology->nodes[added].asked = ++topology->asked;
	const int rc = hd_topology_add_link(topology, (uint32_t)added, 0);
	return rc < 0 ? rc : added;
}

bool hd_topology_grows(const struct hd_topology *topology) {
	return topology->grows;
}

int hd_topology_reuse(struct hd_topology *topology, const char *name, const bool *busy) {
	struct hd_topology_node *oldest = NULL;

	for (uint32_t n = 0; topology->grows && n < topology->node_count; n++) {
		struct hd_topology_node *node = &topology->nodes[n];

		if (!node->is_switch && !busy[n] && (!oldest || node->asked < oldest->asked))
			oldest = node;
	}
	if (!oldest || hd_topology_find(topology, name) >= 0 || !hd_topology_name_valid(name))
		return -ENOSPC;
	char *up = link_name(name, topology->nodes[0].name);
	char *down = link_name(topology->nodes[0].name, name);
	if (!up || !down) {
		free(up);
		free(down);
		return -ENOMEM;
	}
	HASH_DEL(topology->names, oldest->entry);
	(void)snprintf(oldest->entry->name, sizeof oldest->entry->name, "%s", name);
	HASH_ADD_STR(topology->names, name, oldest->entry);
	free(topology->links[oldest->up].name);
	free(topology->links[oldest->down].name);
	topology->links[oldest->up].name = up;
	topology->links[oldest->down].name = down;
	oldest->asked = ++topology->asked;
	return (int)(oldest - topology->nodes);
}

int hd_topology_switch(const struct hd_topology *topology, const char *name) {
	const int node = topology->grows ? 0 : hd_topology_find(topology, name);

	return node >= 0 && topology->nodes[node].is_switch ? node : -ENOENT;
}

int hd_topology_links_of(
	const struct hd_topology *topology,
	int host,
	uint32_t *away,
	uint32_t *towards
) {
	const struct hd_topology_node *node;

	if (host < 0 || (uint32_t)host >= topology->node_count)
		return -ENOENT;
	node = &topology->nodes[host];
	if (node->is_switch || node->link_count != 1)
		return -ENOENT;
	*away = node->up;
	*towards = node->down;
	return 0;
}

int hd_topology_path(
	const struct hd_topology *topology,
	int from,
	int to,
	uint32_t *links,
	size_t capacity
) {
	size_t count = 0;

	if (from < 0 || to < 0 || (uint32_t)from >= topology->node_count
	    || (uint32_t)to >= topology->node_count)
		return -ENETUNREACH;
	if (from == to)
		return 0;
	const struct hd_topology_node *start = &topology->nodes[from], *end = &topology->nodes[to];
	const bool leaf_start = start->core == HD_TOPOLOGY_NO_CORE;
	const bool leaf_end = end->core == HD_TOPOLOGY_NO_CORE;
	uint32_t at
		= leaf_start ? topology->nodes[topology->links[start->up].to].core : start->core;
	const uint32_t goal
		= leaf_end ? topology->nodes[topology->links[end->up].to].core : end->core;
	if (leaf_start) {
		if (count == capacity)
			return -E2BIG;
		links[count++] = start->up;
	}
	while (at != goal) {
		const uint32_t link = topology->next[(size_t)goal * topology->core_count + at];

		if (link == HD_TOPOLOGY_NO_LINK)
			return -ENETUNREACH;
		if (count == capacity)
			return -E2BIG;
		links[count++] = link;
		at = topology->nodes[topology->links[link].to].core;
	}
	if (leaf_end) {
		if (count == capacity)
			return -E2BIG;
		links[count++] = end->down;
	}
	return (int)count;
}
