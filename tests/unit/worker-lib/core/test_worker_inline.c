/* SPDX-License-Identifier: BSD-3-Clause */
/* Short collectives at the worker: values go with the request, the result comes with REDUCE. The worker is rank 3; the
 * members are ranks 0, 3 and 5. */
#include "hd_kernels.h"
#include "reduce_peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS 3
#define SUM_ID 77
#define COUNT 100
#define BYTES (COUNT * sizeof(float))

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

static const struct hd_msg_request *last_request(const struct scene *s) {
	return &peer_last(&s->world->controller, HD_MSG_REQUEST)->request;
}

static const struct hd_msg_report *last_report(const struct scene *s) {
	const struct hd_message *m = peer_last(&s->world->controller, HD_MSG_REPORT);

	return m ? &m->report : NULL;
}

/* REDUCE of a round of `bytes` with this result, or none. */
static void
send_result(struct scene *s, uint32_t round, uint64_t bytes, const void *result, uint32_t length) {
	struct hd_message message = {.kind = HD_MSG_REDUCE, .reduce = {.scale = 1}};
	struct hd_msg_reduce *m = &message.reduce;

	m->job = hd_job_id("t", "job");
	m->worker = 3;
	m->round = round;
	m->attempt = 1;
	m->dtype = last_request(s)->dtype;
	m->bytes = bytes;
	m->workers = MEMBERS;
	m->sum_id = SUM_ID;
	m->members.data = members.ranks;
	m->members.bytes = (uint32_t)hd_roster_bytes(&members);
	m->inlined = 1;
	m->inline_bytes = HD_INLINE_BYTES;
	m->values.data = result;
	m->values.bytes = length;
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

static void send_reduced(struct scene *s, uint32_t round) {
	struct hd_message message = {.kind = HD_MSG_REDUCED};

	message.reduced = (struct hd_msg_reduced
	){.job = hd_job_id("t", "job"), .worker = 3, .round = round, .sum_id = SUM_ID};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

/* One that has learned from a barrier that short rounds go with their requests, and how many members there are. */
static struct scene *open_inline(void) {
	struct scene *s = open_scene(REDUCES);

	assert_int_equal(call(s, args_of(s, HD_COLLECTIVE_BARRIER, 0)), 1);
	assert_int_equal(last_request(s)->values.bytes, 0);
	send_result(s, 1, 0, NULL, 0);
	send_reduced(s, 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	return s;
}

/* The values of a call's request: all that it gives, or none. */
static void check_given(struct scene *s, const struct hd_reduce_args *args, bool gives) {
	const int round = call(s, *args);

	assert_true(round > 0);
	assert_int_equal(last_request(s)->round, round);
	if (!gives) {
		assert_int_equal(last_request(s)->values.bytes, 0);
		return;
	}
	assert_int_equal(last_request(s)->values.bytes, args->values * sizeof(float));
	assert_memory_equal(last_request(s)->values.data, s->in, args->values * sizeof(float));
}

static void test_which(void **state) {
	const uint64_t most = HD_INLINE_BYTES / sizeof(float);
	struct scene *s = open_scene(REDUCES);
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_ALLREDUCE, COUNT);

	(void)state;
	check_given(s, &args, false); /* the controller has not said so */
	close_scene(s);
	s = open_inline();
	args = args_of(s, HD_COLLECTIVE_ALLREDUCE, most);
	check_given(s, &args, true);
	args.values++;
	check_given(s, &args, false);
	args = args_of(s, HD_COLLECTIVE_ALLGATHER, most / MEMBERS);
	check_given(s, &args, true);
	args.values++;
	check_given(s, &args, false);
	args = args_of(s, HD_COLLECTIVE_BROADCAST, COUNT);
	args.root = 3;
	args.out = NULL;
	check_given(s, &args, true);
	args = args_of(s, HD_COLLECTIVE_BROADCAST, COUNT);
	args.in = NULL;
	check_given(s, &args, false);
	close_scene(s);
}

static void test_sum(void **state) {
	struct scene *s = open_inline();
	const struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_ALLREDUCE, COUNT);
	float sum[COUNT];

	(void)state;
	for (int i = 0; i < COUNT; i++)
		sum[i] = (float)i * 0.5F;
	check_given(s, &args, true);
	send_result(s, 2, BYTES, sum, BYTES);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(s, 2)->delay, MEMBERS);
	assert_memory_equal(s->out, sum, BYTES);
	assert_int_equal(last_report(s)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(last_report(s)->token, SUM_ID);
	assert_int_equal(last_report(s)->round, 2);
	assert_int_equal(s->world->released, 2);
	send_result(s, 2, BYTES, s->in, BYTES); /* again, of a round that has ended */
	assert_memory_equal(s->out, sum, BYTES);
	close_scene(s);
}

/* fp32 travels as bf16 both ways. */
static void test_rounded(void **state) {
	struct scene *s = open_inline();
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_ALLREDUCE, COUNT);
	uint16_t half[COUNT], result[COUNT];

	(void)state;
	args.dtype = HD_DTYPE_BF16;
	assert_int_equal(call(s, args), 2);
	hd_half_from_f32(HD_DTYPE_BF16, half, s->in, COUNT, 1);
	assert_int_equal(last_request(s)->values.bytes, sizeof half);
	assert_memory_equal(last_request(s)->values.data, half, sizeof half);
	for (int i = 0; i < COUNT; i++)
		result[i] = (uint16_t)(0x3f80 + i);
	send_result(s, 2, sizeof half, result, sizeof half);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_APPLIED);
	assert_float_equal(s->out[0], 1, 0);
	assert_float_equal(s->out[64], 1.5F, 0);
	close_scene(s);
}

/* A gather's member gives its block, and ends when the root has all; its all-gather has its own among others. */
static void test_blocks(void **state) {
	struct scene *s = open_inline();
	struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_GATHER, COUNT);
	float all[MEMBERS * COUNT];

	(void)state;
	args.root = 5;
	args.out = NULL;
	check_given(s, &args, true);
	send_result(s, 2, MEMBERS * BYTES, NULL, 0);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_SENDING);
	send_reduced(s, 2);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_APPLIED);
	for (int i = 0; i < MEMBERS * COUNT; i++)
		all[i] = (float)i;
	memcpy(all + COUNT, s->in, BYTES);
	args = args_of(s, HD_COLLECTIVE_ALLGATHER, COUNT);
	check_given(s, &args, true);
	send_result(s, 3, MEMBERS * BYTES, all, sizeof all);
	assert_int_equal(ticket(s, 3)->state, HD_TICKET_APPLIED);
	assert_memory_equal(s->out, all, sizeof all);
	/* Of 100 values in three blocks the second has 33. */
	args = args_of(s, HD_COLLECTIVE_REDUCE_SCATTER, COUNT);
	check_given(s, &args, true);
	send_result(s, 4, BYTES, all, 33 * sizeof(float));
	assert_int_equal(ticket(s, 4)->state, HD_TICKET_APPLIED);
	assert_memory_equal(s->out, all, 33 * sizeof(float));
	close_scene(s);
}

/* A result of another size is none; the others keep theirs. */
static void test_wrong_size(void **state) {
	static const int wrong[] = {-4, 4};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct scene *s = open_inline();
		const struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_ALLREDUCE, COUNT);

		check_given(s, &args, true);
		send_result(s, 2, BYTES, s->in, (uint32_t)((int)BYTES + wrong[i]));
		assert_int_equal(ticket(s, 2)->state, HD_TICKET_FAILED);
		assert_int_equal(ticket(s, 2)->reason, HD_REASON_REFUSED);
		assert_int_equal(last_report(s)->outcome, HD_OUTCOME_FAILED);
		for (int k = 0; k < COUNT; k++)
			assert_float_equal(s->out[k], 0, 0);
		close_scene(s);
	}
}

/* Some other member's values have not come: the round has shards. */
static void test_shards(void **state) {
	struct scene *s = open_inline();
	const struct hd_reduce_args args = args_of(s, HD_COLLECTIVE_ALLREDUCE, COUNT);
	const struct order t = {
		.attempt = 1,
		.workers = MEMBERS,
		.bytes = BYTES,
		.shard = {BYTES},
		.shards = 1,
		.sum_id = SUM_ID,
		.members = &members,
	};

	(void)state;
	check_given(s, &args, true);
	begin(s, 2, &t);
	assert_memory_equal(held(s, 0, out_token(2, 1, 0)), s->in, BYTES);
	serve(s, 0, 2, &t, s->in);
	run_ms(s->world, 60);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_APPLIED);
	/* That REDUCE has said that none are short. */
	check_given(s, &args, false);
	close_scene(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which),
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_rounded),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_wrong_size),
		cmocka_unit_test(test_shards),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
