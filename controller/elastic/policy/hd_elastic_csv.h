/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Columns of numbers from a text file: price traces and loss logs. Fields are separated by commas, semicolons or tabs;
 * blank lines and lines that begin with # are skipped. When the first line is a header, columns are found by their
 * names, in any order, and others are ignored; otherwise they are in the requested order. Total: any bytes give rows
 * within their limits, or an error with file, line, field and limit.
 */
#ifndef HD_ELASTIC_CSV_H
#define HD_ELASTIC_CSV_H

#include "hd_types.h"

#include <stddef.h>

#define HD_ELASTIC_ROWS_MAX 1048576u
#define HD_ELASTIC_COLUMNS_MAX 32u /* of one line */

struct hd_elastic_column {
	const char *names; /* header names, separated by spaces; errors use the first */
	double least, most; /* allowed, inclusive */
	bool whole; /* no fraction */
	bool time; /* "2026-01-31T12:00:00Z" too: seconds since 1970 */
	bool rising; /* each greater than the one before */
	bool optional; /* missing: NAN in every row */
};

struct hd_elastic_text {
	const char *file; /* its name, for errors */
	const char *text; /* need not end with NUL */
	size_t bytes;
	char *error; /* receives the error text */
	size_t error_bytes;
};

/* *values[row * count + column], to be freed by the caller. -EINVAL with a text; -ENOMEM. No rows: -EINVAL. */
int hd_elastic_csv(
	const struct hd_elastic_text *in,
	const struct hd_elastic_column *columns,
	size_t count,
	double **values,
	size_t *rows
);

#endif
