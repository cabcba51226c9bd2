/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of GROUP, MEMBERS, REDUCE and SLOTS: an error, or records that, written again, are the same bytes. The first
 * byte chooses the kind of list. Signalling NaNs stay as they are: they are only moved. */
#include "fuzz.h"
#include "hd_group.h"

#include <string.h>

static uint8_t again[HD_GROUP_BLOB_BYTES_MAX];

static int rewrite(uint8_t kind, const struct hd_blob *blob, uint32_t index, uint8_t *data) {
	struct hd_group_input input;
	struct hd_group_output output;
	struct hd_group_member member;
	struct hd_group_receiver receiver;
	struct hd_group_shard shard;
	struct hd_group_seat seat;

	switch (kind) {
	case 0:
		input = hd_group_get_input(blob, index);
		return hd_group_put_inputs(&input, 1, data, HD_GROUP_INPUT_BYTES);
	case 1:
		output = hd_group_get_output(blob, index);
		return hd_group_put_outputs(&output, 1, data, HD_GROUP_OUTPUT_BYTES);
	case 2:
		member = hd_group_get_member(blob, index);
		return hd_group_put_members(&member, 1, data, HD_GROUP_MEMBER_BYTES);
	case 3:
		seat = hd_group_get_seat(blob, index);
		return hd_group_put_seats(&seat, 1, data, HD_GROUP_SEAT_BYTES);
	case 4:
		receiver = hd_group_get_receiver(blob, index);
		return hd_group_put_receivers(&receiver, 1, data, HD_GROUP_RECEIVER_BYTES);
	default:
		shard = hd_group_get_shard(blob, index);
		return hd_group_put_shards(&shard, 1, data, HD_GROUP_SHARD_BYTES);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static const uint32_t record[]
		= {HD_GROUP_INPUT_BYTES,
		   HD_GROUP_OUTPUT_BYTES,
		   HD_GROUP_MEMBER_BYTES,
		   HD_GROUP_SEAT_BYTES,
		   HD_GROUP_RECEIVER_BYTES,
		   HD_GROUP_SHARD_BYTES};
	struct hd_blob blob;
	uint8_t kind;
	int count;

	if (bytes == 0 || bytes > sizeof again)
		return 0;
	kind = data[0] % 6;
	blob = (struct hd_blob){data + 1, (uint32_t)bytes - 1};
	count = hd_group_count(&blob, record[kind]);
	if (count < 0) {
		CHECK(blob.bytes == 0 || blob.bytes % record[kind] != 0
		      || blob.bytes / record[kind] > HD_GROUP_MEMBERS_MAX);
		return 0;
	}
	for (uint32_t i = 0; i < (uint32_t)count; i++) {
		CHECK(rewrite(kind, &blob, i, again + (size_t)i * record[kind]) == (int)record[kind]
		);
	}
	CHECK(memcmp(again, blob.data, blob.bytes) == 0);
	return 0;
}
