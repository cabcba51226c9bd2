/* SPDX-License-Identifier: BSD-3-Clause */
/* STATS.values: what is read has one form, but for ids that are not known here. */
#include "fuzz.h"
#include "hd_dataplane.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	uint8_t again[HD_DATAPLANE_BYTES_MAX];
	struct hd_dataplane dataplane, read;
	size_t used;

	if (hd_dataplane_decode(&dataplane, data, bytes) < 0)
		return 0;
	for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++)
		CHECK(hd_dataplane_get(&dataplane, i) <= HD_DATAPLANE_VALUE_MAX);
	used = hd_dataplane_encode(&dataplane, again);
	CHECK(used <= bytes && (used == 0 || memcmp(again, data, used) == 0));
	CHECK(hd_dataplane_decode(&read, again, used) == 0);
	CHECK(memcmp(&read, &dataplane, sizeof read) == 0);
	return 0;
}
