/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_entry.h"

#include <errno.h>

static void put_float(uint8_t *data, float x) {
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	hd_put32(data, bits);
}

static void put_double(uint8_t *data, double x) {
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	hd_put64(data, bits);
}

static float get_float(const uint8_t *data) {
	uint32_t bits = hd_get32(data);
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static double get_double(const uint8_t *data) {
	uint64_t bits = hd_get64(data);
	double x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

int hd_entry_put(
	const struct hd_entry *entry,
	const struct hd_entry_member *members,
	uint8_t *data,
	size_t capacity
) {
	uint16_t count = entry->member_count;
	size_t bytes = HD_ENTRY_HEAD_BYTES + (size_t)count * HD_ENTRY_MEMBER_BYTES;

	if (count == 0 || count > HD_GROUP_MEMBERS_MAX)
		return -EINVAL;
	if (bytes > capacity)
		return -EMSGSIZE;
	hd_put64(data, entry->version);
	hd_put64(data + 8, entry->bytes);
	put_double(data + 16, entry->update);
	put_float(data + 24, entry->weight);
	data[28] = entry->dtype;
	hd_put16(data + 29, count);
	hd_put16(data + 31, entry->more);
	put_float(data + 33, entry->scale);
	data += HD_ENTRY_HEAD_BYTES;
	for (uint16_t i = 0; i < count; i++, data += HD_ENTRY_MEMBER_BYTES) {
		const struct hd_entry_member *member = &members[i];

		hd_put64(data, member->base);
		hd_put64(data + 8, member->position);
		hd_put32(data + 16, member->round);
		hd_put32(data + 20, member->delay);
		hd_put16(data + 24, member->worker);
	}
	return (int)bytes;
}

int hd_entry_next(const struct hd_blob *entries, uint32_t *at, struct hd_entry *entry) {
	uint32_t left = entries->bytes - *at;
	const uint8_t *data = entries->data + *at;
	uint16_t count;

	if (left == 0)
		return 0;
	if (left < HD_ENTRY_HEAD_BYTES)
		return -EBADMSG;
	count = hd_get16(data + 29);
	if (count == 0 || count > HD_GROUP_MEMBERS_MAX
	    || left - HD_ENTRY_HEAD_BYTES < (uint32_t)count * HD_ENTRY_MEMBER_BYTES)
		return -EBADMSG;
	entry->version = hd_get64(data);
	entry->bytes = hd_get64(data + 8);
	entry->update = get_double(data + 16);
	entry->weight = get_float(data + 24);
	entry->dtype = data[28];
	entry->member_count = count;
	entry->more = hd_get16(data + 31);
	entry->scale = get_float(data + 33);
	entry->records = data + HD_ENTRY_HEAD_BYTES;
	*at += HD_ENTRY_HEAD_BYTES + (uint32_t)count * HD_ENTRY_MEMBER_BYTES;
	return 1;
}

struct hd_entry_member hd_entry_member(const struct hd_entry *entry, uint16_t index) {
	const uint8_t *data = entry->records + (size_t)index * HD_ENTRY_MEMBER_BYTES;

	return (struct hd_entry_member){
		.base = hd_get64(data),
		.position = hd_get64(data + 8),
		.round = hd_get32(data + 16),
		.delay = hd_get32(data + 20),
		.worker = hd_get16(data + 24),
	};
}
