/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints docs/heddlectl.schema.json from the shapes that the programs' and the shell's JSON is printed with:
 * check_shell_schema.py compares, and with --write puts it there. Fails when a usual column of the shell's text is
 * no field. */
#include "hd_aggregator.h"
#include "hd_controller.h"
#include "hd_row_shape.h"
#include "hd_server.h"
#include "hd_switch_agent.h"
#include "heddlectl.h"
#include "shell_shapes.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_PATTERN "^[0-9]+\\.[0-9]+$"
#define ADDRESS_PATTERN "^[0-9]+(\\.[0-9]+){3}:[0-9]+$"

static json_t *definitions, *branches;

static void set(json_t *object, const char *key, json_t *value) {
	if (json_object_set_new(object, key, value))
		abort();
}

static json_t *nullable(const char *type) {
	return json_pack("[s, s]", type, "null");
}

static json_t *type_of(uint16_t type) {
	switch ((enum hd_row_type)type) {
	case HD_ROW_COUNT:
		return json_string("integer");
	case HD_ROW_COUNT_OR_NULL:
		return nullable("integer");
	case HD_ROW_REAL:
	case HD_ROW_EXACT:
	case HD_ROW_NUMBER:
		return json_string("number");
	case HD_ROW_REAL_OR_NULL:
	case HD_ROW_EXACT_OR_NULL:
		return nullable("number");
	case HD_ROW_BOOL:
	case HD_ROW_TRUE:
		return json_string("boolean");
	case HD_ROW_BUCKETS:
		return json_string("array");
	case HD_ROW_TEXT_OR_NULL:
		return nullable("string");
	case HD_ROW_TEXT:
	case HD_ROW_VERSION:
	case HD_ROW_ADDRESS:
		break;
	}
	return json_string("string");
}

static json_t *bucket(void) {
	return json_pack(
		"{s:s, s:[s, s], s:b, s:{s:{s:[s, s], s:s}, s:{s:s, s:i, s:s}}}",
		"type",
		"object",
		"required",
		"le",
		"count",
		"additionalProperties",
		0,
		"properties",
		"le",
		"type",
		"number",
		"null",
		"description",
		"upper bound of the bucket; null: none",
		"count",
		"type",
		"integer",
		"minimum",
		0,
		"description",
		"values that are not above it"
	);
}

static json_t *words_of(const char *words) {
	json_t *all = json_array();

	while (*words) {
		size_t bytes = strcspn(words, " ");

		json_array_append_new(all, json_stringn(words, bytes));
		words += bytes + (words[bytes] == ' ');
	}
	return all;
}

/* A property of an object whose rows all have it, but for those of a partial group. */
static void add(json_t *object, const char *name, json_t *property, const char *help, bool always) {
	if (!help || !help[0]) {
		(void)fprintf(stderr, "%s: no help\n", name);
		abort();
	}
	set(property, "description", json_string(help));
	if (json_object_get(json_object_get(object, "properties"), name)) {
		(void)fprintf(stderr, "%s: twice\n", name);
		abort();
	}
	set(json_object_get(object, "properties"), name, property);
	if (always)
		json_array_append_new(json_object_get(object, "required"), json_string(name));
}

static void add_field(json_t *object, const struct hd_row_field *field) {
	json_t *property = json_pack("{s:o}", "type", type_of(field->type));

	if (field->type == HD_ROW_COUNT || field->type == HD_ROW_COUNT_OR_NULL)
		set(property, "minimum", json_integer(0));
	if (field->type == HD_ROW_VERSION)
		set(property, "pattern", json_string(VERSION_PATTERN));
	if (field->type == HD_ROW_ADDRESS)
		set(property, "pattern", json_string(ADDRESS_PATTERN));
	if (field->type == HD_ROW_TRUE)
		set(property, "const", json_true());
	if (field->type == HD_ROW_BUCKETS)
		set(property, "items", bucket());
	if (field->words)
		set(property, "enum", words_of(field->words));
	add(object, field->name, property, field->help, true);
}

/* A unit that the help does not say is said behind it. */
static void add_stat(json_t *object, const struct hd_stat *stat, bool always) {
	bool whole = stat->type == HD_STAT_U64;
	json_t *property = json_pack("{s:s}", "type", whole ? "integer" : "number");
	char help[256];

	if (whole)
		set(property, "minimum", json_integer(0));
	if (stat->unit[0] && !strstr(stat->help, stat->unit))
		(void)snprintf(help, sizeof help, "%s (%s)", stat->help, stat->unit);
	else
		(void)snprintf(help, sizeof help, "%s", stat->help);
	add(object, stat->name, property, help, always);
}

static void add_shape(json_t *object, const struct hd_row_shape *shape) {
	const struct hd_stat_group *group = shape->group;

	for (uint16_t i = 0; i < shape->count; i++)
		add_field(object, &shape->fields[i]);
	for (int i = 0; group && i < HD_STAT_LABELS_MAX && group->label[i]; i++)
		add(object,
		    group->label[i],
		    json_pack("{s:s}", "type", "string"),
		    group->label_help[i],
		    !shape->partial);
	for (uint16_t i = 0; group && i < group->count; i++)
		add_stat(object, &group->stats[i], !shape->partial);
}

static json_t *object_of(const char *help) {
	return json_pack(
		"{s:s*, s:s, s:[], s:b, s:{}}",
		"description",
		help,
		"type",
		"object",
		"required",
		"additionalProperties",
		0,
		"properties"
	);
}

/* The document's table, and its rows by reference; how many these are, where it says so. */
static json_t *document_of(const struct hd_row_shape *rows) {
	json_t *document = object_of(NULL);

	add(document, "table", json_pack("{s:s}", "const", rows->name), rows->help, true);
	return document;
}

static void add_rows(json_t *document, const struct hd_row_shape *rows, bool total) {
	char reference[80];

	(void)snprintf(reference, sizeof reference, "row_%s", rows->name);
	set(definitions, reference, object_of(rows->help));
	add_shape(json_object_get(definitions, reference), rows);
	if (total)
		add(document,
		    "total",
		    json_pack("{s:s, s:i}", "type", "integer", "minimum", 0),
		    "number of rows of the table",
		    true);
	(void)snprintf(reference, sizeof reference, "#/definitions/row_%s", rows->name);
	add(document,
	    "rows",
	    json_pack("{s:s, s:{s:s}}", "type", "array", "items", "$ref", reference),
	    "rows of the table",
	    true);
	json_array_append_new(branches, document);
}

/* Adds the columns of a table from hd_rows.h. Ports, queues, cores and counters are shown by several programs. */
static void add_table(const struct hd_row_shape *shape) {
	static const struct hd_row_field head[] = {
		{"at_s", "clock of the program, in seconds", NULL, HD_ROW_REAL, 0},
		{"epoch",
		 "epoch of the controller: the number of its incarnation",
		 NULL,
		 HD_ROW_COUNT,
		 0},
	};
	char name[80];
	json_t *document;

	(void)snprintf(name, sizeof name, "row_%s", shape->name);
	if (json_object_get(definitions, name))
		return;
	document = document_of(shape);
	for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
		add_field(document, &head[i]);
	add_rows(document, shape, true);
}

static void add_tables(const struct hd_row_shape *const *shapes) {
	while (*shapes)
		add_table(*shapes++);
}

static void add_shell(const struct shell_shape *shape) {
	json_t *document = shape->rows ? document_of(shape->rows) : object_of(shape->head->help);

	add_shape(document, shape->head);
	if (shape->rows)
		add_rows(document, shape->rows, shape->total);
	else
		json_array_append_new(branches, document);
}

/* Of a view, as plan-why, the table is before the dash. */
static const json_t *fields_of(const char *table) {
	char name[80];
	const json_t *row;

	(void)snprintf(name, sizeof name, "row_%s", table);
	row = json_object_get(definitions, name);
	if (!row) {
		name[strcspn(name, "-")] = '\0';
		row = json_object_get(definitions, name);
	}
	return json_object_get(row, "properties");
}

static void check_usual(const char *table, const char *columns) {
	const json_t *fields = fields_of(table);
	char name[80];

	while (*columns) {
		int bytes = (int)strcspn(columns, " ");

		(void)snprintf(name, sizeof name, "%.*s", bytes, columns);
		if (!json_object_get(fields, name)) {
			(void)fprintf(stderr, "shell_print.c: %s: no field '%s'\n", table, name);
			exit(1);
		}
		columns += bytes + (columns[bytes] == ' ');
	}
}

int main(void) {
	const char *table, *columns;
	const struct hd_row_shape *shape;
	json_t *schema;

	definitions = json_object();
	branches = json_array();
	for (size_t i = 0; (shape = hd_controller_shape(i)); i++)
		add_table(shape);
	add_tables(hd_server_shapes);
	add_tables(hd_aggregator_shapes);
	add_tables(hd_switch_agent_shapes);
	add_shell(&shell_plan_shape);
	add_shell(&shell_fit_shape);
	add_shell(&shell_check_shape);
	add_shell(&shell_done_shape);
	for (size_t i = 0; (columns = shell_usual(i, &table)); i++)
		check_usual(table, columns);
	schema = json_pack(
		"{s:s, s:s, s:s, s:s, s:o, s:o}",
		"$schema",
		"http://json-schema.org/draft-07/schema#",
		"$id",
		"https://heddle.example/heddlectl.schema.json",
		"title",
		"Documents that heddlectl prints with --json",
		"description",
		"One document for each table: show TABLE --json. Fields are added at the end; none changes its "
		"meaning. Generated from the programs' lists of fields: CONTRIBUTING.md.",
		"definitions",
		definitions,
		"oneOf",
		branches
	);
	if (!schema || json_dumpf(schema, stdout, JSON_INDENT(1)))
		abort();
	(void)putchar('\n');
	json_decref(schema);
	return 0;
}
