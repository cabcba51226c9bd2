/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of SVMlight and LIBSVM: one row on each line, `label index:value index:value ... # comment`, indices from 1,
 * ascending. Rows are kept sparse, without the zeros between their values.
 */
#include "hd_trainer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES_MAX 40
#define LABEL_MAX 1000000

struct reader {
	const char *at, *end;
	uint32_t line, field;
	const struct hd_dataset *like; /* labels and features are its own; NULL: the text's */
	struct hd_dataset *dataset;
	int32_t *label; /* of each row */
	char *error;
	size_t error_bytes;
};

static int wrong(const struct reader *reader, const char *what) {
	hd_trainer_put(
		reader->error,
		reader->error_bytes,
		"line %u: field %u: %s",
		reader->line,
		reader->field,
		what
	);
	return -EINVAL;
}

static bool is_space(char c) {
	return c == ' ' || c == '\t' || c == '\r';
}

/* True when there is another field in this line; it begins at reader->at. */
static bool next_field(struct reader *reader) {
	while (reader->at < reader->end && is_space(*reader->at))
		reader->at++;
	reader->field++;
	return reader->at < reader->end && *reader->at != '\n' && *reader->at != '#';
}

static void end_line(struct reader *reader) {
	const char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));

	reader->at = newline ? newline + 1 : reader->end;
	reader->line++;
	reader->field = 0;
}

/* Digits up to `max`; false when there are none or the number is larger. */
static bool take_digits(struct reader *reader, uint32_t max, uint32_t *value) {
	const char *begin = reader->at;
	uint64_t sum = 0;

	while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9' && sum <= max)
		sum = sum * 10 + (uint64_t)(*reader->at++ - '0');
	*value = (uint32_t)sum;
	return reader->at > begin && sum <= max;
}

static bool at_field_end(const struct reader *reader) {
	return reader->at == reader->end || is_space(*reader->at) || *reader->at == '\n'
		|| *reader->at == '#';
}

static int take_label(struct reader *reader, int32_t *label) {
	bool negative = *reader->at == '-';
	uint32_t value;

	if (negative || *reader->at == '+')
		reader->at++;
	if (!take_digits(reader, LABEL_MAX, &value) || !at_field_end(reader))
		return wrong(reader, "not a label: a whole number in -1000000..1000000");
	*label = negative ? -(int32_t)value : (int32_t)value;
	return 0;
}

static int take_value(struct reader *reader, float *value) {
	char text[NUMBER_BYTES_MAX + 1];
	size_t bytes = 0;
	char *end;

	while (!at_field_end(reader) && bytes < NUMBER_BYTES_MAX
	       && strchr("0123456789+-.eE", *reader->at) && *reader->at != '\0')
		text[bytes++] = *reader->at++;
	text[bytes] = '\0';
	*value = strtof(text, &end);
	if (bytes == 0 || *end != '\0' || !at_field_end(reader) || !isfinite(*value))
		return wrong(reader, "not a finite number (limit 40 characters)");
	return 0;
}

/* `before`: the index of the last pair, 0 at the beginning of a row. */
static int take_pair(struct reader *reader, uint32_t *before) {
	struct hd_dataset *dataset = reader->dataset;
	uint64_t at = dataset->start[dataset->rows + 1];
	uint32_t index;
	float value;
	int rc;

	if (!take_digits(reader, HD_DATA_FEATURES_MAX, &index) || index == 0
	    || reader->at == reader->end || *reader->at != ':')
		return wrong(
			reader, "not index:value with an index in 1..1048576 (HD_DATA_FEATURES_MAX)"
		);
	if (index <= *before)
		return wrong(reader, "the index is not above the one before");
	*before = index;
	reader->at++;
	rc = take_value(reader, &value);
	if (rc < 0)
		return rc;
	/* A feature outside of the training set has no weight. */
	if (reader->like && index > reader->like->features)
		return 0;
	if (value == 0.0f)
		return 0;
	dataset->index[at] = index - 1;
	dataset->value[at] = value;
	dataset->start[dataset->rows + 1]++;
	if (index > dataset->features)
		dataset->features = index;
	return 0;
}

static int take_row(struct reader *reader) {
	struct hd_dataset *dataset = reader->dataset;
	uint32_t before = 0;
	int rc = take_label(reader, &reader->label[dataset->rows]);

	dataset->start[dataset->rows + 1] = dataset->start[dataset->rows];
	while (rc == 0 && next_field(reader))
		rc = take_pair(reader, &before);
	dataset->rows += rc == 0;
	return rc;
}

/* --- labels -> classes --------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

static int find_labels(struct reader *reader) {
	struct hd_dataset *dataset = reader->dataset;
	int32_t *sorted = malloc(dataset->rows * sizeof *sorted);
	uint32_t count = 0;

	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, reader->label, dataset->rows * sizeof *sorted);
	qsort(sorted, dataset->rows, sizeof *sorted, compare);
	for (uint32_t i = 0; i < dataset->rows; i++) {
		bool again = i > 0 && sorted[i] == sorted[i - 1];

		if (again)
			continue;
		if (count < HD_DATA_LABELS_MAX)
			dataset->labels[count] = sorted[i];
		count++;
	}
	free(sorted);
	if (count >= 2 && count <= HD_DATA_LABELS_MAX) {
		dataset->classes = count;
		return 0;
	}
	hd_trainer_put(
		reader->error,
		reader->error_bytes,
		"%u different labels (limit 2..%d, HD_DATA_LABELS_MAX)",
		count,
		HD_DATA_LABELS_MAX
	);
	return -EINVAL;
}

static int name_classes(struct reader *reader) {
	struct hd_dataset *dataset = reader->dataset;

	for (uint32_t i = 0; i < dataset->rows; i++) {
		const int32_t *found = bsearch(
			&reader->label[i],
			dataset->labels,
			dataset->classes,
			sizeof *dataset->labels,
			compare
		);

		if (!found) {
			hd_trainer_put(
				reader->error,
				reader->error_bytes,
				"row %u: label %d: no training row has it",
				i + 1,
				reader->label[i]
			);
			return -EINVAL;
		}
		dataset->y[i] = (uint8_t)(found - dataset->labels);
	}
	return 0;
}

/* --- the whole text ------------------------------------------------------------------------- */

/* Makes room for as many rows as there are lines, and as many values as colons. */
static int make_room(struct reader *reader, size_t bytes) {
	struct hd_dataset *dataset = reader->dataset;
	size_t lines = 1, colons = 0;

	for (const char *c = reader->at; c < reader->at + bytes; c++) {
		lines += *c == '\n';
		colons += *c == ':';
	}
	if (lines > HD_DATA_ROWS_MAX) {
		hd_trainer_put(
			reader->error,
			reader->error_bytes,
			"more than %d lines (HD_DATA_ROWS_MAX)",
			HD_DATA_ROWS_MAX
		);
		return -E2BIG;
	}
	reader->label = malloc(lines * sizeof *reader->label);
	dataset->y = malloc(lines);
	dataset->start = calloc(lines + 1, sizeof *dataset->start);
	dataset->index = malloc((colons + 1) * sizeof *dataset->index);
	dataset->value = malloc((colons + 1) * sizeof *dataset->value);
	dataset->labels = calloc(HD_DATA_LABELS_MAX, sizeof *dataset->labels);
	if (reader->label && dataset->y && dataset->start && dataset->index && dataset->value
	    && dataset->labels)
		return 0;
	return -ENOMEM;
}

static int read_rows(struct reader *reader) {
	const struct hd_dataset *like = reader->like;
	struct hd_dataset *dataset = reader->dataset;
	int rc = 0;

	while (rc == 0 && reader->at < reader->end) {
		if (next_field(reader))
			rc = take_row(reader);
		if (rc == 0)
			end_line(reader);
	}
	if (rc < 0)
		return rc;
	if (dataset->rows == 0 || (!like && dataset->features == 0)) {
		hd_trainer_put(reader->error, reader->error_bytes, "no row with a value");
		return -EINVAL;
	}
	if (!like)
		return find_labels(reader);
	dataset->features = like->features;
	dataset->classes = like->classes;
	memcpy(dataset->labels, like->labels, like->classes * sizeof *like->labels);
	return 0;
}

int hd_svmlight_decode(
	const char *text,
	size_t bytes,
	const struct hd_dataset *like,
	struct hd_dataset *dataset,
	char *error,
	size_t error_bytes
) {
	struct hd_dataset result = {0};
	struct reader reader = {
		.at = text,
		.end = text + bytes,
		.line = 1,
		.like = like,
		.dataset = &result,
		.error = error,
		.error_bytes = error_bytes,
	};
	int rc = make_room(&reader, bytes);

	if (rc == 0)
		rc = read_rows(&reader);
	if (rc == 0)
		rc = name_classes(&reader);
	if (rc == -ENOMEM)
		hd_trainer_put(error, error_bytes, "no memory");
	free(reader.label);
	if (rc < 0) {
		hd_dataset_fini(&result);
		return rc;
	}
	*dataset = result;
	return 0;
}
