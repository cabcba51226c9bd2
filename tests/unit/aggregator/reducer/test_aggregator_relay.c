/* SPDX-License-Identifier: BSD-3-Clause */
/* The aggregator core as a relay of models, and in all-reduces. */
#include "aggregator_net.h"
#include "hd_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 60000
#define BYTES (VALUES * sizeof(float))
#define GROUP 0x51

static float update[WORLD_WORKERS_MAX][VALUES], sum[VALUES];

/* The updates of `workers` workers, and their sum, added in their order. */
static void fill(uint32_t workers) {
	for (uint32_t w = 0; w < workers; w++)
		for (uint32_t i = 0; i < VALUES; i++)
			update[w][i]
				= (float)((i * 2654435761U + w * 40503U) >> 8 & 0xffff) / 977.0F;
	memcpy(sum, update[0], sizeof sum);
	for (uint32_t w = 1; w < workers; w++)
		for (uint32_t i = 0; i < VALUES; i++)
			sum[i] += update[w][i];
}

/* Nothing is left of any group. */
static void assert_empty(const struct world *world) {
	assert_int_equal(world_stats(world)->memory_bytes, 0);
	assert_int_equal(world_stats(world)->groups_open, 0);
}

static void relay_make(struct world *world, struct plan *plan, uint32_t outputs) {
	fill(1);
	plan_make(plan, GROUP, 1, BYTES);
	plan->inputs[0].worker = HD_GROUP_WORKER;
	plan->message.peer_ipv4 = SERVER_IP;
	plan->message.peer_port = HD_PORT;
	for (uint32_t i = 0; i < outputs; i++)
		plan_to(plan, world->worker[i], 0x700 + i);
}

static void relay_state(struct world *world, const struct plan *plan, enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_PULL_STATE};

	message.pull_state = (struct hd_msg_pull_state){
		.job = JOB,
		.worker = HD_GROUP_WORKER,
		.round = 5,
		.attempt = 1,
		.token = plan->inputs[0].token,
		.reason = (uint8_t)reason,
		.version = hd_version_make(1, 12),
		.bytes = reason == HD_REASON_NONE ? BYTES : 0,
	};
	end_send_message(world->server, &message);
}

static void relay_send(struct world *world, const struct plan *plan) {
	struct hd_chunk_header header = {
		.job = JOB,
		.worker = HD_GROUP_WORKER,
		.round = 5,
		.attempt = 1,
		.version = hd_version_make(1, 12),
		.token = plan->inputs[0].token,
	};

	end_send(world->server, &header, update[0], BYTES);
}

static void test_relay(void **state) {
	struct world *world = world_open(3, NULL);
	struct end *late;
	struct plan plan;

	(void)state;
	relay_make(world, &plan, 3);
	/* One more, whose session is not there yet. */
	late = end_open(world, HD_ROLE_WORKER, WORKER_IP + 8);
	late->rank = 8;
	plan_to(&plan, late, 0x708);
	for (uint32_t i = 0; i < 3; i++)
		end_expect(world->worker[i], 0x700 + i, BYTES);
	end_expect(late, 0x708, BYTES);
	plan_send(world, &plan);
	world_run(world, 50 * HD_MS);
	assert_true(world->server->open); /* it was called */
	relay_send(world, &plan); /* ahead of what it is: repaired */
	world_run(world, 5 * HD_MS);
	assert_int_equal(end_heard(world->worker[0], HD_MSG_PULL_STATE), 0);
	assert_true(world_stats(world)->drop_mismatch > 0);
	relay_state(world, &plan, HD_REASON_NONE);
	world_run(world, HD_SECOND);
	world->worker[world->workers++] = late;
	end_connect(world, late);
	world_run(world, HD_SECOND);
	for (uint32_t i = 0; i < 4; i++) {
		struct end *end = world->worker[i];
		struct end_recv *got = end_received(end, 0x700 + end->rank);
		const struct hd_msg_pull_state *said
			= &end_message(end, HD_MSG_PULL_STATE, 0)->pull_state;

		assert_int_equal(said->token, 0x700 + end->rank);
		assert_int_equal(said->worker, end->rank);
		assert_int_equal(said->round, 9);
		assert_true(said->version == hd_version_make(1, 12));
		assert_int_equal(said->bytes, BYTES);
		assert_true(got->done && !got->mixed);
		assert_true(got->version == hd_version_make(1, 12));
		assert_memory_equal(got->data, update[0], BYTES);
	}
	assert_int_equal(
		end_report(world->controller, plan.inputs[0].token)->outcome, HD_OUTCOME_PENDING
	);
	assert_int_equal(end_report(world->controller, plan.inputs[0].token)->direction, HD_PULL);
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	assert_empty(world);
	world_close(world);
}

/* One reader withdraws, one does not answer: the third has its model, and memory is not kept for the others. */
static void test_relay_that_no_worker_reads(void **state) {
	struct world *world = world_open(3, NULL);
	struct hd_message message = {.kind = HD_MSG_CANCEL};
	struct plan plan;

	(void)state;
	relay_make(world, &plan, 3);
	end_expect(world->worker[0], 0x700, BYTES);
	plan_send(world, &plan);
	world_run(world, 50 * HD_MS);
	relay_state(world, &plan, HD_REASON_NONE);
	world_run(world, HD_MS);
	relay_send(world, &plan);
	message.cancel = (struct hd_msg_cancel
	){.job = JOB, .worker = 2, .round = 9, .direction = HD_PULL, .attempt = 1, .token = 0x702};
	end_send_message(world->worker[2], &message);
	world_run(world, HD_SECOND);
	assert_memory_equal(end_received(world->worker[0], 0x700)->data, update[0], BYTES);
	assert_int_equal(world_stats(world)->outputs_delivered, 1);
	assert_int_equal(world_stats(world)->outputs_lost, 1);
	assert_int_equal(world_stats(world)->groups_open, 1);
	world_run(world, 2 * HD_SECOND);
	assert_int_equal(world_stats(world)->outputs_lost, 2);
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	assert_empty(world);
	world_close(world);
}

/* The server has nothing newer, or cannot send: all members are notified as if by the server. */
static void test_relay_of_nothing(void **state) {
	struct world *world = world_open(2, NULL);
	struct plan plan;

	(void)state;
	relay_make(world, &plan, 2);
	plan_send(world, &plan);
	world_run(world, 50 * HD_MS);
	relay_state(world, &plan, HD_REASON_NOT_MODIFIED);
	world_run(world, 50 * HD_MS);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(
			end_message(world->worker[i], HD_MSG_PULL_STATE, 0)->pull_state.reason,
			HD_REASON_NOT_MODIFIED
		);
	assert_int_equal(end_report(world->controller, GROUP)->reason, HD_REASON_NOT_MODIFIED);
	assert_empty(world);
	world_close(world);
}

static void test_relay_without_its_server(void **state) {
	struct world *world = world_open(2, NULL);
	struct plan plan;

	(void)state;
	relay_make(world, &plan, 2);
	end_expect(world->worker[0], 0x700, BYTES);
	plan_send(world, &plan);
	world_run(world, 50 * HD_MS);
	relay_state(world, &plan, HD_REASON_NONE);
	world_run(world, HD_MS);
	relay_send(world, &plan);
	world_run(world, HD_MS);
	end_kill(world, world->server);
	world->server = NULL;
	world_run(world, 3 * HD_SECOND);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(end_voids(world->worker[i], plan.outputs[i].token), 1);
	assert_empty(world);
	world_close(world);
}

static void test_all_reduce(void **state) {
	struct world *world = world_open(5, NULL);
	struct plan plan;

	(void)state;
	fill(5);
	plan_make(&plan, GROUP, 5, BYTES);
	for (uint32_t i = 0; i < 5; i++) {
		plan_to(&plan, world->worker[i], 0x700 + i);
		end_expect(world->worker[i], 0x700 + i, BYTES);
	}
	plan_send(world, &plan);
	for (uint32_t i = 0; i < 5; i++)
		plan_push(world, &plan, i, update[i]);
	world_run(world, 2 * HD_SECOND);
	for (uint32_t i = 0; i < 5; i++) {
		assert_true(end_received(world->worker[i], 0x700 + i)->done);
		assert_memory_equal(end_received(world->worker[i], 0x700 + i)->data, sum, BYTES);
	}
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	assert_empty(world);
	world_close(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_relay),
		cmocka_unit_test(test_relay_that_no_worker_reads),
		cmocka_unit_test(test_relay_of_nothing),
		cmocka_unit_test(test_relay_without_its_server),
		cmocka_unit_test(test_all_reduce),
	};

	return cmocka_run_group_tests_name("aggregator-relay", tests, NULL, NULL);
}
