/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the rows of each shell table, written as flat JSON objects as they are walked. */
#ifndef HD_CONTROLLER_TABLE_H
#define HD_CONTROLLER_TABLE_H

#include "hd_controller_core.h"

#define CTL_FILTER_TERMS_MAX 16
#define CTL_FIELDS_MAX (HD_STAT_VALUES_MAX + HD_STAT_LABELS_MAX)

struct ctl_filter {
	char text[HD_TEXT_BYTES_MAX + 1];
	int count;
	char *term[CTL_FILTER_TERMS_MAX];
	uint64_t from; /* first row of the table to look at */
};

/* One field of the row that is being written: where its value stands in the text. */
struct ctl_field {
	const char *key;
	size_t at, bytes;
	bool text;
};

/* Where rows go. A page begins at row `from` of the table (before the filter) and takes rows until one
 * message is full; the next page begins at the row that did not fit. */
struct ctl_rows {
	const struct ctl_filter *filter;
	struct hd_out out;
	uint64_t index; /* of the next row to come */
	uint64_t next; /* the row that did not fit; valid when full */
	size_t row_at; /* where the row under way begins */
	uint32_t kept,
		looked; /* rows on this page; rows that were written to see whether they belong there */
	bool full;
	int field_count;
	struct ctl_field field[CTL_FIELDS_MAX];
};

/* Whether the next row is to be written. Once `full`, a table may stop. */
bool ctl_row_begin(struct ctl_rows *rows);
void ctl_row_text(struct ctl_rows *rows, const char *key, const char *text);
void ctl_row_count(struct ctl_rows *rows, const char *key, uint64_t value);
void ctl_row_real(struct ctl_rows *rows, const char *key, double value); /* not finite: null */
void ctl_row_exact(struct ctl_rows *rows, const char *key, double value); /* not rounded */
void ctl_row_null(struct ctl_rows *rows, const char *key);
void ctl_row_bool(struct ctl_rows *rows, const char *key, bool value);
/* Takes back a row that was begun and is none. */
void ctl_row_skip(struct ctl_rows *rows);
/* Keeps the row if the filter holds and it fits. */
void ctl_row_end(struct ctl_rows *rows);

/* --- hd_controller_rows.c, hd_controller_show.c: each writes its rows and returns how many the table
 * has (all of them, whatever the filter and the page) --- */
uint64_t ctl_rows_nodes(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_jobs(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_links(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_transfers(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_drops(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_estimates(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_staleness(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_plan(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_settings(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_ports(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_queues(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_cores(const struct hd_controller *c, struct ctl_rows *rows);
uint64_t ctl_rows_counters(const struct hd_controller *c, struct ctl_rows *rows);

/* Shared by the rows' files. */
double ctl_ms_from(hd_ns from, hd_ns to);
void ctl_row_version(struct ctl_rows *rows, const char *key, hd_version version);
void ctl_row_why(struct ctl_rows *rows, const struct ctl_why *why, hd_ns now);

#endif
