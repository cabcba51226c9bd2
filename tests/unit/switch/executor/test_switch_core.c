/* SPDX-License-Identifier: BSD-3-Clause */
/* The native switch's sums and their copies, against values worked out here. */
#include "hd_bytes.h"
#include "switch_world.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- sums ------------------------------------------------------------------------------------ */

static void test_sum(void **state) {
	struct world world;
	struct hd_switch_packet packet;
	struct hd_switch_lease_stats stats;

	begin(&world);
	assert_int_equal(send_value(&world, 0, 5, 7, COUNTER(absorbed)).verdict, HD_SWITCH_DROP);
	send_value(&world, 2, 5, -100, COUNTER(absorbed));
	assert_int_equal(hd_switch_core_lease_stats(world.core, 5, &stats), 0);
	assert_int_equal(stats.cells_open, 1);
	assert_int_equal(stats.cells, 2 * SLOTS);
	packet = send_value(&world, 1, 5, 20, COUNTER(completed));
	assert_int_equal(packet.verdict, HD_SWITCH_COPY);
	assert_int_equal(packet.copy, HD_SWITCH_COPY_MEMBERS);
	assert_int_equal(packet.lease, 5);
	assert_int_equal(packet.bytes, FRAME_HEADERS + 4 * LANES);
	assert_sum(&world, -73);
	assert_int_equal(*at(&world, 2), 0x12);
	assert_flags(&world, 0);
	assert_int_equal(hd_get32(at(&world, 4)), JOB);
	assert_int_equal(hd_get16(at(&world, 8)), 2);
	assert_int_equal(hd_get16(at(&world, 10)), 0xffff);
	assert_int_equal(hd_get32(at(&world, 12)), 1);
	assert_int_equal((int16_t)hd_get16(at(&world, 18)), -20);
	assert_int_equal(hd_get16(at(&world, 22)), 0x8001);
	assert_int_equal(hd_get32(at(&world, 24)), 5);
	assert_int_equal(hd_get32(at(&world, 28)), 2); /* the completing packet's number */
	assert_int_equal(hd_get64(at(&world, 32)), 7); /* seen */
	assert_int_equal((int16_t)hd_get16(at(&world, 42)), -20); /* the greatest proposed */
	assert_int_equal(hd_get32(at(&world, 44)), 4096);
	assert_int_equal(counted(&world, COUNTER(copies)), MEMBERS);
	assert_int_equal(hd_switch_core_lease_stats(world.core, 5, &stats), 0);
	assert_int_equal(stats.cells_open, 0);
	assert_int_equal(stats.completed, 1);
	assert_int_equal(stats.absorbed, 2);
	end(&world);
}

static void test_copies_are_addressed(void **state) {
	const struct hd_switch_copy *copies;
	struct world world;
	struct hd_switch_packet packet;

	begin(&world);
	send_value(&world, 0, 0, 1, COUNTER(absorbed));
	send_value(&world, 1, 0, 2, COUNTER(absorbed));
	packet = send_value(&world, 2, 0, 3, COUNTER(completed));
	assert_int_equal(hd_switch_core_copies(world.core, &packet, &copies), MEMBERS);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		const uint8_t *frame = world.frame;

		assert_int_equal(copies[i].port, i + 1);
		hd_switch_address(&world_settings.self, &copies[i], world.frame);
		assert_memory_equal(frame, world.members[i].copy.mac, 6);
		assert_memory_equal(frame + 6, world_settings.self.mac, 6);
		assert_int_equal(hd_get16(frame + 12), 0x0800);
		assert_int_equal(hd_get16(frame + 14), 0x4500);
		assert_int_equal(hd_get16(frame + 16), 20 + 8 + 56 + 4 * LANES);
		assert_int_equal(hd_get32(frame + 18), 0x4000);
		assert_int_equal(hd_get16(frame + 22), 64 << 8 | 17);
		assert_int_equal(hd_get16(frame + 24), frame_ip_checksum(frame));
		assert_int_equal(hd_get32(frame + 26), SERVICE);
		assert_int_equal(hd_get32(frame + 30), 0x0a000100 + i);
		assert_int_equal(hd_get16(frame + 34), 4773);
		assert_int_equal(hd_get16(frame + 36), 4773 + i);
		assert_int_equal(hd_get16(frame + 38), 8 + 56 + 4 * LANES);
		assert_int_equal(hd_get16(frame + 40), 0);
		assert_int_equal(hd_get64(frame + 90), 0x1000 + i);
		assert_sum(&world, 6);
	}
	end(&world);
}

static void test_duplicates(void **state) {
	struct world world;
	struct hd_switch_packet packet;
	const struct hd_switch_copy *copies;

	begin(&world);
	send_value(&world, 0, 0, 1, COUNTER(absorbed));
	send_value(&world, 0, 0, 1, COUNTER(drop_duplicate));
	send_value(&world, 1, 0, 10, COUNTER(absorbed));
	send_value(&world, 2, 0, 100, COUNTER(completed));
	assert_sum(&world, 111);
	packet = send_value(&world, 1, 0, 5555, COUNTER(repeated));
	assert_sum(&world, 111);
	assert_flags(&world, HD_CHUNK_RESEND);
	assert_int_equal(packet.copy, 1);
	assert_int_equal(hd_get32(at(&world, 28)), 4); /* the repeated packet's number */
	assert_int_equal(hd_switch_core_copies(world.core, &packet, &copies), 1);
	assert_int_equal(copies->token, 0x1001);
	/* The other version's cell does not disturb it, and both can be repeated. */
	for (uint32_t i = 0; i < 3; i++)
		send_value(&world, i, SLOTS, 2, i < 2 ? COUNTER(absorbed) : COUNTER(completed));
	send_value(&world, 0, 0, 1, COUNTER(repeated));
	assert_sum(&world, 111);
	send_value(&world, 0, SLOTS, 1, COUNTER(repeated));
	assert_sum(&world, 6);
	/* Of an earlier round or chunk: not counted. */
	send_value(&world, 0, 2 * SLOTS, 1, COUNTER(absorbed));
	send_value(&world, 1, 0, 1, COUNTER(drop_stale));
	send_value(&world, 1, 2 * SLOTS, 1, COUNTER(absorbed));
	send_value(&world, 2, 2 * SLOTS, 1, COUNTER(completed));
	assert_sum(&world, 3);
	end(&world);
}

static void test_overtaken(void **state) {
	struct world world;
	struct hd_switch_lease_stats stats;
	struct hd_chunk_header header;
	uint32_t values[LANES] = {0};

	begin(&world);
	send_value(&world, 0, 0, 1000, COUNTER(absorbed));
	for (uint32_t i = 0; i < MEMBERS; i++) {
		header = chunk_of(&world, i, 0);
		header.round = 2;
		values[0] = htobe32(1);
		send_header(
			&world, i, &header, values, i < 2 ? COUNTER(absorbed) : COUNTER(completed)
		);
	}
	assert_int_equal(hd_get32(world.frame + FRAME_HEADERS), 3);
	assert_int_equal(counted(&world, COUNTER(overtaken)), 1);
	assert_int_equal(hd_switch_core_lease_stats(world.core, 5, &stats), 0);
	assert_int_equal(stats.cells_open, 0);
	assert_int_equal(stats.overtaken, 1);
	send_value(&world, 1, 0, 1000, COUNTER(drop_stale));
	end(&world);
}

static void test_exponents_and_flags(void **state) {
	struct world world;
	struct hd_chunk_header header;
	uint32_t values[LANES] = {0};
	struct frame_ends ends = ends_of(1);

	begin(&world);
	header = chunk_of(&world, 0, 0);
	header.next = -7;
	header.flags = HD_CHUNK_LAST | HD_CHUNK_ASK | HD_CHUNK_RESEND | HD_CHUNK_PARTIAL;
	send_header(&world, 0, &header, values, COUNTER(absorbed));
	header = chunk_of(&world, 1, 0);
	header.exponent = -19;
	send_header(&world, 1, &header, values, COUNTER(drop_exponent));
	header.exponent = -20;
	header.next = 3;
	ends.tos = 3; /* congestion experienced */
	pass(&world, frame_put_chunk(world.frame, &ends, &header, values), 2, COUNTER(absorbed));
	header = chunk_of(&world, 2, 0);
	send_header(&world, 2, &header, values, COUNTER(completed));
	assert_flags(&world, HD_CHUNK_LAST | HD_CHUNK_ECN);
	assert_int_equal(hd_get16(at(&world, 42)), 3);
	assert_int_equal(counted(&world, COUNTER(not_finite)), 0);
	/* The next sum of the cell begins without them. */
	for (uint32_t i = 0; i < MEMBERS; i++)
		send_value(&world, i, 2 * SLOTS, 1, i < 2 ? COUNTER(absorbed) : COUNTER(completed));
	assert_flags(&world, 0);
	assert_int_equal((int16_t)hd_get16(at(&world, 42)), -20);
	end(&world);
}

static void test_overflow_is_notified(void **state) {
	struct world world;

	begin(&world);
	send_value(&world, 0, 0, INT32_MAX, COUNTER(absorbed));
	send_value(&world, 1, 0, 1, COUNTER(absorbed));
	send_value(&world, 2, 0, 0, COUNTER(completed));
	assert_flags(&world, HD_CHUNK_NOT_FINITE);
	assert_sum(&world, INT32_MIN);
	send_value(&world, 0, 1, INT32_MIN, COUNTER(absorbed));
	send_value(&world, 1, 1, INT32_MAX, COUNTER(absorbed));
	send_value(&world, 2, 1, -3, COUNTER(completed));
	assert_flags(&world, 0);
	assert_sum(&world, -4);
	send_value(&world, 0, 2, INT32_MIN, COUNTER(absorbed));
	send_value(&world, 1, 2, 0, COUNTER(absorbed));
	send_value(&world, 2, 2, -1, COUNTER(completed)); /* in the add that writes back */
	assert_flags(&world, HD_CHUNK_NOT_FINITE);
	assert_int_equal(counted(&world, COUNTER(not_finite)), 2);
	send_value(&world, 1, 2, 0, COUNTER(repeated));
	assert_flags(&world, HD_CHUNK_NOT_FINITE | HD_CHUNK_RESEND);
	end(&world);
}

static void test_fp32_of_any_count(void **state) {
	static const uint16_t counts[] = {1, 31, 350, 352, HD_CHUNK_BYTES_MAX / 4};
	static float values[HD_CHUNK_BYTES_MAX / 4];
	struct world world;

	for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
		set_up(&world);
		world.lease.dtype = HD_DTYPE_FP32;
		world.lease.count = counts[c];
		assert_int_equal(set_lease(&world), 0);
		for (uint32_t chunk = 0; chunk < 3; chunk++) {
			for (uint32_t i = 0; i < MEMBERS; i++) {
				struct hd_chunk_header header = chunk_of(&world, i, chunk);
				size_t last = counts[c] - 1u;

				for (size_t v = 0; v < counts[c]; v++)
					values[v] = (float)(v * (i + 1)) + 0.5F;
				if (chunk == 1 && i == 0)
					values[last] = INFINITY;
				if (chunk == 2)
					values[last] = -3e38F;
				send_header(
					&world,
					i,
					&header,
					values,
					i < 2 ? COUNTER(absorbed) : COUNTER(completed)
				);
			}
			assert_flags(&world, chunk == 0 ? 0 : HD_CHUNK_NOT_FINITE);
			for (size_t v = 0; v + (chunk != 0) < counts[c]; v++) {
				float sum;

				memcpy(&sum, world.frame + FRAME_HEADERS + 4 * v, 4);
				assert_true(fabsf(sum - ((float)(6 * v) + 1.5F)) < 1e-9F);
			}
		}
		assert_int_equal(counted(&world, COUNTER(not_finite)), 2);
		end(&world);
	}
}

/* --- members ---------------------------------------------------------------------------------- */

static void test_member_is_taken_out(void **state) {
	struct world world;
	struct hd_switch_lease_stats stats;
	char words[HD_TEXT_BYTES_MAX];

	begin(&world);
	send_value(&world, 0, 0, 1, COUNTER(absorbed));
	send_value(&world, 1, 0, 2, COUNTER(absorbed));
	send_value(&world, 2, 1, 4, COUNTER(absorbed));
	assert_int_equal(hd_switch_core_lease_waits(world.core, 5, 3, words, sizeof words), 0);
	assert_int_equal(hd_switch_core_lease_stats(world.core, 5, &stats), 0);
	assert_int_equal(stats.cells_open, 1);
	assert_int_equal(stats.waits, 3);
	send_value(&world, 2, 0, 4, COUNTER(drop_member));
	/* A member that repeats gets the sum; a sum that has the gone member's values keeps them. */
	send_value(&world, 0, 0, 1, COUNTER(repeated));
	assert_sum(&world, 3);
	assert_flags(&world, HD_CHUNK_RESEND | HD_CHUNK_PARTIAL);
	assert_int_equal(hd_get64(at(&world, 32)), 3);
	send_value(&world, 0, 1, 1, COUNTER(absorbed));
	send_value(&world, 1, 1, 2, COUNTER(completed));
	assert_sum(&world, 7);
	assert_flags(&world, 0);
	assert_int_equal(hd_get64(at(&world, 32)), 7);
	assert_int_equal(
		hd_switch_core_lease_waits(world.core, 5, 7, words, sizeof words), -EINVAL
	);
	assert_string_equal(words, "waits: 0x7 (some of 0x3)");
	assert_int_equal(
		hd_switch_core_lease_waits(world.core, 5, 0, words, sizeof words), -EINVAL
	);
	assert_int_equal(
		hd_switch_core_lease_waits(world.core, 6, 1, words, sizeof words), -ENOENT
	);
	end(&world);
}

static void test_receivers_and_answers(void **state) {
	const struct hd_switch_copy *copies;
	struct world world;
	struct hd_switch_packet packet;
	struct hd_chunk_header header;
	struct frame_ends ends = ends_of(20);
	uint32_t values[LANES] = {0}, bytes;

	set_up(&world);
	world.lease.receiver_count = 2;
	assert_int_equal(set_lease(&world), 0);
	send_value(&world, 0, 0, 1, COUNTER(absorbed));
	send_value(&world, 1, 0, 1, COUNTER(absorbed));
	packet = send_value(&world, 2, 0, 1, COUNTER(completed));
	assert_int_equal(packet.copy, HD_SWITCH_COPY_RECEIVERS);
	assert_int_equal(hd_switch_core_copies(world.core, &packet, &copies), 2);
	assert_int_equal(copies[1].port, 21);
	packet = send_value(&world, 2, 0, 1, COUNTER(repeated));
	assert_int_equal(packet.copy, HD_SWITCH_COPY_RECEIVERS);
	assert_flags(&world, HD_CHUNK_RESEND);
	assert_int_equal(counted(&world, COUNTER(copies)), 4);
	/* The receiver's answer: the header alone, with its token, to all members. */
	header = chunk_of(&world, 0, 0);
	header.count = 0;
	header.token = world.receivers[1].token;
	bytes = frame_put_chunk(world.frame, &ends, &header, NULL);
	world.frame[FRAME_CHUNK + 2] = 0x12;
	packet = pass(&world, bytes, 21, COUNTER(answered));
	assert_int_equal(packet.copy, HD_SWITCH_COPY_MEMBERS);
	assert_int_equal(packet.bytes, FRAME_HEADERS);
	assert_int_equal(counted(&world, COUNTER(copies)), 4 + MEMBERS);
	/* A member cannot answer, a receiver cannot add. */
	hd_put64(world.frame + FRAME_CHUNK + 48, 0x1000);
	pass(&world, bytes, 21, COUNTER(drop_token));
	header = chunk_of(&world, 0, 1);
	header.token = world.receivers[1].token;
	header.count = LANES;
	send_header(&world, 0, &header, values, COUNTER(drop_token));
	end(&world);
}

static void test_most_members(void **state) {
	struct world world;

	set_up(&world);
	world.lease.member_count = HD_SWITCH_MEMBERS_MAX;
	world.lease.waits = UINT64_MAX;
	assert_int_equal(set_lease(&world), 0);
	for (uint32_t i = 0; i < HD_SWITCH_MEMBERS_MAX; i++)
		send_value(
			&world,
			i,
			3,
			(int32_t)i,
			i + 1 < HD_SWITCH_MEMBERS_MAX ? COUNTER(absorbed) : COUNTER(completed)
		);
	assert_sum(&world, 64 * 63 / 2);
	assert_int_equal(hd_get64(at(&world, 32)), UINT64_MAX);
	assert_flags(&world, 0);
	end(&world);
}

static void test_one_member(void **state) {
	struct world world;

	set_up(&world);
	world.lease.member_count = 1;
	world.lease.waits = 1;
	assert_int_equal(set_lease(&world), 0);
	send_value(&world, 0, 0, 9, COUNTER(completed));
	assert_sum(&world, 9);
	send_value(&world, 0, 0, 1, COUNTER(repeated));
	assert_sum(&world, 9);
	end(&world);
}

/* A burst in which a sum is begun, completed, repeated and overtaken gives what single frames give. */
static void test_burst_is_in_order(void **state) {
	static uint8_t frames[100][FRAME_HEADERS + 4 * LANES];
	struct hd_switch_packet packets[100];
	struct world world;
	struct frame_ends ends = ends_of(0);

	begin(&world);
	for (uint32_t i = 0; i < 100; i++) {
		struct hd_chunk_header header = chunk_of(&world, i % 3, 0);
		uint32_t values[LANES];

		header.round = 1 + i / 4; /* three that add, and one that asks again */
		for (size_t v = 0; v < LANES; v++)
			values[v] = htobe32(1 + i);
		packets[i] = (struct hd_switch_packet){
			.data = frames[i],
			.bytes = frame_put_chunk(frames[i], &ends, &header, values),
		};
	}
	hd_switch_core_burst(world.core, packets, 100);
	for (uint32_t i = 0; i < 100; i++) {
		uint32_t from = i / 4 * 4;

		assert_int_equal(packets[i].verdict, i % 4 < 2 ? HD_SWITCH_DROP : HD_SWITCH_COPY);
		if (i % 4 >= 2)
			assert_int_equal(hd_get32(frames[i] + FRAME_HEADERS), 3 * from + 6);
		if (i % 4 == 3)
			assert_int_equal(packets[i].copy, i % 3);
	}
	assert_int_equal(counted(&world, COUNTER(absorbed)), 50);
	assert_int_equal(counted(&world, COUNTER(completed)), 25);
	assert_int_equal(counted(&world, COUNTER(repeated)), 25);
	end(&world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_copies_are_addressed),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_overtaken),
		cmocka_unit_test(test_exponents_and_flags),
		cmocka_unit_test(test_overflow_is_notified),
		cmocka_unit_test(test_fp32_of_any_count),
		cmocka_unit_test(test_member_is_taken_out),
		cmocka_unit_test(test_receivers_and_answers),
		cmocka_unit_test(test_most_members),
		cmocka_unit_test(test_one_member),
		cmocka_unit_test(test_burst_is_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
