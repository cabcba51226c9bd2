/* SPDX-License-Identifier: BSD-3-Clause */
/* All-to-alls at the worker: where the blocks of other members' rows go. The worker is rank 3, the second of the
 * members 0 and 3. An odd number of values: the blocks differ in size. */
#include "reduce_peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SUM_ID 77
#define COUNT 3001
#define MINE 1501 /* values of block 1; block 0 has one less */

static struct hd_roster members;

static int setup(void **state) {
	(void)state;
	hd_roster_set(&members, 0, true);
	hd_roster_set(&members, 3, true);
	return 0;
}

static int exchange(struct scene *s, uint64_t values) {
	return call(
		s,
		(struct hd_reduce_args
		){.collective = HD_COLLECTIVE_ALLTOALL,
		  .in = s->in,
		  .out = s->out,
		  .values = values}
	);
}

/* It takes block 1 of row 0, and gives block 0 of row 1. */
static struct order both(void) {
	return (struct order){
		.attempt = 1,
		.workers = 2,
		.bytes = UINT64_C(2) * COUNT * sizeof(float),
		.first = {(COUNT - MINE) * sizeof(float), COUNT * sizeof(float)},
		.shard = {MINE * sizeof(float), (COUNT - MINE) * sizeof(float)},
		.not_out = {true, false},
		.not_in = {false, true},
		.shards = 2,
		.sum_id = SUM_ID,
		.members = &members,
	};
}

static void test_two(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct order t = both();

	(void)state;
	memset(s->out, 0xff, sizeof s->out);
	assert_int_equal(exchange(s, COUNT), 1);
	assert_int_equal(
		peer_last(&s->world->controller, HD_MSG_REQUEST)->request.bytes,
		COUNT * sizeof(float)
	);
	begin(s, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	assert_memory_equal(held(s, 1, out_token(1, 1, 1)), s->in, t.shard[1]);
	serve(s, 0, 1, &t, s->in + 700);
	run_ms(s->world, 100);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(s, 1)->delay, 2);
	assert_memory_equal(s->out, s->in + 700, MINE * sizeof(float));
	assert_memory_equal(s->out + MINE, s->in + COUNT - MINE, MINE * sizeof(float));
	for (const uint8_t *x = (const uint8_t *)(s->out + (size_t)2 * MINE);
	     x < (const uint8_t *)(s->out + VALUES);
	     x++)
		assert_int_equal(*x, 0xff);
	assert_int_equal(
		peer_last(&s->world->controller, HD_MSG_REPORT)->report.outcome, HD_OUTCOME_APPLIED
	);
	close_scene(s);
}

/* Its result has come, but not all that it gives has arrived: others would miss it. */
static void test_waits_for_what_it_gives(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct order t = both();

	(void)state;
	assert_int_equal(exchange(s, COUNT), 1);
	send_reduce(s, 1, &t); /* aggregator 1 does not know its token yet */
	run_ms(s->world, 60);
	serve(s, 0, 1, &t, s->in);
	run_ms(s->world, 60);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	peer_stop(&s->aggregators[0]); /* it has nothing more to do for this worker */
	run_ms(s->world, 1000);
	begin(s, 1, &t);
	run_ms(s->world, 1500);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REQUEST)->request.attempt, 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	close_scene(s);
}

/* Of one member, all stays where it is. */
static void test_alone(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct hd_message message = {.kind = HD_MSG_REDUCED};
	struct order t = both();
	struct hd_roster self;

	(void)state;
	memset(&self, 0, sizeof self);
	hd_roster_set(&self, 3, true);
	assert_int_equal(exchange(s, COUNT), 1);
	t.workers = 1;
	t.members = &self;
	t.bytes = COUNT * sizeof(float);
	t.shards = 0;
	send_reduce(s, 1, &t);
	run_ms(s->world, 5);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	message.reduced = (struct hd_msg_reduced){hd_job_id("t", "job"), 3, 1, SUM_ID, 0};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_memory_equal(s->out, s->in, COUNT * sizeof(float));
	close_scene(s);
}

/* A REDUCE that names other ranges than these ends the round. */
static void check_malformed(void (*spoil)(struct order *)) {
	struct scene *s = open_scene(SCHEDULED);
	struct order t = both();

	assert_int_equal(exchange(s, COUNT), 1);
	spoil(&t);
	send_reduce(s, 1, &t);
	run_ms(s->world, 20);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_REFUSED);
	close_scene(s);
}

static void of_one_row(struct order *t) {
	t->bytes /= 2;
}

static void another_column(struct order *t) {
	t->first[0] -= sizeof(float);
}

static void beyond_its_column(struct order *t) {
	t->first[0] += sizeof(float);
}

/* Block 1 of row 1: it stays here. */
static void takes_its_own(struct order *t) {
	t->shard[0] = t->shard[1];
	t->first[0] = t->first[1];
	t->first[1] += t->shard[1];
	t->shard[1] = MINE * sizeof(float);
	t->not_out[0] = t->not_in[1] = false;
	t->not_out[1] = t->not_in[0] = true;
}

static void gives_its_own(struct order *t) {
	t->first[1] += t->shard[1];
}

/* There are two. */
static void a_third_row(struct order *t) {
	t->shard[0] = t->shard[1];
	t->first[0] = t->first[1];
	t->shard[1] = MINE * sizeof(float);
	t->first[1] = (3 * (uint64_t)COUNT - MINE) * sizeof(float);
	t->not_out[0] = t->not_in[1] = false;
	t->not_out[1] = t->not_in[0] = true;
}

static void only_takes(struct order *t) {
	t->shards = 1;
}

static void test_malformed(void **state) {
	(void)state;
	check_malformed(of_one_row);
	check_malformed(another_column);
	check_malformed(beyond_its_column);
	check_malformed(takes_its_own);
	check_malformed(gives_its_own);
	check_malformed(a_third_row);
	check_malformed(only_takes);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_waits_for_what_it_gives),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_malformed),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
