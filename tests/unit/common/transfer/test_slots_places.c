/* SPDX-License-Identifier: BSD-3-Clause */
/* NaN and Inf in slots, of which fixed point has none: every member gets them, in their places and nowhere else. */
#include "hd_limits.h"
#include "slots_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One value of one member: every member has it there, and nowhere else; two chunks more tell it. */
static void test_not_finite(void **state) {
	static const float what[] = {NAN, INFINITY, -INFINITY};
	static const uint64_t where[]
		= {0, 3000, 20010}; /* the first, one in the middle, the last */

	(void)state;
	for (size_t k = 0; k < 9; k++) {
		struct net_config config = net_usual;
		struct net net;

		config.average = k % 2 == 0;
		net_open(&net, &config);
		net_fill(&net, 1);
		net.members[k % 4].in[where[k / 3]] = what[k % 3];
		net_start(&net);
		net_run(&net, HD_SECOND);
		net_check(&net, 15);
		net_check_same(&net);
		for (uint32_t m = 0; m < 4; m++) {
			assert_int_equal(net_stats(&net, m)->not_finite, 1);
			assert_int_equal(net_stats(&net, m)->places, 2);
			assert_int_equal(net_stats(&net, m)->packets_sent, 313 + 2);
		}
		net_close(&net);
	}
}

/* In one place: of one kind, of both signs, and beside one that is finite. */
static void test_not_finite_together(void **state) {
	static const float cases[][5] = {
		{NAN, NAN, NAN, NAN, NAN},
		{INFINITY, INFINITY, INFINITY, INFINITY, INFINITY},
		{-INFINITY, 1, -INFINITY, 2, -INFINITY},
		{INFINITY, 1, -INFINITY, 2, NAN},
		{INFINITY, NAN, INFINITY, INFINITY, NAN},
	};
	struct net_config config = net_usual;
	struct net net;

	(void)state;
	net_open(&net, &config);
	net_fill(&net, 1);
	for (uint32_t k = 0; k < 5; k++)
		for (uint32_t m = 0; m < 4; m++)
			net.members[m].in[5000 + k] = cases[k][m];
	net_start(&net);
	net_run(&net, HD_SECOND);
	net_check(&net, 15);
	for (uint32_t k = 0; k < 5; k++) {
		float out = net.members[2].out[5000 + k], want = cases[k][4];

		assert_true(isnan(want) ? isnan(out) : out == want);
	}
	net_close(&net);
}

/* Every chunk is marked: more than there are slots; every value of all members is; a chunk that has few values. */
static void test_not_finite_everywhere(void **state) {
	static const uint16_t slots[] = {1, 5, 32, 312, 313, 1024};

	(void)state;
	for (size_t k = 0; k < 6; k++) {
		struct net_config config = net_usual;
		struct net net;

		config.slots = slots[k];
		net_open(&net, &config);
		net_fill(&net, 1);
		for (uint64_t i = 0; i < config.values; i++)
			if (k == 2 || i % config.count == 7)
				for (uint32_t m = 0; m < 4; m++)
					net.members[m].in[i] = m % 2 && k != 2 ? 1 : NAN;
		net_start(&net);
		net_run(&net, 20 * HD_SECOND);
		net_check(&net, 15);
		assert_int_equal(net_stats(&net, 1)->places, net_places(&net));
		net_close(&net);
	}
}

/* Floats say it themselves. */
static void test_not_finite_floats(void **state) {
	struct net_config config = net_usual;
	struct net net;

	(void)state;
	config.dtype = HD_DTYPE_FP32;
	config.exponent = 0;
	net_open(&net, &config);
	net_fill(&net, 1);
	net.members[1].in[3000] = NAN;
	net.members[2].in[20010] = INFINITY;
	net_start(&net);
	net_run(&net, HD_SECOND);
	for (uint32_t m = 0; m < 4; m++) {
		const float *out = net.members[m].out;

		assert_int_equal(net_stats(&net, m)->state, HD_SLOTS_DONE);
		assert_int_equal(net_stats(&net, m)->places, 0);
		for (uint64_t i = 0; i < config.values; i++)
			assert_int_equal(isfinite(out[i]) != 0, i != 3000 && i != 20010);
		assert_true(isnan(out[3000]) && isinf(out[20010]));
	}
	net_close(&net);
}

/* The lease's exponent is too small for one value of the first window: no member takes the round, whether another has a
 * NaN in that chunk or not, nor when it is the sum that overflows. */
static void test_first_exponent(void **state) {
	(void)state;
	for (int k = 0; k < 3; k++) {
		struct net_config config = net_usual;
		struct net net;

		net_open(&net, &config);
		net_fill(&net, 1);
		net.members[0].in[70] = k == 2 ? 100 : 300; /* 2^31 * 2^-24 is 128 */
		net.members[2].in[70] = k == 2 ? 100 : 1;
		if (k == 1)
			net.members[3].in[80] = NAN;
		net_start(&net);
		net_run(&net, HD_SECOND);
		for (uint32_t m = 0; m < 4; m++) {
			assert_int_equal(net_stats(&net, m)->state, HD_SLOTS_FAILED);
			assert_int_equal(net_stats(&net, m)->reason, HD_REASON_NOT_FINITE);
		}
		net_close(&net);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_not_finite_together),
		cmocka_unit_test(test_not_finite_everywhere),
		cmocka_unit_test(test_not_finite_floats),
		cmocka_unit_test(test_first_exponent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
