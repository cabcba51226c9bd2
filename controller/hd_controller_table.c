/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shell's tables: each a JSON document
 *   { "table": name, "at_s": s, "epoch": e, "rows": [...], "total": rows of the table, "from": n,
 *     "next": m or null }
 * A filter is words apart by spaces, all of which must hold: `from=N`; `field=value`; or a word that
 * some text of the row contains. A document is one message; the next page is asked for with from=m.
 *
 * Rows are written straight into the page, and taken back when the filter does not hold: a table of
 * 10,000 rows is walked in milliseconds, and the controller is held up for one page at a time.
 */
#include "hd_controller_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One message, less what stands around the rows. A row is below 2 kB. */
#define PAGE_BYTES (HD_MESSAGE_BYTES_MAX - 1024)
/* Rows looked at for one page, however few of them pass the filter: about 1.5 ms of the controller's time. */
#define PAGE_ROWS_MAX 2048

static const char *filter_parse(struct ctl_filter *filter, const char *text) {
	char *save = NULL, *word, *end;

	memset(filter, 0, sizeof(*filter));
	(void)snprintf(filter->text, sizeof(filter->text), "%s", text ? text : "");
	for (word = strtok_r(filter->text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (strncmp(word, "from=", 5) == 0) {
			filter->from = strtoull(word + 5, &end, 10);
			if (*end || end == word + 5 || word[5] == '-' || filter->from > UINT32_MAX)
				return "filter: from: not a number (0 to 4294967295)";
			continue;
		}
		if (filter->count == CTL_FILTER_TERMS_MAX)
			return "filter: more than 16 words";
		filter->term[filter->count++] = word;
	}
	return NULL;
}

/* --- writing rows --- */

bool ctl_row_begin(struct ctl_rows *rows) {
	if (rows->full || rows->index < rows->filter->from) {
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

static void field_begin(struct ctl_rows *rows, const char *key, bool text) {
	struct ctl_field *field = &rows->field[rows->field_count];

	hd_out_char(&rows->out, rows->field_count++ ? ',' : '{');
	hd_out_char(&rows->out, '"');
	hd_out_text(&rows->out, key);
	hd_out_text(&rows->out, "\":");
	*field = (struct ctl_field){.key = key, .at = rows->out.bytes, .text = text};
}

static void field_end(struct ctl_rows *rows) {
	struct ctl_field *field = &rows->field[rows->field_count - 1];

	field->bytes = rows->out.bytes - field->at;
}

void ctl_row_text(struct ctl_rows *rows, const char *key, const char *text) {
	field_begin(rows, key, true);
	hd_out_json(&rows->out, text);
	field_end(rows);
}

void ctl_row_count(struct ctl_rows *rows, const char *key, uint64_t value) {
	field_begin(rows, key, false);
	hd_out_u64(&rows->out, value);
	field_end(rows);
}

void ctl_row_real(struct ctl_rows *rows, const char *key, double value) {
	field_begin(rows, key, false);
	hd_out_milli(&rows->out, value);
	field_end(rows);
}

void ctl_row_exact(struct ctl_rows *rows, const char *key, double value) {
	field_begin(rows, key, false);
	if (isfinite(value))
		hd_out_real(&rows->out, value);
	else
		hd_out_text(&rows->out, "null");
	field_end(rows);
}

void ctl_row_null(struct ctl_rows *rows, const char *key) {
	field_begin(rows, key, false);
	hd_out_text(&rows->out, "null");
	field_end(rows);
}

void ctl_row_bool(struct ctl_rows *rows, const char *key, bool value) {
	field_begin(rows, key, false);
	hd_out_text(&rows->out, value ? "true" : "false");
	field_end(rows);
}

/* --- filters --- */

/* The value as it stands in the page; of a text without its quotes. */
static bool value_is(const struct ctl_rows *rows, const struct ctl_field *field, const char *want) {
	const char *value = rows->out.data + field->at;
	size_t bytes = field->bytes, length = strlen(want);
	char number[64], *end;
	double wanted;

	if (field->text)
		return bytes == length + 2 && memcmp(value + 1, want, length) == 0;
	if (bytes == length && memcmp(value, want, length) == 0)
		return true;
	wanted = strtod(want, &end);
	if (end == want || *end || bytes >= sizeof(number))
		return false;
	memcpy(number, value, bytes);
	number[bytes] = '\0';
	return strtod(number, &end) == wanted && end != number;
}

static bool term_holds(const struct ctl_rows *rows, const char *term) {
	const char *equals = strchr(term, '=');
	size_t key_bytes = equals ? (size_t)(equals - term) : 0;

	for (int i = 0; i < rows->field_count; i++) {
		const struct ctl_field *field = &rows->field[i];

		if (equals) {
			if (strlen(field->key) == key_bytes
			    && memcmp(field->key, term, key_bytes) == 0)
				return value_is(rows, field, equals + 1);
		} else if (field->text && memmem(rows->out.data + field->at + 1, field->bytes - 2, term, strlen(term))) {
			return true;
		}
	}
	return false;
}

static bool row_passes(const struct ctl_rows *rows) {
	if (rows->out.failed)
		return false;
	for (int i = 0; i < rows->filter->count; i++)
		if (!term_holds(rows, rows->filter->term[i]))
			return false;
	return true;
}

void ctl_row_skip(struct ctl_rows *rows) {
	rows->out.bytes = rows->row_at;
	rows->index++;
}

void ctl_row_end(struct ctl_rows *rows) {
	hd_out_char(&rows->out, '}');
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

struct table {
	const char *name;
	uint64_t (*rows)(const struct hd_controller *c, struct ctl_rows *rows);
};

static const struct table tables[] = {
	{"nodes", ctl_rows_nodes},
	{"jobs", ctl_rows_jobs},
	{"links", ctl_rows_links},
	{"transfers", ctl_rows_transfers},
	{"drops", ctl_rows_drops},
	{"estimates", ctl_rows_estimates},
	{"staleness", ctl_rows_staleness},
	{"plan", ctl_rows_plan},
	{"settings", ctl_rows_settings},
	{"ports", ctl_rows_ports},
	{"queues", ctl_rows_queues},
	{"cores", ctl_rows_cores},
	{"counters", ctl_rows_counters},
};

static const struct table *table_find(const char *name) {
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (strcmp(tables[i].name, name) == 0)
			return &tables[i];
	return NULL;
}

static void put_head(const struct hd_controller *c, const struct table *table, struct hd_out *out) {
	hd_out_text(out, "{\"table\":");
	hd_out_json(out, table->name);
	hd_out_text(out, ",\"at_s\":");
	hd_out_milli(out, (double)c->now / 1e9);
	hd_out_text(out, ",\"epoch\":");
	hd_out_u64(out, c->config.epoch);
	hd_out_text(out, ",\"rows\":[");
}

static void put_tail(const struct ctl_rows *rows, uint64_t total, struct hd_out *out) {
	hd_out_text(out, "],\"total\":");
	hd_out_u64(out, total);
	hd_out_text(out, ",\"from\":");
	hd_out_u64(out, rows->filter->from);
	hd_out_text(out, ",\"next\":");
	if (rows->full)
		hd_out_u64(out, rows->next);
	else
		hd_out_text(out, "null");
	hd_out_char(out, '}');
}

char *hd_controller_table(
	const struct hd_controller *c,
	const char *name,
	const char *text,
	const char **error
) {
	const struct table *table = table_find(name);
	struct ctl_filter filter;
	struct ctl_rows rows = {.filter = &filter};
	const char *wrong;
	uint64_t total;

	wrong = table ? filter_parse(&filter, text) : "no such table";
	if (wrong) {
		*error = wrong;
		return NULL;
	}
	put_head(c, table, &rows.out);
	total = table->rows(c, &rows);
	put_tail(&rows, total, &rows.out);
	if (!hd_out_string(&rows.out)) {
		hd_out_fini(&rows.out);
		*error = "no memory";
		return NULL;
	}
	return rows.out.data;
}

void ctl_show(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_show *m,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_TABLE};
	const char *error = NULL;
	char *json;

	c->counters.shows++;
	json = hd_controller_table(c, m->table, m->filter, &error);
	if (!json) {
		char text[HD_TEXT_BYTES_MAX];

		(void)snprintf(text, sizeof(text), "show %s: %s", m->table, error);
		ctl_refuse(c, node, 0, text, sink);
		return;
	}
	(void)snprintf(message.table.table, sizeof(message.table.table), "%s", m->table);
	message.table.json.data = (const uint8_t *)json;
	message.table.json.bytes = (uint32_t)strlen(json);
	ctl_send(c, node, &message, sink);
	free(json);
}
