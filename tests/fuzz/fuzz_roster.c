/* SPDX-License-Identifier: BSD-3-Clause */
/* Two bytes of count, then a set of ranks: what is read has one form only. */
#include "fuzz.h"
#include "hd_roster.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	uint16_t ranks[HD_WORKERS_MAX];
	struct hd_roster roster;
	size_t count;

	if (bytes < 2
	    || hd_roster_read(&roster, (uint16_t)(data[0] << 8 | data[1]), data + 2, bytes - 2) < 0)
		return 0;
	CHECK(hd_roster_bytes(&roster) == bytes - 2);
	CHECK(memcmp(roster.ranks, data + 2, bytes - 2) == 0);
	count = hd_roster_list(&roster, ranks, HD_WORKERS_MAX);
	CHECK(count == roster.count);
	for (size_t i = 0; i < count; i++)
		CHECK(hd_roster_has(&roster, ranks[i]) && (i == 0 || ranks[i - 1] < ranks[i]));
	return 0;
}
