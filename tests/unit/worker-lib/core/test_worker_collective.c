/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives besides the all-reduce at the worker: which values go where, and when a worker that receives nothing may
 * end. The worker is rank 3; the members are ranks 0, 3 and 5. */
#include "hd_text.h"
#include "reduce_peers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS 3
#define SUM_ID 77

static struct hd_roster members;

static int setup(void **state) {
	(void)state;
	hd_roster_set(&members, 0, true);
	hd_roster_set(&members, 3, true);
	hd_roster_set(&members, 5, true);
	return 0;
}

static struct hd_reduce_args args_of(struct scene *s, uint8_t collective, uint64_t values) {
	return (struct hd_reduce_args
	){.collective = collective, .in = s->in, .out = s->out, .values = values};
}

/* A round of these members, of one shard of all values. */
static struct order one_shard(uint64_t values) {
	return (struct order){
		.attempt = 1,
		.workers = MEMBERS,
		.bytes = values * sizeof(float),
		.shard = {values * sizeof(float)},
		.shards = 1,
		.sum_id = SUM_ID,
		.members = &members,
	};
}

static void send_reduced(struct scene *s, uint32_t round, uint64_t sum_id) {
	struct hd_message message = {.kind = HD_MSG_REDUCED};

	message.reduced = (struct hd_msg_reduced){hd_job_id("t", "job"), 3, round, sum_id, 0};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

static const struct hd_msg_request *last_request(const struct scene *s) {
	return &peer_last(&s->world->controller, HD_MSG_REQUEST)->request;
}

static uint32_t reports(const struct scene *s) {
	return peer_count(&s->world->controller, HD_MSG_REPORT);
}

/* The request says what is called; a reduce's member that is not the root ends when it is told, not before. */
static void test_giver(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_REDUCE, VALUES);
	struct order t = one_shard(VALUES);

	(void)state;
	args.root = 5;
	args.exact = MEMBERS;
	args.wait_ms = 250;
	args.out = NULL;
	hd_text_copy(args.tag, sizeof args.tag, "norms");
	assert_int_equal(call(s, args), 1);
	assert_int_equal(last_request(s)->collective, HD_COLLECTIVE_REDUCE);
	assert_int_equal(last_request(s)->root, 5);
	assert_int_equal(last_request(s)->exact, MEMBERS);
	assert_int_equal(last_request(s)->wait_ms, 250);
	assert_int_equal(last_request(s)->least, 0);
	assert_int_equal(last_request(s)->bytes, VALUES * sizeof(float));
	assert_string_equal(last_request(s)->tag, "norms");
	t.not_in[0] = true;
	begin(s, 1, &t);
	assert_memory_equal(held(s, 0, out_token(1, 1, 0)), s->in, VALUES * sizeof(float));
	run_ms(s->world, HD_STALL_US / 1000 * 3); /* nothing moves, and it does not ask again */
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	assert_int_equal(last_request(s)->attempt, 1);
	send_reduced(s, 1, SUM_ID - 1); /* of another attempt */
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	send_reduced(s, 1, SUM_ID);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(s, 1)->delay, MEMBERS);
	assert_int_equal(s->world->released, 1);
	assert_int_equal(reports(s), 0);
	close_scene(s);
}

/* The controller's process is another one when its values have arrived: it asks whether the others have the result. */
static struct scene *lone_giver(void) {
	struct scene *s = open_scene(REDUCES);
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_REDUCE, VALUES);
	struct order t = one_shard(VALUES);

	args.root = 5;
	args.out = NULL;
	assert_int_equal(call(s, args), 1);
	t.not_in[0] = true;
	begin(s, 1, &t);
	assert_non_null(held(s, 0, out_token(1, 1, 0)));
	peer_stop(&s->world->controller);
	run_ms(s->world, 2000);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	peer_start(&s->world->controller);
	run_ms(s->world, 2000);
	assert_int_equal(last_request(s)->attempt, 2);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	return s;
}

static void send_late(struct scene *s, uint64_t sum_id) {
	struct hd_message message = {.kind = HD_MSG_DROP};

	message.drop = (struct hd_msg_drop
	){.job = hd_job_id("t", "job"),
	  .worker = 3,
	  .round = 1,
	  .direction = HD_REDUCE,
	  .attempt = 2,
	  .reason = HD_REASON_LATE,
	  .sum_id = sum_id};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

static void test_lone_giver(void **state) {
	struct scene *s = lone_giver();
	struct order t = one_shard(VALUES);

	(void)state;
	send_late(s, SUM_ID); /* its values are in it */
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	close_scene(s);
	s = lone_giver();
	send_late(s, SUM_ID + 1); /* they made it again without it */
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_LATE);
	close_scene(s);
	s = lone_giver();
	send_reduced(s, 1, SUM_ID); /* the same controller, which has waited for the others */
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	close_scene(s);
	s = lone_giver(); /* it is made again */
	t.attempt = 2;
	t.sum_id = SUM_ID + 5;
	t.not_in[0] = true;
	begin(s, 1, &t);
	assert_memory_equal(held(s, 0, out_token(1, 2, 0)), s->in, VALUES * sizeof(float));
	send_reduced(s, 1, SUM_ID);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	send_reduced(s, 1, SUM_ID + 5);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	close_scene(s);
}

/* Its path was closed before the last acknowledgement, and it has asked again. Others have the result of its values. */
static void test_released_after_asking_again(void **state) {
	struct scene *s = open_scene(REDUCES);
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_REDUCE, VALUES);
	struct order t = one_shard(VALUES);

	(void)state;
	args.root = 5;
	args.out = NULL;
	assert_int_equal(call(s, args), 1);
	t.not_in[0] = true;
	send_reduce(s, 1, &t); /* the aggregator does not know the token: nothing is acknowledged */
	run_ms(s->world, 50);
	peer_stop(&s->aggregators[0]);
	run_ms(s->world, 5000);
	assert_int_equal(last_request(s)->attempt, 2);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	send_reduced(s, 1, SUM_ID + 1); /* of an attempt whose REDUCE was lost: it asks again */
	assert_int_equal(last_request(s)->attempt, 3);
	send_reduced(s, 1, SUM_ID);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	close_scene(s);
}

/* A receiver of a broadcast gives nothing, and reports what it has. */
static void test_broadcast(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_BROADCAST, VALUES);
	struct order t = one_shard(VALUES);

	(void)state;
	args.in = NULL;
	assert_int_equal(call(s, args), 1);
	t.not_out[0] = true;
	begin(s, 1, &t);
	serve(s, 0, 1, &t, s->in);
	run_ms(s->world, 60);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_memory_equal(s->out, s->in, VALUES * sizeof(float));
	assert_int_equal(
		peer_last(&s->world->controller, HD_MSG_REPORT)->report.outcome, HD_OUTCOME_APPLIED
	);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REPORT)->report.token, SUM_ID);
	close_scene(s);
}

/* The receivers have the root's values from an attempt before, or end without them: there are no shards. */
static void test_root_without_receivers(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_BROADCAST, VALUES);
	struct order t = one_shard(VALUES);

	(void)state;
	args.root = 3;
	args.out = NULL;
	assert_int_equal(call(s, args), 1);
	t.shards = 0;
	begin(s, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	send_reduced(s, 1, SUM_ID);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(s, 1)->delay, MEMBERS);
	close_scene(s);
}

/* Its own block is the second of three; the others' come from aggregators, and it waits until its own has arrived. */
static void test_allgather(void **state) {
	const uint64_t block = VALUES / MEMBERS, bytes = block * sizeof(float);
	struct scene *s = open_scene(SCHEDULED);
	struct order t = one_shard(block);
	struct hd_msg_request request;
	struct order own;

	(void)state;
	assert_int_equal(call(s, args_of(s, HD_COLLECTIVE_ALLGATHER, block)), 1);
	assert_int_equal(last_request(s)->bytes, bytes);
	t.bytes = MEMBERS * bytes;
	t.shard[1] = bytes;
	t.first[1] = bytes;
	t.shards = 2;
	t.not_out[0] = t.not_in[1] = true;
	own = t;
	own.shards = 1; /* the third block is missing */
	send_reduce(s, 1, &own);
	run_ms(s->world, 5);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_REFUSED);
	/* Of two members, 0 and 3: a block to receive and one to give. */
	assert_int_equal(call(s, args_of(s, HD_COLLECTIVE_ALLGATHER, block)), 2);
	hd_roster_set(&members, 5, false);
	t.bytes = 2 * bytes;
	t.workers = 2;
	send_reduce(s, 2, &t); /* aggregator 1 does not know its token yet */
	run_ms(s->world, 60);
	serve(s, 0, 2, &t, s->in + 7);
	run_ms(s->world, 60);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_SENDING);
	request = (struct hd_msg_request
	){.job = hd_job_id("t", "job"), .worker = 3, .round = 2, .attempt = 1, .bytes = bytes};
	peer_expect(&s->aggregators[1], out_token(2, 1, 1), &request);
	run_ms(s->world, 1500);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_APPLIED);
	assert_memory_equal(held(s, 1, out_token(2, 1, 1)), s->in, bytes);
	assert_memory_equal(s->out, s->in + 7, bytes);
	assert_memory_equal(s->out + block, s->in, bytes);
	hd_roster_set(&members, 5, true);
	close_scene(s);
}

/* It gives all values, and receives the second third of the mean. */
static void test_reduce_scatter(void **state) {
	const uint64_t first = VALUES / MEMBERS, end = 2 * (uint64_t)VALUES / MEMBERS;
	struct scene *s = open_scene(SCHEDULED);
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_REDUCE_SCATTER, VALUES);
	struct order t = one_shard(VALUES);

	(void)state;
	args.op = t.op = HD_REDUCE_OP_AVERAGE;
	args.room = VALUES;
	assert_int_equal(call(s, args), 1);
	assert_int_equal(last_request(s)->room, VALUES * sizeof(float));
	/* Blocks 0 and 1; the third is missing: not all that it must give. */
	t.shards = 2;
	t.shard[0] = first * sizeof(float);
	t.not_in[0] = true;
	t.first[1] = first * sizeof(float);
	t.shard[1] = (end - first) * sizeof(float);
	send_reduce(s, 1, &t);
	run_ms(s->world, 5);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_REFUSED);
	assert_int_equal(call(s, args), 2);
	hd_roster_set(&members, 5, false); /* now its block is the second half, in one shard */
	t.workers = 2;
	t.shard[0] = t.first[1] = VALUES / 2 * sizeof(float);
	t.shard[1] = (VALUES - VALUES / 2) * sizeof(float);
	begin(s, 2, &t);
	serve(s, 1, 2, &t, s->in);
	run_ms(s->world, 100);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_APPLIED);
	assert_memory_equal(held(s, 0, out_token(2, 1, 0)), s->in, t.shard[0]);
	assert_memory_equal(held(s, 1, out_token(2, 1, 1)), s->in + VALUES / 2, t.shard[1]);
	for (int i = 0; i < VALUES - VALUES / 2; i++)
		assert_float_equal(s->out[i], s->in[i], 0);
	hd_roster_set(&members, 5, true);
	close_scene(s);
}

/* A broadcast of values that this worker has: it gives and receives nothing, and ends with the root. */
static void test_has(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_BROADCAST, VALUES);
	struct order t = one_shard(VALUES);

	args.root = 5;
	args.out = NULL;
	args.state = HD_REQUEST_HAS;
	t.shards = 0;
	assert_int_equal(call(s, args), 1);
	assert_int_equal(last_request(s)->state, HD_REQUEST_HAS);
	send_reduce(s, 1, &t);
	run_ms(s->world, HD_STALL_US / 1000 * 3);
	assert_int_equal(last_request(s)->attempt, 1);
	send_reduced(s, 1, SUM_ID);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	/* Values for it are none that it asked for. */
	assert_int_equal(call(s, args), 2);
	t.shards = 1;
	t.not_out[0] = true;
	send_reduce(s, 2, &t);
	run_ms(s->world, 20);
	assert_int_equal(ticket(s, 2)->reason, HD_REASON_REFUSED);
	close_scene(s);
}

/* A REDUCE that names no range of this worker's, or other members than this one, ends it. */
static void
check_malformed(struct hd_reduce_args (*args)(struct scene *), void (*spoil)(struct order *)) {
	struct scene *s = open_scene(SCHEDULED);
	struct order t = one_shard(VALUES);

	assert_int_equal(call(s, args(s)), 1);
	spoil(&t);
	send_reduce(s, 1, &t);
	run_ms(s->world, 20);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_REFUSED);
	close_scene(s);
}

static struct hd_reduce_args as_root(struct scene *s) {
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_BROADCAST, VALUES);

	args.root = 3;
	args.out = NULL;
	return args;
}

static struct hd_reduce_args as_receiver(struct scene *s) {
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_BROADCAST, VALUES);

	args.in = NULL;
	return args;
}

static void receives(struct order *t) {
	t->not_out[0] = true;
}

static void gives(struct order *t) {
	t->not_in[0] = true;
}

static void without_members(struct order *t) {
	gives(t);
	t->members = NULL;
}

static void of_another(struct order *t) {
	static struct hd_roster others;

	gives(t);
	hd_roster_set(&others, 1, true);
	hd_roster_set(&others, 2, true);
	hd_roster_set(&others, 4, true);
	t->members = &others;
}

static void twice(struct order *t) {
	gives(t);
	t->shards = 2;
	t->not_in[1] = true;
	t->shard[0] = t->shard[1] = VALUES / 2 * sizeof(float);
}

static void behind(struct order *t) {
	gives(t);
	t->first[0] = sizeof(float);
}

static void test_malformed(void **state) {
	check_malformed(as_root, receives);
	check_malformed(as_receiver, gives);
	check_malformed(as_root, without_members);
	check_malformed(as_root, of_another);
	check_malformed(as_root, twice);
	check_malformed(as_root, behind);
}

/* A barrier has no values; its end is told. A round in which there is nothing for this worker may begin again. */
static void test_barrier(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct hd_reduce_args args = {.collective = HD_COLLECTIVE_BARRIER};
	struct order t = one_shard(0);

	assert_int_equal(call(s, args), 1);
	t.shards = 0;
	begin(s, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	t.sum_id++;
	begin(s, 1, &t);
	send_reduced(s, 1, SUM_ID);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	send_reduced(s, 1, SUM_ID + 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	args.values = 1;
	assert_int_equal(call(s, args), -EINVAL);
	args = (struct hd_reduce_args){.collective = HD_COLLECTIVE_COUNT, .in = s->in, .values = 1};
	assert_int_equal(call(s, args), -EINVAL);
	close_scene(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_giver),
		cmocka_unit_test(test_lone_giver),
		cmocka_unit_test(test_released_after_asking_again),
		cmocka_unit_test(test_broadcast),
		cmocka_unit_test(test_root_without_receivers),
		cmocka_unit_test(test_allgather),
		cmocka_unit_test(test_reduce_scatter),
		cmocka_unit_test(test_has),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_barrier),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
