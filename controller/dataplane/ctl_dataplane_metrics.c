/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet counters of nodes, as metrics of the controller. */
#include "ctl_dataplane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct hd_stat_group ctl_node_group = {
	.name = "node",
	.help = "packet counters of nodes",
	.label = {"node", "role", "host"},
	.stats = hd_dataplane_stats,
	.count = HD_DATAPLANE_COUNT,
};

/* Room for TENANT/JOB/RANK. */
#define LABEL_BYTES ((size_t)2 * (HD_NAME_BYTES_MAX + 1) + sizeof "65535")

struct sample {
	const struct ctl_node *node;
	const char *role;
	uint32_t index; /* among the nodes */
	char name[LABEL_BYTES];
};

static bool has_answered(const struct ctl_node *node) {
	return node->role != HD_ROLE_NONE && node->readings && node->readings->taken;
}

static void name_node(const struct ctl_node *node, char name[LABEL_BYTES]) {
	if (node->role == HD_ROLE_WORKER)
		(void)snprintf(
			name,
			LABEL_BYTES,
			"%s/%s/%u",
			node->job->tenant_name,
			node->job->name,
			node->worker
		);
	else
		(void)snprintf(name, LABEL_BYTES, "%s", hd_session_peer_name(node->session));
}

static int compare_labels(const struct sample *a, const struct sample *b) {
	int order = strcmp(a->name, b->name);

	if (order == 0)
		order = strcmp(a->role, b->role);
	return order ? order : strcmp(a->node->host, b->node->host);
}

static int by_labels(const void *a, const void *b) {
	const struct sample *left = a, *right = b;
	int order = compare_labels(left, right);

	if (order)
		return order;
	return left->index < right->index ? -1 : left->index > right->index;
}

static uint32_t take_samples(const struct hd_controller *c, struct sample *samples) {
	const struct ctl_node *node;
	uint32_t count = 0;

	TAILQ_FOREACH (node, &c->nodes, entry) {
		struct sample *sample = &samples[count];

		if (!has_answered(node))
			continue;
		sample->node = node;
		sample->role = hd_role_name(node->role);
		sample->index = count++;
		name_node(node, sample->name);
	}
	return count;
}

/* No sample may occur twice: of several nodes with the same labels only the first is exported. */
void ctl_dataplane_stats(const struct hd_controller *c, struct hd_stats *stats) {
	struct sample *samples = calloc((size_t)c->node_count + 1, sizeof *samples);
	uint32_t count;

	if (!samples) {
		hd_stats_leave_out(stats);
		return;
	}
	count = take_samples(c, samples);
	qsort(samples, count, sizeof *samples, by_labels);
	for (uint32_t i = 0; i < count; i++) {
		const struct ctl_node *node = samples[i].node;
		const char *labels[] = {samples[i].name, samples[i].role, node->host};

		if (i == 0 || compare_labels(&samples[i - 1], &samples[i]) != 0)
			hd_stats_add(stats, &ctl_node_group, labels, &node->readings->last);
	}
	free(samples);
}
