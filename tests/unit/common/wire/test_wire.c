/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet headers: known bytes, round trips, every truncation and every wrong field. */
#include "hd_limits.h"
#include "hd_message.h"
#include "hd_random.h"
#include "hd_wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_chunk_header sample_chunk = {
	.flags = HD_CHUNK_RESEND | HD_CHUNK_LAST,
	.attempt = 3,
	.dtype = HD_DTYPE_FP32,
	.job = 0x01020304,
	.epoch = 0x0506,
	.worker = 0x0708,
	.round = 0x090a0b0c,
	.exponent = -2,
	.shard = 0x0d0e,
	.slot = 0x0f10,
	.chunk = 0x11121314,
	.packet = 0x15161718,
	.version = UINT64_C(0x191a1b1c1d1e1f20),
	.count = 2,
	.next = 0x2122,
	.total = 0x2b2c2d2e,
	.token = UINT64_C(0x232425262728292a),
};

/* docs/wire.md's figure, in bytes: the layout never changes under version 1. */
static const uint8_t sample_bytes[HD_CHUNK_HEADER_BYTES] = {
	0x48, 0x44, 0x11, 0x09, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a,
	0x0b, 0x0c, 0x03, 0x00, 0xff, 0xfe, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14,
	0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x00, 0x02,
	0x21, 0x22, 0x2b, 0x2c, 0x2d, 0x2e, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a,
};

static void test_chunk_is_known_bytes(void **state) {
	uint8_t data[HD_CHUNK_HEADER_BYTES + 8] = {0};
	struct hd_chunk_header out;
	const uint8_t *payload;
	size_t payload_bytes;

	(void)state;
	hd_chunk_encode(&sample_chunk, data);
	assert_memory_equal(data, sample_bytes, sizeof sample_bytes);
	memset(&out, 0, sizeof out);
	assert_int_equal(hd_chunk_decode(data, sizeof data, &out, &payload, &payload_bytes), 0);
	assert_memory_equal(&out, &sample_chunk, sizeof out);
	assert_ptr_equal(payload, data + HD_CHUNK_HEADER_BYTES);
	assert_int_equal(payload_bytes, 8);
}

static void test_chunk_refuses(void **state) {
	uint8_t data[HD_PACKET_BYTES_MAX + 8] = {0};
	struct hd_chunk_header out = {.token = 5}, untouched = out;
	struct hd_chunk_header header = sample_chunk;
	const uint8_t *payload = data;
	size_t payload_bytes = 99, bytes = HD_CHUNK_HEADER_BYTES + 8;

	(void)state;
	hd_chunk_encode(&header, data);
	for (size_t cut = 0; cut < bytes; cut++)
		assert_int_equal(
			hd_chunk_decode(data, cut, &out, &payload, &payload_bytes), -EBADMSG
		);
	assert_int_equal(
		hd_chunk_decode(data, bytes + 1, &out, &payload, &payload_bytes), -EBADMSG
	);
	assert_int_equal(
		hd_chunk_decode(data, bytes + 4, &out, &payload, &payload_bytes), -EBADMSG
	);
	data[17] = HD_DTYPE_COUNT;
	assert_int_equal(hd_chunk_decode(data, bytes, &out, &payload, &payload_bytes), -EBADMSG);
	data[17] = HD_DTYPE_FP16; /* 2 values of 2 bytes are not 8 bytes */
	assert_int_equal(hd_chunk_decode(data, bytes, &out, &payload, &payload_bytes), -EBADMSG);
	data[17] = HD_DTYPE_FP32;
	data[2] = HD_WIRE_VERSION << 4 | HD_PACKET_CONTROL;
	assert_int_equal(hd_chunk_decode(data, bytes, &out, &payload, &payload_bytes), -EBADMSG);
	data[2] = 2 << 4 | HD_PACKET_CHUNK;
	assert_int_equal(hd_chunk_decode(data, bytes, &out, &payload, &payload_bytes), -EBADMSG);
	header.count = 0;
	hd_chunk_encode(&header, data);
	assert_int_equal(
		hd_chunk_decode(data, HD_CHUNK_HEADER_BYTES, &out, &payload, &payload_bytes),
		-EBADMSG
	);
	/* Longer than any packet, however well it agrees with itself. */
	header.count = (HD_PACKET_BYTES_MAX + 4 - HD_CHUNK_HEADER_BYTES) / 4;
	hd_chunk_encode(&header, data);
	assert_int_equal(
		hd_chunk_decode(
			data,
			HD_CHUNK_HEADER_BYTES + 4 * (size_t)header.count,
			&out,
			&payload,
			&payload_bytes
		),
		-EBADMSG
	);
	assert_memory_equal(&out, &untouched, sizeof out);
	assert_int_equal(payload_bytes, 99);
}

static void test_chunks_round_trip(void **state) {
	struct hd_random r;

	(void)state;
	hd_random_init(&r, 1);
	for (int i = 0; i < 20000; i++) {
		static uint8_t data[HD_PACKET_BYTES_MAX];
		struct hd_chunk_header in, out;
		const uint8_t *payload;
		size_t payload_bytes, bytes;

		memset(&in, 0, sizeof in);
		memset(&out, 0, sizeof out);
		in.flags = (uint8_t)hd_random_u64(&r);
		in.attempt = (uint8_t)hd_random_u64(&r);
		in.dtype = (uint8_t)hd_random_below(&r, HD_DTYPE_COUNT);
		in.job = (uint32_t)hd_random_u64(&r);
		in.epoch = (uint16_t)hd_random_u64(&r);
		in.worker = (uint16_t)hd_random_u64(&r);
		in.round = (uint32_t)hd_random_u64(&r);
		in.exponent = (int16_t)hd_random_u64(&r);
		in.shard = (uint16_t)hd_random_u64(&r);
		in.slot = (uint16_t)hd_random_u64(&r);
		in.chunk = (uint32_t)hd_random_u64(&r);
		in.packet = (uint32_t)hd_random_u64(&r);
		in.version = hd_random_u64(&r);
		in.next = (int16_t)hd_random_u64(&r);
		in.total = (uint32_t)hd_random_u64(&r);
		in.token = hd_random_u64(&r); /* half of them sealed */
		in.count = (uint16_t)(1 + hd_random_below(&r, 1000));
		bytes = HD_CHUNK_HEADER_BYTES + in.count * hd_dtype_bytes(in.dtype);
		if (hd_token_is_sealed(in.token))
			bytes += HD_SEAL_BYTES;
		hd_chunk_encode(&in, data);
		assert_int_equal(hd_chunk_decode(data, bytes, &out, &payload, &payload_bytes), 0);
		assert_memory_equal(&in, &out, sizeof in);
	}
}

/* A result is a chunk of another type, and may be without values. */
static void test_results(void **state) {
	uint8_t data[HD_CHUNK_HEADER_BYTES + 8] = {0};
	struct hd_chunk_header out;
	const uint8_t *payload;
	size_t payload_bytes = 0;

	(void)state;
	memset(&out, 0, sizeof out);
	hd_chunk_encode(&sample_chunk, data);
	assert_int_equal(
		hd_result_decode(data, sizeof data, &out, &payload, &payload_bytes), -EBADMSG
	);
	data[2] = HD_WIRE_VERSION << 4 | HD_PACKET_RESULT;
	assert_int_equal(hd_result_decode(data, sizeof data, &out, &payload, &payload_bytes), 0);
	assert_memory_equal(&sample_chunk, &out, sizeof out);
	assert_ptr_equal(payload, data + HD_CHUNK_HEADER_BYTES);
	assert_int_equal(payload_bytes, 8);
	assert_int_equal(
		hd_chunk_decode(data, sizeof data, &out, &payload, &payload_bytes), -EBADMSG
	);
	for (size_t cut = 0; cut < sizeof data; cut++)
		assert_int_equal(
			hd_result_decode(data, cut, &out, &payload, &payload_bytes), -EBADMSG
		);
	data[40] = data[41] = 0;
	assert_int_equal(
		hd_result_decode(data, HD_CHUNK_HEADER_BYTES, &out, &payload, &payload_bytes), 0
	);
	assert_int_equal(payload_bytes, 0);
}

static void test_control_is_known_bytes(void **state) {
	static const uint8_t expected[HD_CONTROL_HEADER_BYTES] = {
		0x48, 0x44, 0x13, 0x01, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,
		0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12,
		0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x19, 0x1a, 0x00,
	};
	struct hd_control_header in = {
		.type = HD_PACKET_CONTROL,
		.flags = HD_CONTROL_MORE,
		.kind = HD_MSG_GRANT,
		.key_id = 0x191a,
		.session = 0x01020304,
		.sequence = UINT64_C(0x05060708090a0b0c),
		.message = 0x0d0e0f10,
		.ack = 0x11121314,
		.ack_mask = 0x15161718,
	};
	struct hd_control_header out;
	uint8_t data[HD_CONTROL_HEADER_BYTES + 5 + HD_TAG_BYTES] = {0};
	const uint8_t *body;
	size_t body_bytes;

	(void)state;
	memset(&out, 0, sizeof out);
	hd_control_encode(&in, data);
	assert_memory_equal(data, expected, sizeof expected);
	assert_int_equal(hd_control_decode(data, sizeof data, &out, &body, &body_bytes), 0);
	assert_int_equal(out.type, in.type);
	assert_int_equal(out.flags, in.flags);
	assert_int_equal(out.kind, in.kind);
	assert_int_equal(out.key_id, in.key_id);
	assert_int_equal(out.session, in.session);
	assert_int_equal(out.sequence, in.sequence);
	assert_int_equal(out.message, in.message);
	assert_int_equal(out.ack, in.ack);
	assert_int_equal(out.ack_mask, in.ack_mask);
	assert_ptr_equal(body, data + HD_CONTROL_HEADER_BYTES);
	assert_int_equal(body_bytes, 5);
}

static void test_control_refuses(void **state) {
	uint8_t data[HD_CONTROL_HEADER_BYTES + HD_FRAGMENT_BYTES_MAX + HD_TAG_BYTES + 1] = {0};
	struct hd_control_header header = {.type = HD_PACKET_CONTROL}, out;
	const uint8_t *body;
	size_t body_bytes, least = HD_CONTROL_HEADER_BYTES + HD_TAG_BYTES;

	(void)state;
	hd_control_encode(&header, data);
	for (size_t cut = 0; cut < least; cut++)
		assert_int_equal(hd_control_decode(data, cut, &out, &body, &body_bytes), -EBADMSG);
	assert_int_equal(hd_control_decode(data, least, &out, &body, &body_bytes), 0);
	assert_int_equal(body_bytes, 0);
	assert_int_equal(hd_control_decode(data, sizeof data - 1, &out, &body, &body_bytes), 0);
	assert_int_equal(hd_control_decode(data, sizeof data, &out, &body, &body_bytes), -EBADMSG);
	header.type = HD_PACKET_CHUNK;
	hd_control_encode(&header, data);
	assert_int_equal(hd_control_decode(data, least, &out, &body, &body_bytes), -EBADMSG);
	/* Of another version only a REFUSE is read. */
	header.type = HD_PACKET_HELLO;
	header.kind = HD_MSG_HELLO;
	hd_control_encode(&header, data);
	data[2] = 9 << 4 | HD_PACKET_HELLO;
	assert_int_equal(hd_control_decode(data, least, &out, &body, &body_bytes), -EBADMSG);
	data[28] = HD_MSG_REFUSE;
	assert_int_equal(hd_control_decode(data, least, &out, &body, &body_bytes), 0);
	data[2] = 9 << 4 | HD_PACKET_CONTROL;
	assert_int_equal(hd_control_decode(data, least, &out, &body, &body_bytes), -EBADMSG);
}

static void test_classify(void **state) {
	uint8_t data[8] = {0x48, 0x44, 0x11}, version = 0;

	(void)state;
	for (uint8_t type = 0; type < 16; type++) {
		data[2] = (uint8_t)(0x10 | type);
		assert_int_equal(
			hd_packet_classify(data, 8, &version),
			type >= 1 && type <= 6 ? type : -EBADMSG
		);
		assert_int_equal(version, 1);
	}
	data[2] = 0xf1;
	assert_int_equal(hd_packet_classify(data, 8, &version), -EPROTONOSUPPORT);
	assert_int_equal(version, 15);
	assert_int_equal(hd_packet_classify(data, 7, &version), -EBADMSG);
	assert_int_equal(hd_packet_classify(NULL, 0, &version), -EBADMSG);
	data[0] = 0x49;
	assert_int_equal(hd_packet_classify(data, 8, &version), -EBADMSG);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_is_known_bytes),
		cmocka_unit_test(test_chunk_refuses),
		cmocka_unit_test(test_chunks_round_trip),
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_control_is_known_bytes),
		cmocka_unit_test(test_control_refuses),
		cmocka_unit_test(test_classify),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
