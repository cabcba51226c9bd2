/* SPDX-License-Identifier: BSD-3-Clause */
/* Data files by name: reads them and passes them to the decoders. */
#include "hd_data_file.h"
#include "hd_row_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_FILE "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz"
#define DIGITS_TEST_ROWS 360

/* Puts the file's name before the decoder's error. */
static void name_file(const char *path, const char *what, char *error, size_t error_bytes) {
	hd_trainer_put(error, error_bytes, "%s: %s", path, what);
}

static int
split(const struct hd_dataset *all, uint32_t first, uint32_t rows, struct hd_dataset *part) {
	struct hd_dataset result = *all;
	size_t features = all->features;

	result.rows = rows;
	result.x = malloc(sizeof(float) * features * rows);
	result.y = malloc(rows);
	if (!result.x || !result.y) {
		hd_dataset_fini(&result);
		return -ENOMEM;
	}
	memcpy(result.x, all->x + features * first, sizeof(float) * features * rows);
	memcpy(result.y, all->y + first, rows);
	*part = result;
	return 0;
}

static int
decode_digits(void *arg, const struct hd_data_file *file, char *error, size_t error_bytes) {
	return hd_digits_decode((const char *)file->data, file->bytes, arg, error, error_bytes);
}

static int open_digits(
	const char *path,
	struct hd_dataset *train,
	struct hd_dataset *test,
	char *error,
	size_t error_bytes
) {
	struct hd_data_file file = {.data = NULL};
	struct hd_dataset all = {0};
	int rc;

	(void)snprintf(file.path, sizeof file.path, "%s", path);
	rc = hd_data_file_decode(&file, decode_digits, &all, error, error_bytes);
	if (rc == -ENOENT)
		hd_trainer_put(
			error,
			error_bytes,
			"%s: not there (Debian's package python3-sklearn has it)",
			path
		);
	if (rc < 0)
		return rc;
	if (all.rows <= DIGITS_TEST_ROWS) {
		hd_trainer_put(error, error_bytes, "%s: %u rows, at least 361", path, all.rows);
		hd_dataset_fini(&all);
		return -EINVAL;
	}
	rc = split(&all, 0, all.rows - DIGITS_TEST_ROWS, train);
	if (rc == 0) {
		rc = split(&all, all.rows - DIGITS_TEST_ROWS, DIGITS_TEST_ROWS, test);
		if (rc < 0)
			hd_dataset_fini(train);
	}
	if (rc < 0)
		hd_trainer_put(error, error_bytes, "%s: no memory", path);
	hd_dataset_fini(&all);
	return rc;
}

/* Reads DIR/STEM or DIR/STEM.gz and decodes it with that many dimensions (0: at least 2). */
static int open_idx(
	const char *dir,
	const char *stem,
	struct hd_data_file *file,
	struct hd_idx *idx,
	char *error,
	size_t error_bytes
) {
	char what[HD_TEXT_BYTES_MAX];
	int length = snprintf(file->path, sizeof file->path, "%s/%s", dir, stem);
	int rc;

	if (length < 0 || (size_t)length + 3 >= sizeof file->path) {
		hd_trainer_put(error, error_bytes, "%.64s...: path too long", dir);
		return -ENAMETOOLONG;
	}
	rc = hd_data_file_read(file, error, error_bytes);
	if (rc == -ENOENT) {
		memcpy(file->path + length, ".gz", 4);
		rc = hd_data_file_read(file, error, error_bytes);
	}
	if (rc == -ENOENT)
		hd_trainer_put(error, error_bytes, "%s/%s[.gz]: not there", dir, stem);
	if (rc < 0)
		return rc;
	rc = hd_idx_decode(file->data, file->bytes, idx, what, sizeof what);
	if (rc < 0)
		name_file(file->path, what, error, error_bytes);
	return rc;
}

static int check_pair(
	const struct hd_data_file *file,
	const struct hd_idx *images,
	const struct hd_idx *labels,
	char *error,
	size_t error_bytes
) {
	uint32_t rows = images->dimension[0];

	if (images->dimension_count < 2 || rows == 0 || rows > HD_DATA_ROWS_MAX)
		hd_trainer_put(
			error, error_bytes, "%s: not 1..%d images", file[0].path, HD_DATA_ROWS_MAX
		);
	else if (images->bytes / rows == 0 || images->bytes / rows > HD_DATA_FEATURES_MAX)
		hd_trainer_put(
			error,
			error_bytes,
			"%s: not 1..%d values an image (HD_DATA_FEATURES_MAX)",
			file[0].path,
			HD_DATA_FEATURES_MAX
		);
	else if (labels->dimension_count != 1 || labels->dimension[0] != rows)
		hd_trainer_put(error, error_bytes, "%s: not %u labels", file[1].path, rows);
	else
		return 0;
	return -EINVAL;
}

static int fill_from_idx(
	const struct hd_idx *images,
	const struct hd_idx *labels,
	struct hd_dataset *dataset
) {
	struct hd_dataset result = {.rows = images->dimension[0]};

	result.features = (uint32_t)(images->bytes / result.rows);
	result.x = malloc(sizeof(float) * images->bytes);
	result.y = malloc(result.rows);
	if (!result.x || !result.y) {
		hd_dataset_fini(&result);
		return -ENOMEM;
	}
	for (size_t i = 0; i < images->bytes; i++)
		result.x[i] = (float)images->data[i] / 255.0f;
	for (uint32_t i = 0; i < result.rows; i++) {
		result.y[i] = labels->data[i];
		if (result.classes <= result.y[i])
			result.classes = result.y[i] + 1u;
	}
	*dataset = result;
	return 0;
}

static int open_idx_pair(
	const char *dir,
	const char *prefix,
	struct hd_dataset *dataset,
	char *error,
	size_t error_bytes
) {
	struct hd_data_file file[2] = {{.data = NULL}, {.data = NULL}};
	struct hd_idx images, labels;
	char stem[64];
	int rc;

	(void)snprintf(stem, sizeof stem, "%s-images-idx3-ubyte", prefix);
	rc = open_idx(dir, stem, &file[0], &images, error, error_bytes);
	if (rc == 0) {
		(void)snprintf(stem, sizeof stem, "%s-labels-idx1-ubyte", prefix);
		rc = open_idx(dir, stem, &file[1], &labels, error, error_bytes);
	}
	if (rc == 0)
		rc = check_pair(file, &images, &labels, error, error_bytes);
	if (rc == 0) {
		rc = fill_from_idx(&images, &labels, dataset);
		if (rc < 0)
			hd_trainer_put(error, error_bytes, "%s: no memory", file[0].path);
	}
	free(file[0].data);
	free(file[1].data);
	return rc;
}

static int open_idx_dir(
	const char *dir,
	struct hd_dataset *train,
	struct hd_dataset *test,
	char *error,
	size_t error_bytes
) {
	struct hd_dataset first = {0}, second = {0};
	int rc = open_idx_pair(dir, "train", &first, error, error_bytes);

	if (rc < 0)
		return rc;
	rc = open_idx_pair(dir, "t10k", &second, error, error_bytes);
	if (rc < 0) {
		hd_dataset_fini(&first);
		return rc;
	}
	if (first.features != second.features) {
		hd_trainer_put(
			error,
			error_bytes,
			"%s: test images have %u values, training images %u",
			dir,
			second.features,
			first.features
		);
		hd_dataset_fini(&first);
		hd_dataset_fini(&second);
		return -EINVAL;
	}
	first.classes = first.classes > second.classes ? first.classes : second.classes;
	second.classes = first.classes;
	*train = first;
	*test = second;
	return 0;
}

struct text {
	const char *at;
	size_t bytes;
	bool ratings; /* else SVMlight's */
};

struct rows {
	bool ratings;
	const struct hd_dataset *like;
	struct hd_dataset *dataset;
};

static int decode_rows(
	const struct text *text,
	const struct hd_dataset *like,
	struct hd_dataset *dataset,
	char *error,
	size_t error_bytes
) {
	return text->ratings ?
		hd_ratings_decode(text->at, text->bytes, like, dataset, error, error_bytes) :
		hd_svmlight_decode(text->at, text->bytes, like, dataset, error, error_bytes);
}

static int
decode_file(void *arg, const struct hd_data_file *file, char *error, size_t error_bytes) {
	const struct rows *rows = arg;
	const struct text text = {(const char *)file->data, file->bytes, rows->ratings};

	return decode_rows(&text, rows->like, rows->dataset, error, error_bytes);
}

/* Every fifth row is for the test: files are often sorted by label. */
static int put_aside(const struct hd_dataset *all, struct hd_dataset *part, bool aside) {
	struct hd_dataset result = {
		.features = all->features,
		.classes = all->classes,
		.users = all->users,
		.mean = all->mean,
	};
	uint64_t values = all->start[all->rows];

	result.y = malloc(all->rows);
	result.start = calloc((size_t)all->rows + 1, sizeof *result.start);
	result.index = malloc((values + 1) * sizeof *result.index);
	result.value = malloc((values + 1) * sizeof *result.value);
	result.labels = malloc(HD_DATA_LABELS_MAX * sizeof *result.labels);
	if (all->target)
		result.target = malloc(all->rows * sizeof *result.target);
	if (!result.y || !result.start || !result.index || !result.value || !result.labels
	    || (all->target && !result.target)) {
		hd_dataset_fini(&result);
		return -ENOMEM;
	}
	memcpy(result.labels, all->labels, HD_DATA_LABELS_MAX * sizeof *result.labels);
	for (uint32_t row = 0; row < all->rows; row++) {
		uint64_t first = all->start[row], count = all->start[row + 1] - first;
		uint64_t to = result.start[result.rows];

		if ((row % 5 == 4) != aside)
			continue;
		memcpy(result.index + to, all->index + first, count * sizeof *result.index);
		memcpy(result.value + to, all->value + first, count * sizeof *result.value);
		if (all->target)
			result.target[result.rows] = all->target[row];
		result.y[result.rows++] = all->y[row];
		result.start[result.rows] = to + count;
	}
	*part = result;
	return 0;
}

static int
split_rows(const struct hd_dataset *all, struct hd_dataset *train, struct hd_dataset *test) {
	int rc = all->rows < 5 ? -EINVAL : put_aside(all, train, false);

	if (rc == 0) {
		rc = put_aside(all, test, true);
		if (rc < 0)
			hd_dataset_fini(train);
	}
	return rc;
}

static int open_rows(
	const char *names,
	bool ratings,
	struct hd_dataset *train,
	struct hd_dataset *test,
	char *error,
	size_t error_bytes
) {
	struct hd_data_file first = {.data = NULL}, second = {.data = NULL};
	struct hd_dataset all = {0};
	struct rows rows = {ratings, NULL, &all}, others = {ratings, &all, test};
	int rc = hd_data_file_names(names, &first, &second, error, error_bytes);

	if (rc == 0)
		rc = hd_data_file_decode(&first, decode_file, &rows, error, error_bytes);
	if (rc < 0)
		return rc;
	if (second.path[0] != '\0') {
		rc = hd_data_file_decode(&second, decode_file, &others, error, error_bytes);
		if (rc == 0)
			*train = all;
		else
			hd_dataset_fini(&all);
		return rc;
	}
	rc = split_rows(&all, train, test);
	if (rc < 0)
		hd_trainer_put(
			error,
			error_bytes,
			"%s: %s",
			first.path,
			rc == -EINVAL ? "less than 5 rows, and no test set" : "no memory"
		);
	hd_dataset_fini(&all);
	return rc;
}

static int open_generated(
	const char *words,
	struct hd_dataset *train,
	struct hd_dataset *test,
	char *error,
	size_t error_bytes
) {
	struct hd_dataset all = {0};
	bool ratings;
	size_t bytes;
	char *text;
	int rc = hd_generate(words, &text, &bytes, &ratings, error, error_bytes);

	if (rc < 0)
		return rc;
	rc = decode_rows(&(struct text){text, bytes, ratings}, NULL, &all, error, error_bytes);
	free(text);
	if (rc < 0)
		return rc;
	rc = split_rows(&all, train, test);
	if (rc < 0)
		hd_trainer_put(
			error,
			error_bytes,
			"generated: %s",
			rc == -EINVAL ? "less than 5 rows" : "no memory"
		);
	hd_dataset_fini(&all);
	return rc;
}

int hd_dataset_open(
	const char *name,
	struct hd_dataset *train,
	struct hd_dataset *test,
	char *error,
	size_t error_bytes
) {
	if (strcmp(name, "digits") == 0)
		return open_digits(DIGITS_FILE, train, test, error, error_bytes);
	if (strncmp(name, "digits:", 7) == 0)
		return open_digits(name + 7, train, test, error, error_bytes);
	if (strncmp(name, "svmlight:", 9) == 0)
		return open_rows(name + 9, false, train, test, error, error_bytes);
	if (strncmp(name, "ratings:", 8) == 0)
		return open_rows(name + 8, true, train, test, error, error_bytes);
	if (strncmp(name, "generated:", 10) == 0)
		return open_generated(name + 10, train, test, error, error_bytes);
	return open_idx_dir(name, train, test, error, error_bytes);
}
