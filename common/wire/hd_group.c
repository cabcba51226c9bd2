/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_group.h"

#include <errno.h>

static void put_float(uint8_t *data, float x) {
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	hd_put32(data, bits);
}

static float get_float(const uint8_t *data) {
	uint32_t bits = hd_get32(data);
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static int list_bytes(uint32_t count, uint32_t record_bytes, size_t capacity) {
	if (count > HD_GROUP_MEMBERS_MAX) {
		return -E2BIG;
	}
	return (size_t)count * record_bytes <= capacity ? (int)(count * record_bytes) : -EMSGSIZE;
}

int hd_group_put_inputs(
	const struct hd_group_input *inputs,
	uint32_t count,
	uint8_t *data,
	size_t capacity
) {
	int bytes = list_bytes(count, HD_GROUP_INPUT_BYTES, capacity);

	for (uint32_t i = 0; bytes >= 0 && i < count; i++, data += HD_GROUP_INPUT_BYTES) {
		hd_put64(data, inputs[i].token);
		hd_put64(data + 8, inputs[i].after);
		hd_put16(data + 16, inputs[i].worker);
		hd_put32(data + 18, inputs[i].round);
		data[22] = inputs[i].attempt;
		hd_put64(data + 23, inputs[i].bytes);
	}
	return bytes;
}

int hd_group_put_outputs(
	const struct hd_group_output *outputs,
	uint32_t count,
	uint8_t *data,
	size_t capacity
) {
	int bytes = list_bytes(count, HD_GROUP_OUTPUT_BYTES, capacity);

	for (uint32_t i = 0; bytes >= 0 && i < count; i++, data += HD_GROUP_OUTPUT_BYTES) {
		hd_put64(data, outputs[i].token);
		hd_put64(data + 8, outputs[i].after);
		hd_put64(data + 16, (uint64_t)outputs[i].start_ns);
		hd_put64(data + 24, outputs[i].rate_bps);
		data[32] = outputs[i].role;
		hd_put16(data + 33, outputs[i].worker);
		hd_put32(data + 35, outputs[i].round);
		data[39] = outputs[i].attempt;
		hd_put32(data + 40, outputs[i].ipv4);
		hd_put16(data + 44, outputs[i].port);
		put_float(data + 46, outputs[i].cc_weight);
	}
	return bytes;
}

int hd_group_put_members(
	const struct hd_group_member *members,
	uint32_t count,
	uint8_t *data,
	size_t capacity
) {
	int bytes = list_bytes(count, HD_GROUP_MEMBER_BYTES, capacity);

	for (uint32_t i = 0; bytes >= 0 && i < count; i++, data += HD_GROUP_MEMBER_BYTES) {
		hd_put64(data, members[i].token);
		hd_put64(data + 8, members[i].base);
		hd_put16(data + 16, members[i].worker);
		hd_put32(data + 18, members[i].round);
		data[22] = members[i].attempt;
		put_float(data + 23, members[i].weight);
		put_float(data + 27, members[i].norm);
	}
	return bytes;
}

int hd_group_put_shards(
	const struct hd_group_shard *shards,
	uint32_t count,
	uint8_t *data,
	size_t capacity
) {
	int bytes = list_bytes(count, HD_GROUP_SHARD_BYTES, capacity);

	for (uint32_t i = 0; bytes >= 0 && i < count; i++, data += HD_GROUP_SHARD_BYTES) {
		hd_put64(data, shards[i].out_token);
		hd_put64(data + 8, shards[i].in_token);
		hd_put64(data + 16, shards[i].bytes);
		hd_put32(data + 24, shards[i].ipv4);
		hd_put16(data + 28, shards[i].port);
		put_float(data + 30, shards[i].cc_weight);
	}
	return bytes;
}

int hd_group_count(const struct hd_blob *blob, uint32_t record_bytes) {
	uint32_t count = blob->bytes / record_bytes;

	if (count == 0 || count > HD_GROUP_MEMBERS_MAX || blob->bytes % record_bytes != 0) {
		return -EBADMSG;
	}
	return (int)count;
}

struct hd_group_input hd_group_get_input(const struct hd_blob *inputs, uint32_t index) {
	const uint8_t *data = inputs->data + (size_t)index * HD_GROUP_INPUT_BYTES;

	return (struct hd_group_input){
		.token = hd_get64(data),
		.after = hd_get64(data + 8),
		.worker = hd_get16(data + 16),
		.round = hd_get32(data + 18),
		.attempt = data[22],
		.bytes = hd_get64(data + 23),
	};
}

struct hd_group_output hd_group_get_output(const struct hd_blob *outputs, uint32_t index) {
	const uint8_t *data = outputs->data + (size_t)index * HD_GROUP_OUTPUT_BYTES;

	return (struct hd_group_output){
		.token = hd_get64(data),
		.after = hd_get64(data + 8),
		.start_ns = (hd_ns)hd_get64(data + 16),
		.rate_bps = hd_get64(data + 24),
		.role = data[32],
		.worker = hd_get16(data + 33),
		.round = hd_get32(data + 35),
		.attempt = data[39],
		.ipv4 = hd_get32(data + 40),
		.port = hd_get16(data + 44),
		.cc_weight = get_float(data + 46),
	};
}

struct hd_group_member hd_group_get_member(const struct hd_blob *members, uint32_t index) {
	const uint8_t *data = members->data + (size_t)index * HD_GROUP_MEMBER_BYTES;

	return (struct hd_group_member){
		.token = hd_get64(data),
		.base = hd_get64(data + 8),
		.worker = hd_get16(data + 16),
		.round = hd_get32(data + 18),
		.attempt = data[22],
		.weight = get_float(data + 23),
		.norm = get_float(data + 27),
	};
}

struct hd_group_shard hd_group_get_shard(const struct hd_blob *shards, uint32_t index) {
	const uint8_t *data = shards->data + (size_t)index * HD_GROUP_SHARD_BYTES;

	return (struct hd_group_shard){
		.out_token = hd_get64(data),
		.in_token = hd_get64(data + 8),
		.bytes = hd_get64(data + 16),
		.ipv4 = hd_get32(data + 24),
		.port = hd_get16(data + 28),
		.cc_weight = get_float(data + 30),
	};
}
