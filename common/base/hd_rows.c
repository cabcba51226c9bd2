/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One message, less what stands around the rows. A row is below 2 kB. */
#define PAGE_BYTES (HD_MESSAGE_BYTES_MAX - 1024)
/* Rows looked at for one page, however few of them pass the filter: about 1.5 ms of the controller's time. */
#define PAGE_ROWS_MAX 2048

/* As the values stand in the page, which words are compared with. */
static void escape(const char *text, char *to, size_t bytes) {
	size_t used = 0;

	for (; *text && used + 2 < bytes; text++) {
		if (*text == '"' || *text == '\\')
			to[used++] = '\\';
		to[used++] = *text;
	}
	to[used] = '\0';
}

static const char *filter_parse(struct hd_filter *filter, const char *text) {
	char *save = NULL, *word, *end;

	memset(filter, 0, sizeof *filter);
	escape(text ? text : "", filter->text, sizeof filter->text);
	for (word = strtok_r(filter->text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (strncmp(word, "from=", 5) == 0) {
			filter->from = strtoull(word + 5, &end, 10);
			if (*end || end == word + 5 || word[5] == '-' || filter->from > UINT32_MAX)
				return "filter: from: not a number (0 to 4294967295)";
			continue;
		}
		if (filter->count == HD_FILTER_TERMS_MAX)
			return "filter: more than 16 words";
		filter->term[filter->count++] = word;
	}
	return NULL;
}

/* --- writing rows --- */

bool hd_row_begin(struct hd_rows *rows) {
	if (rows->full || rows->index < rows->filter.from) {
		rows->index++;
		return false;
	}
	if (rows->looked++ == PAGE_ROWS_MAX) {
		rows->full = true;
		rows->next = rows->index++;
		return false;
	}
	rows->row_at = rows->out.bytes;
	rows->field_count = 0;
	hd_out_char(&rows->out, rows->kept ? ',' : ' ');
	return true;
}

static void field_begin(struct hd_rows *rows, const char *key, bool text) {
	struct hd_row_field *field = &rows->field[rows->field_count];

	hd_out_char(&rows->out, rows->field_count++ ? ',' : '{');
	hd_out_char(&rows->out, '"');
	hd_out_text(&rows->out, key);
	hd_out_text(&rows->out, "\":");
	*field = (struct hd_row_field){.key = key, .at = rows->out.bytes, .text = text};
}

static void field_end(struct hd_rows *rows) {
	struct hd_row_field *field = &rows->field[rows->field_count - 1];

	field->bytes = rows->out.bytes - field->at;
}

void hd_row_text(struct hd_rows *rows, const char *key, const char *text) {
	field_begin(rows, key, true);
	hd_out_json(&rows->out, text);
	field_end(rows);
}

/* Readers of JSON have integers of 63 bits: one that is greater would make the whole table unreadable. */
void hd_row_count(struct hd_rows *rows, const char *key, uint64_t value) {
	field_begin(rows, key, false);
	hd_out_u64(&rows->out, value < INT64_MAX ? value : INT64_MAX);
	field_end(rows);
}

void hd_row_real(struct hd_rows *rows, const char *key, double value) {
	field_begin(rows, key, false);
	hd_out_milli(&rows->out, value);
	field_end(rows);
}

void hd_row_exact(struct hd_rows *rows, const char *key, double value) {
	field_begin(rows, key, false);
	if (isfinite(value))
		hd_out_real(&rows->out, value);
	else
		hd_out_text(&rows->out, "null");
	field_end(rows);
}

void hd_row_null(struct hd_rows *rows, const char *key) {
	field_begin(rows, key, false);
	hd_out_text(&rows->out, "null");
	field_end(rows);
}

void hd_row_bool(struct hd_rows *rows, const char *key, bool value) {
	field_begin(rows, key, false);
	hd_out_text(&rows->out, value ? "true" : "false");
	field_end(rows);
}

/* --- filters --- */

/* The value as it stands in the page; of a text without its quotes. */
static bool
value_is(const struct hd_rows *rows, const struct hd_row_field *field, const char *want) {
	const char *value = rows->out.data + field->at;
	size_t bytes = field->bytes, length = strlen(want);
	char number[64], *end;
	double wanted;

	if (field->text)
		return bytes == length + 2 && memcmp(value + 1, want, length) == 0;
	if (bytes == length && memcmp(value, want, length) == 0)
		return true;
	wanted = strtod(want, &end);
	if (end == want || *end || bytes >= sizeof number)
		return false;
	memcpy(number, value, bytes);
	number[bytes] = '\0';
	return strtod(number, &end) == wanted && end != number;
}

static const struct hd_row_field *
find_field(const struct hd_rows *rows, const char *term, const char *equals) {
	size_t bytes = (size_t)(equals - term);

	for (int i = 0; i < rows->field_count; i++)
		if (strlen(rows->field[i].key) == bytes
		    && memcmp(rows->field[i].key, term, bytes) == 0)
			return &rows->field[i];
	return NULL;
}

static bool term_holds(const struct hd_rows *rows, const char *term) {
	const char *equals = strchr(term, '=');

	if (equals) {
		const struct hd_row_field *field = find_field(rows, term, equals);

		return field && value_is(rows, field, equals + 1);
	}
	for (int i = 0; i < rows->field_count; i++) {
		const struct hd_row_field *field = &rows->field[i];
		const char *text = rows->out.data + field->at + 1;

		if (field->text && memmem(text, field->bytes - 2, term, strlen(term)))
			return true;
	}
	return false;
}

/* A word that could hold for no row is a mistake, and no table without rows. */
static void check_filter(struct hd_rows *rows) {
	rows->checked = true;
	for (int i = 0; i < rows->filter.count && !rows->unknown; i++) {
		const char *equals = strchr(rows->filter.term[i], '=');

		if (equals && !find_field(rows, rows->filter.term[i], equals))
			rows->full = rows->unknown = true;
	}
}

static bool row_passes(const struct hd_rows *rows) {
	if (rows->out.failed)
		return false;
	for (int i = 0; i < rows->filter.count; i++)
		if (!term_holds(rows, rows->filter.term[i]))
			return false;
	return true;
}

void hd_row_skip(struct hd_rows *rows) {
	rows->out.bytes = rows->row_at;
	rows->index++;
}

void hd_row_end(struct hd_rows *rows) {
	hd_out_char(&rows->out, '}');
	if (!rows->checked)
		check_filter(rows);
	if (!row_passes(rows)) {
		rows->out.bytes = rows->row_at;
	} else if (rows->out.bytes > PAGE_BYTES) {
		rows->out.bytes = rows->row_at;
		rows->full = true;
		rows->next = rows->index;
	} else {
		rows->kept++;
	}
	rows->index++;
}

/* --- documents --- */

const char *hd_rows_begin(
	struct hd_rows *rows,
	const char *table,
	const char *filter,
	hd_ns now,
	uint16_t epoch
) {
	const char *wrong;

	memset(rows, 0, sizeof *rows);
	wrong = filter_parse(&rows->filter, filter);
	if (wrong)
		return wrong;
	hd_out_text(&rows->out, "{\"table\":");
	hd_out_json(&rows->out, table);
	hd_out_text(&rows->out, ",\"at_s\":");
	hd_out_milli(&rows->out, (double)now / 1e9);
	hd_out_text(&rows->out, ",\"epoch\":");
	hd_out_u64(&rows->out, epoch);
	hd_out_text(&rows->out, ",\"rows\":[");
	return NULL;
}

char *hd_rows_end(struct hd_rows *rows, uint64_t total, const char **error) {
	hd_out_text(&rows->out, "],\"total\":");
	hd_out_u64(&rows->out, total);
	hd_out_text(&rows->out, ",\"from\":");
	hd_out_u64(&rows->out, rows->filter.from);
	hd_out_text(&rows->out, ",\"next\":");
	if (rows->full)
		hd_out_u64(&rows->out, rows->next);
	else
		hd_out_text(&rows->out, "null");
	hd_out_char(&rows->out, '}');
	if (rows->unknown || !hd_out_string(&rows->out)) {
		*error = rows->unknown ? "filter: field=value: no field of the table is called so" :
					 "no memory";
		hd_out_fini(&rows->out);
		return NULL;
	}
	return rows->out.data;
}
