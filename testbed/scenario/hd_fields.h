/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON objects read by tables: one row for each field, with its kind, its place in a struct and its limits. */
#ifndef HD_FIELDS_H
#define HD_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HD_FIELD_PATH_BYTES 128

enum hd_field_kind {
	HD_FIELD_TEXT, /* char array; high: its size */
	HD_FIELD_NUMBER, /* double */
	HD_FIELD_U32,
	HD_FIELD_U64,
	HD_FIELD_OTHER /* read() does it */
};

struct hd_reader;

struct hd_field {
	const char *name;
	enum hd_field_kind kind;
	size_t offset;
	double low, high;
	bool required;
	void (*read)(struct hd_reader *reader, const json_t *value, const char *path, void *into);
};

/* After the first error all later calls do nothing. */
struct hd_reader {
	const char *file;
	const char *text; /* the whole text, to find the lines of errors */
	char *error;
	size_t error_bytes;
	bool failed;
};

struct hd_field_array {
	void *items;
	uint32_t *count;
	uint32_t limit;
	size_t item_bytes;
	const struct hd_field *fields;
};

/* Writes "FILE: line N: PATH: what" into reader->error, unless it has an earlier error. */
__attribute__((format(printf, 3, 4))) void
hd_reader_fail(struct hd_reader *reader, const char *path, const char *format, ...);

/* out = "path.name", or name at the top. */
void hd_field_join(char out[HD_FIELD_PATH_BYTES], const char *path, const char *name);

/* The row of that name, NULL when there is none. A table ends with an empty row. */
const struct hd_field *hd_field_find(const struct hd_field *fields, const char *name);

/* Reads one value into its place in `object`. */
void hd_read_field(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	const struct hd_field *field,
	void *object
);
/* Reads every member by its row; unknown and missing ones are errors. */
void hd_read_object(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	const struct hd_field *fields,
	void *object
);
/* Reads an array of objects. */
void hd_read_array(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	const struct hd_field_array *array
);

#endif
