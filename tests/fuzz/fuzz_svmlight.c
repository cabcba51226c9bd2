/* SPDX-License-Identifier: BSD-3-Clause */
/* SVMlight's text: any bytes give rows within their limits, or an error; and as a test set of themselves they have
 * the same rows. */
#include "fuzz.h"
#include "hd_trainer.h"

#include <math.h>
#include <string.h>

static void check(const struct hd_dataset *dataset) {
	CHECK(dataset->rows > 0 && dataset->features > 0 && !dataset->x);
	CHECK(dataset->features <= HD_DATA_FEATURES_MAX && dataset->classes >= 2);
	CHECK(dataset->start[0] == 0);
	for (uint32_t row = 0; row < dataset->rows; row++) {
		CHECK(dataset->y[row] < dataset->classes);
		CHECK(dataset->start[row] <= dataset->start[row + 1]);
		for (uint64_t i = dataset->start[row]; i < dataset->start[row + 1]; i++) {
			CHECK(dataset->index[i] < dataset->features && isfinite(dataset->value[i]));
			CHECK(i == dataset->start[row] || dataset->index[i] > dataset->index[i - 1]
			);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct hd_dataset train = {0}, test = {0};
	char error[HD_TEXT_BYTES_MAX] = "";
	const char *text = (const char *)data;

	if (hd_svmlight_decode(text, bytes, NULL, &train, error, sizeof error) < 0) {
		CHECK(error[0] != 0);
		return 0;
	}
	check(&train);
	CHECK(hd_svmlight_decode(text, bytes, &train, &test, error, sizeof error) == 0);
	check(&test);
	CHECK(test.rows == train.rows && memcmp(test.y, train.y, test.rows) == 0);
	hd_dataset_fini(&train);
	hd_dataset_fini(&test);
	return 0;
}
