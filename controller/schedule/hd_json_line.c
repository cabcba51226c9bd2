/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_json_line.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *p) {
	return p + strspn(p, " \t\r\n");
}

/* p stands on the opening quote; returns past the closing one (or at the end of the text). */
static const char *skip_string(const char *p) {
	for (p++; *p != 0 && *p != '"'; p++)
		if (*p == '\\' && p[1] != 0)
			p++;
	return *p == '"' ? p + 1 : p;
}

/* Past one value of any kind. Depth is counted, not recursed into. */
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

/* To the index-th element of the array at p, or NULL. */
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

/* To the value of the member `key` of the object at p, or NULL. */
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

int hd_json_line(const char *json, const char *path) {
	const char *at = skip_space(json);
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
		if (next == NULL)
			break;
		at = next;
	}
	for (const char *p = json; p < at; p++)
		line += *p == '\n';
	return line;
}
