/* SPDX-License-Identifier: BSD-3-Clause */
/* When a member's packets leave: paced, near the wire's floor, few of them again, none in bursts. */
#include "slots_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADERS 98

static double ms_of(const struct net_config *config) {
	struct net *net = net_once(config, 1, 60 * HD_SECOND);
	hd_ns last = 0;

	assert_true(net_ended(net));
	for (uint32_t m = 0; m < config->members; m++)
		last = hd_ns_max(last, net_stats(net, m)->ended);
	net_check_same(net);
	net_free(net);
	return 1e-6 * (double)last;
}

/* As many slots as two round trips need, links as fast as the grant: near the wire's floor, and not much slower
 * with losses in both directions of every link. */
static void test_fast(void **state) {
	static const double loss[] = {0, 0.001, 0.01};
	static const double most[]
		= {1.03, 1.10, 1.43}; /* of the floor; of the time without loss */

	(void)state;
	for (uint32_t members = 2; members <= 8; members *= 2) {
		double plain = 0;

		for (int k = 0; k < 3; k++) {
			struct net_config config = net_usual;
			double floor, took;

			config.members = members;
			config.count = 352;
			config.slots = 48;
			config.values = 1 << 20;
			config.link_bps = 200000000;
			config.loss = loss[k];
			floor = 8e3 * (1 << 22) * (1408.0 + HEADERS) / 1408 / 200e6;
			took = ms_of(&config);
			printf("%u members, loss %.1f %%: %.1f ms, %.3f of the floor\n",
			       members,
			       100 * loss[k],
			       took,
			       took / floor);
			if (k == 0)
				plain = took;
			assert_true(took <= most[k] * (k == 0 ? floor : plain));
		}
	}
}

/* Paced: what leaves keeps to the grant, and a burst is short. */
static void test_paced(void **state) {
	struct net_config config = net_usual;
	struct net *net;

	(void)state;
	config.count = 352;
	config.slots = 200;
	config.values = 352 * 1000;
	config.rate_bps = 100000000;
	config.link_bps = 0;
	net = net_once(&config, 1, HD_SECOND);
	net_check(net, 15);
	/* 1,000 packets of 1,506 bytes take 120 ms at the grant, 96 at most above it. */
	assert_true(net->now > 95 * HD_MS && net->now < 125 * HD_MS);
	for (uint32_t m = 0; m < config.members; m++)
		assert_true(net->members[m].longest_burst <= 30);
	net_free(net);
}

/* Marks lower the rate, to a quarter at most. */
static void test_marks(void **state) {
	struct net_config config = net_usual;
	struct net net;

	(void)state;
	config.count = 352;
	config.slots = 200;
	config.values = 352 * 1000;
	config.rate_bps = 100000000;
	config.link_bps = 0;
	net_open(&net, &config);
	net_fill(&net, 1);
	net.mark = true;
	net_start(&net);
	net_run(&net, 10 * HD_SECOND);
	net_check(&net, 15);
	assert_true(net.now > 300 * HD_MS && net.now < 500 * HD_MS);
	assert_int_equal(net_stats(&net, 0)->marked, 1000);
	net_close(&net);
}

/* A second without network: a few packets ask, less and less often; and no burst follows. */
static void test_stall(void **state) {
	struct net_config config = net_usual;
	struct net net;
	uint64_t before[4];

	(void)state;
	config.slots = 64;
	net_open(&net, &config);
	net_fill(&net, 1);
	net_start(&net);
	net_run(&net, 3 * HD_MS);
	for (int m = 0; m < 4; m++) {
		net.members[m].cut = true;
		before[m] = net.members[m].sent;
	}
	net_run(&net, net.now + HD_SECOND);
	for (int m = 0; m < 4; m++) {
		/* What was due anyway, and two a timeout. */
		assert_true(net.members[m].sent - before[m] <= 64 + 24);
		net.members[m].cut = false;
		before[m] = net.members[m].sent;
		net.members[m].longest_burst = 0;
	}
	net_run(&net, net.now + 3 * HD_SECOND);
	assert_true(net_ended(&net));
	net_check(&net, 15);
	for (int m = 0; m < 4; m++) {
		assert_true(net.members[m].sent - before[m] <= 313 + 64);
		assert_true(net.members[m].longest_burst <= 45);
	}
	net_close(&net);
}

/* One member is frozen: the others do not send on and on. */
static void test_slow_member(void **state) {
	struct net_config config = net_usual;
	struct net net;
	uint64_t before;

	(void)state;
	net_open(&net, &config);
	net_fill(&net, 1);
	net_start(&net);
	net_run(&net, 3 * HD_MS);
	net.members[3].cut = true;
	before = net.members[0].sent;
	net_run(&net, net.now + 2 * HD_SECOND);
	assert_true(net.members[0].sent - before <= 32 + 28);
	net.members[3].cut = false;
	net_run(&net, net.now + 3 * HD_SECOND);
	assert_true(net_ended(&net));
	net_check(&net, 15);
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fast),
		cmocka_unit_test(test_paced),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_stall),
		cmocka_unit_test(test_slow_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
