/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_group.h"

#include <assert.h>
#include <errno.h>

/* --- fields of each record, in order ---------------------------------------------------------- */

#define INPUT_FIELDS(F)                                                                            \
	F(u64, token)                                                                              \
	F(u64, after)                                                                              \
	F(u16, worker)                                                                             \
	F(u32, round)                                                                              \
	F(u8, attempt)                                                                             \
	F(u64, bytes)
#define OUTPUT_FIELDS(F)                                                                           \
	F(u64, token)                                                                              \
	F(u64, after)                                                                              \
	F(u64, start_ns)                                                                           \
	F(u64, rate_bps)                                                                           \
	F(u8, role)                                                                                \
	F(u16, worker)                                                                             \
	F(u32, round)                                                                              \
	F(u8, attempt)                                                                             \
	F(u32, ipv4)                                                                               \
	F(u16, port)                                                                               \
	F(f32, cc_weight)
#define MEMBER_FIELDS(F)                                                                           \
	F(u64, token)                                                                              \
	F(u64, base)                                                                               \
	F(u16, worker)                                                                             \
	F(u32, round)                                                                              \
	F(u8, attempt)                                                                             \
	F(f32, weight)                                                                             \
	F(f32, norm)
#define SHARD_FIELDS(F)                                                                            \
	F(u64, out_token)                                                                          \
	F(u64, in_token)                                                                           \
	F(u64, bytes)                                                                              \
	F(u32, ipv4)                                                                               \
	F(u16, port)                                                                               \
	F(f32, cc_weight)                                                                          \
	F(u64, first)
#define SEAT_FIELDS(F)                                                                             \
	F(u16, worker)                                                                             \
	F(u64, token)                                                                              \
	F(u64, result_token)                                                                       \
	F(u32, ipv4)                                                                               \
	F(u16, port)
#define RECEIVER_FIELDS(F)                                                                         \
	F(u64, token)                                                                              \
	F(u32, ipv4)                                                                               \
	F(u16, port)

enum {
	BYTES_u8 = 1,
	BYTES_u16 = 2,
	BYTES_u32 = 4,
	BYTES_u64 = 8,
	BYTES_f32 = 4
};
/* One of several terms, each with its own sign. */
#define FIELD_BYTES(type, field) +BYTES_##type /* NOLINT(bugprone-macro-parentheses) */
static_assert(INPUT_FIELDS(FIELD_BYTES) == HD_GROUP_INPUT_BYTES, "input");
static_assert(OUTPUT_FIELDS(FIELD_BYTES) == HD_GROUP_OUTPUT_BYTES, "output");
static_assert(MEMBER_FIELDS(FIELD_BYTES) == HD_GROUP_MEMBER_BYTES, "member");
static_assert(SHARD_FIELDS(FIELD_BYTES) == HD_GROUP_SHARD_BYTES, "shard");
static_assert(SEAT_FIELDS(FIELD_BYTES) == HD_GROUP_SEAT_BYTES, "seat");
static_assert(RECEIVER_FIELDS(FIELD_BYTES) == HD_GROUP_RECEIVER_BYTES, "receiver");

/* --- values ------------------------------------------------------------------------------------ */

static void put_u8(uint8_t **at, uint8_t x) {
	*(*at)++ = x;
}

static uint8_t get_u8(const uint8_t **at) {
	return *(*at)++;
}

#define INTEGER(bits)                                                                              \
	static void put_u##bits(uint8_t **at, uint##bits##_t x) {                                  \
		hd_put##bits(*at, x);                                                              \
		*at += (bits) / 8;                                                                 \
	}                                                                                          \
	static uint##bits##_t get_u##bits(const uint8_t **at) {                                    \
		uint##bits##_t x = hd_get##bits(*at);                                              \
                                                                                                   \
		*at += (bits) / 8;                                                                 \
		return x;                                                                          \
	}
INTEGER(16)
INTEGER(32)
INTEGER(64)

static void put_f32(uint8_t **at, float x) {
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	put_u32(at, bits);
}

static float get_f32(const uint8_t **at) {
	uint32_t bits = get_u32(at);
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

/* --- lists ------------------------------------------------------------------------------------- */

static int list_bytes(uint32_t count, uint32_t record_bytes, size_t capacity) {
	if (count > HD_GROUP_MEMBERS_MAX)
		return -E2BIG;
	return (size_t)count * record_bytes <= capacity ? (int)(count * record_bytes) : -EMSGSIZE;
}

#define PUT_FIELD(type, field) put_##type(&data, record->field);
#define GET_FIELD(type, field) record.field = get_##type(&data);
#define LIST(name, FIELDS, record_bytes)                                                           \
	int hd_group_put_##name##s(                                                                \
		const struct hd_group_##name *records,                                             \
		uint32_t count,                                                                    \
		uint8_t *data,                                                                     \
		size_t capacity                                                                    \
	) {                                                                                        \
		int bytes = list_bytes(count, record_bytes, capacity);                             \
                                                                                                   \
		for (uint32_t i = 0; bytes >= 0 && i < count; i++) {                               \
			const struct hd_group_##name *record = &records[i];                        \
                                                                                                   \
			FIELDS(PUT_FIELD)                                                          \
		}                                                                                  \
		return bytes;                                                                      \
	}                                                                                          \
	struct hd_group_##name hd_group_get_##name(const struct hd_blob *list, uint32_t index) {   \
		const uint8_t *data = list->data + (size_t)index * (record_bytes);                 \
		struct hd_group_##name record;                                                     \
                                                                                                   \
		FIELDS(GET_FIELD)                                                                  \
		return record;                                                                     \
	}

LIST(input, INPUT_FIELDS, HD_GROUP_INPUT_BYTES)
LIST(output, OUTPUT_FIELDS, HD_GROUP_OUTPUT_BYTES)
LIST(member, MEMBER_FIELDS, HD_GROUP_MEMBER_BYTES)
LIST(shard, SHARD_FIELDS, HD_GROUP_SHARD_BYTES)
LIST(seat, SEAT_FIELDS, HD_GROUP_SEAT_BYTES)
LIST(receiver, RECEIVER_FIELDS, HD_GROUP_RECEIVER_BYTES)

int hd_group_count(const struct hd_blob *blob, uint32_t record_bytes) {
	uint32_t count = blob->bytes / record_bytes;

	if (count == 0 || count > HD_GROUP_MEMBERS_MAX || blob->bytes % record_bytes != 0)
		return -EBADMSG;
	return (int)count;
}
