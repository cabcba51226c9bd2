/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters as tables of the shell. */
#include "hd_rows.h"

#include <stdio.h>

static void put_value(
	struct hd_rows *rows,
	const char *key,
	const struct hd_stat *stat,
	union hd_stat_value value
) {
	if (stat->type == HD_STAT_F64)
		hd_row_real(rows, key, value.f64);
	else
		hd_row_count(rows, key, value.u64);
}

uint64_t hd_rows_group(
	struct hd_rows *rows,
	const struct hd_stats *stats,
	const struct hd_stat_group *group
) {
	uint64_t count = 0;

	for (size_t i = 0; i < hd_stats_count(stats); i++) {
		struct hd_stats_row row = hd_stats_row(stats, i);

		if (row.group != group)
			continue;
		count++;
		if (!hd_row_begin(rows))
			continue;
		for (int j = 0; j < HD_STAT_LABELS_MAX && group->label[j]; j++)
			hd_row_text(rows, group->label[j], row.label[j]);
		for (uint16_t j = 0; j < group->count; j++)
			put_value(rows, group->stats[j].name, &group->stats[j], row.value[j]);
		hd_row_end(rows);
	}
	return count;
}

static void
counter_row(struct hd_rows *rows, const struct hd_stats_row *row, uint16_t index, bool own) {
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
	hd_row_text(rows, "counter", name);
	put_value(rows, "value", stat, row->value[index]);
	hd_row_text(rows, "unit", stat->unit);
	hd_row_text(rows, "kind", stat->kind == HD_STAT_COUNTER ? "counter" : "gauge");
	hd_row_text(rows, "help", stat->help);
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
			counter_row(rows, &row, j, is_own(own, row.group));
	}
	return count;
}
