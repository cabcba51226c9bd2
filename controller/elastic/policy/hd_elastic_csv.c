/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_elastic_csv.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIELD_BYTES_MAX 63

struct reader {
	const struct hd_elastic_text *in;
	const struct hd_elastic_column *columns;
	size_t count;
	size_t at; /* byte */
	size_t line; /* of the line that was read last, 1-based */
	const char *field[HD_ELASTIC_COLUMNS_MAX];
	size_t bytes[HD_ELASTIC_COLUMNS_MAX];
	size_t fields;
	int place[HD_ELASTIC_COLUMNS_MAX]; /* of each column; -1: missing */
	bool placed;
	double *values;
	size_t rows, room;
};

__attribute__((format(printf, 3, 4))) static int
fail(const struct reader *r, const struct hd_elastic_column *column, const char *format, ...) {
	const int name = column ? (int)strcspn(column->names, " ") : 0;
	char what[160];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(what, sizeof what, format, args);
	va_end(args);
	(void)snprintf(
		r->in->error,
		r->in->error_bytes,
		"%s:%zu: %.*s%s%s",
		r->in->file,
		r->line,
		name,
		column ? column->names : "",
		column ? ": " : "",
		what
	);
	return -EINVAL;
}

static bool is_blank(char c) {
	return c == ' ' || c == '\r' || c == '"';
}

/* Removes blanks and quotes at both ends. */
static void take_field(struct reader *r, const char *from, const char *to) {
	while (from < to && is_blank(*from))
		from++;
	while (to > from && is_blank(to[-1]))
		to--;
	r->field[r->fields] = from;
	r->bytes[r->fields++] = (size_t)(to - from);
}

/* The next line that is neither blank nor a comment. 1, 0 at the end, -EINVAL. */
static int next_line(struct reader *r) {
	const char *const text = r->in->text;

	while (r->at < r->in->bytes) {
		size_t end = r->at, from = r->at;

		while (end < r->in->bytes && text[end] != '\n')
			end++;
		r->line++;
		r->at = end + 1;
		while (from < end && is_blank(text[from]))
			from++;
		if (from == end || text[from] == '#')
			continue;
		r->fields = 0;
		for (size_t i = from; i <= end; i++) {
			if (i < end && text[i] != ',' && text[i] != ';' && text[i] != '\t')
				continue;
			if (r->fields == HD_ELASTIC_COLUMNS_MAX)
				return fail(
					r, NULL, "more than %u columns", HD_ELASTIC_COLUMNS_MAX
				);
			take_field(r, text + from, text + i);
			from = i + 1;
		}
		return 1;
	}
	return 0;
}

static bool digits(const char *text, size_t from, size_t count, int *value) {
	*value = 0;
	for (size_t i = from; i < from + count; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		*value = *value * 10 + (text[i] - '0');
	}
	return true;
}

/* Days from 1970-01-01 (proleptic Gregorian): whole 400-year eras, years that begin in March. */
static double days_from(int year, int month, int day) {
	const int y = year - (month <= 2), era = y / 400, of_era = y - era * 400;
	const int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	const int years = of_era * 365 + of_era / 4 - of_era / 100;

	return era * 146097.0 + (years + of_year) - 719468;
}

/* "Z", "", "+hh:mm", "-hhmm": seconds to subtract. */
static bool zone(const char *text, size_t bytes, double *off) {
	int hours, minutes;

	*off = 0;
	if (bytes == 0 || (bytes == 1 && text[0] == 'Z'))
		return true;
	if ((text[0] != '+' && text[0] != '-') || (bytes != 6 && bytes != 5))
		return false;
	if (bytes == 6 && text[3] != ':')
		return false;
	if (!digits(text, 1, 2, &hours) || !digits(text, bytes - 2, 2, &minutes))
		return false;
	*off = (text[0] == '+' ? 1 : -1) * (hours * 3600.0 + minutes * 60.0);
	return true;
}

/* ISO 8601, with T or a space between, and any fraction of a second. */
static bool moment(const char *text, size_t bytes, double *value) {
	int year, month, day, hour, minute, second;
	double part = 0, scale = 0.1, off;
	size_t at = 19;

	if (bytes < 19 || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':')
		return false;
	if (!digits(text, 0, 4, &year) || !digits(text, 5, 2, &month) || !digits(text, 8, 2, &day)
	    || !digits(text, 11, 2, &hour) || !digits(text, 14, 2, &minute)
	    || !digits(text, 17, 2, &second))
		return false;
	if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59
	    || second > 60)
		return false;
	if (at < bytes && text[at] == '.')
		for (at++; at < bytes && isdigit((unsigned char)text[at]); at++) {
			part += scale * (text[at] - '0');
			scale /= 10;
		}
	if ((text[10] != 'T' && text[10] != ' ') || !zone(text + at, bytes - at, &off))
		return false;
	*value = days_from(year, month, day) * 86400 + hour * 3600.0 + minute * 60.0 + second + part
		- off;
	return true;
}

/* A plain decimal number; or a time, where one is allowed. */
static bool number(const char *field, size_t bytes, bool time, double *value) {
	char text[FIELD_BYTES_MAX + 1], *end;

	if (bytes == 0 || bytes > FIELD_BYTES_MAX || memchr(field, 0, bytes))
		return false;
	memcpy(text, field, bytes);
	text[bytes] = 0;
	*value = strtod(text, &end);
	return *end == 0 || (time && moment(text, bytes, value));
}

static bool is_name(const char *names, const char *field, size_t bytes) {
	while (*names) {
		const size_t length = strcspn(names, " ");

		if (length == bytes && strncasecmp(names, field, bytes) == 0)
			return true;
		names += length + (names[length] == ' ');
	}
	return false;
}

/* The first line: a header when none of its fields is a number. */
static int take_header(struct reader *r, bool *is_header) {
	double value;

	*is_header = true;
	for (size_t i = 0; i < r->fields; i++)
		*is_header = *is_header && !number(r->field[i], r->bytes[i], true, &value);
	for (size_t c = 0; c < r->count; c++) {
		r->place[c]
			= *is_header || (c >= r->fields && r->columns[c].optional) ? -1 : (int)c;
		for (size_t i = 0; *is_header && i < r->fields && r->place[c] < 0; i++)
			if (is_name(r->columns[c].names, r->field[i], r->bytes[i]))
				r->place[c] = (int)i;
		if (r->place[c] < 0 && !r->columns[c].optional)
			return fail(r, &r->columns[c], "no such column in the header");
	}
	r->placed = true;
	return 0;
}

static int take_value(struct reader *r, size_t c, double *value) {
	const struct hd_elastic_column *column = &r->columns[c];
	const size_t i = (size_t)r->place[c];
	const char *field;
	int shown;

	if (r->place[c] < 0) {
		*value = NAN;
		return 0;
	}
	if (i >= r->fields)
		return fail(r, column, "missing (column %zu of %zu)", i + 1, r->fields);
	field = r->field[i];
	shown = r->bytes[i] > 40 ? 40 : (int)r->bytes[i];
	if (!number(field, r->bytes[i], column->time, value) || isnan(*value)
	    || !(*value >= column->least && *value <= column->most)
	    || (column->whole && *value != floor(*value)))
		return fail(
			r,
			column,
			"'%.*s' (a %snumber from %g to %g)",
			shown,
			field,
			column->whole ? "whole " : "",
			column->least,
			column->most
		);
	if (column->rising && r->rows > 0 && *value <= r->values[(r->rows - 1) * r->count + c])
		return fail(
			r,
			column,
			"%.*s: not after the line before (%.15g); lines must be sorted, each once",
			shown,
			field,
			r->values[(r->rows - 1) * r->count + c]
		);
	return 0;
}

static int take_row(struct reader *r) {
	if (r->rows == HD_ELASTIC_ROWS_MAX)
		return fail(
			r, NULL, "more than %u rows (HD_ELASTIC_ROWS_MAX)", HD_ELASTIC_ROWS_MAX
		);
	if (r->rows == r->room) {
		const size_t room = r->room ? r->room * 2 : 256;
		double *more = realloc(r->values, room * r->count * sizeof *more);

		if (!more)
			return -ENOMEM;
		r->values = more;
		r->room = room;
	}
	for (size_t c = 0; c < r->count; c++) {
		const int status = take_value(r, c, &r->values[r->rows * r->count + c]);

		if (status)
			return status;
	}
	r->rows++;
	return 0;
}

static int read_rows(struct reader *r) {
	int status;

	while ((status = next_line(r)) > 0) {
		bool is_header = false;

		if (!r->placed)
			status = take_header(r, &is_header);
		if (status >= 0 && !is_header)
			status = take_row(r);
		if (status < 0)
			return status;
	}
	if (status == 0 && r->rows == 0) {
		r->line += r->line == 0;
		return fail(r, NULL, "empty: no row of numbers (at least 1)");
	}
	return status;
}

int hd_elastic_csv(
	const struct hd_elastic_text *in,
	const struct hd_elastic_column *columns,
	size_t count,
	double **values,
	size_t *rows
) {
	struct reader r = {.in = in, .columns = columns, .count = count};
	const int status = read_rows(&r);

	if (status) {
		if (status == -ENOMEM && in->error_bytes)
			(void)snprintf(in->error, in->error_bytes, "%s: no memory", in->file);
		free(r.values);
		return status;
	}
	*values = r.values;
	*rows = r.rows;
	return 0;
}
