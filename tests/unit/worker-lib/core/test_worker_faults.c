/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker core when controller, server or network fail it. */
#include "worker_world.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_worker_config plain;

/* A controller that never answers: after fallback_us to the configured server. */
static void test_fallback_without_answer(void **state) {
	struct hd_worker_config config = {.fallback_us = 400000};
	struct world *world;

	config.server = hd_sim_address(0, HD_PORT);
	world = build(SCHEDULED, &config);
	peer_stop(&world->controller);
	run_ms(world, 300);
	assert_int_equal(world->joined, 0);
	run_ms(world, 200);
	assert_int_equal(world->joined, 1);
	assert_true(logged(world, HD_EVENT_FALLBACK));
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_false(world->ticket[HD_PUSH][1].granted);
	/* It comes back: scheduled again. */
	peer_start(&world->controller);
	run_ms(world, 1500);
	assert_int_equal(push(world, 1, 1), 2);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	assert_true(world->ticket[HD_PUSH][2].granted);
	assert_int_equal(peer_count(&world->server, HD_MSG_JOIN), 1);
	destroy(world);
}

/* It goes away with a request in its hands: the server is asked. */
static void test_fallback_with_pending(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	world->controller.silent = true;
	assert_int_equal(push(world, 0, 1), 1);
	assert_int_equal(pull(world, 2, 0, false), 1);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_REQUESTED);
	peer_stop(&world->controller);
	run_ms(world, 500);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 0);
	run_ms(world, 450); /* less than the detection time after its last message */
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
	assert_int_equal(hd_worker_stats(world->worker)->fallbacks, 1);
	assert_int_equal(world->ends[HD_PUSH][1], 1);
	check_sums(world, 0);
	destroy(world);
}

/* A new incarnation of the controller before the fallback: it is asked again. */
static void test_controller_restart(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	world->controller.silent = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 20);
	peer_stop(&world->controller);
	world->controller.silent = false;
	peer_start(&world->controller);
	run_ms(world, 1400);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_true(world->ticket[HD_PUSH][1].granted);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 2);
	assert_int_equal(peer_last(&world->controller, HD_MSG_REQUEST)->request.attempt, 2);
	assert_int_equal(world->server.applied[1], 1);
	destroy(world);
}

/* A controller dies between its two words: the worker knows of its grant, the server never will. It is asked
 * again as soon as that is clear, not when the transfer has stood still for HD_STALL_US. */
static void test_controller_dies_between_words(void **state) {
	for (int comes_back = 0; comes_back < 2; comes_back++) {
		struct world *world = build(SCHEDULED, &plain);
		struct hd_message expect = {.kind = HD_MSG_EXPECT};
		const struct hd_msg_request *request;

		run_ms(world, 20);
		world->controller.silent = true;
		assert_int_equal(pull(world, 2, 0, false), 1);
		run_ms(world, 20);
		request = &peer_last(&world->controller, HD_MSG_REQUEST)->request;
		expect.expect.job = request->job;
		expect.expect.worker = request->worker;
		expect.expect.round = 1;
		expect.expect.direction = HD_PULL;
		expect.expect.attempt = request->attempt;
		expect.expect.token = 77;
		expect.expect.bytes = request->bytes;
		assert_int_equal(peer_send(&world->controller, &expect), 0);
		run_ms(world, 5);
		assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_GRANTED);
		peer_stop(&world->controller);
		world->controller.silent = false;
		if (comes_back)
			peer_start(&world->controller);
		run_ms(world, comes_back ? 400 : 950);
		assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
		assert_int_equal(world->ticket[HD_PULL][1].granted, comes_back);
		assert_int_equal(world->ends[HD_PULL][1], 1);
		destroy(world);
	}
}

static void test_unscheduled(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	world->controller.unscheduled = true;
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_false(world->ticket[HD_PUSH][1].granted);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 0);
	assert_true(hd_worker_stats(world->worker)->direct);
	destroy(world);
}

/* The server restarts with round 1 in its model and round 2 lost in the network. */
static void test_server_restart(void **state) {
	struct world *world = build(DIRECT, &plain);

	run_ms(world, 20);
	world->server.no_outcome = true; /* held, applied, and the word is lost */
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	world->server.deaf = true;
	assert_int_equal(push(world, 1, 1), 2);
	run_ms(world, 50);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_HELD);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_SENDING);
	peer_stop(&world->server);
	world->server.no_outcome = world->server.deaf = false;
	run_ms(world, 300);
	peer_start(&world->server);
	run_ms(world, 3000);
	assert_int_equal(world->joined, 2);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	assert_int_equal(world->server.applied[1], 1);
	assert_int_equal(world->server.applied[2], 1);
	assert_int_equal(world->ends[HD_PUSH][1], 1);
	assert_int_equal(world->ends[HD_PUSH][2], 1);
	check_sums(world, 0);
	destroy(world);
}

/* Bytes are kept until they are durable, and pushed again to a server that lost them. */
static void test_keeps_until_durable(void **state) {
	struct hd_worker_config config = {.keep_bytes_max = (uint64_t)10 * VALUES * 4};
	struct world *world = build(DIRECT, &config);
	struct hd_message durable = {.kind = HD_MSG_DURABLE};

	run_ms(world, 20);
	for (int k = 0; k < 3; k++)
		assert_int_equal(push(world, k, 1), k + 1);
	run_ms(world, 300);
	assert_int_equal(hd_worker_stats(world->worker)->applied, 3);
	assert_int_equal(world->released, 0);
	durable.durable.job = hd_job_id("t", "job");
	durable.durable.version = world->server.applied_version[1];
	peer_send(&world->server, &durable);
	run_ms(world, 20);
	assert_int_equal(world->released, 1);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_DURABLE);
	/* Rounds 2 and 3 are lost with the old life; 3 is refused by the new one. */
	peer_stop(&world->server);
	world->server.applied[2] = world->server.applied[3] = 0;
	world->server.version = hd_version_make(2, 1);
	world->server.durable = world->server.version;
	world->server.silent = true;
	peer_start(&world->server);
	run_ms(world, 3000);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_REQUESTED);
	assert_int_equal(hd_worker_stats(world->worker)->applied, 3);
	world->server.applied_version[2] = hd_version_make(2, 2);
	peer_outcome(&world->server, 2, HD_OUTCOME_APPLIED, 0);
	peer_outcome(&world->server, 3, HD_OUTCOME_DROPPED, HD_REASON_LOST_BASE);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	assert_int_equal(world->ticket[HD_PUSH][3].state, HD_TICKET_DROPPED);
	assert_int_equal(hd_worker_stats(world->worker)->applied, 2);
	assert_int_equal(hd_worker_stats(world->worker)->dropped, 1);
	assert_int_equal(world->ends[HD_PUSH][2], 1);
	assert_int_equal(world->ends[HD_PUSH][3], 2);
	check_sums(world, 0);
	destroy(world);
}

/* A new incarnation of the server that is joined after LEAVE gets no request: the worker is gone in time. */
static void test_server_restarts_while_leaving(void **state) {
	struct hd_worker_config config = {.keep_bytes_max = (uint64_t)10 * VALUES * 4};
	struct world *world = build(DIRECT, &config);
	struct hd_message joined = {.kind = HD_MSG_JOINED};

	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	peer_stop(&world->server);
	world->server.applied[1] = 0;
	world->server.version = hd_version_make(2, 0);
	world->server.answers_no_join = true;
	peer_start(&world->server);
	run_ms(world, 3000);
	assert_non_null(world->server.session);
	(void)hd_worker_leave(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		hd_sim_node_sink(world->sim, world->node)
	);
	joined.joined.job = hd_job_id("t", "job");
	joined.joined.version = world->server.version;
	joined.joined.tau_max = 7;
	peer_send(&world->server, &joined);
	run_ms(world, 300);
	assert_true(hd_worker_stats(world->worker)->left);
	assert_int_equal(world->joined, 2);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 1);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->released, 1);
	destroy(world);
}

/* Withdrawn too late, and so applied: a new incarnation of the server is asked about it as about any other. */
static void test_cancelled_too_late(void **state) {
	struct hd_worker_config config = {.keep_bytes_max = (uint64_t)10 * VALUES * 4};
	struct world *world = build(DIRECT, &config);

	run_ms(world, 20);
	world->server.no_outcome = world->server.deaf = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 50);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_SENDING);
	assert_int_equal(cancel(world, HD_PUSH, 1), 0);
	world->server.applied_version[1] = hd_version_make(1, 1);
	peer_outcome(&world->server, 1, HD_OUTCOME_APPLIED, 0);
	run_ms(world, 50);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	peer_stop(&world->server);
	world->server.no_outcome = world->server.deaf = false;
	peer_start(&world->server);
	run_ms(world, 3000);
	assert_int_equal(hd_worker_stats(world->worker)->applied, 1);
	assert_int_equal(hd_worker_stats(world->worker)->failed, 0);
	assert_int_equal(world->ends[HD_PUSH][1], 1);
	destroy(world);
}

/* Checkpoints do not come (a full disk): what is kept for them gives its place in the ring up to new pushes. */
static void test_kept_are_dropped(void **state) {
	struct hd_worker_config config = {.keep_bytes_max = UINT64_MAX};
	struct world *world = build(DIRECT, &config);
	struct hd_message outcome = {.kind = HD_MSG_OUTCOME};

	run_ms(world, 20);
	world->server.silent = true;
	for (int k = 0; k < HD_TICKETS_MAX; k++)
		assert_int_equal(push(world, 0, 1), k + 1);
	outcome.outcome.job = hd_job_id("t", "job");
	outcome.outcome.worker = 3;
	outcome.outcome.round = 1;
	outcome.outcome.outcome = HD_OUTCOME_APPLIED;
	outcome.outcome.version = hd_version_make(1, 1);
	peer_send(&world->server, &outcome);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->released, 0);
	assert_int_equal(push(world, 0, 1), HD_TICKETS_MAX + 1);
	assert_int_equal(world->released, 1);
	/* The next place is held by one that has no outcome yet. */
	assert_int_equal(push(world, 0, 1), -ENOBUFS);
	assert_int_equal(hd_worker_stats(world->worker)->push_round, HD_TICKETS_MAX + 1);
	destroy(world);
}

/* The controller lost the server for a moment, and its EXPECT with it: the worker asks again at once. */
static void test_controller_voids(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	struct hd_message message = {.kind = HD_MSG_VOID};

	run_ms(world, 20);
	world->server.deaf = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_SENDING);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 0);
	world->server.deaf = false;
	message.void_.job = hd_job_id("t", "job");
	message.void_.reason = HD_REASON_NO_SERVER;
	message.void_.token = 1000 + world->controller.next_token;
	peer_send(&world->controller, &message);
	run_ms(world, 50);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 1);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->server.applied[1], 1);
	destroy(world);
}

static void test_keep_limit(void **state) {
	struct hd_worker_config config = {.keep_bytes_max = (uint64_t)2 * VALUES * 4};
	struct world *world = build(DIRECT, &config);

	run_ms(world, 20);
	for (int k = 0; k < 4; k++)
		assert_int_equal(push(world, k, 1), k + 1);
	run_ms(world, 300);
	assert_int_equal(hd_worker_stats(world->worker)->applied, 4);
	assert_int_equal(world->released, 2);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	destroy(world);
}

/* Round 1 once more, to a replica that takes nothing of it. */
static void send_copy(struct world *world) {
	struct hd_addr addr = hd_sim_node_address(world->sim, world->server.node);
	struct hd_message message = {.kind = HD_MSG_GRANT};

	message.grant = (struct hd_msg_grant){
		.job = hd_job_id("t", "job"),
		.worker = 3,
		.round = 1,
		.direction = HD_COPY,
		.attempt = 5,
		.token = 77,
		.bytes = (uint64_t)VALUES * 4,
		.dtype = HD_DTYPE_FP32,
		.weight = 1.0f,
		.cc_weight = 1.0f,
		.peer_ipv4 = addr.ipv4,
		.peer_port = addr.port,
	};
	peer_send(&world->controller, &message);
	run_ms(world, 10);
	assert_int_equal(hd_worker_stats(world->worker)->copies, 1);
	assert_int_equal(peer_count(&world->controller, HD_MSG_CANCEL), 0);
}

static void expect_gone(const struct world *world) {
	const struct hd_message *last = peer_last(&world->controller, HD_MSG_CANCEL);

	assert_int_equal(world->released, 1);
	assert_int_equal(peer_count(&world->controller, HD_MSG_CANCEL), 1);
	assert_int_equal(last->cancel.direction, HD_COPY);
	assert_int_equal(last->cancel.round, 1);
	assert_int_equal(last->cancel.attempt, 5);
	assert_int_equal(last->cancel.reason, HD_REASON_CANCELLED);
}

/* A copy is in flight when its bytes need not, or cannot, be kept any longer: its replica must not wait for them. */
static void test_copy_ends_with_its_bytes(void **state) {
	struct hd_worker_config much = {.keep_bytes_max = (uint64_t)10 * VALUES * 4};
	struct hd_worker_config little = {.keep_bytes_max = (uint64_t)VALUES * 4};
	struct hd_message durable = {.kind = HD_MSG_DURABLE};
	struct world *world = build(SCHEDULED, &much);

	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	send_copy(world);
	durable.durable.job = hd_job_id("t", "job");
	durable.durable.version = world->server.applied_version[1];
	peer_send(&world->server, &durable);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_DURABLE);
	expect_gone(world);
	destroy(world);

	world = build(SCHEDULED, &little);
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	send_copy(world);
	assert_int_equal(push(world, 1, 1), 2);
	run_ms(world, 100);
	expect_gone(world);
	destroy(world);
}

/* The server that it goes to is none any more: the copy ends before the path that it counts in. */
static void test_copy_ends_with_its_server(void **state) {
	struct hd_worker_config much = {.keep_bytes_max = (uint64_t)10 * VALUES * 4};
	struct hd_message message = {.kind = HD_MSG_GRANT};
	struct world *world = build(SCHEDULED, &much);
	struct hd_addr server = hd_sim_node_address(world->sim, world->server.node);

	(void)state;
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	world->server.deaf = true;
	send_copy(world);
	message = (struct hd_message){.kind = HD_MSG_REGISTERED};
	message.registered.job = hd_job_id("t", "job");
	message.registered.scheduled = 1;
	message.registered.server_ipv4 = server.ipv4;
	message.registered.server_port = (uint16_t)(server.port + 1);
	peer_send(&world->controller, &message);
	run_ms(world, 10);
	assert_int_equal(peer_count(&world->controller, HD_MSG_CANCEL), 1);
	assert_int_equal(peer_last(&world->controller, HD_MSG_CANCEL)->cancel.direction, HD_COPY);
	destroy(world); /* and what it still has */
}

/* Lost, duplicated and reordered packets: everything ends, once, with the same sums. */
static void lossy(double loss, uint64_t *trace) {
	struct world *world = build(SCHEDULED, &plain);
	struct hd_sim_faults faults = {.loss = loss, .duplicate = 0.02, .reorder = 0.02};
	uint32_t pushes = 0;

	hd_sim_set_faults(world->sim, &faults);
	run_ms(world, 2000);
	assert_true(world->joined >= 1);
	for (int round = 1; round <= 20; round++) {
		int rc = push(world, round % 2, 1);

		assert_true(rc > 0);
		pushes++;
		assert_true(pull(world, 2 + round % 2, 0, false) > 0);
		run_ms(world, 300);
	}
	run_ms(world, 20000);
	assert_int_equal(hd_worker_stats(world->worker)->applied, pushes);
	assert_int_equal(hd_worker_stats(world->worker)->delivered, 20);
	for (uint32_t round = 1; round <= pushes; round++) {
		assert_int_equal(world->server.applied[round], 1);
		assert_int_equal(world->ends[HD_PUSH][round], 1);
		assert_int_equal(world->ends[HD_PULL][round], 1);
	}
	check_sums(world, 0);
	*trace = world->trace;
	destroy(world);
}

static void test_lossy_and_replayable(void **state) {
	uint64_t first, second;

	lossy(0.05, &first);
	lossy(0.05, &second);
	assert_int_equal(first, second);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fallback_without_answer),
		cmocka_unit_test(test_fallback_with_pending),
		cmocka_unit_test(test_controller_restart),
		cmocka_unit_test(test_controller_dies_between_words),
		cmocka_unit_test(test_unscheduled),
		cmocka_unit_test(test_server_restart),
		cmocka_unit_test(test_keeps_until_durable),
		cmocka_unit_test(test_server_restarts_while_leaving),
		cmocka_unit_test(test_cancelled_too_late),
		cmocka_unit_test(test_keep_limit),
		cmocka_unit_test(test_copy_ends_with_its_bytes),
		cmocka_unit_test(test_copy_ends_with_its_server),
		cmocka_unit_test(test_kept_are_dropped),
		cmocka_unit_test(test_controller_voids),
		cmocka_unit_test(test_lossy_and_replayable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
