/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shell's tables: each a JSON document
 *   { "table": name, "at_s": s, "total": rows in all, "page": n, "next": n + 1 or null, "rows": [...] }
 * A filter is words apart by spaces, all of which must hold: `page=N`; `field=value`; or a word that
 * some text of the row contains. A document is one message of at most PAGE_ROWS rows.
 */
#include "hd_controller_table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A page is a number of rows, not of bytes: values grow and shrink from one answer to the next, and
 * pages must not move. The longest row has four names of HD_NAME_BYTES_MAX: below 1.3 kB. */
#define PAGE_ROWS 48

static const char *filter_parse(struct ctl_filter *filter, const char *text) {
	char *save = NULL, *word, *end;

	memset(filter, 0, sizeof(*filter));
	(void)snprintf(filter->text, sizeof(filter->text), "%s", text ? text : "");
	for (word = strtok_r(filter->text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (strncmp(word, "page=", 5) == 0) {
			filter->page = strtoull(word + 5, &end, 10);
			if (*end || end == word + 5 || word[5] == '-' || filter->page > UINT32_MAX)
				return "filter: page: not a number";
			continue;
		}
		if (filter->count == CTL_FILTER_TERMS_MAX)
			return "filter: more than 16 words";
		filter->term[filter->count++] = word;
	}
	return NULL;
}

static bool value_is(const json_t *value, const char *want) {
	char text[64];

	if (json_is_string(value))
		return strcmp(json_string_value(value), want) == 0;
	if (json_is_integer(value)) {
		(void)snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
		return strcmp(text, want) == 0;
	}
	if (json_is_real(value)) {
		(void)snprintf(text, sizeof(text), "%g", json_real_value(value));
		return strcmp(text, want) == 0;
	}
	return strcmp(json_is_true(value)          ? "true" :
			      json_is_false(value) ? "false" :
						     "null",
		      want)
		== 0;
}

static bool term_holds(json_t *row, const char *term) {
	const char *equals = strchr(term, '='), *key;
	char name[64];
	json_t *value;

	if (equals && (size_t)(equals - term) < sizeof(name)) {
		(void)snprintf(name, sizeof(name), "%.*s", (int)(equals - term), term);
		value = json_object_get(row, name);
		return value && value_is(value, equals + 1);
	}
	json_object_foreach(
		row, key, value
	) if (json_is_string(value) && strstr(json_string_value(value), term)) return true;
	return false;
}

static bool row_passes(json_t *row, const struct ctl_filter *filter) {
	for (int i = 0; i < filter->count; i++)
		if (!term_holds(row, filter->term[i]))
			return false;
	return true;
}

bool ctl_rows_skip(struct ctl_rows *rows) {
	bool here = rows->total >= rows->first && rows->total - rows->first < rows->limit;

	if (here || rows->filter->count)
		return false;
	rows->total++;
	return true;
}

void ctl_rows_add(struct ctl_rows *rows, json_t *row) {
	bool passes = row_passes(row, rows->filter);

	if (passes && rows->total >= rows->first && rows->total - rows->first < rows->limit)
		json_array_append(rows->page, row);
	rows->total += passes;
	json_decref(row);
}

struct table {
	const char *name;
	void (*rows)(const struct hd_controller *c, struct ctl_rows *rows);
};

static const struct table tables[] = {
	{"nodes", ctl_rows_nodes},
	{"jobs", ctl_rows_jobs},
	{"links", ctl_rows_links},
	{"transfers", ctl_rows_transfers},
	{"drops", ctl_rows_drops},
	{"counters", ctl_rows_counters},
};

static const struct table *table_find(const char *name) {
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (strcmp(tables[i].name, name) == 0)
			return &tables[i];
	return NULL;
}

char *hd_controller_table(
	const struct hd_controller *c,
	const char *name,
	const char *text,
	const char **error
) {
	const struct table *table = table_find(name);
	struct ctl_filter filter;
	struct ctl_rows rows = {.filter = &filter, .limit = PAGE_ROWS};
	const char *wrong;
	json_t *document;
	bool more;
	char *dump;

	wrong = table ? filter_parse(&filter, text) : "no such table";
	if (wrong) {
		*error = wrong;
		return NULL;
	}
	rows.first = filter.page * PAGE_ROWS;
	rows.page = json_array();
	table->rows(c, &rows);
	more = rows.total > rows.first + PAGE_ROWS;
	document = json_object();
	json_object_set_new(document, "table", json_string(name));
	json_object_set_new(document, "at_s", json_real((double)c->now / 1e9));
	json_object_set_new(document, "epoch", json_integer(c->config.epoch));
	json_object_set_new(document, "rows", rows.page);
	json_object_set_new(document, "total", json_integer((json_int_t)rows.total));
	json_object_set_new(document, "page", json_integer((json_int_t)filter.page));
	json_object_set_new(
		document, "next", more ? json_integer((json_int_t)filter.page + 1) : json_null()
	);
	dump = json_dumps(document, JSON_COMPACT);
	json_decref(document);
	if (!dump)
		*error = "no memory";
	return dump;
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
