/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rating triples in MovieLens's formats, one on each line: `user item rating [time]` separated by tabs (u.data), `::`
 * (ratings.dat) or commas (ratings.csv, after a line of names). Users and items are numbered in the order of their ids.
 */
#include "hd_row_model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES_MAX 24
#define RATING_MAX 1e6F
#define PER_ROW 2U /* values of a row: its user and its item */

struct reader {
	const char *at, *end;
	uint32_t line;
	const char *separator;
	size_t separator_bytes;
	uint32_t *id[2]; /* of each row: user, item */
	float *rating;
	uint32_t rows;
	char *error;
	size_t error_bytes;
};

static int wrong(const struct reader *reader, const char *field, const char *what) {
	hd_trainer_put(
		reader->error, reader->error_bytes, "line %u: %s: %s", reader->line, field, what
	);
	return -EINVAL;
}

static bool at_line_end(const struct reader *reader) {
	return reader->at == reader->end || *reader->at == '\n' || *reader->at == '\r';
}

static void end_line(struct reader *reader) {
	const char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));

	reader->at = newline ? newline + 1 : reader->end;
	reader->line++;
}

static bool take_separator(struct reader *reader) {
	if ((size_t)(reader->end - reader->at) < reader->separator_bytes
	    || memcmp(reader->at, reader->separator, reader->separator_bytes) != 0)
		return false;
	reader->at += reader->separator_bytes;
	return true;
}

static int take_id(struct reader *reader, const char *field, uint32_t *id) {
	const char *begin = reader->at;
	uint64_t sum = 0;

	while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'
	       && sum <= UINT32_MAX)
		sum = sum * 10 + (uint64_t)(*reader->at++ - '0');
	if (reader->at == begin || sum > UINT32_MAX)
		return wrong(reader, field, "not a whole number in 0..4294967295");
	*id = (uint32_t)sum;
	return 0;
}

static int take_rating(struct reader *reader, float *rating) {
	char text[NUMBER_BYTES_MAX + 1], *end;
	size_t bytes = 0;

	while (reader->at < reader->end && bytes < NUMBER_BYTES_MAX && *reader->at != '\0'
	       && strchr("0123456789+-.eE", *reader->at))
		text[bytes++] = *reader->at++;
	text[bytes] = '\0';
	*rating = strtof(text, &end);
	if (bytes == 0 || *end != '\0' || !(fabsf(*rating) <= RATING_MAX))
		return wrong(reader, "rating", "not a number in -1e6..1e6 (limit 24 characters)");
	return 0;
}

/* The first line with digits defines the separator; a line of names is skipped. */
static int find_separator(struct reader *reader) {
	static const char *const known[] = {"\t", "::", ","};

	if (reader->at < reader->end && (*reader->at < '0' || *reader->at > '9'))
		end_line(reader);
	for (const char *c = reader->at; c < reader->end && *c != '\n'; c++)
		for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
			size_t bytes = strlen(known[i]);

			if ((size_t)(reader->end - c) < bytes || memcmp(c, known[i], bytes) != 0)
				continue;
			reader->separator = known[i];
			reader->separator_bytes = bytes;
			return 0;
		}
	return wrong(reader, "user", "no tab, :: or comma after it");
}

static int take_row(struct reader *reader) {
	static const char *const fields[] = {"user", "item"};

	for (int i = 0; i < 2; i++) {
		int rc = take_id(reader, fields[i], &reader->id[i][reader->rows]);

		if (rc < 0)
			return rc;
		if (!take_separator(reader))
			return wrong(
				reader, fields[i], "no separator after it, as the first line has it"
			);
	}
	if (take_rating(reader, &reader->rating[reader->rows]) < 0)
		return -EINVAL;
	if (!at_line_end(reader) && !take_separator(reader))
		return wrong(reader, "rating", "neither a separator nor the line's end after it");
	reader->rows++;
	return 0;
}

static int read_rows(struct reader *reader) {
	size_t lines = 1;
	int rc;

	for (const char *c = reader->at; c < reader->end; c++)
		lines += *c == '\n';
	if (lines > HD_RATINGS_MAX) {
		hd_trainer_put(
			reader->error,
			reader->error_bytes,
			"more than %d lines (HD_RATINGS_MAX)",
			HD_RATINGS_MAX
		);
		return -E2BIG;
	}
	for (int i = 0; i < 2; i++)
		reader->id[i] = malloc(lines * sizeof *reader->id[i]);
	reader->rating = malloc(lines * sizeof *reader->rating);
	if (!reader->id[0] || !reader->id[1] || !reader->rating)
		return -ENOMEM;
	rc = find_separator(reader);
	while (rc == 0 && reader->at < reader->end) {
		if (!at_line_end(reader))
			rc = take_row(reader);
		if (rc == 0)
			end_line(reader);
	}
	if (rc == 0 && reader->rows == 0)
		rc = wrong(reader, "user", "no rating in the whole text");
	return rc;
}

/* --- ids -> numbers ------------------------------------------------------------------------ */

static int compare(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The distinct ones, ascending. Returns their number. */
static uint32_t find_ids(uint32_t *ids, uint32_t count) {
	uint32_t different = 0;

	qsort(ids, count, sizeof *ids, compare);
	for (uint32_t i = 0; i < count; i++)
		if (i == 0 || ids[i] != ids[i - 1])
			ids[different++] = ids[i];
	return different;
}

/* The training set's ids, users first. */
static int name_ids(const struct reader *reader, struct hd_dataset *dataset) {
	size_t rows = reader->rows;
	uint32_t *ids = malloc(2 * rows * sizeof *ids);
	uint32_t items;

	if (!ids)
		return -ENOMEM;
	memcpy(ids, reader->id[0], rows * sizeof *ids);
	dataset->users = find_ids(ids, reader->rows);
	memcpy(ids + dataset->users, reader->id[1], rows * sizeof *ids);
	items = find_ids(ids + dataset->users, reader->rows);
	dataset->ids = ids;
	if ((uint64_t)dataset->users + items > HD_RATED_MAX) {
		hd_trainer_put(
			reader->error,
			reader->error_bytes,
			"%u users and %u items: more than %d together (HD_RATED_MAX)",
			dataset->users,
			items,
			HD_RATED_MAX
		);
		return -E2BIG;
	}
	dataset->features = dataset->users + items;
	return 0;
}

static const uint32_t *find_id(const struct hd_dataset *like, int which, uint32_t id) {
	const uint32_t *ids = like->ids + (which == 0 ? 0 : like->users);

	return bsearch(
		&id,
		ids,
		which == 0 ? like->users : like->features - like->users,
		sizeof *ids,
		compare
	);
}

/* Rows whose user or item is not in the training set are left out. */
static int number_rows(
	const struct reader *reader,
	const struct hd_dataset *like,
	struct hd_dataset *dataset
) {
	size_t rows = reader->rows;
	double sum = 0.0;

	dataset->start = calloc(rows + 1, sizeof *dataset->start);
	dataset->index = malloc(PER_ROW * rows * sizeof *dataset->index);
	dataset->value = malloc(PER_ROW * rows * sizeof *dataset->value);
	dataset->target = malloc(rows * sizeof *dataset->target);
	dataset->y = calloc(rows, 1);
	dataset->labels = calloc(HD_DATA_LABELS_MAX, sizeof *dataset->labels);
	if (!dataset->start || !dataset->index || !dataset->value || !dataset->target || !dataset->y
	    || !dataset->labels)
		return -ENOMEM;
	for (size_t i = 0; i < rows; i++) {
		const uint32_t *user = find_id(like, 0, reader->id[0][i]);
		const uint32_t *item = find_id(like, 1, reader->id[1][i]);
		size_t to = dataset->rows;

		if (!user || !item)
			continue;
		dataset->index[PER_ROW * to] = (uint32_t)(user - like->ids);
		dataset->index[PER_ROW * to + 1] = (uint32_t)(item - like->ids);
		dataset->value[PER_ROW * to] = dataset->value[PER_ROW * to + 1] = 1.0f;
		dataset->target[to] = reader->rating[i];
		sum += (double)reader->rating[i];
		dataset->start[++dataset->rows] = PER_ROW * (to + 1);
	}
	dataset->users = like->users;
	dataset->features = like->features;
	dataset->mean = like == dataset ? (float)(sum / (double)dataset->rows) : like->mean;
	if (dataset->rows > 0)
		return 0;
	hd_trainer_put(
		reader->error,
		reader->error_bytes,
		"no row of a user and an item that were trained on"
	);
	return -EINVAL;
}

int hd_ratings_decode(
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
		.error = error,
		.error_bytes = error_bytes,
	};
	int rc = read_rows(&reader);

	if (rc == 0 && !like)
		rc = name_ids(&reader, &result);
	if (rc == 0)
		rc = number_rows(&reader, like ? like : &result, &result);
	if (rc == -ENOMEM)
		hd_trainer_put(error, error_bytes, "no memory");
	free(reader.id[0]);
	free(reader.id[1]);
	free(reader.rating);
	if (rc < 0) {
		hd_dataset_fini(&result);
		return rc;
	}
	*dataset = result;
	return 0;
}
