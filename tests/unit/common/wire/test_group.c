/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of GROUP, MEMBERS and SLOTS: bytes by hand, limits, there and back inside their messages. */
#include "hd_group.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_bytes_by_hand(void **state) {
	static const struct hd_group_input input
		= {0x0102030405060708, 9, 0x0a0b, 0x0c0d0e0f, 0x10, 0x11};
	static const struct hd_group_member member = {1, 2, 3, 4, 5, 0.5F, -2};
	static const uint8_t in[HD_GROUP_INPUT_BYTES] = {
		1,  2,  3,  4,  5,  6,  7,  8, 0, 0, 0, 0, 0, 0, 0,  9,
		10, 11, 12, 13, 14, 15, 16, 0, 0, 0, 0, 0, 0, 0, 17,
	};
	static const uint8_t out[HD_GROUP_MEMBER_BYTES] = {
		[7] = 1,
		[15] = 2,
		[17] = 3,
		[21] = 4,
		[22] = 5,
		[23] = 0x3f,
		[27] = 0xc0,
	};
	static const struct hd_group_seat seat = {0x0102, 3, 4, 0x05060708, 0x090a};
	static const uint8_t at[HD_GROUP_SEAT_BYTES]
		= {1, 2, [9] = 3, [17] = 4, [18] = 5, 6, 7, 8, 9, 10};
	static const struct hd_group_receiver receiver = {1, 0x02030405, 0x0607};
	static const uint8_t to[HD_GROUP_RECEIVER_BYTES] = {[7] = 1, 2, 3, 4, 5, 6, 7};
	const struct hd_blob seats = {at, sizeof at}, receivers = {to, sizeof to};
	uint8_t data[HD_GROUP_OUTPUT_BYTES];

	assert_int_equal(hd_group_put_seats(&seat, 1, data, sizeof data), sizeof at);
	assert_memory_equal(data, at, sizeof at);
	assert_int_equal(hd_group_get_seat(&seats, 0).result_token, 4);
	assert_int_equal(hd_group_put_receivers(&receiver, 1, data, sizeof data), sizeof to);
	assert_memory_equal(data, to, sizeof to);
	assert_int_equal(hd_group_get_receiver(&receivers, 0).port, 0x0607);
	assert_int_equal(hd_group_put_inputs(&input, 1, data, sizeof data), sizeof in);
	assert_memory_equal(data, in, sizeof in);
	assert_int_equal(hd_group_put_members(&member, 1, data, sizeof data), sizeof out);
	assert_memory_equal(data, out, sizeof out);
}

static void test_limits(void **state) {
	static struct hd_group_input inputs[HD_GROUP_MEMBERS_MAX + 1];
	static uint8_t data[sizeof inputs];
	struct hd_blob blob = {data, 0};

	assert_int_equal(
		hd_group_put_inputs(inputs, HD_GROUP_MEMBERS_MAX + 1, data, sizeof data), -E2BIG
	);
	assert_int_equal(
		hd_group_put_inputs(inputs, 2, data, 2 * HD_GROUP_INPUT_BYTES - 1), -EMSGSIZE
	);
	assert_int_equal(hd_group_count(&blob, HD_GROUP_INPUT_BYTES), -EBADMSG);
	blob.bytes = HD_GROUP_INPUT_BYTES + 1;
	assert_int_equal(hd_group_count(&blob, HD_GROUP_INPUT_BYTES), -EBADMSG);
	blob.bytes = HD_GROUP_MEMBERS_MAX * HD_GROUP_INPUT_BYTES;
	assert_int_equal(hd_group_count(&blob, HD_GROUP_INPUT_BYTES), HD_GROUP_MEMBERS_MAX);
	blob.bytes += HD_GROUP_INPUT_BYTES;
	assert_int_equal(hd_group_count(&blob, HD_GROUP_INPUT_BYTES), -EBADMSG);
}

/* The biggest lists fit into their messages. */
static void test_fullest_message(void **state) {
	static struct hd_group_output outputs[HD_GROUP_MEMBERS_MAX];
	static uint8_t lists[2][HD_GROUP_BLOB_BYTES_MAX], body[HD_MESSAGE_BYTES_MAX];
	struct hd_group_input input = {.token = 1};
	struct hd_message message = {.kind = HD_MSG_GROUP}, decoded;
	struct hd_group_output back;
	int bytes;

	for (uint32_t i = 0; i < HD_GROUP_MEMBERS_MAX; i++) {
		outputs[i] = (struct hd_group_output){
			.token = i + 1,
			.after = i,
			.start_ns = (hd_ns)5 * i,
			.rate_bps = 7,
			.role = HD_ROLE_WORKER,
			.worker = (uint16_t)i,
			.round = 3 * i,
			.attempt = 1,
			.ipv4 = ~i,
			.port = 9,
			.cc_weight = (float)i,
		};
	}
	message.group.inputs.data = lists[0];
	message.group.inputs.bytes
		= (uint32_t)hd_group_put_inputs(&input, 1, lists[0], sizeof lists[0]);
	message.group.outputs.data = lists[1];
	message.group.outputs.bytes = (uint32_t
	)hd_group_put_outputs(outputs, HD_GROUP_MEMBERS_MAX, lists[1], sizeof lists[1]);
	bytes = hd_message_encode(&message, body, sizeof body);
	assert_true(bytes > 0);
	assert_int_equal(hd_message_decode(HD_MSG_GROUP, body, (size_t)bytes, &decoded), 0);
	assert_int_equal(hd_group_count(&decoded.group.inputs, HD_GROUP_INPUT_BYTES), 1);
	assert_int_equal(
		hd_group_count(&decoded.group.outputs, HD_GROUP_OUTPUT_BYTES), HD_GROUP_MEMBERS_MAX
	);
	assert_int_equal(hd_group_get_input(&decoded.group.inputs, 0).token, 1);
	for (uint32_t i = 0; i < HD_GROUP_MEMBERS_MAX; i++) {
		back = hd_group_get_output(&decoded.group.outputs, i);
		assert_true(
			back.token == i + 1 && back.after == i && back.start_ns == (hd_ns)5 * i
			&& back.rate_bps == 7 && back.role == HD_ROLE_WORKER && back.worker == i
			&& back.round == 3 * i && back.attempt == 1 && back.ipv4 == ~i
			&& back.port == 9 && back.cc_weight == (float)i
		);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_by_hand),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_fullest_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
