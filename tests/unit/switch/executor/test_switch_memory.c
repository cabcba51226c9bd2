/* SPDX-License-Identifier: BSD-3-Clause */
/* The native switch's path allocates nothing: counted at the linker, over sums, repeats, answers and learning. */
#include "allocations.h"
#include "hd_bytes.h"
#include "hd_random.h"
#include "switch_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FRAMES 64

static uint32_t draw(struct world *world, struct hd_random *random, uint8_t *frame) {
	static const uint32_t values[LANES] = {1};
	uint32_t index = (uint32_t)hd_random_below(random, MEMBERS);
	struct frame_ends ends = ends_of(index);
	struct hd_chunk_header header
		= chunk_of(world, index, (uint32_t)hd_random_below(random, UINT64_C(3) * SLOTS));

	header.round = 1 + (uint32_t)hd_random_below(random, 3);
	if (hd_random_chance(random, 0.2)) {
		ends.destination++;
		hd_put32(ends.from + 2, (uint32_t)hd_random_u64(random));
	}
	return frame_put_chunk(frame, &ends, &header, values);
}

static void test_path_allocates_nothing(void **state) {
	static uint8_t frames[FRAMES][FRAME_HEADERS + 4 * LANES];
	struct hd_switch_packet packets[FRAMES];
	struct hd_random random;
	struct world world;
	unsigned long before;

	begin(&world);
	hd_random_init(&random, 7);
	hd_switch_core_learn(world.core, HD_SECOND);
	before = allocations;
	assert_true(before > 0); /* the counting itself works */
	for (uint64_t burst = 0; burst < 2000; burst++) {
		for (size_t i = 0; i < FRAMES; i++)
			packets[i] = (struct hd_switch_packet
			){.data = frames[i], .bytes = draw(&world, &random, frames[i])};
		hd_switch_core_burst(world.core, packets, FRAMES);
		hd_switch_core_time(world.core, burst * HD_MS * 10);
	}
	assert_int_equal(allocations, before);
	assert_true(counted(&world, COUNTER(completed)) > 0);
	assert_true(counted(&world, COUNTER(repeated)) > 0);
	assert_true(counted(&world, COUNTER(flooded)) > 1000);
	end(&world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_path_allocates_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
