/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters and gauges: one table behind the shell, OpenMetrics and rte_telemetry.
 *
 *   group (static)                       rows                            readers
 *   name, labels, help                   rows {group, label values,      heddlectl show
 *   stats {name, unit, help, kind,  -->  values}, filled by the      --> GET /metrics
 *          offset into a struct}         struct's owner                  /heddle/... (rte_telemetry)
 *
 * Each component declares its group beside the struct that it counts in, and passes the struct; no counter is listed
 * twice. A new counter is one line in that list. Nothing here does any I/O.
 *
 * Histograms (hd_histogram.h) are handled like rows; a family describes the values. The shell and OpenMetrics have
 * them; rte_telemetry and STATS, whose answers are limited, do not.
 */
#ifndef HD_STATS_H
#define HD_STATS_H

#include "hd_histogram.h"
#include "hd_out.h"

enum hd_stat_kind {
	HD_STAT_COUNTER, /* only grows */
	HD_STAT_GAUGE
};

enum hd_stat_type {
	HD_STAT_U64,
	HD_STAT_F64
};

struct hd_stat {
	const char *name; /* [a-z0-9_]+; ends in _bytes or _seconds if that is its unit */
	const char *unit; /* "packets", "bytes", "seconds"; "" for none */
	const char *help; /* one line, no full stop */
	uint8_t kind; /* enum hd_stat_kind */
	uint8_t type; /* enum hd_stat_type */
	uint16_t offset; /* of the value in the group's struct */
};

#define HD_STAT_LABELS_MAX 3
#define HD_STAT_VALUES_MAX 96 /* stats of one group */

struct hd_stat_group {
	const char *name; /* metrics are called heddle_<name>_<stat> */
	const char *help;
	const char *label[HD_STAT_LABELS_MAX]; /* NULL after the last; no labels: one row */
	const char *label_help[HD_STAT_LABELS_MAX]; /* if the shell has a table of the group */
	const struct hd_stat *stats;
	uint16_t count;
};

union hd_stat_value {
	uint64_t u64;
	double f64;
};

struct hd_stats_row {
	const struct hd_stat_group *group;
	const char *label[HD_STAT_LABELS_MAX];
	const union hd_stat_value *value; /* [group->count] */
};

/* Histograms of one kind, one for each set of label values. */
struct hd_histogram_family {
	const char *group, *name; /* the metric is heddle_<group>_<name>; times end in _seconds */
	const char *help;
	const char *label[HD_STAT_LABELS_MAX]; /* NULL after the last; no labels: one histogram */
	const struct hd_scale *scale;
};

struct hd_stats_histogram {
	const struct hd_histogram_family *family;
	const char *label[HD_STAT_LABELS_MAX];
	const struct hd_histogram *histogram;
};

/* Gathered counters: at most HD_STATS_ROWS_MAX rows and HD_STATS_HISTOGRAMS_MAX histograms; the rest is counted in
 * hd_stats_left_out(). */
struct hd_stats;

struct hd_stats *hd_stats_create(void); /* NULL: no memory */
void hd_stats_destroy(struct hd_stats *stats);
void hd_stats_clear(struct hd_stats *stats);
/* Copies the values from the group's struct, and the label values (as many as the group has labels; NULL when it has
 * none). Rows of one group follow one another. */
void hd_stats_add(
	struct hd_stats *stats,
	const struct hd_stat_group *group,
	const char *const *labels,
	const void *values
);
size_t hd_stats_count(const struct hd_stats *stats);
/* Valid until the next add or clear. */
struct hd_stats_row hd_stats_row(const struct hd_stats *stats, size_t index);
/* The same for a histogram. Those of one family follow one another. */
void hd_stats_add_histogram(
	struct hd_stats *stats,
	const struct hd_histogram_family *family,
	const char *const *labels,
	const struct hd_histogram *histogram
);
size_t hd_stats_histogram_count(const struct hd_stats *stats);
/* Valid until the next add or clear. */
struct hd_stats_histogram hd_stats_histogram(const struct hd_stats *stats, size_t index);
/* Counts something that could not be read as left out. */
void hd_stats_leave_out(struct hd_stats *stats);
size_t hd_stats_left_out(const struct hd_stats *stats);

/* The rows in OpenMetrics 1.0 text: TYPE, UNIT, HELP and samples of each family together, `# EOF`
 * at the end. Counters end in _total; label values are escaped; histograms come last, their buckets cumulative. */
void hd_stats_openmetrics(const struct hd_stats *stats, struct hd_out *out);

#endif
