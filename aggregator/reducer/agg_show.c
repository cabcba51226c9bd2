/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers a shell: groups, counters, and the driver's ports, queues and cores. */
#include "agg_group.h"
#include "hd_poll.h"
#include "hd_rows.h"
#include "hd_stat_groups.h"

#include <stdio.h>

/* clang-format off */
#define SUMS(F, row) \
	F(row, job, TEXT, "id of the job, in hexadecimal") \
	F(row, group, TEXT, "token of the group, in hexadecimal") \
	F##_OF(row, kind, "sum relay", "sum or relay (of a model)") \
	F##_OF(row, order, "ranked arrival", "order in which the members' updates are added: ranked or arrival") \
	F(row, inputs, COUNT, "members of the group") \
	F(row, held, COUNT, "members whose update has arrived completely") \
	F(row, outputs, COUNT, "nodes that receive the sum or the model") \
	F(row, delivered, COUNT, "receivers that hold all of it") \
	F(row, bytes, COUNT, "size of one update on the wire, in bytes") \
	F(row, final_bytes, COUNT, "bytes of the sum, from its start, that contain every member") \
	F(row, acked_bytes, COUNT, "bytes, from the start, that every receiver has acknowledged") \
	F(row, early_bytes, COUNT, "bytes of chunks that arrived early and wait for their turn") \
	F(row, memory_bytes, COUNT, "memory reserved for the group, in bytes") \
	F(row, quiet_s, REAL, "seconds since the last activity of the group")
/* clang-format on */

HD_ROW_SHAPE(
	agg_sums_shape,
	sums_row,
	SUMS,
	"sums",
	"groups that an aggregator adds up or relays (--server)"
);

const struct hd_row_shape *const hd_aggregator_shapes[] = {
	&agg_sums_shape,
	&hd_ports_shape,
	&hd_queues_shape,
	&hd_cores_shape,
	&hd_counters_shape,
	&hd_histograms_shape,
	NULL,
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
	char job[24], token[24];

	if (!hd_row_begin(rows))
		return;
	(void)snprintf(job, sizeof job, "%08x", group->job->id);
	(void)snprintf(token, sizeof token, "%016llx", (unsigned long long)group->token);
	hd_row_put(
		rows,
		&agg_sums_shape,
		&(struct sums_row){
			.job = job,
			.group = token,
			.kind = group->relay ? "relay" : "sum",
			.order = group->order == HD_GROUP_RANKED ? "ranked" : "arrival",
			.inputs = group->input_count,
			.held = group->complete,
			.outputs = group->output_count,
			.delivered = group->delivered,
			.bytes = group->bytes,
			.final_bytes = hd_reduce_final(group->reduce),
			.acked_bytes = least_acked(group),
			.early_bytes = hd_reduce_early_bytes(group->reduce),
			.memory_bytes = group->charged,
			.quiet_s = (double)(now - group->active) * 1e-9,
		}
	);
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

static void gather(const void *node, struct hd_stats *stats) {
	const struct hd_aggregator *aggregator = node;
	const struct hd_aggregator_ops *ops = aggregator->config.ops;

	hd_aggregator_gather(aggregator, stats);
	if (ops && ops->gather)
		ops->gather(aggregator->config.owner, stats);
}

static uint64_t rows_stats(struct hd_rows *rows, const struct hd_aggregator *aggregator) {
	static const struct hd_stat_group *const own[] = {&hd_aggregator_group, NULL};
	struct hd_stats *stats = hd_stats_create();
	uint64_t total;

	if (!stats)
		return 0;
	gather(aggregator, stats);
	total = rows->shape == &hd_histograms_shape ? hd_rows_histograms(rows, stats) :
		rows->shape->group                  ? hd_rows_group(rows, stats) :
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
	const struct hd_row_shape *shape = hd_row_shape_find(hd_aggregator_shapes, table);
	const char *wrong
		= "no such table (of an aggregator: sums, ports, queues, cores, counters, histograms)";
	struct hd_rows rows;
	uint64_t total;

	if (shape)
		wrong = hd_rows_begin(&rows, shape, filter, now, aggregator->epoch);
	if (wrong) {
		*error = wrong;
		return NULL;
	}
	total = shape == &agg_sums_shape ? rows_groups(&rows, now, aggregator) :
					   rows_stats(&rows, aggregator);
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
	refuse(turn, peer, "", "an aggregator takes no commands: send it to the controller");
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

void agg_poll(struct agg_turn *turn, const struct hd_msg_poll *poll) {
	struct hd_aggregator *aggregator = turn->aggregator;

	hd_poll_answer(
		aggregator->upstream.session, poll, gather, aggregator, turn->now, turn->sink
	);
}
