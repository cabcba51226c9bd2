/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the line of a field: the text is known to be JSON here -------------------------------- */

static const char *skip_space(const char *at) {
	return at + strspn(at, " \t\r\n");
}

/* at points to the opening quote. */
static const char *skip_string(const char *at) {
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at + 1 : at;
}

static const char *skip_value(const char *at) {
	size_t depth = 0;

	while (*at) {
		if (*at == '"') {
			at = skip_string(at);
			continue;
		}
		if (depth == 0 && strchr(",]}", *at))
			break;
		depth += *at == '{' || *at == '[';
		depth -= *at == '}' || *at == ']';
		at++;
	}
	return at;
}

/* The value of a member (name) or of an item (name NULL, index), NULL when there is none. */
static const char *step_into(const char *at, const char *name, size_t name_bytes, size_t index) {
	if (*at != (name ? '{' : '['))
		return NULL;
	at = skip_space(at + 1);
	for (size_t i = 0; *at && *at != '}' && *at != ']'; i++) {
		const char *key = at + 1;
		bool found = i == index;

		if (name) {
			at = skip_string(at);
			found = (size_t)(at - 1 - key) == name_bytes
				&& memcmp(key, name, name_bytes) == 0;
			at = skip_space(skip_space(at) + 1);
		}
		if (found)
			return at;
		at = skip_value(at);
		at = skip_space(at + (*at == ','));
	}
	return NULL;
}

/* The line on which the value at a path begins; of a missing one, that of its container. */
static unsigned line_of(const char *text, const char *path) {
	const char *at = skip_space(text), *next = at;
	unsigned line = 1;

	while (*path && next) {
		size_t bytes = strcspn(path, ".[");

		if (*path == '[') {
			next = step_into(at, NULL, 0, strtoul(path + 1, NULL, 10));
			path += strcspn(path, "]");
			path += *path == ']';
		} else {
			next = step_into(at, path, bytes, 0);
			path += bytes;
		}
		path += *path == '.';
		at = next ? next : at;
	}
	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

void hd_reader_fail(struct hd_reader *reader, const char *path, const char *format, ...) {
	char what[256];
	va_list arguments;

	if (reader->failed)
		return;
	va_start(arguments, format);
	(void)vsnprintf(what, sizeof what, format, arguments);
	va_end(arguments);
	(void)snprintf(
		reader->error,
		reader->error_bytes,
		"%s: line %u: %s: %s",
		reader->file,
		line_of(reader->text, path),
		path,
		what
	);
	reader->failed = true;
}

/* --- values -------------------------------------------------------------------------------- */

void hd_field_join(char out[HD_FIELD_PATH_BYTES], const char *path, const char *name) {
	(void)snprintf(out, HD_FIELD_PATH_BYTES, "%s%s%s", path, *path ? "." : "", name);
}

static double read_number(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	const struct hd_field *field
) {
	double number = json_number_value(value);

	if (!json_is_number(value))
		hd_reader_fail(reader, path, "must be a number");
	else if (field->kind != HD_FIELD_NUMBER && !json_is_integer(value))
		hd_reader_fail(reader, path, "must be a whole number");
	else if (number < field->low || number > field->high)
		hd_reader_fail(
			reader,
			path,
			"%.15g is outside %.15g..%.15g",
			number,
			field->low,
			field->high
		);
	else
		return number;
	return field->low;
}

static void read_text(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	const struct hd_field *field,
	char *into
) {
	const char *text = json_string_value(value);

	if (!text)
		hd_reader_fail(reader, path, "must be a text");
	else if ((double)strlen(text) >= field->high)
		hd_reader_fail(reader, path, "is longer than %d bytes", (int)field->high - 1);
	else
		memcpy(into, text, strlen(text) + 1);
}

void hd_read_field(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	const struct hd_field *field,
	void *object
) {
	void *into = (char *)object + field->offset;

	switch (field->kind) {
	case HD_FIELD_TEXT:
		read_text(reader, value, path, field, into);
		break;
	case HD_FIELD_NUMBER:
		*(double *)into = read_number(reader, value, path, field);
		break;
	case HD_FIELD_U32:
		*(uint32_t *)into = (uint32_t)read_number(reader, value, path, field);
		break;
	case HD_FIELD_U64:
		read_number(reader, value, path, field);
		*(uint64_t *)into = (uint64_t)json_integer_value(value); /* exact beyond 2^53 */
		break;
	case HD_FIELD_OTHER:
		field->read(reader, value, path, into);
		break;
	}
}

const struct hd_field *hd_field_find(const struct hd_field *fields, const char *name) {
	for (; fields->name; fields++)
		if (strcmp(fields->name, name) == 0)
			return fields;
	return NULL;
}

void hd_read_object(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	const struct hd_field *fields,
	void *object
) {
	/* jansson's iterators take a non-const pointer, although they only read. */
	const union {
		const json_t *read;
		json_t *changed;
	} iterated = {.read = value};
	const char *name;
	json_t *member;
	char where[HD_FIELD_PATH_BYTES];

	if (!json_is_object(value)) {
		hd_reader_fail(reader, *path ? path : "scenario", "must be an object");
		return;
	}
	json_object_foreach(iterated.changed, name, member) {
		const struct hd_field *field = hd_field_find(fields, name);

		hd_field_join(where, path, name);
		if (!field)
			hd_reader_fail(reader, where, "unknown field");
		else
			hd_read_field(reader, member, where, field, object);
	}
	for (; fields->name; fields++) {
		hd_field_join(where, path, fields->name);
		if (fields->required && !json_object_get(value, fields->name))
			hd_reader_fail(reader, where, "is missing");
	}
}

void hd_read_array(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	const struct hd_field_array *array
) {
	size_t count = json_array_size(value);

	if (!json_is_array(value)) {
		hd_reader_fail(reader, path, "must be an array");
		return;
	}
	if (count > array->limit) {
		hd_reader_fail(reader, path, "%zu entries (limit %u)", count, array->limit);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		char where[HD_FIELD_PATH_BYTES];

		(void)snprintf(where, sizeof where, "%s[%zu]", path, i);
		hd_read_object(
			reader,
			json_array_get(value, i),
			where,
			array->fields,
			(char *)array->items + i * array->item_bytes
		);
	}
	*array->count = (uint32_t)count;
}
