/* SPDX-License-Identifier: BSD-3-Clause */
/* The host of the topology that a node is on. Without a topology, hosts without nodes are replaced by new ones. */
#include "ctl_registry.h"

#include <errno.h>
#include <stdlib.h>

static bool link_is_free(const struct hd_controller *c, uint32_t link) {
	return !c->link_use[link] && !c->link_copies[link] && !c->scratch.link_probe[link].reduces;
}

/* Hosts with a registered node, or with transfers in flight. [HD_HOSTS_MAX] NULL: no memory. */
static bool *hosts_busy(const struct hd_controller *c) {
	uint32_t hosts = hd_topology_link_count(c->config.topology) / 2; /* two links each */
	bool *busy = calloc(HD_HOSTS_MAX, sizeof *busy);
	const struct ctl_node *node;

	for (uint32_t host = 0; busy && host <= hosts; host++) {
		uint32_t away, towards;

		if (hd_topology_links_of(c->config.topology, (int)host, &away, &towards) == 0)
			busy[host] = !link_is_free(c, away + 1) || !link_is_free(c, towards + 1);
	}
	TAILQ_FOREACH (node, &c->nodes, entry)
		if (busy && node->role && node->host_index >= 0)
			busy[node->host_index] = true;
	return busy;
}

/* Without a topology every name is a host of a star. The host that has been gone for the longest is replaced; the state
 * of its links is reset. */
static int host_reuse(struct hd_controller *c, const char *name) {
	bool *busy = hosts_busy(c);
	int host = busy ? hd_topology_reuse(c->config.topology, name, busy) : -ENOMEM;
	uint32_t links[2];

	free(busy);
	if (host < 0 || hd_topology_links_of(c->config.topology, host, &links[0], &links[1]) < 0)
		return host;
	for (int i = 0; i < 2; i++) {
		hd_view_forget(c->view, links[i] + 1);
		c->scratch.link_probe[links[i] + 1] = (struct ctl_link_probe){.partner = -1};
	}
	c->counters.hosts_reused++;
	return host;
}

/* Hosts that are gone are kept with the estimates of their links. Their number is limited, as each link costs planning
 * time. */
static bool is_crowded(const struct hd_controller *c) {
	const struct hd_topology *topology = c->config.topology;
	uint32_t most = c->node_count + CTL_HOSTS_GONE_MAX;

	return hd_topology_grows(topology) && hd_topology_link_count(topology) / 2 >= most;
}

int ctl_host_find(struct hd_controller *c, const struct hd_msg_register_ *m) {
	int host = -ENOSPC;

	if (m->role == HD_ROLE_SWITCH)
		return hd_topology_switch(c->config.topology, m->host);
	if (is_crowded(c))
		host = host_reuse(c, m->host);
	if (host < 0)
		host = hd_topology_host(c->config.topology, m->host);
	return host == -ENOSPC ? host_reuse(c, m->host) : host;
}
