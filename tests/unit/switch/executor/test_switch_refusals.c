/* SPDX-License-Identifier: BSD-3-Clause */
/* Refusals of the native switch: frames that are counted and change no sum, leases with an error text. */
#include "hd_bytes.h"
#include "switch_world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- what is refused --------------------------------------------------------------------------- */

static void test_wrong_headers(void **state) {
	/* Offset in the chunk's header, mask, counter. */
	static const struct {
		size_t at;
		uint8_t flip;
		enum hd_switch_counter counter;
	} cases[] = {
		{2, 0x20, COUNTER(drop_malformed)}, /* version */
		{4, 1, COUNTER(drop_lease)}, /* job */
		{9, 1, COUNTER(drop_lease)}, /* epoch */
		{11, 1, COUNTER(drop_member)}, /* worker */
		{15, 1, COUNTER(drop_malformed)}, /* round 1 -> 0 */
		{16, 1, COUNTER(drop_lease)}, /* attempt */
		{17, HD_DTYPE_FIXED32, COUNTER(drop_lease)}, /* fp32 */
		{17, 1, COUNTER(drop_malformed)}, /* bf16 */
		{17, 0x80, COUNTER(drop_malformed)}, /* no type */
		{21, 1, COUNTER(drop_lease)}, /* shard */
		{23, SLOTS, COUNTER(drop_slot)},
		{22, 0x40, COUNTER(drop_slot)},
		{41, 1, COUNTER(drop_malformed)}, /* count */
		{40, 1, COUNTER(drop_malformed)},
		{55, 0x40, COUNTER(drop_token)},
		{48, 1, COUNTER(drop_token)},
		{54, 0x10, COUNTER(drop_token)}, /* token 0 */
	};
	static uint32_t values[LANES + 1];
	struct world world;
	struct hd_chunk_header header;
	struct frame_ends ends = ends_of(0);

	begin(&world);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint32_t bytes;

		header = chunk_of(&world, 0, 0);
		bytes = frame_put_chunk(world.frame, &ends, &header, values);
		world.frame[FRAME_CHUNK + cases[i].at] ^= cases[i].flip;
		pass(&world, bytes, 1, cases[i].counter);
	}
	header.count = LANES + 1; /* fits its length, is not the lease's */
	send_header(&world, 0, &header, values, COUNTER(drop_lease));
	header.count = LANES;
	for (uint32_t cut = FRAME_CHUNK + 4; cut < FRAME_HEADERS + 4 * LANES; cut++) {
		(void)frame_put_chunk(world.frame, &ends, &header, values);
		pass(&world, cut, 1, COUNTER(drop_malformed));
	}
	/* Nothing of all that is in the sum. */
	for (uint32_t i = 0; i < MEMBERS; i++)
		send_value(&world, i, 0, 1, i < 2 ? COUNTER(absorbed) : COUNTER(completed));
	assert_sum(&world, 3);
	end(&world);
}

static void test_other_leases_cells(void **state) {
	struct world world;
	struct hd_chunk_header header;
	uint32_t values[LANES] = {0};

	begin(&world);
	world.lease.id = 6;
	world.lease.job = JOB + 1;
	for (uint32_t i = 0; i < MEMBERS; i++)
		world.members[i].token = 0x2000 + i;
	assert_int_equal(set_lease(&world), 0);
	/* The same slot and chunk of both: each in its own sum. */
	for (uint32_t i = 0; i < MEMBERS; i++) {
		enum hd_switch_counter counter = i < 2 ? COUNTER(absorbed) : COUNTER(completed);

		header = chunk_of(&world, i, 0);
		header.job = JOB + 1;
		header.token = 0x2000 + i;
		values[0] = htobe32(100);
		send_header(&world, i, &header, values, counter);
		assert_int_equal(i < 2 || hd_get32(world.frame + FRAME_HEADERS) == 300, 1);
		send_value(&world, i, 0, 1, counter);
	}
	assert_sum(&world, 3);
	/* The other's token with one's own job, and the reverse. */
	header.job = JOB;
	send_header(&world, 2, &header, values, COUNTER(drop_lease));
	header.job = JOB + 1;
	header.token = 0x1002;
	send_header(&world, 2, &header, values, COUNTER(drop_lease));
	end(&world);
}

static void expect(struct world *world, int status, const char *words) {
	assert_int_equal(set_lease(world), status);
	if (!strstr(world->error, words))
		fail_msg("\"%s\" does not say \"%s\"", world->error, words);
}

static void test_leases_that_are_refused(void **state) {
	struct world world;
	struct hd_switch_lease good;

	set_up(&world);
	good = world.lease;
	world.lease.id = HD_SWITCH_LEASES_MAX;
	expect(&world, -EINVAL, "id: 256 (0 to 255)");
	world.lease = good;
	world.lease.slot_count = HD_SWITCH_SLOTS + 1;
	expect(&world, -EINVAL, "slot_count: 4097 (1 to 4096)");
	world.lease.slot_count = 0;
	expect(&world, -EINVAL, "slot_count: 0 (1 to 4096)");
	world.lease = good;
	world.lease.count = HD_CHUNK_BYTES_MAX / 4 + 1;
	expect(&world, -EINVAL, "count: 2225 (1 to 2224)");
	world.lease = good;
	world.lease.dtype = HD_DTYPE_BF16;
	expect(&world, -EINVAL, "dtype: 2 (0 or 3)");
	world.lease = good;
	world.lease.member_count = 65;
	expect(&world, -EINVAL, "member_count: 65 (1 to 64)");
	world.lease = good;
	world.lease.receiver_count = 5;
	expect(&world, -EINVAL, "receiver_count: 5 (0 to 4)");
	world.lease = good;
	world.lease.waits = 8;
	expect(&world, -EINVAL, "waits: 0x8 (some of 0x7)");
	world.lease.waits = 0;
	expect(&world, -EINVAL, "waits: 0x0 (some of 0x7)");
	world.lease = good;
	world.members[2].token = 0;
	expect(&world, -EINVAL, "token: 0");
	world.members[2].token = 0x1001;
	expect(&world, -EEXIST, "token: twice (in lease 5)");
	world.members[2].token = 0x1002;
	world.members[1].copy.port = HD_SWITCH_PORTS_MAX;
	expect(&world, -EINVAL, "port: 64 (0 to 63)");
	world.members[1].copy.port = 1;
	world.lease.slot_count = HD_SWITCH_SLOTS;
	expect(&world, -ENOMEM, "slot_count: 4096 slots of 32 values take 1572864 bytes (1048576 of"
	);
	world.lease = good;
	/* None of those left anything behind. */
	assert_int_equal(set_lease(&world), 0);
	expect(&world, -EEXIST, "id: 5 is in use");
	world.lease.id = 6;
	expect(&world, -EEXIST, "token: twice (in lease 5)");
	assert_int_equal(
		hd_switch_core_lease_end(world.core, 6, world.error, sizeof world.error), -ENOENT
	);
	send_value(&world, 0, 0, 1, COUNTER(absorbed));
	assert_int_equal(
		hd_switch_core_lease_end(world.core, 5, world.error, sizeof world.error), 0
	);
	send_value(&world, 0, 0, 1, COUNTER(drop_token));
	/* The same lease again: empty cells, and the memory is there. */
	for (int i = 0; i < 1000; i++) {
		world.lease.id = (uint16_t)(i % HD_SWITCH_LEASES_MAX);
		assert_int_equal(set_lease(&world), 0);
		send_value(&world, 0, 0, 1, COUNTER(absorbed));
		assert_int_equal(
			hd_switch_core_lease_end(
				world.core, world.lease.id, world.error, sizeof world.error
			),
			0
		);
	}
	end(&world);
}

static void test_tokens_come_and_go(void **state) {
	static struct hd_switch_member members[HD_SWITCH_MEMBERS_MAX];
	struct world world;

	set_up(&world);
	world.lease.members = members;
	world.lease.member_count = HD_SWITCH_MEMBERS_MAX;
	world.lease.waits = UINT64_MAX;
	world.lease.slot_count = 1;
	world.lease.count = 1;
	for (uint32_t turn = 0; turn < 2000; turn++) {
		uint16_t id = (uint16_t)(turn * 37 % HD_SWITCH_LEASES_MAX);
		char words[HD_TEXT_BYTES_MAX];

		world.lease.id = id;
		(void)hd_switch_core_lease_end(world.core, id, words, sizeof words);
		for (uint32_t i = 0; i < HD_SWITCH_MEMBERS_MAX; i++)
			members[i].token = (uint64_t)turn * 64 + i + 1;
		assert_int_equal(set_lease(&world), 0);
	}
	/* Every live token is found, of every lease; the ended ones are not. */
	for (uint64_t token = 1; token <= UINT64_C(2000) * 64; token++) {
		struct hd_chunk_header header = chunk_of(&world, 0, 0);
		bool live = (token - 1) / 64 >= 2000 - HD_SWITCH_LEASES_MAX;
		uint32_t value = 0;

		header.token = token;
		header.worker = 1;
		send_header(
			&world,
			0,
			&header,
			&value,
			live ? COUNTER(drop_member) : COUNTER(drop_token)
		);
	}
	end(&world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_headers),
		cmocka_unit_test(test_other_leases_cells),
		cmocka_unit_test(test_leases_that_are_refused),
		cmocka_unit_test(test_tokens_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
