/* SPDX-License-Identifier: BSD-3-Clause */
/* The aggregator core among workers, a server and a controller: sums, and how they end. */
#include "aggregator_net.h"
#include "hd_kernels.h"
#include "hd_limits.h"
#include "hd_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 60000
#define BYTES ((size_t)4 * VALUES) /* of fp32 */
#define GROUP 0x51
#define SUM_TOKEN 0x51 /* a sum's token is its group's, often */

static float update[WORLD_WORKERS_MAX][VALUES], sum[VALUES];

static float value_of(uint32_t worker, uint32_t i) {
	return (float)((int)((i * 2654435761U + worker * 40503U) >> 8 & 0xffff) - 32768) / 977.0F;
}

/* Every worker's update, and the sum of those in `members`, added in their order. */
static void fill(const char *members) {
	for (uint32_t w = 0; w < WORLD_WORKERS_MAX; w++)
		for (uint32_t i = 0; i < VALUES; i++)
			update[w][i] = value_of(w, i);
	memcpy(sum, update[members[0] - '0'], sizeof sum);
	for (const char *m = members + 1; *m; m++)
		for (uint32_t i = 0; i < VALUES; i++)
			sum[i] += update[*m - '0'][i];
}

static struct hd_aggregator_config slow_hold(void) {
	return (struct hd_aggregator_config){.hold_us = 200000};
}

/* Nothing is left of any group. */
static void assert_empty(const struct world *world) {
	assert_int_equal(world_stats(world)->memory_bytes, 0);
	assert_int_equal(world_stats(world)->groups_open, 0);
}

static void test_streams_the_sum(void **state) {
	struct world *world = world_open(4, NULL);
	const struct hd_event *first, *last;
	const struct hd_msg_report *report;
	struct end_recv *got;
	struct plan plan;

	(void)state;
	fill("0123");
	plan_make(&plan, GROUP, 4, BYTES);
	plan_to(&plan, world->server, SUM_TOKEN);
	got = end_expect(world->server, SUM_TOKEN, BYTES);
	plan_send(world, &plan);
	plan_send(world, &plan); /* told already */
	for (uint32_t i = 0; i < 4; i++)
		plan_push(world, &plan, i, update[i]);
	world_run(world, HD_SECOND);
	assert_true(got->done);
	assert_memory_equal(got->data, sum, BYTES);
	assert_int_equal(got->worker, HD_GROUP_WORKER);
	assert_int_equal(got->flags & HD_CHUNK_NOT_FINITE, 0);
	/* It began to leave before the last update was there. */
	first = net_event(&world->net, HD_EVENT_SEND_START, 0);
	last = net_event(&world->net, HD_EVENT_RECV_END, 3);
	assert_true(first->at < last->at);
	assert_int_equal(first->worker, HD_GROUP_WORKER);
	for (uint32_t i = 0; i < 4; i++) {
		report = end_report(world->controller, plan.inputs[i].token);
		assert_non_null(report);
		assert_int_equal(report->outcome, HD_OUTCOME_PENDING);
		assert_int_equal(report->bytes, BYTES);
		assert_int_equal(report->worker, i);
		assert_true(report->rate_bps > 0);
		assert_int_equal(hd_send_stats(world->worker[i]->sends[0])->state, HD_SEND_DONE);
	}
	assert_null(end_report(world->controller, GROUP)); /* the server tells of the sum */
	assert_int_equal(world_stats(world)->groups, 1);
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	assert_int_equal(world_stats(world)->inputs_held, 4);
	assert_empty(world);
	world_close(world);
}

/* --- faults of the network ---------------------------------------------------------------------- */

static struct hd_random dice;

static bool lose_some(struct net *net, const struct net_packet *packet) {
	return hd_random_chance(&dice, 0.03);
}

/* Values that any order adds up to the same bits, so that also sums in order of arrival can be compared. */
static void fill_exact(uint8_t dtype, uint32_t workers, uint8_t *wire[], uint8_t *expected) {
	float *x = malloc(BYTES), *total = calloc(1, BYTES);

	for (uint32_t w = 0; w < workers; w++) {
		for (uint32_t i = 0; i < VALUES; i++) {
			x[i] = (float)((int)((i * 7 + w * 13) % 41) - 20);
			total[i] += x[i];
		}
		if (dtype == HD_DTYPE_FP32)
			memcpy(wire[w], x, BYTES);
		else if (dtype == HD_DTYPE_FIXED32)
			(void)hd_fixed_from_f32((void *)wire[w], x, VALUES, 1, -8);
		else
			hd_half_from_f32(dtype, (void *)wire[w], x, VALUES, 1);
	}
	if (dtype == HD_DTYPE_FP32)
		memcpy(expected, total, BYTES);
	else if (dtype == HD_DTYPE_FIXED32)
		(void)hd_fixed_from_f32((void *)expected, total, VALUES, 1, -8);
	else
		hd_half_from_f32(dtype, (void *)expected, total, VALUES, 1);
	free(x);
	free(total);
}

static void test_any_loss(void **state) {
	static const uint8_t dtypes[]
		= {HD_DTYPE_FP32, HD_DTYPE_FP16, HD_DTYPE_BF16, HD_DTYPE_FIXED32};
	uint8_t *wire[WORLD_WORKERS_MAX], *expected = malloc(BYTES);

	(void)state;
	for (uint32_t w = 0; w < WORLD_WORKERS_MAX; w++)
		wire[w] = malloc(BYTES);
	for (uint64_t seed = 0; seed < 24; seed++) {
		uint8_t dtype = dtypes[seed % 4];
		uint64_t bytes = VALUES * hd_dtype_bytes(dtype);
		uint32_t workers = 2 + (uint32_t)(seed % 5);
		struct hd_aggregator_config config = {.early_bytes = seed % 3 ? 0 : 60000};
		struct world *world = world_open(workers, &config);
		struct end_recv *got, *copy;
		struct plan plan;

		hd_random_init(&dice, seed);
		world->net.lose = lose_some;
		fill_exact(dtype, workers, wire, expected);
		plan_make(&plan, GROUP, workers, bytes);
		plan.message.dtype = dtype;
		plan.message.order = seed / 4 % 2 ? HD_GROUP_RANKED : HD_GROUP_ARRIVAL;
		plan.message.exponent = (uint16_t)-8;
		plan_to(&plan, world->server, SUM_TOKEN);
		plan_to(&plan, world->replica, SUM_TOKEN + 1);
		got = end_expect(world->server, SUM_TOKEN, bytes);
		copy = end_expect(world->replica, SUM_TOKEN + 1, bytes);
		plan_send(world, &plan);
		for (uint32_t i = 0; i < workers; i++) {
			plan_push(world, &plan, i, wire[i]);
			world_run(world, hd_random_below(&dice, 3) * HD_MS);
		}
		world_run(world, 8 * HD_SECOND);
		assert_true(got->done && copy->done);
		assert_memory_equal(got->data, expected, bytes);
		assert_memory_equal(copy->data, expected, bytes);
		assert_int_equal(world_stats(world)->groups_delivered, 1);
		assert_empty(world);
		for (uint32_t i = 0; i < workers; i++)
			assert_int_equal(
				hd_send_stats(world->worker[i]->sends[0])->state, HD_SEND_DONE
			);
		world_close(world);
	}
	for (uint32_t w = 0; w < WORLD_WORKERS_MAX; w++)
		free(wire[w]);
	free(expected);
}

/* --- members that are lost ---------------------------------------------------------------------- */

/* All members but `lost` were notified, nothing is left, nothing more leaves. */
static void
assert_failed(struct world *world, const struct plan *plan, uint32_t lost, enum hd_reason reason) {
	const struct hd_msg_report *report = end_report(world->controller, GROUP);
	uint64_t sent;

	assert_non_null(report);
	assert_int_equal(report->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(report->reason, reason);
	report = end_report(world->controller, plan->inputs[lost].token);
	assert_non_null(report);
	assert_int_equal(report->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(report->reason, reason);
	for (uint32_t i = 0; i < plan->input_count; i++)
		if (i != lost && world->worker[i])
			assert_int_equal(end_voids(world->worker[i], plan->inputs[i].token), 1);
	assert_int_equal(end_voids(world->server, SUM_TOKEN), 1);
	assert_int_equal(world_stats(world)->groups_failed, 1);
	assert_empty(world);
	/* The others go on for a while: their chunks are ignored. */
	sent = end_received(world->server, SUM_TOKEN)->recv ?
		hd_recv_stats(end_received(world->server, SUM_TOKEN)->recv)->bytes_held :
		0;
	world_run(world, 300 * HD_MS);
	assert_false(end_received(world->server, SUM_TOKEN)->done);
	if (sent > 0)
		assert_int_equal(
			hd_recv_stats(end_received(world->server, SUM_TOKEN)->recv)->bytes_held,
			sent
		);
}

/* The survivors once more: the sum is theirs, and theirs alone. */
static void assert_survivors(struct world *world, const char *members) {
	struct end_recv *got;
	struct plan plan;
	uint32_t count = (uint32_t)strlen(members);

	fill(members);
	plan_make(&plan, GROUP + 1, count, BYTES);
	for (uint32_t i = 0; i < count; i++) {
		plan.inputs[i].worker = (uint16_t)(members[i] - '0');
		plan.inputs[i].attempt = 2;
	}
	plan_to(&plan, world->server, SUM_TOKEN + 1);
	got = end_expect(world->server, SUM_TOKEN + 1, BYTES);
	plan_send(world, &plan);
	for (uint32_t i = 0; i < count; i++)
		plan_push(world, &plan, i, update[members[i] - '0']);
	world_run(world, 2 * HD_SECOND);
	assert_true(got->done);
	assert_memory_equal(got->data, sum, BYTES);
	assert_empty(world);
}

/* Four members in flight, some chunks of the sum have left. */
static struct world *midway(struct plan *plan, const struct hd_aggregator_config *config) {
	struct world *world = world_open(4, config);

	fill("0123");
	plan_make(plan, GROUP, 4, BYTES);
	plan_to(plan, world->server, SUM_TOKEN);
	end_expect(world->server, SUM_TOKEN, BYTES);
	plan_send(world, plan);
	for (uint32_t i = 0; i < 4; i++)
		plan_push(world, plan, i, update[i]);
	for (int i = 0; i < 400 && net_events(&world->net, HD_EVENT_SEND_START) == 0; i++)
		world_run(world, 100 * HD_US);
	assert_int_equal(net_events(&world->net, HD_EVENT_SEND_START), 1);
	assert_int_equal(world_stats(world)->groups_open, 1);
	return world;
}

static void test_killed_member(void **state) {
	struct plan plan;
	struct world *world = midway(&plan, NULL);

	(void)state;
	end_kill(world, world->worker[2]);
	world->worker[2] = NULL;
	world_run(world, 2 * HD_SECOND);
	/* Silent for hold_us while others wait, or its session is over: whichever comes first. */
	assert_failed(world, &plan, 2, HD_REASON_HOLD);
	assert_survivors(world, "013");
	world_close(world);
}

static void test_closed_member(void **state) {
	struct plan plan;
	struct world *world = midway(&plan, NULL);

	(void)state;
	hd_session_close(
		world->worker[1]->session,
		HD_REASON_CLOSED,
		"bye",
		world->net.now,
		&world->worker[1]->node.sink
	);
	world->worker[1]->open = false;
	world_run(world, 10 * HD_MS);
	assert_failed(world, &plan, 1, HD_REASON_CLOSED);
	assert_survivors(world, "023");
	world_close(world);
}

/* Its session lives, its transfer does not. */
static void test_silent_member(void **state) {
	struct hd_aggregator_config config = slow_hold();
	struct plan plan;
	struct world *world = midway(&plan, &config);

	(void)state;
	hd_send_cancel(world->worker[3]->sends[0], HD_REASON_CANCELLED);
	world_run(world, 150 * HD_MS);
	assert_int_equal(world_stats(world)->groups_open, 1);
	world_run(world, 150 * HD_MS);
	assert_failed(world, &plan, 3, HD_REASON_HOLD);
	assert_int_equal(end_voids(world->worker[3], plan.inputs[3].token), 1);
	assert_survivors(world, "012");
	world_close(world);
}

/* A member that has not started yet, and was not told to, may have been planned for later. */
static void test_late_member(void **state) {
	struct hd_aggregator_config config = slow_hold();
	struct world *world = world_open(2, &config);
	struct end_recv *got;
	struct plan plan;

	(void)state;
	fill("01");
	plan_make(&plan, GROUP, 2, BYTES);
	plan_to(&plan, world->server, SUM_TOKEN);
	got = end_expect(world->server, SUM_TOKEN, BYTES);
	plan_send(world, &plan);
	plan_push(world, &plan, 0, update[0]);
	world_run(world, 3 * HD_SECOND);
	assert_int_equal(world_stats(world)->groups_open, 1);
	plan_push(world, &plan, 1, update[1]);
	world_run(world, HD_SECOND);
	assert_true(got->done);
	assert_memory_equal(got->data, sum, BYTES);
	world_close(world);
}

static void test_cancelled_member(void **state) {
	struct hd_message message = {.kind = HD_MSG_CANCEL};
	struct plan plan;
	struct world *world = midway(&plan, NULL);

	(void)state;
	message.cancel = (struct hd_msg_cancel
	){.job = JOB, .worker = 0, .round = 5, .attempt = 1, .token = plan.inputs[0].token};
	end_send_message(world->worker[1], &message); /* not its own */
	end_send_message(world->worker[0], &message);
	world_run(world, 10 * HD_MS);
	assert_int_equal(world_stats(world)->refused_messages, 1);
	assert_true(world_stats(world)->drop_token > 0);
	assert_failed(world, &plan, 0, HD_REASON_CANCELLED);
	assert_int_equal(end_voids(world->worker[0], plan.inputs[0].token), 0);
	assert_survivors(world, "123");
	world_close(world);
}

static void test_voided_by_the_controller(void **state) {
	struct hd_message message = {.kind = HD_MSG_VOID};
	struct plan plan;
	struct world *world = midway(&plan, NULL);

	(void)state;
	message.void_ = (struct hd_msg_void_
	){.job = JOB, .token = plan.inputs[2].token, .reason = HD_REASON_LEASE};
	end_send_message(world->controller, &message);
	world_run(world, 10 * HD_MS);
	assert_failed(world, &plan, 2, HD_REASON_LEASE);
	world_close(world);

	world = midway(&plan, NULL);
	message.void_.token = GROUP;
	end_send_message(world->controller, &message);
	world_run(world, 10 * HD_MS);
	assert_int_equal(end_report(world->controller, GROUP)->reason, HD_REASON_LEASE);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(end_voids(world->worker[i], plan.inputs[i].token), 1);
	assert_empty(world);
	world_close(world);
}

/* An update that a member had sent whole stays in the sum, even if the member dies. */
static void test_dead_after_the_last_chunk(void **state) {
	struct world *world = world_open(3, NULL);
	struct end_recv *got;
	struct plan plan;

	(void)state;
	fill("012");
	plan_make(&plan, GROUP, 3, BYTES);
	plan_to(&plan, world->server, SUM_TOKEN);
	got = end_expect(world->server, SUM_TOKEN, BYTES);
	plan_send(world, &plan);
	plan_push(world, &plan, 0, update[0]);
	world_run(world, 100 * HD_MS);
	assert_int_equal(
		end_report(world->controller, plan.inputs[0].token)->outcome, HD_OUTCOME_PENDING
	);
	end_kill(world, world->worker[0]);
	world->worker[0] = NULL;
	world_run(world, 300 * HD_MS);
	plan_push(world, &plan, 1, update[1]);
	plan_push(world, &plan, 2, update[2]);
	world_run(world, HD_SECOND);
	assert_true(got->done);
	assert_memory_equal(got->data, sum, BYTES);
	world_close(world);
}

/* --- receivers ---------------------------------------------------------------------------------- */

static void test_lost_replica(void **state) {
	struct world *world = world_open(2, NULL);
	struct end_recv *got;
	struct plan plan;

	(void)state;
	fill("01");
	plan_make(&plan, GROUP, 2, BYTES);
	plan_to(&plan, world->server, SUM_TOKEN);
	plan_to(&plan, world->replica, SUM_TOKEN + 1);
	got = end_expect(world->server, SUM_TOKEN, BYTES);
	plan_send(world, &plan);
	end_kill(world, world->replica);
	world->replica = NULL;
	plan_push(world, &plan, 0, update[0]);
	plan_push(world, &plan, 1, update[1]);
	world_run(world, 3 * HD_SECOND);
	assert_true(got->done);
	assert_memory_equal(got->data, sum, BYTES);
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	assert_int_equal(world_stats(world)->outputs_lost, 1);
	assert_int_equal(end_report(world->controller, SUM_TOKEN + 1)->outcome, HD_OUTCOME_FAILED);
	assert_empty(world);
	world_close(world);
}

/* A living node that does not take it is notified that it will not come, so that it need not wait for a timeout. */
static void test_given_up_replica(void **state) {
	const struct hd_aggregator_config config = slow_hold();
	struct world *world = world_open(2, &config);
	struct end_recv *got;
	struct plan plan;

	(void)state;
	fill("01");
	plan_make(&plan, GROUP, 2, BYTES);
	plan_to(&plan, world->server, SUM_TOKEN);
	plan_to(&plan, world->replica, SUM_TOKEN + 1);
	got = end_expect(world->server, SUM_TOKEN, BYTES);
	plan_send(world, &plan);
	plan_push(world, &plan, 0, update[0]);
	plan_push(world, &plan, 1, update[1]);
	world_run(world, 600 * HD_MS);
	assert_true(got->done);
	assert_int_equal(end_voids(world->replica, SUM_TOKEN + 1), 0);
	world_run(world, HD_SECOND); /* 4 hold_us after everything is final */
	assert_int_equal(end_voids(world->replica, SUM_TOKEN + 1), 1);
	assert_int_equal(end_voids(world->server, SUM_TOKEN), 0);
	assert_int_equal(end_report(world->controller, SUM_TOKEN + 1)->reason, HD_REASON_TIMEOUT);
	assert_null(end_report(world->controller, GROUP));
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	assert_empty(world);
	world_close(world);
}

static void test_lost_server(void **state) {
	struct plan plan;
	struct world *world = midway(&plan, NULL);
	struct hd_message message = {.kind = HD_MSG_VOID};

	(void)state;
	/* It gives the sum up */
	message.void_
		= (struct hd_msg_void_){.job = JOB, .token = SUM_TOKEN, .reason = HD_REASON_HOLD};
	end_send_message(world->server, &message);
	world_run(world, 10 * HD_MS);
	assert_int_equal(end_report(world->controller, GROUP)->reason, HD_REASON_HOLD);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(end_voids(world->worker[i], plan.inputs[i].token), 1);
	assert_empty(world);
	world_close(world);

	/* or dies */
	world = midway(&plan, NULL);
	end_kill(world, world->server);
	world->server = NULL;
	world_run(world, 3 * HD_SECOND);
	assert_int_equal(end_report(world->controller, GROUP)->outcome, HD_OUTCOME_FAILED);
	assert_empty(world);
	world_close(world);
}

/* `after`: the output waits for go, an input's sender is told to go when its predecessor here ends. */
static void test_turns(void **state) {
	struct world *world = world_open(4, NULL);
	struct hd_message go = {.kind = HD_MSG_GO};
	struct plan first, second;
	struct end_recv *got;

	(void)state;
	fill("01");
	plan_make(&first, GROUP, 2, BYTES);
	plan_to(&first, world->server, SUM_TOKEN);
	first.outputs[0].after = 0x1234;
	first.outputs[0].start_ns = 100 * HD_SECOND; /* not before */
	first.outputs[0].rate_bps = 1000000000;
	got = end_expect(world->server, SUM_TOKEN, BYTES);
	plan_send(world, &first);
	plan_make(&second, GROUP + 1, 2, BYTES);
	plan_to(&second, world->server, SUM_TOKEN + 1);
	end_expect(world->server, SUM_TOKEN + 1, BYTES);
	for (uint32_t i = 0; i < 2; i++) {
		second.inputs[i].worker = (uint16_t)(2 + i);
		second.inputs[i].after = first.inputs[i].token;
	}
	plan_send(world, &second);
	assert_int_equal(end_heard(world->worker[2], HD_MSG_GO), 0);
	plan_push(world, &first, 0, update[0]);
	world_run(world, 200 * HD_MS);
	assert_int_equal(end_heard(world->worker[2], HD_MSG_GO), 1);
	assert_int_equal(
		end_message(world->worker[2], HD_MSG_GO, 0)->go.token, second.inputs[0].token
	);
	assert_int_equal(end_heard(world->worker[3], HD_MSG_GO), 0);
	plan_push(world, &first, 1, update[1]);
	world_run(world, 200 * HD_MS);
	assert_int_equal(end_heard(world->worker[3], HD_MSG_GO), 1);
	assert_null(got->recv); /* the sum waits */
	go.go.job = JOB;
	go.go.token = SUM_TOKEN;
	end_send_message(world->server, &go);
	world_run(world, 200 * HD_MS);
	assert_true(got->done);
	assert_memory_equal(got->data, sum, BYTES);
	world_close(world);
}

static bool is_open_again(void *what) {
	return ((struct end *)what)->open;
}

/* Another host's process says that it is a worker that is there, in the middle of that one's push. */
static void test_rank_held(void **state) {
	struct world *world = world_open(2, NULL);
	struct end_recv *got = end_expect(world->server, GROUP, BYTES);
	struct end *other = end_open(world, HD_ROLE_WORKER, WORKER_IP + 0x80);
	uint64_t refused = world_stats(world)->refused_messages;
	struct plan plan;

	(void)state;
	fill("01");
	plan_make(&plan, GROUP, 2, BYTES);
	plan_to(&plan, world->server, GROUP);
	plan_send(world, &plan);
	plan_push(world, &plan, 0, update[0]);
	world_run(world, HD_MS);
	end_connect(world, other);
	end_join(world, other, JOB, 0);
	assert_false(other->open);
	assert_int_equal(world_stats(world)->refused_messages, refused + 1);
	plan_push(world, &plan, 1, update[1]);
	world_run(world, HD_SECOND);
	assert_true(got->done);
	assert_memory_equal(got->data, sum, BYTES);
	/* Its rank is free when its session has ended. */
	net_run_until(&world->net, is_open_again, other, HD_SECOND);
	world->worker[0]->node.down = true;
	world_run(world, HD_DETECTION_US * HD_US);
	end_join(world, other, JOB, 0);
	assert_true(other->open);
	world->worker[0]->node.down = false;
	end_kill(world, other);
	world_close(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams_the_sum),
		cmocka_unit_test(test_any_loss),
		cmocka_unit_test(test_killed_member),
		cmocka_unit_test(test_closed_member),
		cmocka_unit_test(test_silent_member),
		cmocka_unit_test(test_late_member),
		cmocka_unit_test(test_cancelled_member),
		cmocka_unit_test(test_voided_by_the_controller),
		cmocka_unit_test(test_dead_after_the_last_chunk),
		cmocka_unit_test(test_lost_replica),
		cmocka_unit_test(test_given_up_replica),
		cmocka_unit_test(test_lost_server),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_rank_held),
	};

	return cmocka_run_group_tests_name("aggregator", tests, NULL, NULL);
}
