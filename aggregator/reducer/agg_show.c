/* SPDX-License-Identifier: BSD-3-Clause */
/* What a shell may ask an aggregator: its groups, its counters, and the driver's ports, queues and cores. */
#include "agg_group.h"
#include "hd_rows.h"
#include "hd_stat_groups.h"

#include <stdio.h>

static const struct {
	const char *name;
	const struct hd_stat_group *group; /* NULL: all without labels, counter by counter */
} tables[] = {
	{"ports", &hd_port_group},
	{"queues", &hd_queue_group},
	{"cores", &hd_core_group},
	{"counters", NULL},
};

static uint64_t least_acked(const struct agg_group *group) {
	uint64_t least = group->bytes;

	for (uint32_t i = 0; i < group->output_count; i++) {
		const struct agg_output *out = &group->outputs[i];
		uint64_t acked = out->state == AGG_OUTPUT_DELIVERED ? group->bytes : 0;

		if (out->send)
			acked = hd_send_stats(out->send)->bytes_acked;
		least = acked < least && out->state != AGG_OUTPUT_LOST ? acked : least;
	}
	return least;
}

static void group_row(struct hd_rows *rows, hd_ns now, const struct agg_group *group) {
	char text[24];

	if (!hd_row_begin(rows))
		return;
	(void)snprintf(text, sizeof text, "%08x", group->job->id);
	hd_row_text(rows, "job", text);
	(void)snprintf(text, sizeof text, "%016llx", (unsigned long long)group->token);
	hd_row_text(rows, "group", text);
	hd_row_text(rows, "kind", group->relay ? "relay" : "sum");
	hd_row_text(rows, "order", group->order == HD_GROUP_RANKED ? "ranked" : "arrival");
	hd_row_count(rows, "inputs", group->input_count);
	hd_row_count(rows, "held", group->complete);
	hd_row_count(rows, "outputs", group->output_count);
	hd_row_count(rows, "delivered", group->delivered);
	hd_row_count(rows, "bytes", group->bytes);
	hd_row_count(rows, "final_bytes", hd_reduce_final(group->reduce));
	hd_row_count(rows, "acked_bytes", least_acked(group));
	hd_row_count(rows, "early_bytes", hd_reduce_early_bytes(group->reduce));
	hd_row_count(rows, "memory_bytes", group->charged);
	hd_row_real(rows, "quiet_s", (double)(now - group->active) * 1e-9);
	hd_row_end(rows);
}

static uint64_t
rows_groups(struct hd_rows *rows, hd_ns now, const struct hd_aggregator *aggregator) {
	const struct agg_group *group;

	TAILQ_FOREACH (group, &aggregator->group_list, link) {
		if (rows->full)
			break;
		group_row(rows, now, group);
	}
	return aggregator->stats.groups_open;
}

static uint64_t
rows_stats(struct hd_rows *rows, const struct hd_aggregator *aggregator, size_t table) {
	static const struct hd_stat_group *const own[] = {&hd_aggregator_group, NULL};
	const struct hd_aggregator_ops *ops = aggregator->config.ops;
	struct hd_stats *stats = hd_stats_create();
	uint64_t total;

	if (!stats)
		return 0;
	hd_aggregator_gather(aggregator, stats);
	if (ops && ops->gather)
		ops->gather(aggregator->config.owner, stats);
	total = tables[table].group ? hd_rows_group(rows, stats, tables[table].group) :
				      hd_rows_counters(rows, stats, own, NULL);
	hd_stats_destroy(stats);
	return total;
}

char *hd_aggregator_table(
	const struct hd_aggregator *aggregator,
	hd_ns now,
	const char *table,
	const char *filter,
	const char **error
) {
	const size_t count = sizeof tables / sizeof tables[0];
	const char *wrong = NULL;
	struct hd_rows rows;
	uint64_t total;
	size_t i = 0;

	while (i < count && strcmp(tables[i].name, table) != 0)
		i++;
	if (i == count && strcmp(table, "sums") != 0)
		wrong = "no such table (of an aggregator: sums, ports, queues, cores, counters)";
	else
		wrong = hd_rows_begin(&rows, table, filter, now, aggregator->epoch);
	if (wrong) {
		*error = wrong;
		return NULL;
	}
	total = i == count ? rows_groups(&rows, now, aggregator) : rows_stats(&rows, aggregator, i);
	return hd_rows_end(&rows, total, error);
}

static void
refuse(struct agg_turn *turn, struct agg_peer *peer, const char *table, const char *why) {
	struct hd_message message = {.kind = HD_MSG_REFUSE};

	message.refuse.reason = HD_REASON_REFUSED;
	(void)snprintf(message.refuse.text, sizeof message.refuse.text, "%s%s", table, why);
	agg_peer_send(turn, peer, &message);
}

void agg_refuse_command(struct agg_turn *turn, struct agg_peer *peer) {
	refuse(turn, peer, "", "an aggregator takes no commands: say it to the controller");
}

void agg_show(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_show *show) {
	struct hd_message message = {.kind = HD_MSG_TABLE};
	const char *error = NULL;
	char head[HD_NAME_BYTES_MAX + 16];
	char *json = hd_aggregator_table(
		turn->aggregator, turn->now, show->table, show->filter, &error
	);

	if (!json) {
		(void)snprintf(head, sizeof head, "show %s: ", show->table);
		refuse(turn, peer, head, error);
		return;
	}
	memcpy(message.table.table, show->table, sizeof message.table.table);
	message.table.json.data = (const uint8_t *)json;
	message.table.json.bytes = (uint32_t)strlen(json);
	agg_peer_send(turn, peer, &message);
	free(json);
}
