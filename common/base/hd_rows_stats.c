/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters as tables of the shell. */
#include "hd_rows.h"
#include "hd_stat_groups.h"

#include <stdio.h>

/* clang-format off */
#define COUNTERS(F, row) \
	F(row, counter, TEXT, "its name") \
	F(row, value, NUMBER, "now") \
	F(row, unit, TEXT, "of the value") \
	F##_OF(row, kind, "counter gauge", "counter (only grows) or gauge") \
	F(row, help, TEXT, "what it is")
/* clang-format on */

HD_ROW_SHAPE(hd_counters_shape, counter_row, COUNTERS, "counters", "everything that is counted");

const struct hd_row_shape hd_ports_shape = {
	.name = "ports",
	.help = "network ports of the program's driver",
	.group = &hd_port_group,
};

const struct hd_row_shape hd_queues_shape = {
	.name = "queues",
	.help = "queues of the ports",
	.group = &hd_queue_group,
};

const struct hd_row_shape hd_cores_shape = {
	.name = "cores",
	.help = "threads that move packets",
	.group = &hd_core_group,
};

uint64_t hd_rows_group(struct hd_rows *rows, const struct hd_stats *stats) {
	uint64_t count = 0;

	for (size_t i = 0; i < hd_stats_count(stats); i++) {
		struct hd_stats_row row = hd_stats_row(stats, i);

		if (row.group != rows->shape->group)
			continue;
		count++;
		if (!hd_row_begin(rows))
			continue;
		hd_row_put_group(rows, &row);
		hd_row_end(rows);
	}
	return count;
}

static void
put_counter(struct hd_rows *rows, const struct hd_stats_row *row, uint16_t index, bool own) {
	const struct hd_stat *stat = &row->group->stats[index];
	char name[160];

	if (!hd_row_begin(rows))
		return;
	if (row->group->label[0])
		(void)snprintf(name, sizeof name, "%s_%s", stat->name, row->label[0]);
	else
		(void)snprintf(
			name,
			sizeof name,
			"%s%s%s",
			own ? "" : row->group->name,
			own ? "" : "_",
			stat->name
		);
	hd_row_put(
		rows,
		&hd_counters_shape,
		&(struct counter_row){
			.counter = name,
			.value = {stat, row->value[index]},
			.unit = stat->unit,
			.kind = stat->kind == HD_STAT_COUNTER ? "counter" : "gauge",
			.help = stat->help,
		}
	);
	hd_row_end(rows);
}

static bool is_own(const struct hd_stat_group *const *own, const struct hd_stat_group *group) {
	while (*own && *own != group)
		own++;
	return *own != NULL;
}

uint64_t hd_rows_counters(
	struct hd_rows *rows,
	const struct hd_stats *stats,
	const struct hd_stat_group *const *own,
	const struct hd_stat_group *listed
) {
	uint64_t count = 0;

	for (size_t i = 0; i < hd_stats_count(stats); i++) {
		struct hd_stats_row row = hd_stats_row(stats, i);

		if (row.group->label[0] && row.group != listed)
			continue;
		for (uint16_t j = 0; j < row.group->count; j++, count++)
			put_counter(rows, &row, j, is_own(own, row.group));
	}
	return count;
}
