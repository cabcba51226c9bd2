/* SPDX-License-Identifier: BSD-3-Clause */
/* All-to-alls at the controller: a shard for each pair of members, where it goes, and how many there can be. */
#include "collective_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY (HD_ALLTOALL_MEMBERS_MAX + 1)
/* With this number of members, one aggregator can take all shards. */
#define FEW 32

static const struct wish plain = {.collective = HD_COLLECTIVE_ALLTOALL, .bytes = BYTES};

static struct hd_group_shard shard_of(const struct scene *s, uint16_t rank, uint32_t i) {
	return hd_group_get_shard(&reduce_sent(s, rank)->shards, i);
}

/* Each gives a third of its values to each other one, by the aggregator of the receiver. */
static void test_pairs(void **state) {
	const uint64_t block = BYTES / WORKERS;
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &plain);
	for (uint16_t i = 0; i < WORKERS; i++) {
		check_share(&s, i, 2 * block, 2 * block);
		assert_int_equal(reduce_sent(&s, i)->bytes, WORKERS * BYTES);
		assert_int_equal(reduce_sent(&s, i)->shards.bytes, 4 * HD_GROUP_SHARD_BYTES);
		assert_int_equal(peer_count(s.aggregators[i], HD_MSG_GROUP), 2);
	}
	/* Rank 1: block 1 of row 0, blocks 0 and 2 of its own row, and block 1 of row 2. */
	for (uint32_t i = 0; i < 4; i++) {
		const uint64_t at[] = {1, 3, 5, 7};
		const unsigned receiver[] = {1, 0, 2, 1};
		const struct hd_group_shard shard = shard_of(&s, 1, i);

		assert_int_equal(shard.first, at[i] * block);
		assert_int_equal(shard.bytes, block);
		assert_int_equal(shard.out_token != 0, i == 1 || i == 2);
		assert_int_equal(shard.in_token != 0, i == 0 || i == 3);
		assert_int_equal(shard.ipv4, s.aggregators[receiver[i]]->addr.ipv4);
		assert_int_equal(shard.port, s.aggregators[receiver[i]]->addr.port);
	}
	for (uint16_t i = 0; i < WORKERS; i++)
		finish(&s, i);
	assert_int_equal(released(&s, 0) + released(&s, 1) + released(&s, 2), 0);
	assert_int_equal(open_rounds(&s), 0);
	net_close(&s.net);
}

/* GROUPs have one input and one output: the aggregator of rank 1 has those of ranks 0 and 2, for rank 1. */
static void test_groups(void **state) {
	const struct hd_msg_group *group;
	struct hd_group_input input;
	struct hd_group_output output;
	unsigned givers = 0;
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &plain);
	for (uint32_t i = 0; i < s.aggregators[1]->count; i++) {
		if (s.aggregators[1]->log[i].kind != HD_MSG_GROUP)
			continue;
		group = &s.aggregators[1]->log[i].group;
		assert_int_equal(hd_group_count(&group->inputs, HD_GROUP_INPUT_BYTES), 1);
		assert_int_equal(hd_group_count(&group->outputs, HD_GROUP_OUTPUT_BYTES), 1);
		input = hd_group_get_input(&group->inputs, 0);
		output = hd_group_get_output(&group->outputs, 0);
		assert_int_equal(group->bytes, BYTES / WORKERS);
		assert_int_equal(output.worker, 1);
		givers |= 1U << input.worker;
		assert_int_equal(
			input.token, shard_of(&s, input.worker, input.worker ? 3 : 0).out_token
		);
	}
	assert_int_equal(givers, 1U << 0 | 1U << 2);
	net_close(&s.net);
}

/* Without an aggregator at the receiver, that of the giver: the values leave its host in any case. */
static void test_at_the_giver(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	s.aggregators[0]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	call_all(&s, 1, &plain);
	for (uint32_t i = 1; i < WORKERS; i++) { /* rank 0 gives two, and receives these */
		const struct hd_group_shard shard = shard_of(&s, 0, 1 + i);

		assert_int_equal(shard.first, i * BYTES);
		assert_int_equal(shard.ipv4, s.aggregators[i]->addr.ipv4);
		assert_int_equal(shard.port, s.aggregators[i]->addr.port);
	}
	net_close(&s.net);
}

/* Of two values, three members: one receives none. It is told when the others have theirs. */
static void test_empty_block(void **state) {
	struct wish wish = plain;
	struct scene s;

	(void)state;
	wish.bytes = 8;
	open_scene(&s);
	call_all(&s, 1, &wish);
	check_share(&s, 0, 8, 0);
	check_share(&s, 1, 4, 8);
	check_share(&s, 2, 4, 8);
	finish(&s, 1);
	assert_int_equal(released(&s, 0), 0);
	finish(&s, 2);
	assert_int_equal(released(&s, 0), 1);
	assert_int_equal(open_rounds(&s), 0);
	net_close(&s.net);
}

/* A void round is repeated; not when a member has its result: its values are gone. */
static void test_void(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &plain);
	lose_group(&s, 1);
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_non_null(peer_last(s.workers[i], HD_MSG_VOID));
		call(&s, i, 1, 2, &plain);
	}
	assert_int_equal(reduce_sent(&s, 0)->attempt, 2);
	check_share(&s, 0, 2 * BYTES / WORKERS, 2 * BYTES / WORKERS);
	finish(&s, 0);
	lose_group(&s, 1);
	for (uint16_t i = 1; i < WORKERS; i++)
		assert_int_equal(drops(&s, i, HD_REASON_LATE), 1);
	net_close(&s.net);
}

/* One dies: the others divide the values by two. */
static void test_member_dies(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &plain);
	s.workers[1]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	lose_group(&s, 2); /* its input from rank 1 does not go on */
	call(&s, 0, 1, 2, &plain);
	call(&s, 2, 1, 2, &plain);
	assert_int_equal(reduce_sent(&s, 0)->workers, 2);
	assert_int_equal(reduce_sent(&s, 0)->bytes, 2 * BYTES);
	check_share(&s, 0, BYTES / 2, BYTES / 2);
	check_share(&s, 2, BYTES / 2, BYTES / 2);
	net_close(&s.net);
}

static void test_alone_and_room(void **state) {
	struct wish wish = plain;
	struct scene s;

	(void)state;
	wish.bytes = 400;
	wish.room = 404; /* 100 values in three blocks of at most 34 */
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		call(&s, i, 1, 1, &wish);
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_int_equal(drops(&s, i, HD_REASON_REFUSED), 1);
		assert_string_equal(
			peer_last(s.workers[i], HD_MSG_DROP)->drop.text,
			"call 1: a result of 408 bytes of 3 members, and rank 0 has room for 404"
		);
	}
	wish.room = 408;
	call_all(&s, 2, &wish);
	assert_int_equal(reduce_sent(&s, 2)->round, 2);
	s.workers[0]->cut = s.workers[1]->cut = true;
	for (uint16_t i = 0; i < WORKERS; i++)
		finish(&s, i);
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	call(&s, 2, 3, 1, &plain);
	check_share(&s, 2, 0, 0);
	assert_int_equal(released(&s, 2), 1);
	net_close(&s.net);
}

/* --- many members --------------------------------------------------------------------------- */

static struct peer *many[MANY];

/* This number of workers, and of aggregators on hosts of their own. */
static void open_many(struct scene *s, uint16_t workers, uint32_t aggregators) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, &net_plain);
	for (uint16_t i = 0; i < workers; i++)
		many[i] = worker(&s->net, i, workers);
	for (uint32_t k = 0; k < aggregators; k++) {
		char host[8];

		(void)snprintf(host, sizeof host, "a%u", k);
		(void)aggregator(&s->net, host, 1000 * MB);
	}
}

static void call_many(struct scene *s, uint16_t workers, uint32_t round) {
	for (uint16_t i = 0; i < workers; i++) {
		struct hd_message m = net_push(many[i], round, UINT64_C(4) * workers, 0);

		m.request.direction = HD_REDUCE;
		m.request.attempt = 1;
		m.request.have = round;
		m.request.collective = HD_COLLECTIVE_ALLTOALL;
		post(many[i], m);
	}
	net_run(&s->net, 500 * HD_MS);
}

static void check_refused(uint16_t rank, uint8_t reason) {
	const struct hd_message *drop = peer_last(many[rank], HD_MSG_DROP);

	assert_null(peer_last(many[rank], HD_MSG_REDUCE));
	assert_non_null(drop);
	assert_int_equal(drop->drop.reason, reason);
}

static void test_one_too_many(void **state) {
	struct scene s;

	(void)state;
	open_many(&s, MANY, 1);
	call_many(&s, MANY, 1);
	for (uint16_t i = 0; i < MANY; i++) {
		check_refused(i, HD_REASON_REFUSED);
		assert_string_equal(
			peer_last(many[i], HD_MSG_DROP)->drop.text,
			"call 1: an all-to-all of 65 members, more than 64 (HD_ALLTOALL_MEMBERS_MAX)"
		);
	}
	net_close(&s.net);
}

/* As many members as there can be: each has a value of each other one. No session overflows. */
static void test_most(void **state) {
	const uint32_t members = HD_ALLTOALL_MEMBERS_MAX;
	struct scene s;

	(void)state;
	open_many(&s, (uint16_t)members, 4); /* three would not do */
	call_many(&s, (uint16_t)members, 1);
	for (uint32_t i = 0; i < members; i++) {
		const struct hd_msg_reduce *m = &peer_last(many[i], HD_MSG_REDUCE)->reduce;

		assert_int_equal(
			hd_group_count(&m->shards, HD_GROUP_SHARD_BYTES), 2 * (members - 1)
		);
		assert_int_equal(m->bytes, members * members * 4);
	}
	assert_int_equal(counters(&s.net)->queue_overflow, 0);
	net_close(&s.net);
}

/* An aggregator takes a limited number of shards: more are refused, and those of a second round wait for the first. */
static void test_shards_at_once(void **state) {
	struct scene s;

	(void)state;
	assert_true(FEW * (FEW - 1) <= HD_AGGREGATOR_SHARDS_MAX);
	assert_true((FEW + 1) * FEW > HD_AGGREGATOR_SHARDS_MAX);
	open_many(&s, FEW + 1, 1);
	call_many(&s, FEW + 1, 1);
	for (uint16_t i = 0; i <= FEW; i++)
		check_refused(i, HD_REASON_NO_SERVER);
	net_close(&s.net);
	open_many(&s, FEW, 1);
	call_many(&s, FEW, 1);
	call_many(&s, FEW, 2);
	for (uint16_t i = 0; i < FEW; i++) {
		const struct hd_msg_reduce *reduce = &peer_last(many[i], HD_MSG_REDUCE)->reduce;
		struct hd_message m = {.kind = HD_MSG_REPORT};

		assert_int_equal(reduce->round, 1);
		m.report = (struct hd_msg_report
		){.job = reduce->job,
		  .worker = i,
		  .round = 1,
		  .direction = HD_REDUCE,
		  .attempt = 1,
		  .token = reduce->sum_id,
		  .outcome = HD_OUTCOME_APPLIED};
		post(many[i], m);
	}
	net_run(&s.net, 500 * HD_MS);
	for (uint16_t i = 0; i < FEW; i++)
		assert_int_equal(peer_last(many[i], HD_MSG_REDUCE)->reduce.round, 2);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_at_the_giver),
		cmocka_unit_test(test_empty_block),
		cmocka_unit_test(test_void),
		cmocka_unit_test(test_member_dies),
		cmocka_unit_test(test_alone_and_room),
		cmocka_unit_test(test_one_too_many),
		cmocka_unit_test(test_most),
		cmocka_unit_test(test_shards_at_once),
	};

	return cmocka_run_group_tests_name("controller_alltoall", tests, NULL, NULL);
}
