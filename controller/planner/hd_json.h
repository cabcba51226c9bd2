/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads configuration from JSON; every error names the line and the field. */
#ifndef HD_JSON_H
#define HD_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct hd_json_reader {
	const char *text; /* that json_loads accepted */
	char *error; /* receives the error text */
	size_t error_bytes;
};

/* Parses; duplicate keys and texts beyond HD_CONFIG_BYTES_MAX are errors. NULL with "line L: syntax:
 * what" in error. json_decref the result. */
json_t *hd_json_load(const struct hd_json_reader *reader);

/* Line (1-based) where the value at `path` begins, e.g. "links[3][1]" or "updates[2].bytes". The text must have been
 * accepted by json_loads: jansson gives lines only for syntax errors. When the path does not exist: the line of the
 * innermost container that does. Cost O(text). */
int hd_json_line(const char *text, const char *path);

/* Writes "line L: field: what" and returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int
hd_json_fail(const struct hd_json_reader *reader, const char *field, const char *format, ...);

/* An object and its path in the text: prefix "updates[3]" or "" for the root. */
struct hd_json_object {
	const struct hd_json_reader *reader;
	json_t *object;
	const char *prefix;
};

/* -EINVAL when it is no object, or has a key that is not in the list (which ends with NULL). */
int hd_json_known(const struct hd_json_object *in, const char *const *keys);

struct hd_json_range {
	double least, most; /* allowed, inclusive */
	double fallback; /* when it is missing */
	bool required, whole, infinite; /* infinite: the string "inf" is allowed */
};
/* 0 or -EINVAL; *value set on success only. */
int hd_json_number(
	const struct hd_json_object *in,
	const char *key,
	const struct hd_json_range *range,
	double *value
);
struct hd_json_wanted {
	const char *key;
	struct hd_json_range range;
	double *value;
};
/* Several numbers, up to the first error. */
int hd_json_numbers(
	const struct hd_json_object *in,
	const struct hd_json_wanted *wanted,
	size_t count
);
/* A string of 1 to HD_NAME_BYTES_MAX bytes; *value NULL when missing and not required. */
int hd_json_name(
	const struct hd_json_object *in,
	const char *key,
	bool required,
	const char **value
);
/* An array of at most `most` elements; *value NULL when missing and not required. */
int hd_json_array(
	const struct hd_json_object *in,
	const char *key,
	bool required,
	size_t most,
	json_t **value
);

#endif
