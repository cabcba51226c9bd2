/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of a commit log: what is read, written again, is the same bytes. */
#include "fuzz.h"
#include "hd_entry.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static struct hd_entry_member members[HD_GROUP_MEMBERS_MAX];
	static uint8_t again[HD_MESSAGE_BYTES_MAX];
	struct hd_blob blob = {data, (uint32_t)bytes};
	struct hd_entry entry;
	uint32_t at = 0, from = 0;
	int more;

	if (bytes > HD_MESSAGE_BYTES_MAX)
		return 0;
	while ((more = hd_entry_next(&blob, &at, &entry)) > 0) {
		int wrote;

		CHECK(entry.member_count >= 1 && entry.member_count <= HD_GROUP_MEMBERS_MAX);
		for (uint16_t i = 0; i < entry.member_count; i++)
			members[i] = hd_entry_member(&entry, i);
		wrote = hd_entry_put(&entry, members, again, sizeof again);
		CHECK(wrote == (int)(at - from) && at <= bytes);
		CHECK(memcmp(again, data + from, at - from) == 0);
		from = at;
	}
	CHECK(more < 0 || at == bytes);
	return 0;
}
