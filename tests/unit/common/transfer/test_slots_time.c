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

/* Slots and grants for ten times what the links carry, behind short queues: congestion control finds out, and what it
 * found holds for the next round. */
static void test_too_much(void **state) {
	static const uint64_t granted[] = {0, 2000000000};
	static const double most[] = {1.02, 1.3}; /* who has a grant does not begin slowly */

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct net_config config = net_usual;
		double floor = 8e3 * (1 << 22) * (1408.0 + HEADERS) / 1408 / 200e6, took;
		struct net net;

		config.count = 352;
		config.slots = 512;
		config.values = 1 << 20;
		config.link_bps = 200000000;
		config.queue_bytes = 128 << 10;
		config.rate_bps = granted[k];
		net_begin(&net, &config, 1);
		net_run(&net, 60 * HD_SECOND);
		net_check(&net, 15);
		took = 1e-6 * (double)net.now;
		printf("granted %.0f Mbit/s of 200: %.1f ms, %.3f of the floor, %llu sent again\n",
		       1e-6 * (double)granted[k],
		       took,
		       took / floor,
		       (unsigned long long)net_stats(&net, 0)->packets_resent);
		net_close(&net);
		assert_true(took <= most[k] * floor);
	}
}

/* Paced: what leaves keeps to the grant, and a burst is short. */
static void test_paced(void **state) {
	struct net_config config = net_usual;
	struct net *net;

	(void)state;
	config.count = 352;
	config.slots = 200;
	config.values = UINT64_C(352) * 1000;
	config.rate_bps = 100000000;
	config.link_bps = 0;
	net = net_once(&config, 1, HD_SECOND);
	net_check(net, 15);
	/* 1,000 packets of 1,506 bytes take 120 ms at the grant: what others have of the links is not probed for. */
	assert_true(net->now > 117 * HD_MS && net->now < 125 * HD_MS);
	for (uint32_t m = 0; m < config.members; m++)
		assert_true(net->members[m].longest_burst <= 30);
	net_free(net);
}

/* Marks make the window smaller: to a few packets a round trip, when all are marked. */
static void test_marks(void **state) {
	struct net_config config = net_usual;
	struct net net;
	double took[2];

	(void)state;
	config.count = 352;
	config.slots = 200;
	config.values = UINT64_C(352) * 1000;
	config.rate_bps = 0;
	config.link_bps = 1000000000;
	for (int mark = 0; mark < 2; mark++) {
		net_open(&net, &config);
		net_fill(&net, 1);
		net.mark = mark;
		net_start(&net);
		net_run(&net, 10 * HD_SECOND);
		net_check(&net, 15);
		took[mark] = (double)net.now;
		assert_int_equal(net_stats(&net, 0)->marked, mark ? 1000 : 0);
		net_close(&net);
	}
	printf("1,000 chunks at 1 Gbit/s: %.1f ms, all marked: %.1f ms\n",
	       1e-6 * took[0],
	       1e-6 * took[1]);
	assert_true(took[0] < 16e6 && took[1] > 100e6);
}

/* A second without network: a few packets ask, less and less often; and no burst follows. */
static void test_stall(void **state) {
	struct net_config config = net_usual;
	struct net net;
	uint64_t before[4];

	(void)state;
	config.slots = 64;
	net_begin(&net, &config, 1);
	net_run(&net, 3 * HD_MS);
	for (int m = 0; m < 4; m++) {
		net.members[m].cut = true;
		before[m] = net.members[m].sent;
	}
	net_run(&net, net.now + HD_SECOND);
	for (int m = 0; m < 4; m++) {
		/* Packets that were due anyway, and two a timeout. */
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
	net_begin(&net, &config, 1);
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
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_paced),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_stall),
		cmocka_unit_test(test_slow_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
