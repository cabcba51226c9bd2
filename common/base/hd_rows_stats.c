/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters as tables of the shell. */
#include "hd_rows.h"
#include "hd_stat_groups.h"

#include <math.h>
#include <stdio.h>

/* clang-format off */
#define COUNTERS(F, row) \
	F(row, counter, TEXT, "name of the counter") \
	F(row, value, NUMBER, "present value") \
	F(row, unit, TEXT, "unit of the value") \
	F##_OF(row, kind, "counter gauge", "counter (only increases) or gauge") \
	F(row, help, TEXT, "meaning of the counter")
/* clang-format on */

HD_ROW_SHAPE(hd_counters_shape, counter_row, COUNTERS, "counters", "all counters and gauges");

/* clang-format off */
#define HISTOGRAMS(F, row) \
	F(row, histogram, TEXT, "name of the histogram") \
	F(row, of, TEXT, "a direction, or TENANT/JOB; empty: all") \
	F(row, unit, TEXT, "unit of mean, p50, p90, p99 and max, and of le in the buckets") \
	F(row, count, COUNT, "number of values") \
	F(row, mean, REAL_OR_NULL, "mean of all values") \
	F(row, p50, REAL_OR_NULL, "median; quantiles are interpolated within a bucket") \
	F(row, p90, REAL_OR_NULL, "90th percentile") \
	F(row, p99, REAL_OR_NULL, "99th percentile") \
	F(row, max, REAL_OR_NULL, "greatest value") \
	F(row, help, TEXT, "meaning of the values") \
	F(row, buckets, BUCKETS, "cumulative: the number of values up to le; the last bucket, without le, has all")
/* clang-format on */

HD_ROW_SHAPE(
	hd_histograms_shape,
	histogram_row,
	HISTOGRAMS,
	"histograms",
	"distributions of waiting times and delays"
);

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

static struct histogram_row row_of(const struct hd_stats_histogram *view, const char *of) {
	const struct hd_histogram *histogram = view->histogram;
	const struct hd_scale *scale = view->family->scale;
	const double size = scale->shell_size;

	return (struct histogram_row){
		.histogram = view->family->name,
		.of = of,
		.unit = scale->shell_unit,
		.count = histogram->count,
		.mean = hd_histogram_mean(histogram) * size,
		.p50 = hd_histogram_quantile(histogram, scale, 0.5) * size,
		.p90 = hd_histogram_quantile(histogram, scale, 0.9) * size,
		.p99 = hd_histogram_quantile(histogram, scale, 0.99) * size,
		.max = histogram->count > 0 ? (double)histogram->max * size : (double)NAN,
		.help = view->family->help,
		.buckets = {scale, histogram},
	};
}

/* The values of the labels, separated by '/'. */
static void put_of(const struct hd_stats_histogram *view, char *text, size_t bytes) {
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; i < HD_STAT_LABELS_MAX && view->family->label[i] && used < bytes; i++) {
		int more = snprintf(
			text + used, bytes - used, "%s%s", used > 0 ? "/" : "", view->label[i]
		);

		used += (size_t)(more > 0 ? more : 0);
	}
}

uint64_t hd_rows_histograms(struct hd_rows *rows, const struct hd_stats *stats) {
	const size_t count = hd_stats_histogram_count(stats);
	char of[HD_STAT_LABELS_MAX * (HD_NAME_BYTES_MAX + 1)];

	for (size_t i = 0; i < count; i++) {
		const struct hd_stats_histogram view = hd_stats_histogram(stats, i);
		struct histogram_row row;

		if (!hd_row_begin(rows))
			continue;
		put_of(&view, of, sizeof of);
		row = row_of(&view, of);
		hd_row_put(rows, &hd_histograms_shape, &row);
		hd_row_end(rows);
	}
	return count;
}
