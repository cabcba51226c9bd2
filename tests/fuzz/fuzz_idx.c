/* SPDX-License-Identifier: BSD-3-Clause */
/* IDX arrays: any bytes give an array that lies within them, or an error. */
#include "fuzz.h"
#include "hd_trainer.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	char error[HD_TEXT_BYTES_MAX];
	struct hd_idx idx;
	uint64_t values = 1;

	if (hd_idx_decode(data, bytes, &idx, error, sizeof error) < 0)
		return 0;
	for (uint32_t i = 0; i < idx.dimension_count; i++)
		values *= idx.dimension[i];
	if (values != idx.bytes || idx.data < data || idx.data + idx.bytes != data + bytes)
		abort();
	return 0;
}
