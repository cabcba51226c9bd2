/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker core in virtual time, against peers that do what the test says. */
#include "worker_world.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_worker_config plain;

static void test_direct_push_and_pull(void **state) {
	struct world *world = build(DIRECT, &plain);

	assert_int_equal(push(world, 0, 0), -EAGAIN);
	run_ms(world, 20);
	assert_int_equal(world->joined, 1);
	assert_int_equal(push(world, 0, 1), 1);
	assert_int_equal(push(world, 1, 2), 2);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	assert_false(world->ticket[HD_PUSH][1].granted);
	assert_int_equal(world->released, 2);
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(
			world->server.model[i], world->data[0][i] + world->data[1][i], 0
		);
	assert_int_equal(pull(world, 3, 0, false), 1);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->ticket[HD_PULL][1].version, world->server.version);
	assert_memory_equal(world->data[3], world->server.model, VALUES * sizeof(float));
	assert_int_equal(pull(world, 3, world->server.version, true), 2);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PULL][2].state, HD_TICKET_DROPPED);
	assert_int_equal(world->ticket[HD_PULL][2].reason, HD_REASON_NOT_MODIFIED);
	assert_int_equal(hd_worker_stats(world->worker)->direct_bytes, 3 * VALUES * 4);
	assert_int_equal(hd_worker_stats(world->worker)->granted_bytes, 0);
	assert_true(hd_worker_stats(world->worker)->direct);
	check_sums(world, 0);
	destroy(world);
}

static void test_refuses_bad_calls(void **state) {
	struct world *world = build(DIRECT, &plain);
	struct hd_push_args args = {.data = world->data[0], .values = VALUES - 1};
	uint32_t round = 77;

	run_ms(world, 20);
	assert_int_equal(
		hd_worker_push(
			world->worker,
			hd_sim_node_now(world->sim, world->node),
			&args,
			hd_sim_node_sink(world->sim, world->node),
			&round
		),
		-EINVAL
	);
	assert_int_equal(round, 77);
	world->data[0][VALUES - 1] = NAN;
	assert_int_equal(push(world, 0, 0), -EDOM);
	world->data[0][VALUES - 1] = INFINITY;
	assert_int_equal(push(world, 0, 0), -EDOM);
	assert_int_equal(cancel(world, HD_PUSH, 1), -ENOENT);
	assert_int_equal(hd_worker_stats(world->worker)->pushed, 0);
	destroy(world);
}

static void test_scheduled_push_and_pull(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	const struct hd_msg_report *report;

	run_ms(world, 20);
	assert_int_equal(world->joined, 1);
	assert_string_equal(peer_last(&world->controller, HD_MSG_REGISTER)->register_.host, "h4");
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_true(world->ticket[HD_PUSH][1].granted);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 0);
	assert_int_equal(pull(world, 3, 0, false), 1);
	run_ms(world, 200);
	assert_memory_equal(world->data[3], world->server.model, VALUES * sizeof(float));
	assert_int_equal(peer_count(&world->controller, HD_MSG_REPORT), 1);
	report = &peer_last(&world->controller, HD_MSG_REPORT)->report;
	assert_int_equal(report->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(report->bytes, VALUES * 4);
	assert_int_equal(report->direction, HD_PULL);
	assert_true(report->rate_bps > 10000000 && report->rate_bps < 200000000);
	assert_int_equal(report->limited_permille, 0);
	assert_int_equal(hd_worker_stats(world->worker)->granted_bytes, 2 * VALUES * 4);
	/* The server's own pacing is the limit: its chunks say so, and the report. */
	world->server.granted_bps = 10000000;
	assert_int_equal(pull(world, 4, 0, false), 2);
	run_ms(world, 200);
	report = &peer_last(&world->controller, HD_MSG_REPORT)->report;
	assert_int_equal(peer_count(&world->controller, HD_MSG_REPORT), 2);
	assert_in_range(report->limited_permille, 800, 1000);
	assert_false(hd_worker_stats(world->worker)->direct);
	destroy(world);
}

static void test_weight_is_the_grants(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	float before = world->data[0][7];

	world->controller.weight = 0.5f;
	run_ms(world, 20);
	world->server.deaf = true; /* the first attempt stalls */
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	world->server.weight = 0.25f; /* a later attempt has a weight of its own */
	run_ms(world, 3000);
	world->server.deaf = false;
	run_ms(world, 3000);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	/* An update that was granted once may be in the model: only the server is asked again. */
	assert_int_equal(peer_last(&world->controller, HD_MSG_REQUEST)->request.attempt, 1);
	assert_true(peer_last(&world->server, HD_MSG_REQUEST)->request.attempt >= 2);
	assert_float_equal(world->data[0][7], before, 0);
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(world->server.model[i], 0.25f * world->data[0][i], 0);
	assert_int_equal(world->ends[HD_PUSH][1], 1);
	destroy(world);
}

/* A value may leave the type's range when it is rounded, after weighting. */
static void test_weight_beyond_16_bits(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	world->dtype = HD_DTYPE_FP16;
	run_ms(world, 20);
	world->data[0][7] = 65520;
	assert_int_equal(push(world, 0, 1), -EDOM);
	world->data[0][7] = 40000;
	world->controller.weight = 2;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_FAILED);
	assert_int_equal(world->ticket[HD_PUSH][1].reason, HD_REASON_NOT_FINITE);
	assert_int_equal(
		peer_last(&world->controller, HD_MSG_REQUEST)->request.dtype, HD_DTYPE_FP16
	);
	assert_int_equal(peer_last(&world->controller, HD_MSG_REQUEST)->request.bytes, 2 * VALUES);
	assert_int_equal(
		peer_last(&world->controller, HD_MSG_CANCEL)->cancel.reason, HD_REASON_NOT_FINITE
	);
	world->dtype = HD_DTYPE_COUNT;
	assert_int_equal(push(world, 0, 1), -EINVAL);
	check_sums(world, 0);
	destroy(world);
}

static void test_drop(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	world->controller.drop_reason = HD_REASON_BOUND;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_DROPPED);
	assert_int_equal(world->ticket[HD_PUSH][1].reason, HD_REASON_BOUND);
	world->controller.drop_reason = HD_REASON_NO_SERVER;
	assert_int_equal(push(world, 0, 1), 2);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_FAILED);
	assert_int_equal(world->released, 2);
	assert_false(logged(world, HD_EVENT_SEND_START));
	check_sums(world, 0);
	destroy(world);
}

/* With `after`, nothing leaves until go; without go, at the start time plus slack. */
static void test_go(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	struct hd_message go = {.kind = HD_MSG_GO};

	world->controller.after = 99;
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_GRANTED);
	go.go.job = hd_job_id("t", "job");
	go.go.token = 1001;
	peer_send(&world->server, &go);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	/* Go before its grant. */
	go.go.token = 1002;
	peer_send(&world->server, &go);
	run_ms(world, 10);
	assert_int_equal(push(world, 0, 1), 2);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	/* No go: the segment starts a second after the grant. */
	assert_int_equal(push(world, 0, 1), 3);
	run_ms(world, 900);
	assert_int_equal(world->ticket[HD_PUSH][3].state, HD_TICKET_GRANTED);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PUSH][3].state, HD_TICKET_APPLIED);
	destroy(world);
}

/* The server ends a transfer, not its round: asked for again at once, and there. */
static void test_void(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	struct hd_message message = {.kind = HD_MSG_VOID};

	world->controller.after = 99; /* granted, and waiting for go */
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_GRANTED);
	message.void_.job = hd_job_id("t", "job");
	message.void_.token = 1001;
	message.void_.reason = HD_REASON_TIMEOUT;
	peer_send(&world->server, &message);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(peer_last(&world->server, HD_MSG_REQUEST)->request.attempt, 2);
	/* Before its grant. */
	message.void_.token = 1002;
	peer_send(&world->server, &message);
	run_ms(world, 10);
	assert_int_equal(push(world, 0, 1), 2);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 2);
	/* A message of another job is ignored. */
	message.void_.job ^= 1;
	message.void_.token = 1003;
	peer_send(&world->server, &message);
	run_ms(world, 10);
	assert_int_equal(push(world, 0, 1), 3);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][3].state, HD_TICKET_GRANTED);
	destroy(world);
}

static void test_refused(void **state) {
	struct world *world = build(DIRECT, &plain);

	world->server.refuses = true;
	assert_int_equal(pull(world, 0, 0, false), 1);
	run_ms(world, 100);
	assert_int_equal(world->refused, 1);
	assert_string_equal(world->text, "tensor 0 differs");
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_FAILED);
	assert_int_equal(world->ticket[HD_PULL][1].reason, HD_REASON_REFUSED);
	assert_int_equal(pull(world, 0, 0, false), -ESHUTDOWN);
	assert_int_equal(push(world, 0, 0), -ESHUTDOWN);
	destroy(world);
}

/* A rank that another process still has is requested again, and reported once. */
static void rank_held_by(enum mode mode, bool by_server) {
	struct world *world = build(mode, &plain);
	struct peer *holder = by_server ? &world->server : &world->controller;

	holder->rank_held = true;
	run_ms(world, 1100);
	assert_int_equal(peer_count(holder, by_server ? HD_MSG_JOIN : HD_MSG_REGISTER), 5);
	assert_int_equal(world->trouble, 1);
	assert_int_equal(world->joined, 0);
	assert_int_equal(world->refused, 0);
	holder->rank_held = false;
	run_ms(world, 400);
	assert_int_equal(world->joined, 1);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(peer_count(holder, by_server ? HD_MSG_JOIN : HD_MSG_REGISTER), 6);
	destroy(world);
}

static void test_rank_held(void **state) {
	rank_held_by(DIRECT, true);
	rank_held_by(SCHEDULED, true);
	rank_held_by(SCHEDULED, false);
}

static void test_cancel(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	world->controller.silent = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 20);
	assert_int_equal(cancel(world, HD_PUSH, 1), 0);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_FAILED);
	assert_int_equal(world->ticket[HD_PUSH][1].reason, HD_REASON_CANCELLED);
	assert_int_equal(cancel(world, HD_PUSH, 1), -ENOENT);
	run_ms(world, 20);
	assert_int_equal(peer_last(&world->controller, HD_MSG_CANCEL)->cancel.round, 1);
	/* Half sent: the server decides. */
	world->controller.silent = false;
	world->server.deaf = true;
	assert_int_equal(push(world, 0, 1), 2);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_SENDING);
	assert_int_equal(cancel(world, HD_PUSH, 2), 0);
	assert_int_equal(cancel(world, HD_PUSH, 2), 0);
	run_ms(world, 20);
	assert_int_equal(peer_count(&world->server, HD_MSG_CANCEL), 1);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_SENDING);
	world->server.applied_version[2] = 42;
	peer_outcome(&world->server, 2, HD_OUTCOME_APPLIED, 0);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	/* And says nothing. */
	assert_int_equal(push(world, 0, 1), 3);
	run_ms(world, 20);
	assert_int_equal(cancel(world, HD_PUSH, 3), 0);
	run_ms(world, 4000);
	assert_int_equal(world->ticket[HD_PUSH][3].state, HD_TICKET_FAILED);
	assert_int_equal(world->ticket[HD_PUSH][3].reason, HD_REASON_CANCELLED);
	/* A pull. */
	world->controller.silent = true;
	assert_int_equal(pull(world, 1, 0, false), 1);
	assert_int_equal(cancel(world, HD_PULL, 1), 0);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_FAILED);
	check_sums(world, 0);
	destroy(world);
}

static void test_late_messages_change_nothing(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	struct hd_msg_request request;
	float copy[VALUES];

	run_ms(world, 20);
	world->controller.silent = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 20);
	request = peer_last(&world->controller, HD_MSG_REQUEST)->request;
	request.attempt = 9;
	peer_grant(&world->controller, &request, 5);
	request.attempt = 1;
	request.round = 8;
	peer_grant(&world->controller, &request, 6);
	request.round = 1;
	request.worker = 4;
	peer_grant(&world->controller, &request, 7);
	request.worker = 3;
	peer_outcome(&world->server, 9, HD_OUTCOME_APPLIED, 0);
	request.direction = HD_PULL;
	peer_serve(&world->server, 33, &request);
	memcpy(copy, world->data[3], sizeof copy);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_REQUESTED);
	assert_int_equal(hd_worker_stats(world->worker)->late_messages, 5);
	assert_true(hd_worker_stats(world->worker)->drop_token > 0);
	assert_memory_equal(copy, world->data[3], sizeof copy);
	destroy(world);
}

/* An attacker that sees a pull's token: here a node that the worker has a session with, but not the server. */
static void test_forged_pull(void **state) {
	struct world *world = build(DIRECT, &plain);
	const struct hd_worker_stats *stats = hd_worker_stats(world->worker);

	world->server.forger = &world->controller.node;
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(pull(world, 3, 0, false), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
	assert_memory_equal(world->data[3], world->server.model, VALUES * sizeof(float));
	assert_true(world->server.forgeries > 0);
	assert_int_equal(stats->drop_source + stats->drop_token, world->server.forgeries);
	assert_true(stats->drop_source > 0);
	destroy(world);
}

/* The forger has the server's address: only the MAC tells. */
static void test_forged_sealed_pull(void **state) {
	struct world *world = build(DIRECT, &plain);
	const struct hd_worker_stats *stats = hd_worker_stats(world->worker);
	uint64_t before;

	world->server.next_token = HD_TOKEN_SEALED;
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	before = stats->drop_token;
	world->server.forger = &world->server.node;
	assert_int_equal(pull(world, 3, 0, false), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
	assert_memory_equal(world->data[3], world->server.model, VALUES * sizeof(float));
	assert_true(stats->drop_mac > 0);
	assert_int_equal(stats->drop_mac + stats->drop_token - before, world->server.forgeries);
	destroy(world);
}

/* A rank's new incarnation continues the rounds that the server has seen of it. */
static void test_rounds_continue(void **state) {
	struct world *world = build(DIRECT, &plain);

	world->server.last_round = 41;
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 42);
	destroy(world);
}

/* It joined first where its former incarnations were unknown, and then where they are known. */
static void test_rounds_continue_elsewhere(void **state) {
	struct world *world = build(DIRECT, &plain);

	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	peer_stop(&world->server);
	run_ms(world, 300);
	world->server.last_round = 41;
	peer_start(&world->server);
	run_ms(world, 3000);
	assert_int_equal(world->joined, 2);
	assert_int_equal(push(world, 1, 1), 42);
	destroy(world);
}

static void test_tickets_limit(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	int rc = 0;

	run_ms(world, 20);
	world->controller.silent = true;
	for (int i = 0; i < HD_TICKETS_MAX; i++)
		assert_int_equal(push(world, 0, 1), i + 1);
	rc = push(world, 0, 1);
	assert_int_equal(rc, -ENOBUFS);
	assert_int_equal(hd_worker_stats(world->worker)->pushed, HD_TICKETS_MAX);
	assert_int_equal(cancel(world, HD_PUSH, 1), 0);
	assert_int_equal(push(world, 0, 1), HD_TICKETS_MAX + 1);
	destroy(world);
}

static void test_leave(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	bool left;

	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	left = hd_worker_leave(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		hd_sim_node_sink(world->sim, world->node)
	);
	hd_sim_node_poke(world->sim, world->node);
	assert_false(left);
	assert_int_equal(push(world, 0, 1), -ESHUTDOWN);
	run_ms(world, 300);
	assert_true(hd_worker_stats(world->worker)->left);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(peer_count(&world->server, HD_MSG_LEAVE), 1);
	assert_int_equal(peer_count(&world->controller, HD_MSG_LEAVE), 1);
	assert_null(world->server.session);
	destroy(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_direct_push_and_pull),
		cmocka_unit_test(test_refuses_bad_calls),
		cmocka_unit_test(test_scheduled_push_and_pull),
		cmocka_unit_test(test_weight_is_the_grants),
		cmocka_unit_test(test_weight_beyond_16_bits),
		cmocka_unit_test(test_drop),
		cmocka_unit_test(test_go),
		cmocka_unit_test(test_void),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_rank_held),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_late_messages_change_nothing),
		cmocka_unit_test(test_forged_pull),
		cmocka_unit_test(test_forged_sealed_pull),
		cmocka_unit_test(test_rounds_continue),
		cmocka_unit_test(test_rounds_continue_elsewhere),
		cmocka_unit_test(test_tickets_limit),
		cmocka_unit_test(test_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
