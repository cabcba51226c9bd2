/* SPDX-License-Identifier: BSD-3-Clause */
/* Ratings: any bytes give rows within their limits, or an error; and as a test set of themselves they have the same
 * rows. The first line is also taken for words that describe generated data (small ones). */
#include "fuzz.h"
#include "hd_row_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check(const struct hd_dataset *dataset) {
	CHECK(dataset->rows > 0 && dataset->users > 0 && dataset->users < dataset->features);
	CHECK(dataset->features <= HD_RATED_MAX && isfinite(dataset->mean));
	for (uint32_t row = 0; row < dataset->rows; row++) {
		const uint32_t *index = dataset->index + dataset->start[row];

		CHECK(dataset->start[row + 1] == dataset->start[row] + 2);
		CHECK(index[0] < dataset->users && index[1] >= dataset->users);
		CHECK(index[1] < dataset->features && fabsf(dataset->target[row]) <= 1e6f);
	}
}

static void try_words(const uint8_t *data, size_t bytes) {
	char words[48] = "ratings:3,4,", error[HD_TEXT_BYTES_MAX] = "", *text = NULL;
	size_t length = 0, at = strlen(words);
	bool ratings;

	/* Numbers of a run of their own could ask for gigabytes: only the last two are the input's. */
	while (length < bytes && length < 4 && data[length] >= 32 && data[length] < 127)
		words[at++] = (char)data[length++];
	if (hd_generate(words, &text, &length, &ratings, error, sizeof error) < 0) {
		CHECK(error[0] != 0);
		return;
	}
	CHECK(ratings && length > 0);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct hd_dataset train = {0}, test = {0};
	char error[HD_TEXT_BYTES_MAX] = "";
	const char *text = (const char *)data;

	try_words(data, bytes);
	if (hd_ratings_decode(text, bytes, NULL, &train, error, sizeof error) < 0) {
		CHECK(error[0] != 0);
		return 0;
	}
	check(&train);
	CHECK(hd_ratings_decode(text, bytes, &train, &test, error, sizeof error) == 0);
	check(&test);
	CHECK(test.rows == train.rows);
	CHECK(memcmp(test.index, train.index, 2 * sizeof *test.index * test.rows) == 0);
	hd_dataset_fini(&train);
	hd_dataset_fini(&test);
	return 0;
}
