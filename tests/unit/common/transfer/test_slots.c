/* SPDX-License-Identifier: BSD-3-Clause */
/* A member's end of sums in slots: the same bits at all, the right ones, whatever the network does. */
#include "hd_kernels.h"
#include "hd_limits.h"
#include "hd_switch_numbers.h"
#include "slots_net.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 120

/* --- sums ------------------------------------------------------------------------------------ */

static void test_lossless(void **state) {
	static const uint32_t members[] = {1, 2, 3, 8, 16};

	(void)state;
	for (size_t k = 0; k < 5; k++)
		for (int fp32 = 0; fp32 < 2; fp32++) {
			struct net_config config = net_usual;
			struct net *net;

			config.members = members[k];
			config.dtype = fp32 ? HD_DTYPE_FP32 : HD_DTYPE_FIXED32;
			config.exponent = fp32 ? 0 : -24;
			config.average = k % 2 == 1;
			net = net_once(&config, 3, HD_SECOND);
			net_check(net, (UINT64_C(1) << members[k]) - 1);
			net_check_same(net);
			for (uint32_t m = 0; m < members[k]; m++) {
				assert_int_equal(net_stats(net, m)->packets_resent, 0);
				assert_int_equal(net_stats(net, m)->mismatches, 0);
				assert_int_equal(net_stats(net, m)->packets_sent, 313);
			}
			net_free(net);
		}
}

/* Few values, one slot, a slot more than chunks, exactly one chunk a slot. */
static void test_edges(void **state) {
	static const struct {
		uint64_t values;
		uint16_t slots, count;
	} cases[]
		= {{1, 1, 1},
		   {1, 8, 32},
		   {33, 1, 32},
		   {64, 2, 32},
		   {65, 2, 32},
		   {4096, 64, 32},
		   {1000, 3, 352}};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct net_config config = net_usual;
		struct net *net;

		config.values = cases[k].values;
		config.slots = cases[k].slots;
		config.count = cases[k].count;
		net = net_once(&config, 1, HD_SECOND);
		net_check(net, 15);
		net_free(net);
	}
}

static void test_faults(void **state) {
	uint64_t resent = 0, repeated = 0, duplicates = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct net_config config;
		struct net *net;

		net_draw(seed, &config);
		net = net_once(&config, 2, 60 * HD_SECOND);
		if (!net_ended(net))
			fail_msg("seed %llu: no end", (unsigned long long)seed);
		net_check(net, (UINT64_C(1) << config.members) - 1);
		net_check_same(net);
		for (uint32_t m = 0; m < config.members; m++) {
			resent += net_stats(net, m)->packets_resent;
			repeated += net_stats(net, m)->repeated;
			duplicates += net_stats(net, m)->duplicates;
			assert_int_equal(net_stats(net, m)->mismatches, 0);
		}
		net_free(net);
	}
	/* Else nothing is known. */
	assert_true(resent > 1000 && repeated > 100 && duplicates > 100);
}

/* --- members --------------------------------------------------------------------------------- */

/* One that never said a word is taken out, and the others have their sum without it. */
static void test_never_there(void **state) {
	struct net net;
	struct net_config config = net_usual;

	(void)state;
	config.average = true;
	net_open(&net, &config);
	net_fill(&net, 1);
	net.members[2].dead = true;
	net_start(&net);
	net_run(&net, 300 * HD_MS);
	assert_false(net_ended(&net));
	assert_int_equal(net_stats(&net, 0)->sums, 0);
	net.sw.waits(net.sw.self, 11);
	net_run(&net, 3 * HD_SECOND);
	assert_true(net_ended(&net));
	net_check(&net, 11);
	net_close(&net);
}

/* One that dies within the round: no member takes a round that has it in some of its sums. */
static void test_dies(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct net_config config = net_usual;
		struct net net;

		config.seed = seed;
		config.loss = 0.02;
		config.values = 6400;
		config.strange = seed % 3 == 0 ? 0.01 : 0;
		net_begin(&net, &config, 1);
		if (net_dies(&net, 4 * HD_MS))
			net_check(&net, net_stats(&net, 0)->members);
		net_close(&net);
	}
}

/* One that is taken out while it lives. */
static void test_taken_out(void **state) {
	struct net_config config = net_usual;
	struct net net;

	(void)state;
	net_begin(&net, &config, 1);
	net_take_out(&net);
	net_close(&net);
}

/* --- range ------------------------------------------------------------------------------------ */

/* From the least to the greatest that fp32 has. */
static void test_range(void **state) {
	struct net_config config = net_usual;
	struct net net;

	(void)state;
	config.exponent = HD_FIXED_EXPONENT_MAX;
	config.slots = 4;
	config.members = 3;
	config.values = UINT64_C(64) * 200;
	net_open(&net, &config);
	for (uint32_t m = 0; m < 3; m++)
		for (uint64_t i = 0; i < config.values; i++) {
			int chunk = (int)(i / config.count);
			/* 2^-126 .. 2^126, every third chunk of zeros only */
			int e = chunk < 4 ? 100 : -126 + chunk % 126 * 2;

			net.members[m].in[i] = chunk % 3 == 2 && chunk > 4 ?
				0 :
				ldexpf((float)(1 + (i + m) % 13) / 16, e);
		}
	net_start(&net);
	net_run(&net, HD_SECOND);
	net_check(&net, 7);
	net_close(&net);
}

/* --- what others may send -------------------------------------------------------------------- */

#define FORGE(change)                                                                              \
	do {                                                                                       \
		struct hd_chunk_header h = net_result_header(&net, 3);                             \
		change;                                                                            \
		net_forge(&net, &h, (size_t)config.count * 4);                                     \
	} while (0)

static void test_hostile(void **state) {
	struct net_config config = net_usual;
	struct hd_chunk_header header;
	struct net net;

	(void)state;
	config.latency = 5 * HD_MS;
	net_begin(&net, &config, 1);
	net_run(&net, 4 * HD_MS); /* the first window is in flight */
	assert_int_equal(net_stats(&net, 0)->packets_sent, 32);
	FORGE(h.token++);
	FORGE(h.job++);
	FORGE(h.epoch++);
	FORGE(h.attempt++);
	FORGE(h.shard++);
	FORGE(h.round++);
	FORGE(h.dtype = HD_DTYPE_FP32);
	FORGE(h.count--);
	FORGE(h.slot++);
	FORGE(h.slot |= HD_SWITCH_SLOT_VERSION);
	FORGE(h.chunk = 4);
	FORGE(h.chunk = 35; h.slot |= HD_SWITCH_SLOT_VERSION); /* was not sent */
	FORGE(h.chunk = UINT32_MAX; h.slot = UINT32_MAX % 32);
	FORGE(h.chunk = 313; h.slot = 313 % 32); /* the first beyond */
	FORGE(h.exponent++);
	FORGE(h.next = -127); /* less than we proposed */
	FORGE(h.version = 16 | 15); /* more members than there are */
	FORGE(h.version = 0);
	header = net_result_header(&net, 3);
	net_forge(&net, &header, (size_t)config.count * 4 - 4);
	net_run(&net, HD_SECOND);
	net_check(&net, 15);
	net_close(&net);
}

/* Any bytes of a true result changed, and replays of all of them: no sum is wrong. */
static void test_mutations(void **state) {
	struct net_config config = net_usual;
	struct hd_random random;

	(void)state;
	hd_random_init(&random, 5);
	for (int k = 0; k < 30; k++) {
		struct net net;

		config.seed = (uint64_t)k;
		net_begin(&net, &config, 1);
		while (!net_ended(&net)) {
			struct hd_chunk_header header
				= net_result_header(&net, (uint32_t)hd_random_below(&random, 320));
			uint8_t payload[64 * 4] = {0};

			net_run(&net, net.now + 200 * HD_US);
			/* A sender that knows the token is believed: it differs. */
			header.token ^= UINT64_C(1) << hd_random_below(&random, 64);
			if (net.members[0].slots)
				(void)hd_slots_take(
					net.members[0].slots,
					net.now,
					&header,
					payload,
					sizeof payload
				);
		}
		assert_true(net_stats(&net, 0)->mismatches > 0);
		net_check(&net, 15);
		net_close(&net);
	}
}

/* --- arguments ------------------------------------------------------------------------------- */

static int try(const struct hd_slots_config *config) {
	struct hd_slots *slots = (void *)1;
	int rc = hd_slots_create(config, 0, &slots);

	if (rc < 0)
		assert_ptr_equal(slots, (void *)1);
	else
		hd_slots_destroy(slots);
	return rc;
}

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		struct hd_slots_config c = good;                                                   \
		change;                                                                            \
		assert_int_equal(try(&c), -EINVAL);                                                \
	} while (0)

static void test_arguments(void **state) {
	static float in[100], out[100];
	struct hd_path path;
	struct hd_slots_config good = {
		.round = 1,
		.dtype = HD_DTYPE_FIXED32,
		.members = 64,
		.member = 63,
		.slots = HD_SWITCH_SLOTS,
		.count = 32,
		.token = 1,
		.rate_bps = 1,
		.in = in,
		.out = out,
		.values = 100,
		.path = &path,
	};
	struct hd_slots_config huge = good;

	(void)state;
	hd_path_init(&path, 226);
	assert_int_equal(try(&good), 0);
	REFUSED(c.in = NULL);
	REFUSED(c.out = NULL);
	REFUSED(c.path = NULL);
	REFUSED(c.values = 0);
	REFUSED(c.token = 0);
	REFUSED(c.round = 0);
	REFUSED(c.member = 64);
	REFUSED(c.members = 0);
	REFUSED(c.members = 65);
	REFUSED(c.slots = 0);
	REFUSED(c.slots++);
	REFUSED(c.count = 0);
	REFUSED(c.count = HD_CHUNK_BYTES_MAX / 4 + 1);
	REFUSED(c.dtype = HD_DTYPE_FP16);
	REFUSED(c.dtype = HD_DTYPE_FP32; c.exponent = 1);
	REFUSED(c.exponent = 127);
	REFUSED(c.exponent = -127);
	huge.values = (uint64_t)32 * HD_SLOTS_PACKETS_MAX;
	assert_int_equal(try(&huge), -EFBIG);
	hd_slots_destroy(NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lossless),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_never_there),
		cmocka_unit_test(test_dies),
		cmocka_unit_test(test_taken_out),
		cmocka_unit_test(test_range),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_mutations),
		cmocka_unit_test(test_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
