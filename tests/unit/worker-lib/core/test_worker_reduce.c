/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces at the worker: shards out, sums back, and every way in which they can end. */
#include "hd_kernels.h"
#include "reduce_peers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SUM HD_REDUCE_OP_SUM

static void check_out(const struct scene *s, float factor) {
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(s->out[i], factor * s->before[i], 0);
}

static uint32_t asked(const struct scene *s) {
	return peer_count(&s->world->controller, HD_MSG_REQUEST);
}

/* --- how it goes well ------------------------------------------------------------------------ */

static void test_sum(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct order t = order(1, HD_DTYPE_FP32);
	const struct hd_msg_report *report;
	const struct hd_msg_request *request;

	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	request = &peer_last(&s->world->controller, HD_MSG_REQUEST)->request;
	assert_int_equal(request->direction, HD_REDUCE);
	assert_int_equal(request->attempt, 1);
	assert_int_equal(request->bytes, VALUES * sizeof(float));
	assert_int_equal(request->order, HD_GROUP_RANKED);
	assert_int_equal(request->have, 1);
	begin(s, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	assert_memory_equal(held(s, 0, out_token(1, 1, 0)), s->in, t.shard[0]);
	assert_memory_equal(held(s, 1, out_token(1, 1, 1)), s->in + FIRST, t.shard[1]);
	answer(s, 1, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	assert_int_equal(s->world->released, 0);
	answer(s, 0, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(s, 1)->delay, WORKERS);
	assert_int_equal(s->world->released, 1);
	check_out(s, WORKERS);
	assert_true(hd_worker_stats(s->world->worker)->drop_source >= s->aggregators[0].forgeries);
	report = &peer_last(&s->world->controller, HD_MSG_REPORT)->report;
	assert_int_equal(report->direction, HD_REDUCE);
	assert_int_equal(report->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(hd_worker_stats(s->world->worker)->reduced, 1);
	/* The next one says that the first has ended. */
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 2);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REQUEST)->request.have, 2);
	close_scene(s);
}

static void check_kind(uint8_t dtype, uint8_t op) {
	struct scene *s = open_scene(SCHEDULED);
	struct order t = order(1, dtype);

	t.op = op;
	assert_int_equal(reduce(s, dtype, op), 1);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REQUEST)->request.op, op);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	answer(s, 1, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(s, 1)->bytes, VALUES * hd_dtype_bytes(dtype));
	check_out(s, op == SUM ? WORKERS : 1);
	close_scene(s);
}

static void test_kinds(void **state) {
	check_kind(HD_DTYPE_FP32, HD_REDUCE_OP_AVERAGE);
	check_kind(HD_DTYPE_INT32, HD_REDUCE_OP_MAX);
	check_kind(HD_DTYPE_FP16, SUM);
	check_kind(HD_DTYPE_FP16, HD_REDUCE_OP_AVERAGE);
	check_kind(HD_DTYPE_BF16, SUM);
	check_kind(HD_DTYPE_BF16, HD_REDUCE_OP_MIN);
}

/* Every packet twice, many out of order. */
static void test_duplicates(void **state) {
	struct hd_sim_faults faults = {.duplicate = 1, .reorder = 0.3};
	struct scene *s = open_scene(SCHEDULED);
	struct order t = order(1, HD_DTYPE_FP32);

	hd_sim_set_faults(s->world->sim, &faults);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	answer(s, 1, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	check_out(s, WORKERS);
	assert_int_equal(s->world->ends[HD_REDUCE][1], 1);
	close_scene(s);
}

/* No server: it joins when the controller has registered it. */
static void test_without_server(void **state) {
	struct scene *s = open_scene(REDUCES);
	struct order t = order(1, HD_DTYPE_FP32);

	assert_int_equal(s->world->joined, 1);
	assert_int_equal(peer_count(&s->world->server, HD_MSG_JOIN), 0);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	answer(s, 1, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	run_ms(s->world, 1000);
	assert_int_equal(s->world->joined, 1);
	assert_false(hd_worker_stats(s->world->worker)->server);
	close_scene(s);
}

/* --- asked again ----------------------------------------------------------------------------- */

/* The second attempt, after something that the caller does to the first when half of it is there. */
static void check_again(void (*lose)(struct scene *s)) {
	struct scene *s = open_scene(SCHEDULED);
	struct order t = order(1, HD_DTYPE_FP32);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	lose(s);
	assert_int_equal(asked(s), 2);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REQUEST)->request.round, 1);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REQUEST)->request.attempt, 2);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	/* Later chunks of the first are ignored. */
	serve(s, 0, 1, &t, s->world->data[2]);
	run_ms(s->world, 20);
	t = order(2, HD_DTYPE_FP32);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	answer(s, 1, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	check_out(s, WORKERS);
	assert_int_equal(s->world->released, 1);
	assert_int_equal(hd_worker_stats(s->world->worker)->asked_again, 1);
	close_scene(s);
}

static void void_by_aggregator(struct scene *s) {
	send_void(s, &s->aggregators[1], out_token(1, 1, 1));
	send_void(s, &s->aggregators[1], in_token(1, 1, 1)); /* it is told twice */
}

static void void_by_controller(struct scene *s) {
	send_void(s, &s->world->controller, out_token(1, 1, 0));
}

static void lose_aggregator(struct scene *s) {
	peer_stop(&s->aggregators[1]);
	run_ms(s->world, 100);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	run_ms(s->world, 1500);
	peer_start(&s->aggregators[1]);
	run_ms(s->world, 1500); /* the session comes back */
}

/* Bytes stop, sessions live. */
static void stall(struct scene *s) {
	run_ms(s->world, HD_STALL_US / 1000 + HD_STALL_US / 2000);
}

static void test_asked_again(void **state) {
	check_again(void_by_aggregator);
	check_again(void_by_controller);
	check_again(lose_aggregator);
	check_again(stall);
}

/* An aggregator that has delivered its shard may end: nothing is asked again, and the other shard completes the sum. */
static void test_path_of_a_complete_shard(void **state) {
	struct scene *s = open_scene(REDUCES);
	struct order t = order(1, HD_DTYPE_FP32);

	(void)state;
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	run_ms(s->world, 20);
	peer_stop(&s->aggregators[0]);
	run_ms(s->world, 1500);
	assert_int_equal(asked(s), 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	answer(s, 1, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	check_out(s, WORKERS);
	close_scene(s);
}

/* The others made rounds while it was away between two calls: it keeps its number, and is told `late` of the next one.
 * A new process begins after the others' newest round. */
static void test_away_between_calls(void **state) {
	struct scene *s = open_scene(REDUCES);
	struct order t = order(1, HD_DTYPE_FP32);

	(void)state;
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	answer(s, 1, 1, &t);
	peer_stop(&s->world->controller);
	run_ms(s->world, 2000);
	s->world->controller.newest_reduce = 5;
	peer_start(&s->world->controller);
	run_ms(s->world, 2000);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 2);
	send_drop(s, 2, 1, HD_REASON_LATE, 5);
	assert_int_equal(ticket(s, 2)->reason, HD_REASON_LATE);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 6);
	close_scene(s);
}

/* A round that waited at a controller that is gone is requested again; one in flight goes on without it. */
static void test_controller_restarts(void **state) {
	struct scene *s = open_scene(REDUCES);
	struct order t = order(1, HD_DTYPE_FP32);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	begin(s, 1, &t);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 2);
	peer_stop(&s->world->controller);
	answer(s, 0, 1, &t);
	answer(s, 1, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	peer_start(&s->world->controller);
	run_ms(s->world, 2000);
	assert_int_equal(
		peer_last(&s->world->controller, HD_MSG_REGISTER)->register_.reduce_round, 1
	);
	assert_int_equal(
		peer_last(&s->world->controller, HD_MSG_REGISTER)->register_.reduce_called, 2
	);
	assert_int_equal(
		peer_last(&s->world->controller, HD_MSG_REGISTER)->register_.world, WORKERS
	);
	assert_int_equal(asked(s), 3);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REQUEST)->request.round, 2);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REQUEST)->request.attempt, 2);
	close_scene(s);
}

/* --- how it fails ---------------------------------------------------------------------------- */

static void test_dropped(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct order t = order(1, HD_DTYPE_FP32);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	begin(s, 1, &t);
	send_drop(s, 1, 2, HD_REASON_LATE, 1); /* of another attempt */
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	send_drop(s, 1, 1, HD_REASON_LATE, 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_LATE);
	assert_int_equal(s->world->released, 1);
	memset(s->out, 0, sizeof s->out);
	answer(s, 0, 1, &t); /* out is not written any more */
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(s->out[i], 0, 0);
	/* A refusal before it begins, while the others went on: there they meet again. */
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 2);
	send_drop(s, 2, 1, HD_REASON_NO_SERVER, 7);
	assert_int_equal(ticket(s, 2)->reason, HD_REASON_NO_SERVER);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 8);
	assert_int_equal(hd_worker_stats(s->world->worker)->reduce_failed, 2);
	close_scene(s);
}

/* One REDUCE of which something is wrong: ignored, or the end of the round. */
static void check_malformed(struct order t, enum hd_ticket_state want) {
	struct scene *s = open_scene(SCHEDULED);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	send_reduce(s, 1, &t);
	run_ms(s->world, 50);
	assert_int_equal(ticket(s, 1)->state, want);
	if (want == HD_TICKET_FAILED) {
		const struct hd_message *report = peer_last(&s->world->controller, HD_MSG_REPORT);

		assert_int_equal(ticket(s, 1)->reason, HD_REASON_REFUSED);
		assert_int_equal(report->report.outcome, HD_OUTCOME_FAILED);
		assert_int_equal(s->world->released, 1);
	} else {
		assert_true(hd_worker_stats(s->world->worker)->late_messages > 0);
	}
	close_scene(s);
}

static struct order
malformed(uint8_t attempt, uint16_t workers, uint64_t bytes, uint64_t first, uint64_t second) {
	struct order t = order(attempt, HD_DTYPE_FP32);

	t.workers = workers;
	t.bytes = bytes;
	t.shard[0] = t.first[1] = first;
	t.shard[1] = second;
	return t;
}

static void test_malformed(void **state) {
	enum {
		first = 4 * FIRST,
		second = 4 * (VALUES - FIRST),
		all = 4 * VALUES
	};
	struct order other = malformed(1, WORKERS, all, first, second);
	const struct order ignored[]
		= {malformed(1, 0, all, first, second), /* of no worker */
		   malformed(2, WORKERS, all, first, second)};
	const struct order refused[] /* the last: between values */
		= {malformed(1, WORKERS, all - 4, first, second),
		   malformed(1, WORKERS, all, first, second - 4),
		   malformed(1, WORKERS, all, first + 4, second),
		   malformed(1, WORKERS, all, 0, all),
		   malformed(1, WORKERS, all, first - 2, second + 2)};

	other.op = HD_REDUCE_OP_MAX;
	check_malformed(other, HD_TICKET_FAILED);
	for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
		check_malformed(ignored[i], HD_TICKET_REQUESTED);
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
		check_malformed(refused[i], HD_TICKET_FAILED);
}

static void test_cancel(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct order t = order(1, HD_DTYPE_FP32);
	const struct hd_message *message;

	assert_int_equal(cancel(s->world, HD_REDUCE, 1), -ENOENT);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	assert_int_equal(cancel(s->world, HD_REDUCE, 1), 0);
	run_ms(s->world, 5);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_CANCELLED);
	message = peer_last(&s->world->controller, HD_MSG_CANCEL);
	assert_int_equal(message->cancel.direction, HD_REDUCE);
	assert_int_equal(message->cancel.round, 1);
	send_reduce(s, 1, &t); /* they crossed */
	run_ms(s->world, 5);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 2);
	begin(s, 2, &t);
	assert_int_equal(cancel(s->world, HD_REDUCE, 2), -EALREADY);
	answer(s, 0, 2, &t);
	answer(s, 1, 2, &t);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_APPLIED);
	check_out(s, WORKERS);
	close_scene(s);
}

static bool leave(struct scene *s) {
	struct world *world = s->world;
	bool left = hd_worker_leave(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		hd_sim_node_sink(world->sim, world->node)
	);

	hd_sim_node_poke(world->sim, world->node);
	run_ms(world, 300);
	return left;
}

static void test_leave_waits(void **state) {
	struct scene *s = open_scene(REDUCES);
	struct order t = order(1, HD_DTYPE_FP32);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), 1);
	begin(s, 1, &t);
	assert_false(leave(s));
	assert_int_equal(peer_count(&s->world->controller, HD_MSG_LEAVE), 0);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), -ESHUTDOWN);
	answer(s, 0, 1, &t);
	answer(s, 1, 1, &t);
	(void)leave(s);
	assert_int_equal(peer_count(&s->world->controller, HD_MSG_LEAVE), 1);
	assert_true(leave(s));
	check_out(s, WORKERS);
	close_scene(s);
}

static void test_arguments(void **state) {
	struct hd_message message = {.kind = HD_MSG_REFUSE};
	struct scene *s = open_scene(DIRECT);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), -EDESTADDRREQ);
	close_scene(s);
	s = open_scene(SCHEDULED);
	assert_int_equal(reduce(s, HD_DTYPE_SPARSE32, SUM), -EINVAL);
	assert_int_equal(reduce(s, HD_DTYPE_COUNT, SUM), -EINVAL);
	assert_int_equal(reduce(s, HD_DTYPE_FP64, HD_REDUCE_OP_COUNT), -EINVAL);
	for (int k = 1; k <= HD_REDUCES_MAX; k++)
		assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), k);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), -ENOBUFS);
	send_drop(s, 64, 1, HD_REASON_NO_MEMORY, 0);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), HD_REDUCES_MAX + 1);
	/* Refused for good: all of them end. */
	message.refuse.reason = HD_REASON_REFUSED;
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
	assert_int_equal(s->world->released, HD_REDUCES_MAX + 1);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_REFUSED);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, SUM), -ESHUTDOWN);
	close_scene(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_without_server),
		cmocka_unit_test(test_asked_again),
		cmocka_unit_test(test_path_of_a_complete_shard),
		cmocka_unit_test(test_away_between_calls),
		cmocka_unit_test(test_controller_restarts),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_leave_waits),
		cmocka_unit_test(test_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
