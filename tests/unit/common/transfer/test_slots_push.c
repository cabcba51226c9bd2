/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes through slots: members' ends, the native executor of the switch, and receivers, over links that lose, double
 * and delay in all four directions. Each receiver has each sum once, the right one by plain integers, and members hold
 * what the answers that came say, no more and no less.
 */
#include "hd_limits.h"
#include "hd_switch.h"
#include "hd_switch_numbers.h"
#include "slots_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 100
#define FLOOD 500

/* --- values ---------------------------------------------------------------------------------- */

/* Lanes whose sum fits, and chunks with one that does not: all members' lanes have one sign there, so that it
 * overflows in whatever order they come. */
static void fill(struct net *net, double spoilt) {
	const struct net_config *config = &net->config;
	const int64_t most = INT32_MAX / config->members;

	for (uint64_t i = 0; i < config->values; i++) {
		bool too_much = hd_random_chance(&net->random, spoilt);

		for (uint32_t m = 0; m < config->members; m++) {
			int64_t lane = (int64_t)hd_random_below(&net->random, 2 * most) - most;

			net->members[m].lanes[i] = __builtin_bswap32(
				too_much ? (uint32_t)INT32_MAX - m : (uint32_t)lane
			);
		}
	}
}

static int64_t sum_of(const struct net *net, uint64_t i, uint64_t members) {
	int64_t sum = 0;

	for (uint32_t m = 0; m < net->config.members; m++)
		if (members >> m & 1)
			sum += (int32_t)__builtin_bswap32(net->members[m].lanes[i]);
	return sum;
}

/* One receiver's, of whom each sum says. Returns how many chunks have an overflow. */
static uint32_t check_receiver(const struct net *net, const struct net_receiver *r) {
	const uint64_t count = net->config.count;
	uint32_t spoilt = 0;

	for (uint64_t chunk = 0; chunk < net_chunks(net); chunk++) {
		bool over = false;

		if (r->members[chunk] == 0)
			continue;
		for (uint64_t i = chunk * count; i < (chunk + 1) * count; i++) {
			bool value = i < net->config.values;
			int64_t sum = value ? sum_of(net, i, r->members[chunk]) : 0;

			over |= sum > INT32_MAX || sum < INT32_MIN;
			assert_int_equal(__builtin_bswap32(r->lanes[i]), (uint32_t)sum);
		}
		assert_int_equal(r->spoilt[chunk], over);
		spoilt += over;
	}
	return spoilt;
}

/* All ended well: every receiver has everything, with these members in it. */
static void check_done(const struct net *net, uint64_t members) {
	uint32_t spoilt = 0;

	for (uint32_t i = 0; i < net->config.receivers; i++) {
		const struct net_receiver *r = &net->receivers[i];

		assert_int_equal(r->sums, net_chunks(net));
		for (uint32_t chunk = 0; chunk < net_chunks(net); chunk++)
			assert_int_equal(r->members[chunk], members);
		spoilt = check_receiver(net, r);
	}
	for (uint32_t m = 0; m < net->config.members; m++) {
		if (net->members[m].dead)
			continue;
		assert_int_equal(net_stats(net, m)->state, HD_SLOTS_DONE);
		assert_int_equal(net_stats(net, m)->members, members);
		assert_int_equal(net_stats(net, m)->sums, net_chunks(net));
		assert_int_equal(net->members[m].answered, net_chunks(net));
		assert_int_equal(net_stats(net, m)->not_finite, spoilt);
	}
}

/* As the model has it, at any time. */
static void check_held(const struct net *net) {
	for (uint32_t m = 0; m < net->config.members; m++)
		if (net->members[m].slots && net_stats(net, m)->state != HD_SLOTS_FAILED)
			assert_int_equal(net_stats(net, m)->sums, net->members[m].answered);
}

static void begin(struct net *net, const struct net_config *config, double spoilt) {
	net_open(net, config);
	fill(net, spoilt);
	net_start(net);
}

static struct net_config usual(uint32_t receivers) {
	struct net_config config = net_usual;

	config.receivers = receivers;
	config.make = net_native;
	return config;
}

/* --- sums ------------------------------------------------------------------------------------ */

static void test_lossless(void **state) {
	static const uint32_t members[] = {1, 2, 3, 8, 16};
	struct net net;

	(void)state;
	for (size_t k = 0; k < 10; k++) {
		struct net_config config = usual(1 + k % 2);

		config.members = members[k / 2];
		begin(&net, &config, 0.001);
		net_run(&net, HD_SECOND);
		check_done(&net, (UINT64_C(1) << config.members) - 1);
		for (uint32_t m = 0; m < config.members; m++) {
			assert_int_equal(net_stats(&net, m)->packets_sent, net_chunks(&net));
			assert_int_equal(net_stats(&net, m)->mismatches, 0);
		}
		assert_int_equal(net.receivers[0].again, 0);
		net_close(&net);
	}
}

static void test_faults(void **state) {
	uint64_t repeated = 0, duplicates = 0, again = 0, spoilt = 0;
	struct net net;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct net_config config;

		net_draw(seed, &config);
		config.loss /= 2; /* four ways instead of two */
		config.dtype = HD_DTYPE_FIXED32;
		config.exponent = -24;
		config.average = false;
		config.receivers = 1 + (uint32_t)(seed % 2);
		config.make = net_native;
		begin(&net, &config, seed % 3 == 0 ? 0.001 : 0);
		while (!net_ended(&net) && net.now < 60 * HD_SECOND) {
			net_run(&net, net.now + 5 * HD_MS);
			check_held(&net);
		}
		if (!net_ended(&net))
			fail_msg("seed %llu: no end", (unsigned long long)seed);
		check_done(&net, (UINT64_C(1) << config.members) - 1);
		for (uint32_t m = 0; m < config.members; m++) {
			repeated += net_stats(&net, m)->packets_resent;
			duplicates += net_stats(&net, m)->duplicates;
			spoilt += net_stats(&net, m)->not_finite;
			assert_int_equal(net_stats(&net, m)->mismatches, 0);
		}
		again += net.receivers[0].again;
		net_close(&net);
	}
	/* Else nothing is known. */
	assert_true(repeated > 1000 && duplicates > 1000 && again > 1000 && spoilt > 100);
}

/* One receiver receives nothing for a while: not a chunk more than the slots goes ahead of it, and the last window is
 * repaired as any other. */
static void test_deaf_receiver(void **state) {
	struct net_config config = usual(2);
	struct net_member *deaf;
	struct net net;

	(void)state;
	for (int last = 0; last < 2; last++) {
		config.values = last ? (uint64_t)config.slots * config.count : 20011;
		begin(&net, &config, 0);
		deaf = &net.members[NET_MEMBERS_MAX + 1];
		net_run(&net, last ? 100 * HD_US : 3 * HD_MS);
		deaf->cut = true;
		net_run(&net, 300 * HD_MS);
		assert_false(net_ended(&net));
		assert_true(net.receivers[0].sums - net.receivers[1].sums <= config.slots);
		if (last) /* the server has all of it */
			assert_int_equal(net.receivers[0].sums, net_chunks(&net));
		deaf->cut = false;
		net_run(&net, 5 * HD_SECOND);
		check_done(&net, 15);
		net_close(&net);
	}
}

/* --- members --------------------------------------------------------------------------------- */

/* One that dies within a push and is taken out: sums say who is in them, and all others end alike. */
static void test_dies(void **state) {
	uint32_t taken = 0, given_up = 0;
	struct net net;

	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct net_config config = usual(1 + (uint32_t)(seed % 2));
		bool done;

		config.seed = seed;
		config.loss = 0.02;
		config.values = 6400;
		begin(&net, &config, 0);
		done = net_dies(&net, 6 * HD_MS);
		for (uint32_t i = 0; i < config.receivers; i++)
			(void)check_receiver(&net, &net.receivers[i]);
		if (done)
			check_done(&net, net_stats(&net, 0)->members);
		taken += done;
		given_up += !done;
		net_close(&net);
	}
	assert_true(taken > 0 && given_up > 0);
}

static void test_taken_out(void **state) {
	struct net_config config = usual(2);
	struct net net;

	(void)state;
	begin(&net, &config, 0);
	net_take_out(&net);
	net_close(&net);
}

/* --- what others may send -------------------------------------------------------------------- */

static struct hd_chunk_header answer_of(const struct net *net, uint32_t chunk, uint16_t receiver) {
	struct hd_chunk_header header = net_result_header(net, chunk);

	header.worker = receiver;
	header.count = 0;
	header.next = net->config.exponent;
	return header;
}

#define FORGE(change)                                                                              \
	do {                                                                                       \
		struct hd_chunk_header h = answer_of(&net, 3, 1);                                  \
		change;                                                                            \
		net_forge(&net, &h, 0);                                                            \
	} while (0)

static void test_hostile(void **state) {
	struct net_config config = usual(2);
	struct hd_chunk_header header;
	struct net net;

	(void)state;
	config.latency = 5 * HD_MS;
	begin(&net, &config, 0);
	net_run(&net, 4 * HD_MS); /* the first window is in flight */
	assert_int_equal(net_stats(&net, 0)->packets_sent, 32);
	FORGE(h.token++);
	FORGE(h.token = net_token(0)); /* that of our chunks, and another member's */
	FORGE(h.token = net_result_token(1));
	FORGE(h.job++);
	FORGE(h.epoch++);
	FORGE(h.attempt++);
	FORGE(h.shard++);
	FORGE(h.round++);
	FORGE(h.dtype = HD_DTYPE_FP32);
	FORGE(h.count = 1);
	FORGE(h.count = config.count); /* a sum, as of an all-reduce */
	FORGE(h.worker = 2); /* no such receiver */
	FORGE(h.worker = UINT16_MAX);
	FORGE(h.slot++);
	FORGE(h.slot |= HD_SWITCH_SLOT_VERSION);
	FORGE(h.chunk = 4);
	FORGE(h = answer_of(&net, 35, 0)); /* was not sent */
	FORGE(h = answer_of(&net, 313, 0)); /* the first beyond */
	FORGE(h = answer_of(&net, UINT32_MAX, 0));
	FORGE(h.exponent++);
	FORGE(h.next--); /* less than we proposed */
	FORGE(h.version = 16 | 15); /* more members than there are */
	FORGE(h.version = 0);
	header = answer_of(&net, 3, 1);
	net_forge(&net, &header, 4); /* values, which no answer has */
	net_forge(&net, &header, (size_t)config.count * 4);
	net_run(&net, HD_SECOND);
	check_done(&net, 15);
	net_close(&net);
}

/* True answers again, at any time and in floods: one receiver's word is never another's, nor that of another chunk. */
static void test_replays(void **state) {
	struct net_config config = usual(2);
	struct hd_random random;
	uint64_t replayed = 0;
	struct net net;

	(void)state;
	hd_random_init(&random, 9);
	for (uint64_t seed = 0; seed < 20; seed++) {
		config.seed = seed;
		config.loss = 0.02;
		begin(&net, &config, 0);
		while (!net_ended(&net)) {
			const struct net_member *m = &net.members[0];
			uint32_t chunk = (uint32_t)hd_random_below(&random, net_chunks(&net));
			uint16_t receiver = (uint16_t)hd_random_below(&random, 2);
			struct hd_chunk_header header = answer_of(&net, chunk, receiver);

			net_run(&net, net.now + 200 * HD_US);
			check_held(&net);
			if (!m->slots || !(m->answers[chunk] >> receiver & 1))
				continue; /* the receiver has not said this yet */
			for (int i = 0; i < FLOOD / 100; i++, replayed++)
				assert_int_equal(
					hd_slots_take(m->slots, net.now, &header, NULL, 0),
					HD_SLOTS_DUPLICATE
				);
			check_held(&net);
		}
		check_done(&net, 15);
		net_close(&net);
	}
	assert_true(replayed > FLOOD);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lossless),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_deaf_receiver),
		cmocka_unit_test(test_dies),
		cmocka_unit_test(test_taken_out),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_replays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
