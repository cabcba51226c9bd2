/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives at the controller: which two are matched, how they begin, and which are refused. */
#include "pair_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* It begins when both have asked, over the receiver's host, and the sender ends when the receiver has the values. The
 * job's rounds know nothing of it. */
static void test_pair(void **state) {
	const struct pair_wish wish = {.from = 0, .to = 2, .number = 1, .tag = "weights"};
	const struct hd_msg_reduce *m;
	struct hd_group_shard shard;
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_pair(&s, 2, wish);
	assert_null(reduce_sent(&s, 2));
	ask_pair(&s, 0, wish);
	assert_int_equal(begun(&s, 0) + begun(&s, 1) + begun(&s, 2), 2);
	for (uint32_t k = 0; k < WORKERS; k++)
		assert_int_equal(peer_count(s.aggregators[k], HD_MSG_GROUP), k == 2);
	for (uint16_t rank = 0; rank < WORKERS; rank += 2) {
		m = reduce_sent(&s, rank);
		assert_int_equal(m->channel, hd_channel(0, 2));
		assert_int_equal(m->round, 1);
		assert_int_equal(m->peer_boot, job_of(&s)->boot[2 - rank]);
		assert_int_equal(m->bytes, BYTES);
		assert_int_equal(m->workers, 2);
		assert_int_equal(hd_group_count(&m->shards, HD_GROUP_SHARD_BYTES), 1);
		shard = hd_group_get_shard(&m->shards, 0);
		assert_int_equal(shard.out_token != 0, rank == 0);
		assert_int_equal(shard.in_token != 0, rank == 2);
		assert_int_equal(shard.bytes, BYTES);
	}
	assert_int_equal(job_of(&s)->pair_count, 1);
	assert_true(
		ctl_memory_left(s.net.controller, job_of(&s)->pairs.tqh_first->aggregator)
		< 100 * MB
	);
	report(&s, 2, HD_OUTCOME_APPLIED, job_of(&s)->boot[0]);
	assert_int_equal(released(&s, 0), 1);
	assert_int_equal(
		peer_last(s.workers[0], HD_MSG_REDUCED)->reduced.channel, hd_channel(0, 2)
	);
	assert_int_equal(job_of(&s)->pair_count, 0);
	assert_int_equal(job_of(&s)->reduce_round, 0);
	assert_int_equal(job_of(&s)->reduce_count, 0);
	net_run(&s.net, 500 * HD_MS);
	for (uint16_t rank = 0; rank < WORKERS; rank++)
		assert_null(dropped(&s, rank));
	net_close(&s.net);
}

/* Each ordered pair counts for itself, later calls may begin before earlier ones, and rounds of the job are apart. */
static void test_numbers(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_pair(&s, 0, (struct pair_wish){.from = 0, .to = 1, .number = 1});
	ask_pair(&s, 0, (struct pair_wish){.from = 0, .to = 1, .number = 2});
	ask_pair(&s, 1, (struct pair_wish){.from = 1, .to = 0, .number = 1});
	ask_pair(&s, 2, (struct pair_wish){.from = 0, .to = 2, .number = 1});
	assert_int_equal(begun(&s, 0) + begun(&s, 1) + begun(&s, 2), 0);
	ask_pair(&s, 1, (struct pair_wish){.from = 0, .to = 1, .number = 2});
	assert_int_equal(reduce_sent(&s, 1)->round, 2);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	for (uint16_t rank = 0; rank < WORKERS; rank++)
		ask_next(&s, rank, 1);
	for (uint16_t rank = 0; rank < WORKERS; rank++) {
		assert_int_equal(reduce_sent(&s, rank)->channel, 0);
		assert_int_equal(reduce_sent(&s, rank)->workers, WORKERS);
	}
	ask_pair(&s, 0, (struct pair_wish){.from = 1, .to = 0, .number = 1});
	assert_int_equal(reduce_sent(&s, 0)->channel, hd_channel(1, 0));
	assert_int_equal(job_of(&s)->pair_count, 4);
	net_close(&s.net);
}

/* Both are told both calls, and the next two are matched. */
static void test_mismatch(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_pair(
		&s, 0, (struct pair_wish){.from = 0, .to = 1, .number = 1, .bytes = 4, .tag = "a"}
	);
	ask_pair(
		&s, 1, (struct pair_wish){.from = 0, .to = 1, .number = 1, .bytes = 8, .tag = "a"}
	);
	for (uint16_t rank = 0; rank < 2; rank++) {
		assert_int_equal(dropped(&s, rank)->reason, HD_REASON_MISMATCH);
		assert_string_equal(
			dropped(&s, rank)->text,
			"pair 1: rank 0 sends 4 bytes of fp32, tag \"a\"; rank 1 receives 8 bytes of fp32, "
			"tag \"a\""
		);
		assert_int_equal(dropped(&s, rank)->channel, hd_channel(0, 1));
		assert_int_equal(dropped(&s, rank)->deadline, 0);
	}
	assert_int_equal(job_of(&s)->pair_count, 0);
	ask_pair(&s, 0, (struct pair_wish){.from = 0, .to = 1, .number = 2});
	ask_pair(&s, 1, (struct pair_wish){.from = 0, .to = 1, .number = 2});
	assert_int_equal(begun(&s, 0) + begun(&s, 1), 2);
	net_close(&s.net);
}

/* A receiver that cannot take the values: the sender is told, and the aggregator. */
static void test_failed(void **state) {
	const struct pair_wish wish = {.from = 0, .to = 1, .number = 1};
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_pair(&s, 0, wish);
	ask_pair(&s, 1, wish);
	report(&s, 1, HD_OUTCOME_FAILED, 0);
	assert_int_equal(drops(&s, 0, HD_REASON_PEER), 1);
	assert_int_equal(peer_count(s.aggregators[1], HD_MSG_VOID), 1);
	assert_int_equal(job_of(&s)->pair_count, 0);
	net_close(&s.net);
}

/* A worker has a path for each that it sends to: no more begin than it can have, and the others wait. */
static void test_many(void **state) {
	const uint32_t most = CTL_PAIRS_OF_WORKER, all = most + 3;
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint32_t i = 1; i <= all; i++) {
		ask_pair(&s, 0, (struct pair_wish){.from = 0, .to = 1, .number = i, .bytes = 4});
		ask_pair(&s, 1, (struct pair_wish){.from = 0, .to = 1, .number = i, .bytes = 4});
	}
	assert_int_equal(begun(&s, 0), most);
	assert_int_equal(job_of(&s)->pair_count, all);
	report(&s, 1, HD_OUTCOME_APPLIED, job_of(&s)->boot[0]);
	net_run(&s.net, 2 * HD_MS);
	assert_int_equal(begun(&s, 0), most + 1);
	s.workers[1]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(drops(&s, 0, HD_REASON_PEER), all - 1);
	assert_int_equal(job_of(&s)->pair_count, 0);
	assert_int_equal(job_of(&s)->pairs_of[0] + job_of(&s)->pairs_of[1], 0);
	net_close(&s.net);
}

/* Nonsense is refused, each by itself. */
static void test_nonsense(void **state) {
	static const struct pair_wish wishes[] = {
		{.from = 0, .to = 0, .number = 1},
		{.from = 1, .to = 2, .number = 1}, /* another's */
		{.from = 0, .to = HD_WORKERS_MAX, .number = 1},
		{.from = HD_WORKERS_MAX, .to = 0, .number = 1},
		{.from = 0, .to = 1, .number = 0},
		{.from = 0, .to = 1, .number = 1, .bytes = 3},
		{.from = 0, .to = 1, .number = 1, .bytes = HD_MODEL_BYTES_MAX + 4},
	};
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint32_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
		ask_pair(&s, 0, wishes[i]);
		assert_int_equal(drops(&s, 0, HD_REASON_REFUSED), i + 1);
	}
	assert_int_equal(job_of(&s)->pair_count, 0);
	answer(&s, 0, (struct hd_msg_channel){.channel = hd_channel(1, 2)});
	assert_int_equal(counters(&s.net)->hostile_owner, 1);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pair),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_mismatch),
		cmocka_unit_test(test_failed),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
