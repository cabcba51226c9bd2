/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables for the operator's shell: each a JSON document
 *   { "table": name, "at_s": s, "epoch": e, "rows": [...], "total": rows of the table, "from": n,
 *     "next": m or null }
 * A filter is words separated by spaces, all of which must hold: `from=N`; `field=value`; or a word that some text of
 * the row contains. A document is one message; the next page is requested with from=m.
 *
 * Rows are flat objects (except for the buckets of histograms). They are written straight into the page, and removed if
 * the filter does not hold: a table of 10,000 rows takes milliseconds, and the node is blocked for one page at a time.
 */
#ifndef HD_ROWS_H
#define HD_ROWS_H

#include "hd_limits.h"
#include "hd_row_shape.h"

#define HD_FILTER_TERMS_MAX 16
#define HD_ROW_FIELDS_MAX (HD_STAT_VALUES_MAX + HD_STAT_LABELS_MAX)

struct hd_filter {
	char text[2 * HD_TEXT_BYTES_MAX + 1]; /* quotes and backslashes as in JSON */
	int count;
	char *term[HD_FILTER_TERMS_MAX];
	uint64_t from; /* first row of the table to examine */
};

/* The position in the text of a value of the current row. */
struct hd_row_value {
	const char *key;
	size_t at, bytes;
	bool text;
};

/* Receives the rows. A page begins at row `from` of the table (before the filter) and takes rows until one message is
 * full; the next page begins at the row that did not fit. */
struct hd_rows {
	const struct hd_row_shape *shape; /* of every row */
	struct hd_filter filter;
	struct hd_out out;
	uint64_t index; /* of the next row */
	uint64_t next; /* the row that did not fit; valid when full */
	size_t row_at; /* start of the current row */
	uint32_t kept, looked; /* rows on this page; rows that were examined for it */
	bool full;
	bool checked; /* the filter was checked: every row of a table has the same fields */
	bool unknown; /* the filter names a field that they do not have */
	int value_count;
	struct hd_row_value value[HD_ROW_FIELDS_MAX];
};

/* The shape of this name; NULL: none. shapes: NULL after the last. */
const struct hd_row_shape *
hd_row_shape_find(const struct hd_row_shape *const *shapes, const char *name);

/* Begins a document. NULL, or an error in the filter (which may be NULL). */
const char *hd_rows_begin(
	struct hd_rows *rows,
	const struct hd_row_shape *shape,
	const char *filter,
	hd_ns now,
	uint16_t epoch
);
/* Ends it: the document, NUL-terminated, freed by the caller; NULL: *error (static) says why. total: rows of the table,
 * without filter and pages. */
char *hd_rows_end(struct hd_rows *rows, uint64_t total, const char **error);

/* Whether to write the next row. Once `full`, a table may stop. */
bool hd_row_begin(struct hd_rows *rows);
/* Puts the fields of the shape, which is that of the table; row: its struct. */
void hd_row_put(struct hd_rows *rows, const struct hd_row_shape *shape, const void *row);
/* Puts the labels and the stats of the shape's group. */
void hd_row_put_group(struct hd_rows *rows, const struct hd_stats_row *row);
/* Removes the current row: it is not part of the table. */
void hd_row_skip(struct hd_rows *rows);
/* Keeps the row if the filter holds and it fits. */
void hd_row_end(struct hd_rows *rows);

/* --- hd_rows_stats.c: tables of counters. Each returns how many rows the table has. --- */
extern const struct hd_row_shape hd_ports_shape, hd_queues_shape, hd_cores_shape, hd_counters_shape,
	hd_histograms_shape;
/* One row for each row of the group of the table's shape. */
uint64_t hd_rows_group(struct hd_rows *rows, const struct hd_stats *stats);
/* One row for each counter of the groups without labels, named group_name; of `own` (NULL after the last) just name; of
 * `listed`, a group with one stat and one label, stat_label. */
uint64_t hd_rows_counters(
	struct hd_rows *rows,
	const struct hd_stats *stats,
	const struct hd_stat_group *const *own,
	const struct hd_stat_group *listed
);
/* One row for each histogram. */
uint64_t hd_rows_histograms(struct hd_rows *rows, const struct hd_stats *stats);

#endif
