/* SPDX-License-Identifier: BSD-3-Clause */
/* What nodes have counted, for whoever reads metrics of this controller only. */
#include "ctl_dataplane.h"

#include <stdio.h>
#include <string.h>

const struct hd_stat_group ctl_node_group = {
	.name = "node",
	.help = "what nodes have counted of packets",
	.label = {"node", "role", "host"},
	.stats = hd_dataplane_stats,
	.count = HD_DATAPLANE_COUNT,
};

static bool has_answered(const struct ctl_node *node) {
	return node->role != HD_ROLE_NONE && node->readings && node->readings->taken;
}

/* Ranks of a job are taken once; names are not. */
static bool same_labels(const struct ctl_node *a, const struct ctl_node *b) {
	return a->role == b->role && a->role != HD_ROLE_WORKER && strcmp(a->host, b->host) == 0
		&& strcmp(hd_session_peer_name(a->session), hd_session_peer_name(b->session)) == 0;
}

/* A sample must not be there twice: the first node of such a name stands for all. */
static bool is_first(const struct hd_controller *c, const struct ctl_node *node) {
	const struct ctl_node *other;

	TAILQ_FOREACH (other, &c->nodes, entry) {
		if (other == node)
			return true;
		if (has_answered(other) && same_labels(other, node))
			return false;
	}
	return true;
}

static void add_node(const struct ctl_node *node, struct hd_stats *stats) {
	char name[3 * (HD_NAME_BYTES_MAX + 8)];
	const char *labels[] = {name, hd_role_name(node->role), node->host};

	if (node->role == HD_ROLE_WORKER)
		(void)snprintf(
			name,
			sizeof name,
			"%s/%s/%u",
			node->job->tenant_name,
			node->job->name,
			node->worker
		);
	else
		(void)snprintf(name, sizeof name, "%s", hd_session_peer_name(node->session));
	hd_stats_add(stats, &ctl_node_group, labels, &node->readings->last);
}

void ctl_dataplane_stats(const struct hd_controller *c, struct hd_stats *stats) {
	const struct ctl_node *node;

	TAILQ_FOREACH (node, &c->nodes, entry)
		if (has_answered(node) && (node->role == HD_ROLE_WORKER || is_first(c, node)))
			add_node(node, stats);
}
