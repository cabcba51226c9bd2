/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoders of the data formats, and minibatches: no files here. */
#include "hd_trainer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_FEATURES ((size_t)64)
#define DIGITS_COLUMNS 65
#define DIGITS_CLASSES 10
#define DIGITS_VALUE_MAX 16

void hd_dataset_fini(struct hd_dataset *dataset) {
	free(dataset->x);
	free(dataset->y);
	free(dataset->start);
	free(dataset->index);
	free(dataset->value);
	free(dataset->labels);
	free(dataset->target);
	free(dataset->ids);
	memset(dataset, 0, sizeof *dataset);
}

void hd_dataset_row(const struct hd_dataset *dataset, uint32_t row, float *x) {
	size_t features = dataset->features;

	if (dataset->x) {
		memcpy(x, dataset->x + row * features, sizeof(float) * features);
		return;
	}
	memset(x, 0, sizeof(float) * features);
	for (uint64_t i = dataset->start[row]; i < dataset->start[row + 1]; i++)
		x[dataset->index[i]] = dataset->value[i];
}

struct cursor {
	const char *at, *end;
	uint32_t line;
};

/* One number in 0..max that is followed by `after` (or the end of the text). -1 when it is anything else. */
static int take_number(struct cursor *cursor, int max, char after) {
	int value = 0, digits = 0;

	while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9' && digits < 6) {
		value = value * 10 + (*cursor->at++ - '0');
		digits++;
	}
	if (after == '\n' && cursor->at < cursor->end && *cursor->at == '\r')
		cursor->at++;
	if (digits == 0 || value > max)
		return -1;
	if (cursor->at == cursor->end)
		return after == '\n' ? value : -1;
	return *cursor->at++ == after ? value : -1;
}

static int take_row(struct cursor *cursor, float *x, uint8_t *y, char *error, size_t error_bytes) {
	int value;

	for (uint32_t i = 0; i < DIGITS_FEATURES; i++) {
		value = take_number(cursor, DIGITS_VALUE_MAX, ',');
		if (value < 0) {
			hd_trainer_put(
				error,
				error_bytes,
				"line %u: column %u: not a whole number in 0..%d and a comma",
				cursor->line,
				i + 1,
				DIGITS_VALUE_MAX
			);
			return -EINVAL;
		}
		x[i] = (float)value / (float)DIGITS_VALUE_MAX;
	}
	value = take_number(cursor, DIGITS_CLASSES - 1, '\n');
	if (value < 0) {
		hd_trainer_put(
			error,
			error_bytes,
			"line %u: column %d: not a label in 0..%d at the end of the line",
			cursor->line,
			DIGITS_COLUMNS,
			DIGITS_CLASSES - 1
		);
		return -EINVAL;
	}
	*y = (uint8_t)value;
	return 0;
}

int hd_digits_decode(
	const char *text,
	size_t bytes,
	struct hd_dataset *dataset,
	char *error,
	size_t error_bytes
) {
	struct cursor cursor = {text, text + bytes, 1};
	struct hd_dataset result = {.features = DIGITS_FEATURES, .classes = DIGITS_CLASSES};
	/* A row has at least two bytes for each of its 65 numbers (the last may lack its newline); one more row leaves
	 * space for an incomplete end. */
	size_t rows_max = (bytes + 1) / ((size_t)2 * DIGITS_COLUMNS);
	int rc = 0;

	if (rows_max == 0) {
		hd_trainer_put(error, error_bytes, "line 1: no row of %d numbers", DIGITS_COLUMNS);
		return -EINVAL;
	}
	if (rows_max > HD_DATA_ROWS_MAX) {
		hd_trainer_put(
			error, error_bytes, "more than %d rows (HD_DATA_ROWS_MAX)", HD_DATA_ROWS_MAX
		);
		return -E2BIG;
	}
	result.x = malloc((rows_max + 1) * DIGITS_FEATURES * sizeof(float));
	result.y = malloc(rows_max + 1);
	if (!result.x || !result.y) {
		hd_trainer_put(error, error_bytes, "no memory for %zu rows", rows_max);
		rc = -ENOMEM;
	}
	while (rc == 0 && cursor.at < cursor.end) {
		rc = take_row(
			&cursor,
			result.x + result.rows * DIGITS_FEATURES,
			result.y + result.rows,
			error,
			error_bytes
		);
		result.rows++;
		cursor.line++;
	}
	if (rc < 0) {
		hd_dataset_fini(&result);
		return rc;
	}
	*dataset = result;
	return 0;
}

static uint32_t load_u32(const uint8_t *data) {
	return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

int hd_idx_decode(
	const uint8_t *data,
	size_t bytes,
	struct hd_idx *idx,
	char *error,
	size_t error_bytes
) {
	struct hd_idx result = {0};
	uint64_t total = 1;

	if (bytes < 4 || data[0] != 0 || data[1] != 0) {
		hd_trainer_put(
			error, error_bytes, "byte 0: not an IDX file (begins with two zero bytes)"
		);
		return -EINVAL;
	}
	if (data[2] != 0x08) {
		hd_trainer_put(
			error,
			error_bytes,
			"byte 2: type 0x%02x, only unsigned bytes (0x08)",
			data[2]
		);
		return -EINVAL;
	}
	result.dimension_count = data[3];
	if (result.dimension_count == 0 || result.dimension_count > 4) {
		hd_trainer_put(error, error_bytes, "byte 3: %u dimensions (limit 4)", data[3]);
		return -EINVAL;
	}
	if (bytes < 4 + 4u * result.dimension_count) {
		hd_trainer_put(error, error_bytes, "byte %zu: ends within the sizes", bytes);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < result.dimension_count; i++) {
		result.dimension[i] = load_u32(data + 4 + (size_t)4 * i);
		/* Both factors stay below 2^32: the product cannot overflow. */
		total *= result.dimension[i];
		if (total > HD_DATA_BYTES_MAX) {
			hd_trainer_put(
				error,
				error_bytes,
				"byte %u: more than %llu values (HD_DATA_BYTES_MAX)",
				4 + 4 * i,
				(unsigned long long)HD_DATA_BYTES_MAX
			);
			return -E2BIG;
		}
	}
	result.data = data + 4 + 4 * (size_t)result.dimension_count;
	result.bytes = bytes - 4 - 4 * (size_t)result.dimension_count;
	if (result.bytes != total) {
		hd_trainer_put(
			error,
			error_bytes,
			"byte %zu: ends with %zu values, the sizes say %llu",
			bytes,
			result.bytes,
			(unsigned long long)total
		);
		return -EINVAL;
	}
	*idx = result;
	return 0;
}

/* --- minibatches ---------------------------------------------------------------------------- */

int hd_sampler_init(
	struct hd_sampler *sampler,
	const struct hd_dataset *dataset,
	uint32_t rank,
	uint32_t world,
	uint32_t batch,
	uint64_t seed
) {
	struct hd_sampler result = {.dataset = dataset, .batch = batch};

	/* A late worker beyond the world shares the rows of another. */
	if (world == 0 || batch == 0 || batch > HD_BATCH_MAX)
		return -EINVAL;
	rank %= world;
	if (dataset->rows <= rank)
		return -EINVAL;
	result.count = (dataset->rows - rank + world - 1) / world;
	result.rows = malloc(sizeof(uint32_t) * result.count);
	result.picked = malloc(sizeof(uint32_t) * batch);
	if (!dataset->by_row) {
		result.x = malloc(sizeof(float) * (size_t)batch * dataset->features);
		result.y = malloc(batch);
	}
	if (!result.rows || !result.picked || (!dataset->by_row && (!result.x || !result.y))) {
		hd_sampler_fini(&result);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < result.count; i++)
		result.rows[i] = rank + i * world;
	result.next = result.count;
	hd_random_init(&result.random, seed ^ ((uint64_t)rank + 1) * UINT64_C(0x9e3779b97f4a7c15));
	*sampler = result;
	return 0;
}

int hd_sampler_deal(struct hd_sampler *sampler, const uint32_t *rows, uint32_t count) {
	uint32_t *copy;

	if (count == 0)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++)
		if (rows[i] >= sampler->dataset->rows)
			return -EINVAL;
	copy = malloc(sizeof(uint32_t) * count);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, rows, sizeof(uint32_t) * count);
	free(sampler->rows);
	sampler->rows = copy;
	sampler->count = sampler->next = count;
	return 0;
}

void hd_sampler_fini(struct hd_sampler *sampler) {
	free(sampler->rows);
	free(sampler->picked);
	free(sampler->x);
	free(sampler->y);
	memset(sampler, 0, sizeof *sampler);
}

/* Fisher and Yates. */
static void shuffle(struct hd_sampler *sampler) {
	for (uint32_t i = sampler->count; i > 1; i--) {
		uint32_t j = (uint32_t)hd_random_below(&sampler->random, i);
		uint32_t row = sampler->rows[i - 1];

		sampler->rows[i - 1] = sampler->rows[j];
		sampler->rows[j] = row;
	}
	sampler->next = 0;
}

void hd_sampler_next(struct hd_sampler *sampler) {
	size_t features = sampler->dataset->features;

	for (uint32_t i = 0; i < sampler->batch; i++) {
		uint32_t row;

		if (sampler->next == sampler->count)
			shuffle(sampler);
		row = sampler->rows[sampler->next++];
		sampler->picked[i] = row;
		if (!sampler->x)
			continue;
		hd_dataset_row(sampler->dataset, row, sampler->x + i * features);
		sampler->y[i] = sampler->dataset->y[row];
	}
}
