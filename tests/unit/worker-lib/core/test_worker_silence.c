/* SPDX-License-Identifier: BSD-3-Clause */
/* A way that carries short packets only. */
#include "worker_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_worker_config plain;

/* Long packets are lost in the network without an error: the worker reports that, and more and more rarely. */
static void test_only_short_packets_come_through(void **state) {
	struct world *world = build(DIRECT, &plain);

	run_ms(world, 20);
	world->server.deaf = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 3000);
	assert_int_equal(world->trouble, 0); /* once may be anything */
	run_ms(world, 3000);
	assert_int_equal(world->trouble, 1);
	assert_non_null(
		strstr(world->worry, "no chunk (1464 bytes of UDP) has come through in 2 tries")
	);
	assert_non_null(strstr(world->worry, "MTU"));
	run_ms(world, 20000);
	assert_in_range(world->trouble, 2, 3);
	world->server.deaf = false;
	run_ms(world, 3000);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_in_range(world->trouble, 2, 3);
	/* A server that is not heard, either, is another trouble. */
	peer_stop(&world->server);
	world->trouble = 0;
	assert_int_equal(push(world, 1, 1), 2);
	run_ms(world, 10000);
	assert_null(strstr(world->trouble ? world->worry : "", "MTU"));
	destroy(world);
}

/* Chunks that come through between two stalls, however quickly, separate them: the stalls do not count as
 * consecutive. */
static void test_chunks_between_two_stalls(void **state) {
	struct world *world = build(DIRECT, &plain);

	run_ms(world, 20);
	for (uint32_t i = 0; i < 4; i++) {
		world->server.deaf = true;
		assert_int_equal(push(world, i, 1), i + 1);
		run_ms(world, 3000); /* one try */
		world->server.deaf = false;
		run_ms(world, 3000);
		assert_int_equal(world->ticket[HD_PUSH][i + 1].state, HD_TICKET_APPLIED);
	}
	assert_int_equal(world->trouble, 0);
	destroy(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_short_packets_come_through),
		cmocka_unit_test(test_chunks_between_two_stalls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
