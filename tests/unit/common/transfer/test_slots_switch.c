/* SPDX-License-Identifier: BSD-3-Clause */
/* Members' ends against the native executor of the switch: the same worlds as against the tests' own. */
#include "hd_switch.h"
#include "slots_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 150

static void test_faults(void **state) {
	uint64_t total[HD_SWITCH_COUNTER_COUNT] = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t values[HD_SWITCH_COUNTER_COUNT], all = 0, chunks;
		struct net_config config;
		struct net *net;

		net_draw(seed, &config);
		config.make = net_native;
		net = net_once(&config, 2, 60 * HD_SECOND);
		if (!net_ended(net))
			fail_msg("seed %llu: no end", (unsigned long long)seed);
		net_check(net, (UINT64_C(1) << config.members) - 1);
		net_check_same(net);
		net_native_counters(net, values);
		chunks = net_chunks(net) + net_places(net);
		assert_int_equal(values[HD_SWITCH_COUNTER_completed], chunks);
		assert_int_equal(values[HD_SWITCH_COUNTER_absorbed], chunks * (config.members - 1));
		for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
			total[i] += values[i];
		for (int i = HD_SWITCH_COUNTER_drop_malformed; i <= HD_SWITCH_COUNTER_drop_exponent;
		     i++)
			all += values[i];
		assert_int_equal(all, 0); /* no member sends what the lease does not know */
		assert_int_equal(values[HD_SWITCH_COUNTER_not_finite], net_marked(net));
		net_free(net);
	}
	assert_true(total[HD_SWITCH_COUNTER_repeated] > 100);
	assert_true(total[HD_SWITCH_COUNTER_drop_duplicate] > 100);
	assert_int_equal(total[HD_SWITCH_COUNTER_overtaken], 0);
	assert_true(total[HD_SWITCH_COUNTER_not_finite] > 100);
}

/* One that dies at any time and is taken out: all others take the round, or none. */
static void test_dies(void **state) {
	uint32_t taken = 0, given_up = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct net_config config = net_usual;
		struct net net;
		bool done;

		config.seed = seed;
		config.loss = 0.02;
		config.values = 6400;
		config.strange = seed % 3 == 0 ? 0.01 : 0;
		config.make = net_native;
		net_begin(&net, &config, 1);
		done = net_dies(&net, 3 * HD_MS);
		if (done)
			net_check(&net, net_stats(&net, 0)->members);
		taken += done;
		given_up += !done;
		net_close(&net);
	}
	assert_true(taken > 0 && given_up > 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_dies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
