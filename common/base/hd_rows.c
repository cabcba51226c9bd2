/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_rows.h"
#include "hd_text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One message, less the text around the rows. A row is below 2 kB. */
#define PAGE_BYTES (HD_MESSAGE_BYTES_MAX - 1024)
/* Rows examined for one page, however few pass the filter: about 1.5 ms of the controller's time. */
#define PAGE_ROWS_MAX 2048

/* Escapes a word as values are in the page, for comparisons. */
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
	char *save = NULL, *word;

	memset(filter, 0, sizeof *filter);
	escape(text ? text : "", filter->text, sizeof filter->text);
	for (word = strtok_r(filter->text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (strncmp(word, "from=", 5) == 0) {
			if (!hd_text_whole(word + 5, UINT32_MAX, &filter->from))
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
	rows->value_count = 0;
	hd_out_char(&rows->out, rows->kept ? ',' : ' ');
	return true;
}

static void value_begin(struct hd_rows *rows, const char *key, bool text) {
	struct hd_row_value *value = &rows->value[rows->value_count];

	hd_out_char(&rows->out, rows->value_count++ ? ',' : '{');
	hd_out_char(&rows->out, '"');
	hd_out_text(&rows->out, key);
	hd_out_text(&rows->out, "\":");
	*value = (struct hd_row_value){.key = key, .at = rows->out.bytes, .text = text};
}

static void value_end(struct hd_rows *rows) {
	struct hd_row_value *value = &rows->value[rows->value_count - 1];

	value->bytes = rows->out.bytes - value->at;
}

static void put_text(struct hd_out *out, const char *text) {
	if (text)
		hd_out_json(out, text);
	else
		hd_out_text(out, "null");
}

/* JSON readers have 63-bit integers: a larger one would make the whole table unreadable. */
static void put_count(struct hd_out *out, uint64_t value) {
	hd_out_u64(out, value < INT64_MAX ? value : INT64_MAX);
}

static void put_exact(struct hd_out *out, double value) {
	if (isfinite(value))
		hd_out_real(out, value);
	else
		hd_out_text(out, "null");
}

static void put_stat(struct hd_out *out, const struct hd_stat *stat, union hd_stat_value value) {
	if (stat->type == HD_STAT_F64)
		hd_out_milli(out, value.f64);
	else
		put_count(out, value.u64);
}

static void put_version(struct hd_out *out, hd_version version) {
	hd_out_char(out, '"');
	hd_out_version(out, version);
	hd_out_char(out, '"');
}

static void put_address(struct hd_out *out, const struct hd_addr *addr) {
	char text[32];

	(void)snprintf(
		text,
		sizeof text,
		"%u.%u.%u.%u:%u",
		addr->ipv4 >> 24,
		addr->ipv4 >> 16 & 255,
		addr->ipv4 >> 8 & 255,
		addr->ipv4 & 255,
		addr->port
	);
	hd_out_json(out, text);
}

static void put_number(struct hd_out *out, const struct hd_row_number *number) {
	put_stat(out, number->stat, number->value);
}

static void put_buckets(struct hd_out *out, const struct hd_row_histogram *row) {
	const struct hd_scale *scale = row->scale;

	for (uint8_t i = 0; i <= scale->count; i++) {
		hd_out_text(out, i > 0 ? ",{\"le\":" : "[{\"le\":");
		if (i < scale->count)
			hd_out_milli(out, (double)scale->bounds[i].most * scale->shell_size);
		else
			hd_out_text(out, "null");
		hd_out_text(out, ",\"count\":");
		put_count(out, hd_histogram_count_to(row->histogram, i));
		hd_out_char(out, '}');
	}
	hd_out_char(out, ']');
}

static void put_value(struct hd_out *out, uint16_t type, const void *at) {
	switch ((enum hd_row_type)type) {
	case HD_ROW_TEXT:
		assert(*(const char *const *)at);
		/* fall through */
	case HD_ROW_TEXT_OR_NULL:
		put_text(out, *(const char *const *)at);
		break;
	case HD_ROW_COUNT_OR_NULL:
		if (*(const uint64_t *)at == HD_ROW_NONE) {
			hd_out_text(out, "null");
			break;
		}
		/* fall through */
	case HD_ROW_COUNT:
		put_count(out, *(const uint64_t *)at);
		break;
	case HD_ROW_REAL:
	case HD_ROW_REAL_OR_NULL:
		hd_out_milli(out, *(const double *)at);
		break;
	case HD_ROW_EXACT:
	case HD_ROW_EXACT_OR_NULL:
		put_exact(out, *(const double *)at);
		break;
	case HD_ROW_NUMBER:
		put_number(out, at);
		break;
	case HD_ROW_BOOL:
	case HD_ROW_TRUE:
		hd_out_text(out, *(const bool *)at ? "true" : "false");
		break;
	case HD_ROW_VERSION:
		put_version(out, *(const hd_version *)at);
		break;
	case HD_ROW_ADDRESS:
		put_address(out, at);
		break;
	case HD_ROW_BUCKETS:
		put_buckets(out, at);
		break;
	}
}

static bool is_text(uint16_t type) {
	return type == HD_ROW_TEXT || type == HD_ROW_VERSION || type == HD_ROW_ADDRESS;
}

void hd_row_put(struct hd_rows *rows, const struct hd_row_shape *shape, const void *row) {
	assert(shape == rows->shape);
	for (uint16_t i = 0; i < shape->count; i++) {
		const struct hd_row_field *field = &shape->fields[i];

		value_begin(rows, field->name, is_text(field->type));
		put_value(&rows->out, field->type, (const char *)row + field->offset);
		value_end(rows);
	}
}

void hd_row_put_group(struct hd_rows *rows, const struct hd_stats_row *row) {
	const struct hd_stat_group *group = row->group;

	assert(group == rows->shape->group);
	for (int i = 0; i < HD_STAT_LABELS_MAX && group->label[i]; i++) {
		value_begin(rows, group->label[i], true);
		hd_out_json(&rows->out, row->label[i]);
		value_end(rows);
	}
	for (uint16_t i = 0; i < group->count; i++) {
		value_begin(rows, group->stats[i].name, false);
		put_stat(&rows->out, &group->stats[i], row->value[i]);
		value_end(rows);
	}
}

/* --- filters --- */

/* The value as it is in the page; a text without its quotes. */
static bool
value_is(const struct hd_rows *rows, const struct hd_row_value *field, const char *want) {
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

static const struct hd_row_value *
find_field(const struct hd_rows *rows, const char *term, const char *equals) {
	size_t bytes = (size_t)(equals - term);

	for (int i = 0; i < rows->value_count; i++)
		if (strlen(rows->value[i].key) == bytes
		    && memcmp(rows->value[i].key, term, bytes) == 0)
			return &rows->value[i];
	return NULL;
}

static bool term_holds(const struct hd_rows *rows, const char *term) {
	const char *equals = strchr(term, '=');

	if (equals) {
		const struct hd_row_value *field = find_field(rows, term, equals);

		return field && value_is(rows, field, equals + 1);
	}
	for (int i = 0; i < rows->value_count; i++) {
		const struct hd_row_value *field = &rows->value[i];
		const char *text = rows->out.data + field->at + 1;

		if (field->text && memmem(text, field->bytes - 2, term, strlen(term)))
			return true;
	}
	return false;
}

/* Of the shape's group, whose fields may be missing in a row. */
static bool is_of_group(const struct hd_stat_group *group, const char *term, const char *equals) {
	size_t bytes = (size_t)(equals - term);

	for (uint16_t i = 0; group && i < group->count; i++)
		if (strlen(group->stats[i].name) == bytes
		    && memcmp(group->stats[i].name, term, bytes) == 0)
			return true;
	return false;
}

/* A word that can match no row is an error, not a table without rows. */
static void check_filter(struct hd_rows *rows) {
	rows->checked = true;
	for (int i = 0; i < rows->filter.count && !rows->unknown; i++) {
		const char *equals = strchr(rows->filter.term[i], '=');

		if (equals && !find_field(rows, rows->filter.term[i], equals)
		    && !is_of_group(rows->shape->group, rows->filter.term[i], equals))
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

/* Whether every field of the shape was put. */
static bool row_is_whole(const struct hd_rows *rows) {
	const struct hd_stat_group *group = rows->shape->group;
	int count = rows->shape->count;

	if (!group || (rows->shape->partial && rows->value_count == count))
		return rows->value_count == count;
	for (int i = 0; i < HD_STAT_LABELS_MAX && group->label[i]; i++)
		count++;
	return rows->value_count == count + group->count;
}

void hd_row_end(struct hd_rows *rows) {
	assert(row_is_whole(rows));
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

const struct hd_row_shape *
hd_row_shape_find(const struct hd_row_shape *const *shapes, const char *name) {
	while (*shapes && strcmp((*shapes)->name, name) != 0)
		shapes++;
	return *shapes;
}

const char *hd_rows_begin(
	struct hd_rows *rows,
	const struct hd_row_shape *shape,
	const char *filter,
	hd_ns now,
	uint16_t epoch
) {
	const char *wrong;

	memset(rows, 0, sizeof *rows);
	rows->shape = shape;
	wrong = filter_parse(&rows->filter, filter);
	if (wrong)
		return wrong;
	hd_out_text(&rows->out, "{\"table\":");
	hd_out_json(&rows->out, shape->name);
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
		*error = rows->unknown ? "filter: field=value: the table has no such field" :
					 "no memory";
		hd_out_fini(&rows->out);
		return NULL;
	}
	return rows->out.data;
}
