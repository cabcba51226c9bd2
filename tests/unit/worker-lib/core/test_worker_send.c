/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives at the worker, which is rank 3: their numbers, their values, and what it says of them. */
#include "hd_text.h"
#include "reduce_peers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BOOT 4711 /* of the other end's process */
#define SUM_ID 77

static struct hd_roster ends;

static int setup(void **state) {
	(void)state;
	hd_roster_set(&ends, 3, true);
	hd_roster_set(&ends, 5, true);
	return 0;
}

/* To rank 5, or from there. */
static struct hd_reduce_args sends(struct scene *s) {
	return (struct hd_reduce_args){
		.collective = HD_COLLECTIVE_SEND,
		.root = 3,
		.channel = hd_channel(3, 5),
		.in = s->in,
		.values = VALUES,
	};
}

static struct hd_reduce_args receives(struct scene *s) {
	return (struct hd_reduce_args){
		.collective = HD_COLLECTIVE_SEND,
		.root = 5,
		.channel = hd_channel(5, 3),
		.out = s->out,
		.values = VALUES,
	};
}

static struct order order_of(const struct hd_reduce_args *args, uint8_t attempt) {
	return (struct order){
		.attempt = attempt,
		.workers = 2,
		.bytes = VALUES * sizeof(float),
		.shard = {VALUES * sizeof(float)},
		.shards = 1,
		.not_out = {args->out != NULL},
		.not_in = {args->in != NULL},
		.sum_id = SUM_ID,
		.members = &ends,
		.channel = args->channel,
		.peer_boot = BOOT,
	};
}

static const struct hd_msg_request *last_request(const struct scene *s) {
	return &peer_last(&s->world->controller, HD_MSG_REQUEST)->request;
}

static void send_reduced(struct scene *s, uint32_t channel, uint32_t number) {
	struct hd_message message = {.kind = HD_MSG_REDUCED};

	message.reduced
		= (struct hd_msg_reduced){hd_job_id("t", "job"), 3, number, SUM_ID, channel};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

/* Its end of the channel, as it tells the controller. */
static struct hd_msg_channel known_of(struct scene *s, uint32_t channel) {
	const uint32_t before = peer_count(&s->world->controller, HD_MSG_CHANNEL);
	struct hd_message message = {.kind = HD_MSG_CHANNEL};

	message.channel.job = hd_job_id("t", "job");
	message.channel.worker = 3;
	message.channel.channel = channel;
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
	assert_int_equal(peer_count(&s->world->controller, HD_MSG_CHANNEL), before + 1);
	return peer_last(&s->world->controller, HD_MSG_CHANNEL)->channel;
}

static void refuse(struct scene *s, const struct hd_msg_drop *drop) {
	struct hd_message message = {.kind = HD_MSG_DROP, .drop = *drop};

	message.drop.job = hd_job_id("t", "job");
	message.drop.worker = 3;
	message.drop.direction = HD_REDUCE;
	message.drop.reason = HD_REASON_PEER;
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

/* No time passes. */
static int call_at_once(struct scene *s, struct hd_reduce_args args) {
	struct world *world = s->world;
	uint32_t number = 0;
	int rc = hd_worker_reduce(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		&args,
		hd_sim_node_sink(world->sim, world->node),
		&number
	);

	return rc < 0 ? rc : (int)number;
}

/* A send has its own numbers, and ends when the controller says that the receiver has it. */
static void test_send(void **state) {
	struct scene *s = open_scene(REDUCES);
	struct hd_reduce_args args = sends(s);
	const struct order t = order_of(&args, 1);

	(void)state;
	assert_int_equal(reduce(s, HD_DTYPE_FP32, HD_REDUCE_OP_SUM), 1);
	hd_text_copy(args.tag, sizeof args.tag, "weights");
	assert_int_equal(call(s, args), 1);
	assert_int_equal(last_request(s)->collective, HD_COLLECTIVE_SEND);
	assert_int_equal(last_request(s)->channel, hd_channel(3, 5));
	assert_int_equal(last_request(s)->root, 3);
	assert_int_equal(last_request(s)->round, 1);
	assert_int_equal(last_request(s)->have, 1);
	assert_int_equal(last_request(s)->peer_boot, 0);
	assert_string_equal(last_request(s)->tag, "weights");
	begin(s, 1, &t);
	assert_memory_equal(held(s, 0, out_token(1, 1, 0)), s->in, VALUES * sizeof(float));
	run_ms(s->world, HD_STALL_US / 1000 * 3); /* it waits for the receiver */
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	send_reduced(s, hd_channel(3, 4), 1); /* of another channel, and of the job */
	send_reduced(s, 0, 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	send_reduced(s, args.channel, 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(s, 1)->delay, 2);
	/* The next one says with whom it counts. */
	assert_int_equal(call(s, args), 2);
	assert_int_equal(last_request(s)->peer_boot, BOOT);
	assert_int_equal(last_request(s)->have, 2);
	assert_int_equal(call(s, receives(s)), 1);
	assert_int_equal(last_request(s)->peer_boot, 0);
	/* The job's rounds go on from their own number. */
	assert_int_equal(reduce(s, HD_DTYPE_FP32, HD_REDUCE_OP_SUM), 2);
	assert_int_equal(last_request(s)->have, 1);
	close_scene(s);
}

/* A receive reports its values, of which process they are, and knows afterwards what it has. */
static void test_recv(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	const struct hd_reduce_args args = receives(s);
	const struct order t = order_of(&args, 1);
	const struct hd_msg_report *report;
	struct hd_msg_channel known;

	(void)state;
	for (int i = 1; i <= 4; i++)
		assert_int_equal(call(s, args), i);
	for (uint32_t number = 4; number == 4 || number == 1; number -= 3) {
		begin(s, number, &t);
		send_reduced(s, args.channel, number); /* it is no sender */
		assert_int_equal(ticket(s, number)->state, HD_TICKET_SENDING);
		serve(s, 0, number, &t, s->in);
		run_ms(s->world, 60);
		assert_int_equal(ticket(s, number)->state, HD_TICKET_APPLIED);
		assert_memory_equal(s->out, s->in, VALUES * sizeof(float));
		report = &peer_last(&s->world->controller, HD_MSG_REPORT)->report;
		assert_int_equal(report->outcome, HD_OUTCOME_APPLIED);
		assert_int_equal(report->channel, args.channel);
		assert_int_equal(report->round, number);
		assert_int_equal(report->base, BOOT);
	}
	known = known_of(s, args.channel);
	assert_int_equal(known.peer_boot, BOOT);
	assert_int_equal(known.called, 4);
	assert_int_equal(known.from, 2);
	assert_int_equal(known.open, 3);
	assert_int_equal(known.newest, 4);
	assert_int_equal(known.had, 4); /* number 1 */
	known = known_of(s, hd_channel(3, 5));
	assert_int_equal(known.peer_boot + known.called + known.open + known.newest, 0);
	assert_int_equal(known.from, 1);
	close_scene(s);
}

/* A process that REDUCE does not name, and one that was replaced: all calls of that channel fail, and it
 * begins again. */
static void test_other_process(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	const struct hd_reduce_args args = sends(s);
	struct order t = order_of(&args, 1);
	struct hd_msg_drop drop = {.channel = args.channel, .attempt = 1};

	(void)state;
	assert_int_equal(call(s, args), 1);
	begin(s, 1, &t);
	assert_int_equal(call(s, args), 2);
	assert_int_equal(call(s, args), 3);
	assert_int_equal(call(s, receives(s)), 1);
	t.peer_boot = BOOT + 1;
	send_reduce(s, 2, &t);
	run_ms(s->world, 5);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_REQUESTED);
	drop.round = 2;
	drop.sum_id = BOOT + 1; /* of a request that named another process */
	refuse(s, &drop);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_REQUESTED);
	drop.sum_id = BOOT;
	refuse(s, &drop);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_FAILED);
	assert_int_equal(ticket(s, 2)->reason, HD_REASON_PEER);
	assert_int_equal(ticket(s, 3)->state, HD_TICKET_REQUESTED);
	assert_int_equal(call(s, args), 4);
	drop.round = 3;
	drop.deadline = 1;
	refuse(s, &drop);
	assert_int_equal(ticket(s, 3)->state, HD_TICKET_FAILED);
	assert_int_equal(ticket(s, 4)->state, HD_TICKET_FAILED);
	assert_int_equal(call(s, args), 1);
	assert_int_equal(last_request(s)->peer_boot, 0);
	drop.round = 1; /* the answer to a request from before, which had this number */
	refuse(s, &drop);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	assert_int_equal(known_of(s, hd_channel(5, 3)).open, 1);
	close_scene(s);
}

static void test_cancel(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	const struct hd_reduce_args args = sends(s);
	const struct order t = order_of(&args, 1);
	struct world *world = s->world;
	struct hd_sink *sink = hd_sim_node_sink(world->sim, world->node);
	const hd_ns now = hd_sim_node_now(world->sim, world->node);

	(void)state;
	assert_int_equal(call(s, args), 1);
	assert_int_equal(call(s, args), 2);
	begin(s, 1, &t);
	assert_int_equal(
		hd_worker_cancel_pair(world->worker, now, args.channel, 1, sink), -EALREADY
	);
	assert_int_equal(hd_worker_cancel_pair(world->worker, now, args.channel, 3, sink), -ENOENT);
	assert_int_equal(
		hd_worker_cancel_pair(world->worker, now, hd_channel(5, 3), 2, sink), -ENOENT
	);
	assert_int_equal(hd_worker_cancel(world->worker, now, HD_REDUCE, 2, sink), -ENOENT);
	assert_int_equal(hd_worker_cancel_pair(world->worker, now, args.channel, 2, sink), 0);
	hd_sim_node_poke(world->sim, world->node);
	run_ms(world, 5);
	assert_int_equal(ticket(s, 2)->reason, HD_REASON_CANCELLED);
	assert_int_equal(
		peer_last(&world->controller, HD_MSG_CANCEL)->cancel.channel, args.channel
	);
	assert_int_equal(peer_last(&world->controller, HD_MSG_CANCEL)->cancel.round, 2);
	assert_int_equal(known_of(s, args.channel).open, 1);
	close_scene(s);
}

/* Of each channel as many are requested as CHANNEL can tell, and of all HD_PAIRS_MAX are taken; rounds are apart. */
static void test_limits(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct hd_reduce_args args = sends(s);
	struct hd_msg_drop drop = {.channel = args.channel, .attempt = 1, .round = 2};
	const int more = HD_CHANNEL_PAIRS_MAX + 5;
	uint32_t asked;

	(void)state;
	for (int i = 1; i <= more; i++)
		assert_int_equal(call(s, args), i);
	assert_int_equal(last_request(s)->round, HD_CHANNEL_PAIRS_MAX);
	assert_int_equal(known_of(s, args.channel).called, HD_CHANNEL_PAIRS_MAX);
	assert_true(known_of(s, args.channel).open == UINT64_MAX);
	asked = peer_count(&s->world->controller, HD_MSG_REQUEST);
	refuse(s, &drop); /* the oldest one is still open */
	assert_int_equal(peer_count(&s->world->controller, HD_MSG_REQUEST), asked);
	drop.round = 1;
	refuse(s, &drop);
	assert_int_equal(peer_count(&s->world->controller, HD_MSG_REQUEST), asked + 2);
	assert_int_equal(last_request(s)->round, HD_CHANNEL_PAIRS_MAX + 2);
	assert_int_equal(last_request(s)->have, 3);
	assert_int_equal(known_of(s, args.channel).called, HD_CHANNEL_PAIRS_MAX + 2);
	args.channel = hd_channel(3, 99);
	for (int i = more - 2; i < HD_PAIRS_MAX; i++)
		assert_int_equal(call_at_once(s, args), i - more + 3);
	assert_int_equal(call_at_once(s, args), -ENOBUFS);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, HD_REDUCE_OP_SUM), 1);
	close_scene(s);
}

static void test_impossible(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct hd_reduce_args wrong[12];
	const size_t count = sizeof wrong / sizeof wrong[0];

	(void)state;
	for (size_t i = 0; i < count; i++)
		wrong[i] = sends(s);
	wrong[0].channel = hd_channel(3, 3);
	wrong[1].channel = hd_channel(4, 5);
	wrong[2].channel = hd_channel(3, HD_WORKERS_MAX);
	wrong[3].channel = 0;
	wrong[4].collective = HD_COLLECTIVE_BROADCAST;
	wrong[5].root = 5;
	wrong[6].in = NULL;
	wrong[7].out = s->out;
	wrong[8].values = 0;
	wrong[9].exact = 2;
	wrong[10].op = HD_REDUCE_OP_AVERAGE;
	wrong[11].dtype = HD_DTYPE_FP16;
	for (size_t i = 0; i < count; i++)
		assert_int_equal(call(s, wrong[i]), -EINVAL);
	assert_null(peer_last(&s->world->controller, HD_MSG_REQUEST));
	assert_int_equal(call(s, sends(s)), 1);
	close_scene(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_send),
		cmocka_unit_test(test_recv),
		cmocka_unit_test(test_other_process),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_impossible),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
