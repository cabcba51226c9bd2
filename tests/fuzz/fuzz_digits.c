/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of digits.csv: any bytes give rows within their limits, or an error. */
#include "fuzz.h"
#include "hd_trainer.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct hd_dataset dataset = {0};
	char error[HD_TEXT_BYTES_MAX];

	if (hd_digits_decode((const char *)data, bytes, &dataset, error, sizeof error) < 0)
		return 0;
	for (uint32_t i = 0; i < dataset.rows; i++) {
		if (dataset.y[i] >= dataset.classes)
			abort();
		for (uint32_t k = 0; k < dataset.features; k++)
			if (!(dataset.x[i * (size_t)dataset.features + k] >= 0.0f
			      && dataset.x[i * (size_t)dataset.features + k] <= 1.0f))
				abort();
	}
	hd_dataset_fini(&dataset);
	return 0;
}
