/* SPDX-License-Identifier: BSD-3-Clause */
/* Sparse data as text, from a seed: in the parsers' formats, so that generated and real data take the same path. */
#include "hd_row_model.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 4
#define PER_ROW_MAX 1024
#define LINE_BYTES_MAX 64 /* of a rating, and of a value with its index */
#define TRUE_FACTORS 4
#define TRUE_SPREAD 0.6 /* of factors: ratings have a standard deviation of about sqrt(4) 0.36 */
#define NOISE 0.05
#define RATING_MEAN 3.5
#define TWO_PI 6.283185307179586
#define LOGIT_SHARE 0.3 /* share of the features with a weight */

struct text {
	char *data;
	size_t bytes, capacity;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
	va_list arguments;
	int wrote;

	va_start(arguments, format);
	wrote = vsnprintf(
		text->data + text->bytes, text->capacity - text->bytes, format, arguments
	);
	va_end(arguments);
	text->bytes += wrote > 0 ? (size_t)wrote : 0;
}

static double normal(struct hd_random *random) {
	double u = 1.0 - hd_random_unit(random), v = hd_random_unit(random);

	return sqrt(-2.0 * log(u)) * cos(TWO_PI * v);
}

static int take_numbers(
	const char *text,
	uint64_t *number,
	const uint64_t *max,
	char *error,
	size_t error_bytes
) {
	static const char *const names[] = {"first", "second", "third", "seed"};
	const char *at = text;

	for (int i = 0; i < NUMBERS; i++) {
		char *end = NULL;
		unsigned long long value = 0;

		errno = 0;
		if (*at >= '0' && *at <= '9')
			value = strtoull(at, &end, 10);
		if (!end || errno != 0 || value < 1 || value > max[i]) {
			hd_trainer_put(
				error,
				error_bytes,
				"generated: %s number: not in 1..%llu",
				names[i],
				(unsigned long long)max[i]
			);
			return -EINVAL;
		}
		number[i] = value;
		at = end;
		if (*at != ',' || i == NUMBERS - 1)
			break;
		at++;
	}
	if (*at == '\0')
		return 0;
	hd_trainer_put(error, error_bytes, "generated: '%.16s' after the numbers", at);
	return -EINVAL;
}

/* --- logistic regression -------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Few features are in many rows: the density of feature f falls with 1 / sqrt(f). */
static void
add_row(struct text *text,
	struct hd_random *random,
	const float *weight,
	uint32_t features,
	uint32_t per_row) {
	uint32_t index[PER_ROW_MAX];
	double value[PER_ROW_MAX], z = 0.0;

	for (uint32_t i = 0; i < per_row; i++) {
		double u = hd_random_unit(random);

		index[i] = (uint32_t)(u * u * (double)features);
		value[i] = round((0.5 + hd_random_unit(random)) * 1000.0) / 1000.0;
	}
	qsort(index, per_row, sizeof index[0], compare);
	for (uint32_t i = 0; i < per_row; i++)
		if (i == 0 || index[i] != index[i - 1])
			z += (double)weight[index[i]] * value[i];
	add(text, "%s", hd_random_unit(random) < 1.0 / (1.0 + exp(-z)) ? "+1" : "-1");
	for (uint32_t i = 0; i < per_row; i++)
		if (i == 0 || index[i] != index[i - 1])
			add(text, " %u:%.3f", index[i] + 1, value[i]);
	add(text, "\n");
}

static int generate_logistic(const uint64_t number[NUMBERS], struct text *text) {
	uint32_t features = (uint32_t)number[1], per_row = (uint32_t)number[2];
	float *weight = calloc(features, sizeof *weight);
	struct hd_random random;

	text->capacity = number[0] * (number[2] + 1) * (LINE_BYTES_MAX / 2) + 1;
	text->data = malloc(text->capacity);
	if (!weight || !text->data) {
		free(weight);
		return -ENOMEM;
	}
	hd_random_init(&random, number[3]);
	for (uint32_t i = 0; i < features; i++)
		if (hd_random_chance(&random, LOGIT_SHARE))
			weight[i] = (float)(2.0 * normal(&random));
	for (uint64_t row = 0; row < number[0]; row++)
		add_row(text, &random, weight, features, per_row);
	free(weight);
	return 0;
}

/* --- ratings -------------------------------------------------------------------------------- */

static int generate_ratings(const uint64_t number[NUMBERS], struct text *text) {
	uint64_t users = number[0], items = number[1];
	double *factor = malloc((users + items) * TRUE_FACTORS * sizeof *factor);
	struct hd_random random;

	text->capacity = number[2] * LINE_BYTES_MAX + 1;
	text->data = malloc(text->capacity);
	if (!factor || !text->data) {
		free(factor);
		return -ENOMEM;
	}
	hd_random_init(&random, number[3]);
	for (uint64_t i = 0; i < (users + items) * TRUE_FACTORS; i++)
		factor[i] = TRUE_SPREAD * normal(&random);
	for (uint64_t i = 0; i < number[2]; i++) {
		uint64_t user = hd_random_below(&random, users);
		uint64_t item = hd_random_below(&random, items);
		double rating = RATING_MEAN + NOISE * normal(&random);

		for (uint64_t k = 0; k < TRUE_FACTORS; k++)
			rating += factor[user * TRUE_FACTORS + k]
				* factor[(users + item) * TRUE_FACTORS + k];
		add(text,
		    "%llu\t%llu\t%.3f\t%llu\n",
		    (unsigned long long)user + 1,
		    (unsigned long long)item + 1,
		    rating,
		    (unsigned long long)i);
	}
	free(factor);
	return 0;
}

int hd_generate(
	const char *words,
	char **out,
	size_t *bytes,
	bool *ratings,
	char *error,
	size_t error_bytes
) {
	static const uint64_t max[2][NUMBERS] = {
		{1000000, HD_DATA_FEATURES_MAX, PER_ROW_MAX, UINT64_MAX},
		{1000000, 1000000, 10000000, UINT64_MAX},
	};
	uint64_t number[2][NUMBERS] = {{8000, 2000, 20, 1}, {200, 300, 20000, 1}};
	size_t length = strcspn(words, ":");
	struct text text = {NULL, 0, 0};
	int rc;

	*ratings = length == 7 && strncmp(words, "ratings", length) == 0;
	if (!*ratings && (length != 8 || strncmp(words, "logistic", length) != 0)) {
		hd_trainer_put(
			error, error_bytes, "generated: '%.16s' is not logistic or ratings", words
		);
		return -EINVAL;
	}
	if (words[length] == ':') {
		rc = take_numbers(
			words + length + 1, number[*ratings], max[*ratings], error, error_bytes
		);
		if (rc < 0)
			return rc;
	}
	rc = *ratings ? generate_ratings(number[1], &text) : generate_logistic(number[0], &text);
	if (rc < 0) {
		hd_trainer_put(error, error_bytes, "generated: no memory");
		free(text.data);
		return rc;
	}
	*out = text.data;
	*bytes = text.bytes;
	return 0;
}
