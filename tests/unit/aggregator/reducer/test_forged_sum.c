/* SPDX-License-Identifier: BSD-3-Clause */
/* An attacker that sees a token and forges chunks with it changes no sum. */
#include "aggregator_net.h"
#include "forge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 20000
#define BYTES (VALUES * sizeof(float))
#define GROUP 0x51
#define MEMBERS 3

static void test_sum(void **state) {
	static const enum forged_as forgeries[]
		= {FORGED_BY_STRANGER, FORGED_BY_PORT, FORGED_VALUES, FORGED_PLAIN};
	static float update[MEMBERS][VALUES], sum[VALUES];

	(void)state;
	for (uint32_t i = 0; i < VALUES; i++) {
		sum[i] = 0;
		for (uint32_t w = 0; w < MEMBERS; w++) {
			update[w][i] = (float)((i * 31 + w * 7) % 1000);
			sum[i] += update[w][i];
		}
	}
	for (size_t w = 0; w < sizeof forgeries / sizeof forgeries[0]; w++) {
		struct world *world = world_open(MEMBERS, NULL);
		struct end_recv *got;
		struct plan plan;

		forge_to((struct hd_addr){AGGREGATOR_IP, HD_PORT}, forgeries[w]);
		world->net.lose = forge;
		plan_make(&plan, GROUP, MEMBERS, BYTES);
		for (uint32_t i = 0; i < MEMBERS; i++)
			plan.inputs[i].token |= HD_TOKEN_SEALED;
		plan_to(&plan, world->server, GROUP);
		got = end_expect(world->server, GROUP, BYTES);
		plan_send(world, &plan);
		for (uint32_t i = 0; i < MEMBERS; i++)
			plan_push(world, &plan, i, update[i]);
		world_run(world, HD_SECOND);
		assert_true(got->done);
		assert_memory_equal(got->data, sum, BYTES);
		assert_true(forge_count() > (uint64_t)3 * MEMBERS);
		assert_int_equal(
			forgeries[w] == FORGED_VALUES        ? world_stats(world)->drop_mac :
				forgeries[w] == FORGED_PLAIN ? world_stats(world)->drop_malformed :
							       world_stats(world)->drop_source,
			forge_count()
		);
		world_close(world);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sum)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
