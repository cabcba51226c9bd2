/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_json.h"
#include "hd_limits.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *p) {
	return p + strspn(p, " \t\r\n");
}

/* p points to the opening quote; returns the place after the closing one (or the end of the text). */
static const char *skip_string(const char *p) {
	for (p++; *p != 0 && *p != '"'; p++)
		if (*p == '\\' && p[1] != 0)
			p++;
	return *p == '"' ? p + 1 : p;
}

/* The place after one value of any kind. Depth is counted, without recursion. */
static const char *skip_value(const char *p) {
	int depth = 0;

	p = skip_space(p);
	do {
		if (*p == 0)
			return p;
		if (*p == '"') {
			p = skip_string(p);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		p++;
		if (depth > 0)
			continue;
		if (p[-1] == '}' || p[-1] == ']')
			break;
		p += strcspn(p, ",]} \t\r\n");
	} while (depth > 0);
	return p;
}

/* The index-th element of the array at p, or NULL. */
static const char *enter_index(const char *p, unsigned long index) {
	if (*p != '[')
		return NULL;
	p = skip_space(p + 1);
	for (; index > 0 && *p != 0 && *p != ']'; index--) {
		p = skip_space(skip_value(p));
		if (*p != ',')
			return NULL;
		p = skip_space(p + 1);
	}
	return *p == 0 || *p == ']' ? NULL : p;
}

/* The value of the member `key` of the object at p, or NULL. */
static const char *enter_key(const char *p, const char *key, size_t key_bytes) {
	if (*p != '{')
		return NULL;
	p = skip_space(p + 1);
	while (*p == '"') {
		const char *name = p + 1;

		p = skip_string(p);
		const bool same
			= (size_t)(p - name) == key_bytes + 1 && memcmp(name, key, key_bytes) == 0;
		p = skip_space(p);
		if (*p != ':')
			return NULL;
		p = skip_space(p + 1);
		if (same)
			return p;
		p = skip_space(skip_value(p));
		if (*p != ',')
			return NULL;
		p = skip_space(p + 1);
	}
	return NULL;
}

int hd_json_line(const char *text, const char *path) {
	const char *at = skip_space(text);
	int line = 1;

	while (*path != 0) {
		const char *next;

		if (*path == '[') {
			char *end;

			next = enter_index(at, strtoul(path + 1, &end, 10));
			path = *end == ']' ? end + 1 : end;
		} else {
			path += *path == '.';
			const size_t bytes = strcspn(path, ".[");
			if (bytes == 0)
				break;
			next = enter_key(at, path, bytes);
			path += bytes;
		}
		if (!next)
			break;
		at = next;
	}
	for (const char *p = text; p < at; p++)
		line += *p == '\n';
	return line;
}

json_t *hd_json_load(const struct hd_json_reader *reader) {
	json_error_t where;

	if (strlen(reader->text) > HD_CONFIG_BYTES_MAX) {
		(void)snprintf(
			reader->error,
			reader->error_bytes,
			"line 1: file: more than %u bytes (HD_CONFIG_BYTES_MAX)",
			HD_CONFIG_BYTES_MAX
		);
		return NULL;
	}
	json_t *root = json_loads(reader->text, JSON_REJECT_DUPLICATES, &where);
	if (!root)
		(void)snprintf(
			reader->error,
			reader->error_bytes,
			"line %d: syntax: %s",
			where.line,
			where.text
		);
	return root;
}

int hd_json_fail(const struct hd_json_reader *reader, const char *field, const char *format, ...) {
	char what[256];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(what, sizeof what, format, args);
	va_end(args);
	(void)snprintf(
		reader->error,
		reader->error_bytes,
		"line %d: %s: %s",
		hd_json_line(reader->text, field),
		*field == 0 ? "file" : field,
		what
	);
	return -EINVAL;
}

#define FIELD_BYTES 192

static void name_field(const struct hd_json_object *in, const char *key, char *field) {
	(void)snprintf(field, FIELD_BYTES, "%s%s%s", in->prefix, *in->prefix == 0 ? "" : ".", key);
}

int hd_json_known(const struct hd_json_object *in, const char *const *keys) {
	const char *key;
	json_t *value;

	if (!json_is_object(in->object))
		return hd_json_fail(in->reader, in->prefix, "must be an object");
	json_object_foreach(in->object, key, value) {
		char field[FIELD_BYTES];
		size_t k = 0;

		while (keys[k] && strcmp(keys[k], key) != 0)
			k++;
		if (keys[k])
			continue;
		name_field(in, key, field);
		return hd_json_fail(in->reader, field, "unknown field");
	}
	return 0;
}

static int missing(const struct hd_json_object *in, const char *key) {
	char field[FIELD_BYTES];

	name_field(in, key, field);
	return hd_json_fail(in->reader, field, "is missing");
}

int hd_json_number(
	const struct hd_json_object *in,
	const char *key,
	const struct hd_json_range *range,
	double *value
) {
	json_t *found = json_object_get(in->object, key);
	const char *text = json_string_value(found);
	char field[FIELD_BYTES];

	if (!found && range->required)
		return missing(in, key);
	if (!found) {
		*value = range->fallback;
		return 0;
	}
	name_field(in, key, field);
	if (range->infinite && text && strcmp(text, "inf") == 0) {
		*value = INFINITY;
		return 0;
	}
	if (!json_is_number(found) || (range->whole && !json_is_integer(found)))
		return hd_json_fail(
			in->reader,
			field,
			"must be a%s number%s",
			range->whole ? " whole" : "",
			range->infinite ? " or \"inf\"" : ""
		);
	const double number = json_number_value(found);
	if (number < range->least || number > range->most)
		return hd_json_fail(
			in->reader, field, "must be from %.16g to %.16g", range->least, range->most
		);
	*value = number;
	return 0;
}

int hd_json_numbers(
	const struct hd_json_object *in,
	const struct hd_json_wanted *wanted,
	size_t count
) {
	for (size_t k = 0; k < count; k++) {
		const int rc = hd_json_number(in, wanted[k].key, &wanted[k].range, wanted[k].value);

		if (rc < 0)
			return rc;
	}
	return 0;
}

int hd_json_name(
	const struct hd_json_object *in,
	const char *key,
	bool required,
	const char **value
) {
	json_t *found = json_object_get(in->object, key);
	const char *text = json_string_value(found);
	char field[FIELD_BYTES];

	if (!found && required)
		return missing(in, key);
	if (!found) {
		*value = NULL;
		return 0;
	}
	name_field(in, key, field);
	if (!text || *text == 0 || strlen(text) > HD_NAME_BYTES_MAX)
		return hd_json_fail(
			in->reader,
			field,
			"must be a name of 1 to %d bytes (HD_NAME_BYTES_MAX)",
			HD_NAME_BYTES_MAX
		);
	*value = text;
	return 0;
}

int hd_json_array(
	const struct hd_json_object *in,
	const char *key,
	bool required,
	size_t most,
	json_t **value
) {
	json_t *found = json_object_get(in->object, key);
	char field[FIELD_BYTES];

	if (!found && required)
		return missing(in, key);
	if (!found) {
		*value = NULL;
		return 0;
	}
	name_field(in, key, field);
	if (!json_is_array(found))
		return hd_json_fail(in->reader, field, "must be an array");
	if (json_array_size(found) > most)
		return hd_json_fail(in->reader, field, "more than %zu elements", most);
	*value = found;
	return 0;
}
