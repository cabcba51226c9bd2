/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces at the worker: shards out, sums back, and every way in which they can end. */
#include "hd_group.h"
#include "hd_kernels.h"
#include "worker_world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHARDS 2
#define FIRST 3000 /* values of the first shard */
#define WORKERS 4 /* that REDUCE names */

static const struct hd_worker_config plain;

struct scene {
	struct world *world;
	struct peer aggregators[SHARDS];
	float in[VALUES], before[VALUES], out[VALUES];
};

/* A round as the controller tells it. */
struct telling {
	uint8_t attempt, dtype;
	uint16_t workers;
	uint64_t bytes, shard[SHARDS];
};

static uint64_t out_token(uint32_t round, uint8_t attempt, int k) {
	return 10000 * (uint64_t)round + 100 * (uint64_t)attempt + (uint64_t)k + 1;
}

static uint64_t in_token(uint32_t round, uint8_t attempt, int k) {
	return out_token(round, attempt, k) + 10;
}

static struct scene *open_scene(enum mode mode) {
	struct scene *s = calloc(1, sizeof *s);

	s->world = build(mode, &plain);
	s->world->controller.silent = true;
	for (int k = 0; k < SHARDS; k++) {
		peer_init(&s->aggregators[k], s->world->sim, HD_ROLE_AGGREGATOR, 1);
		peer_start(&s->aggregators[k]);
		s->aggregators[k].forger = &s->world->controller.node;
	}
	for (int i = 0; i < VALUES; i++)
		s->in[i] = s->before[i] = (float)(i % 251) - 100;
	run_ms(s->world, 20);
	return s;
}

static void close_scene(struct scene *s) {
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(s->in[i], s->before[i], 0);
	for (int k = 0; k < SHARDS; k++)
		peer_fini(&s->aggregators[k]);
	destroy(s->world);
	free(s);
}

static const struct hd_ticket *ticket(const struct scene *s, uint32_t round) {
	return &s->world->ticket[HD_REDUCE][round];
}

static int reduce(struct scene *s, uint8_t dtype, bool average) {
	struct hd_reduce_args args = {
		.in = s->in,
		.out = s->out,
		.values = VALUES,
		.dtype = dtype,
		.order = HD_GROUP_RANKED,
		.average = average,
	};
	struct world *world = s->world;
	uint32_t round = 0;
	int rc = hd_worker_reduce(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		&args,
		hd_sim_node_sink(world->sim, world->node),
		&round
	);

	hd_sim_node_poke(world->sim, world->node);
	run_ms(world, 5);
	return rc < 0 ? rc : (int)round;
}

static struct telling telling(uint8_t attempt, uint8_t dtype) {
	uint64_t each = hd_dtype_bytes(dtype);

	return (struct telling
	){attempt, dtype, WORKERS, VALUES * each, {FIRST * each, (VALUES - FIRST) * each}};
}

static void say_reduce(struct scene *s, uint32_t round, const struct telling *t) {
	struct hd_message message = {.kind = HD_MSG_REDUCE, .reduce = {.scale = 1}};
	struct hd_msg_reduce *m = &message.reduce;
	struct hd_group_shard shards[SHARDS];
	uint8_t blob[256];

	for (int k = 0; k < SHARDS; k++) {
		struct hd_addr address = hd_sim_node_address(s->world->sim, s->aggregators[k].node);

		shards[k] = (struct hd_group_shard){
			.out_token = out_token(round, t->attempt, k),
			.in_token = in_token(round, t->attempt, k),
			.bytes = t->shard[k],
			.ipv4 = address.ipv4,
			.port = address.port,
			.cc_weight = 1,
		};
	}
	m->job = hd_job_id("t", "job");
	m->worker = 3;
	m->round = round;
	m->attempt = t->attempt;
	m->dtype = t->dtype;
	m->bytes = t->bytes;
	m->workers = t->workers;
	m->shards.data = blob;
	m->shards.bytes = (uint32_t)hd_group_put_shards(shards, SHARDS, blob, sizeof blob);
	peer_say(&s->world->controller, &message);
}

static void begin(struct scene *s, uint32_t round, const struct telling *t) {
	for (int k = 0; k < SHARDS; k++) {
		struct hd_msg_request request = {
			.job = hd_job_id("t", "job"),
			.worker = 3,
			.round = round,
			.attempt = t->attempt,
			.dtype = t->dtype,
			.bytes = t->shard[k],
		};

		peer_expect(&s->aggregators[k], out_token(round, t->attempt, k), &request);
	}
	say_reduce(s, round, t);
	run_ms(s->world, 60);
}

/* What aggregator k holds of a token; NULL: not all of it. */
static const void *held(struct scene *s, int k, uint64_t token) {
	struct peer *peer = &s->aggregators[k];

	for (int i = 0; i < PEER_TRANSFERS_MAX; i++)
		if (peer->transfers[i].token == token && peer->transfers[i].recv
		    && hd_recv_missing(peer->transfers[i].recv) == 0)
			return peer->transfers[i].data;
	return NULL;
}

static struct peer_transfer *free_transfer(struct peer *peer) {
	for (int i = 0; i < PEER_TRANSFERS_MAX; i++)
		if (peer->transfers[i].token == 0)
			return &peer->transfers[i];
	abort();
}

/* Aggregator k sends these bytes as its sum. */
static void
serve(struct scene *s, int k, uint32_t round, const struct telling *t, const void *sum) {
	struct peer *peer = &s->aggregators[k];
	struct peer_transfer *transfer = free_transfer(peer);
	struct hd_send_config config = {
		.peer = hd_session_peer(peer->session),
		.header = {
			.attempt = t->attempt,
			.dtype = t->dtype,
			.job = hd_job_id("t", "job"),
			.worker = 3,
			.round = round,
			.token = in_token(round, t->attempt, k),
		},
		.bytes = t->shard[k],
		.chunk_bytes = HD_CHUNK_BYTES_DEFAULT,
		.cc_weight = 1,
		.path = &peer->path,
	};

	transfer->token = config.header.token;
	transfer->data = malloc(t->shard[k]);
	memcpy(transfer->data, sum, t->shard[k]);
	config.data = transfer->data;
	assert_int_equal(
		hd_send_create(&config, hd_sim_node_now(peer->sim, peer->node), &transfer->send), 0
	);
	hd_send_poll(
		transfer->send,
		hd_sim_node_now(peer->sim, peer->node),
		64,
		hd_sim_node_sink(peer->sim, peer->node)
	);
	hd_sim_node_poke(peer->sim, peer->node);
}

/* The sum of four equal workers: what it holds times four. */
static void answer(struct scene *s, int k, uint32_t round, const struct telling *t) {
	uint64_t values = t->shard[k] / hd_dtype_bytes(t->dtype);
	const void *mine = held(s, k, out_token(round, t->attempt, k));
	static float sum[VALUES];
	static uint16_t half[VALUES];

	assert_non_null(mine);
	memcpy(sum, mine, t->shard[k]);
	if (t->dtype != HD_DTYPE_FP32)
		hd_half_to_f32(t->dtype, sum, mine, values);
	hd_scale_f32(sum, sum, values, WORKERS);
	if (t->dtype != HD_DTYPE_FP32)
		hd_half_from_f32(t->dtype, half, sum, values, 1);
	serve(s, k, round, t, t->dtype == HD_DTYPE_FP32 ? (void *)sum : (void *)half);
	run_ms(s->world, 60);
}

static void check_out(const struct scene *s, float factor) {
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(s->out[i], factor * s->before[i], 0);
}

static uint32_t asked(const struct scene *s) {
	return peer_count(&s->world->controller, HD_MSG_REQUEST);
}

static void
say_drop(struct scene *s, uint32_t round, uint8_t attempt, uint8_t reason, uint32_t newest) {
	struct hd_message message = {.kind = HD_MSG_DROP};

	message.drop = (struct hd_msg_drop
	){.job = hd_job_id("t", "job"),
	  .worker = 3,
	  .round = round,
	  .direction = HD_REDUCE,
	  .attempt = attempt,
	  .reason = reason,
	  .deadline = newest};
	peer_say(&s->world->controller, &message);
	run_ms(s->world, 5);
}

static void say_void(struct scene *s, struct peer *peer, uint64_t token) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_ = (struct hd_msg_void_){hd_job_id("t", "job"), 0, token, HD_REASON_LEASE};
	peer_say(peer, &message);
	run_ms(s->world, 5);
}

/* --- how it goes well ------------------------------------------------------------------------ */

static void test_sum(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct telling t = telling(1, HD_DTYPE_FP32);
	const struct hd_msg_report *report;
	const struct hd_msg_request *request;

	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 1);
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
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 2);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REQUEST)->request.have, 2);
	close_scene(s);
}

static void check_kind(uint8_t dtype, bool average) {
	struct scene *s = open_scene(SCHEDULED);
	struct telling t = telling(1, dtype);

	assert_int_equal(reduce(s, dtype, average), 1);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	answer(s, 1, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(s, 1)->bytes, VALUES * hd_dtype_bytes(dtype));
	check_out(s, average ? 1 : WORKERS);
	close_scene(s);
}

static void test_kinds(void **state) {
	check_kind(HD_DTYPE_FP32, true);
	check_kind(HD_DTYPE_FP16, false);
	check_kind(HD_DTYPE_FP16, true);
	check_kind(HD_DTYPE_BF16, false);
	check_kind(HD_DTYPE_BF16, true);
}

/* Every packet twice, many out of order: what is divided in place is divided once. */
static void test_duplicates(void **state) {
	struct hd_sim_faults faults = {.duplicate = 1, .reorder = 0.3};
	struct scene *s = open_scene(SCHEDULED);
	struct telling t = telling(1, HD_DTYPE_FP32);

	hd_sim_set_faults(s->world->sim, &faults);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, true), 1);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	answer(s, 1, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	check_out(s, 1);
	assert_int_equal(s->world->ends[HD_REDUCE][1], 1);
	close_scene(s);
}

/* No server: it joins when the controller has registered it. */
static void test_without_server(void **state) {
	struct scene *s = open_scene(REDUCES);
	struct telling t = telling(1, HD_DTYPE_FP32);

	assert_int_equal(s->world->joined, 1);
	assert_int_equal(peer_count(&s->world->server, HD_MSG_JOIN), 0);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 1);
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
	struct telling t = telling(1, HD_DTYPE_FP32);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, true), 1);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	lose(s);
	assert_int_equal(asked(s), 2);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REQUEST)->request.round, 1);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REQUEST)->request.attempt, 2);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	/* What still comes of the first counts for nothing. */
	serve(s, 0, 1, &t, s->world->data[2]);
	run_ms(s->world, 20);
	t = telling(2, HD_DTYPE_FP32);
	begin(s, 1, &t);
	answer(s, 0, 1, &t);
	answer(s, 1, 1, &t);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	check_out(s, 1);
	assert_int_equal(s->world->released, 1);
	assert_int_equal(hd_worker_stats(s->world->worker)->asked_again, 1);
	close_scene(s);
}

static void void_by_aggregator(struct scene *s) {
	say_void(s, &s->aggregators[1], out_token(1, 1, 1));
	say_void(s, &s->aggregators[1], in_token(1, 1, 1)); /* it is told twice */
}

static void void_by_controller(struct scene *s) {
	say_void(s, &s->world->controller, out_token(1, 1, 0));
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

/* What waited at a controller that is gone is asked for anew; what is under way goes on without it. */
static void test_controller_restarts(void **state) {
	struct scene *s = open_scene(REDUCES);
	struct telling t = telling(1, HD_DTYPE_FP32);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 1);
	begin(s, 1, &t);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 2);
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
	struct telling t = telling(1, HD_DTYPE_FP32);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 1);
	begin(s, 1, &t);
	say_drop(s, 1, 2, HD_REASON_LATE, 1); /* of another attempt */
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	say_drop(s, 1, 1, HD_REASON_LATE, 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_LATE);
	assert_int_equal(s->world->released, 1);
	memset(s->out, 0, sizeof s->out);
	answer(s, 0, 1, &t); /* nobody writes into out any more */
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(s->out[i], 0, 0);
	/* A refusal before it begins, while the others went on: there they meet again. */
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 2);
	say_drop(s, 2, 1, HD_REASON_NO_SERVER, 7);
	assert_int_equal(ticket(s, 2)->reason, HD_REASON_NO_SERVER);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 8);
	assert_int_equal(hd_worker_stats(s->world->worker)->reduce_failed, 2);
	close_scene(s);
}

/* One REDUCE of which something is wrong: ignored, or the end of the round. */
static void check_malformed(struct telling t, enum hd_ticket_state want) {
	struct scene *s = open_scene(SCHEDULED);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 1);
	say_reduce(s, 1, &t);
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

static void test_malformed(void **state) {
	enum {
		first = 4 * FIRST,
		second = 4 * (VALUES - FIRST),
		all = 4 * VALUES
	};
	static const struct telling ignored[]
		= {{1, HD_DTYPE_FP32, 0, all, {first, second}}, /* of nobody */
		   {2, HD_DTYPE_FP32, WORKERS, all, {first, second}}};
	static const struct telling refused[]
		= {{1, HD_DTYPE_FP32, WORKERS, all - 4, {first, second}},
		   {1, HD_DTYPE_FP32, WORKERS, all, {first, second - 4}},
		   {1, HD_DTYPE_FP32, WORKERS, all, {first + 4, second}},
		   {1, HD_DTYPE_FP32, WORKERS, all, {0, all}},
		   {1, HD_DTYPE_FP32, WORKERS, all, {first - 2, second + 2}}}; /* between values */

	for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
		check_malformed(ignored[i], HD_TICKET_REQUESTED);
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
		check_malformed(refused[i], HD_TICKET_FAILED);
}

static void test_cancel(void **state) {
	struct scene *s = open_scene(SCHEDULED);
	struct telling t = telling(1, HD_DTYPE_FP32);
	const struct hd_message *message;

	assert_int_equal(cancel(s->world, HD_REDUCE, 1), -ENOENT);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 1);
	assert_int_equal(cancel(s->world, HD_REDUCE, 1), 0);
	run_ms(s->world, 5);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_CANCELLED);
	message = peer_last(&s->world->controller, HD_MSG_CANCEL);
	assert_int_equal(message->cancel.direction, HD_REDUCE);
	assert_int_equal(message->cancel.round, 1);
	say_reduce(s, 1, &t); /* they crossed */
	run_ms(s->world, 5);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 2);
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
	struct telling t = telling(1, HD_DTYPE_FP32);

	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), 1);
	begin(s, 1, &t);
	assert_false(leave(s));
	assert_int_equal(peer_count(&s->world->controller, HD_MSG_LEAVE), 0);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), -ESHUTDOWN);
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

	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), -EDESTADDRREQ);
	close_scene(s);
	s = open_scene(SCHEDULED);
	assert_int_equal(reduce(s, HD_DTYPE_SPARSE32, false), -EINVAL);
	for (int k = 1; k <= HD_REDUCES_MAX; k++)
		assert_int_equal(reduce(s, HD_DTYPE_FP32, false), k);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), -ENOBUFS);
	say_drop(s, 64, 1, HD_REASON_NO_MEMORY, 0);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), HD_REDUCES_MAX + 1);
	/* Refused for good: all of them end. */
	message.refuse.reason = HD_REASON_REFUSED;
	peer_say(&s->world->controller, &message);
	run_ms(s->world, 5);
	assert_int_equal(s->world->released, HD_REDUCES_MAX + 1);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_REFUSED);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, false), -ESHUTDOWN);
	close_scene(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_without_server),
		cmocka_unit_test(test_asked_again),
		cmocka_unit_test(test_controller_restarts),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_leave_waits),
		cmocka_unit_test(test_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
